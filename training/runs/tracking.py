"""What a training tells while it runs: a log of JSON lines, trackers, a progress line.

`log.jsonl` is the record of which everything else is a copy: one object per step or evaluation, in
order. A resumed run forgets what was logged after the state that it resumes from. TensorBoard and
Weights & Biases are imported when they are asked for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as Remaining

from orchestrator.atomic_file import write_atomically
from orchestrator.errors import ExtraMissing
from orchestrator.training_folder import iterate_log

__all__ = ["Tracker", "TrackingConfig", "peak_flops", "read_log"]

_PEAKS: Final = (
    ("H200", 989e12),
    ("H100", 989e12),
    ("H800", 989e12),
    ("GH200", 989e12),
    ("B200", 2250e12),
    ("A100", 312e12),
    ("A800", 312e12),
    ("L40S", 362e12),
    ("A10G", 70e12),
    ("RTX 4090", 165e12),
)
"""Dense bfloat16 peaks in FLOP/s by part of the device's name, from the makers' data sheets. The
PCIe and NVL forms of the H100 have lower ones: set `tracking.peak_tflops` for them."""


def peak_flops(device_name: str, tflops: float) -> float | None:
    """Return the device's peak in FLOP/s: as configured, else by its name; None = unknown."""
    if tflops > 0:
        return tflops * 1e12
    return next((peak for name, peak in _PEAKS if name in device_name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingConfig:
    """Where a training's metrics go besides `log.jsonl`."""

    tensorboard: bool = True
    """Write event files to `out/tensorboard`, where TensorBoard is installed."""
    wandb: str = ""
    """Weights & Biases project; empty = off. Needs the extra `wandb`."""
    peak_tflops: float = 0.0
    """Peak of one device for MFU; 0 = known by its name."""
    print_every: int = 10
    """Where there is no terminal: a line every so many steps; 0 = none."""


class Tracker:
    """Takes metrics; use it as a context manager. Only the first process has an active one."""

    def __init__(
        self,
        config: TrackingConfig,
        *,
        log: Path,
        tensorboard: Path,
        console: Console,
        total: int,
        step: int = 0,
        active: bool = True,
        name: str = "",
        run_id: str = "",
    ) -> None:
        """Begin to track.

        Args:
            config: What is written where.
            log: The run's file of metrics.
            tensorboard: Folder for TensorBoard.
            console: Gets progress.
            total: Steps in all.
            step: Steps done already; later rows are forgotten.
            active: Whether this process writes anything.
            name: Of the run, for people.
            run_id: Of the run: under it Weights & Biases goes on with a resumed one.
        """
        self._config = config
        self._active = active
        self._console = console
        self._total, self._step = total, step
        self._sinks: list[Any] = []
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._began = time.monotonic()
        self._first = step
        if not active:
            return
        _forget(log, step)
        self._log = log.open("a", encoding="utf-8")
        if config.tensorboard:
            self._sinks += _tensorboard(tensorboard, step)
        if config.wandb:
            self._sinks.append(_Wandb(config.wandb, name, run_id))

    def __enter__(self) -> Self:
        if self._active and self._console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed}/{task.total}"),
                TimeElapsedColumn(),
                Remaining(),
                TextColumn("{task.fields[metrics]}"),
                console=self._console,
            )
            self._task = self._progress.add_task(
                "training", total=self._total, completed=self._step, metrics=""
            )
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
        if self._active:
            self._log.close()
            for sink in self._sinks:
                sink.close()

    def record(self, step: int, metrics: Mapping[str, float | int | None], **notes: Any) -> None:
        """Log the metrics of a step; `notes` go to the log only. None = absent."""
        if not self._active:
            return
        present = {name: value for name, value in metrics.items() if value is not None}
        self._log.write(json.dumps({"step": step, **present, **notes}) + "\n")
        self._log.flush()
        for sink in self._sinks:
            sink.write(step, present)
        self._show(step, present)

    def _show(self, step: int, metrics: Mapping[str, float | int]) -> None:
        text = _summary(metrics)
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=step, metrics=text)
        elif self._config.print_every and (
            step % self._config.print_every == 0 or step == self._total or step == self._first + 1
        ):
            spent = time.monotonic() - self._began
            left = spent / max(1, step - self._first) * (self._total - step)
            line = f"step {step}/{self._total}  {text}  {left:.0f} s left"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)


_SHOWN: Final = (
    ("loss", "loss {:.4f}"),
    ("held_out_loss", "held-out loss {:.4f}"),
    ("margin", "margin {:.4f}"),
    ("reward", "reward {:.3f}"),
    ("tokens_per_second", "{:,.0f} tokens/s"),
    ("mfu", "MFU {:.1%}"),
)


def _summary(metrics: Mapping[str, float | int]) -> str:
    return "  ".join(shape.format(metrics[name]) for name, shape in _SHOWN if name in metrics)


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a log; a line that was cut off by a kill is left out."""
    return list(iterate_log(path))


def _forget(log: Path, step: int) -> None:
    """Drop the rows after `step`: they will be computed again."""
    rows = [row for row in iterate_log(log) if row["step"] <= step]
    write_atomically(log, "".join(json.dumps(row) + "\n" for row in rows))


def _tensorboard(folder: Path, step: int) -> list[Any]:
    try:
        from torch.utils.tensorboard import SummaryWriter  # pyright: ignore
    except ImportError:
        return []  # optional: the log has everything
    return [_TensorBoard(SummaryWriter(str(folder), purge_step=step + 1))]


class _TensorBoard:
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, step: int, metrics: Mapping[str, float | int]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    def __init__(self, project: str, name: str, run_id: str) -> None:
        try:
            wandb: Any = import_module("wandb")
        except ImportError:
            raise ExtraMissing("tracking.wandb", extra="wandb") from None
        self._run: Any = wandb.init(
            project=project, name=name or None, id=run_id or None, resume="allow"
        )

    def write(self, step: int, metrics: Mapping[str, float | int]) -> None:
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        self._run.finish()
