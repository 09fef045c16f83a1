from __future__ import annotations

import importlib.util
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from orchestrator.errors import ExtraMissing
from training.runs.tracking import Tracker, TrackingConfig, peak_flops, read_log


def track(
    folder: Path, rows: list[tuple[int, dict]], *, step: int = 0, run_id: str = "", **options
) -> str:
    output = io.StringIO()
    config = TrackingConfig(**{"tensorboard": False, "print_every": 2, **options})
    with Tracker(
        config,
        log=folder / "log.jsonl",
        tensorboard=folder / "tensorboard",
        console=Console(file=output, width=200),
        total=4,
        step=step,
        run_id=run_id,
    ) as tracker:
        for number, figures in rows:
            tracker.record(number, figures, note="n")
    return output.getvalue()


def test_every_figure_is_logged_and_some_are_shown(tmp_path: Path) -> None:
    shown = track(tmp_path, [(it, {"loss": 1 / it, "mfu": None}) for it in (1, 2, 3, 4)])
    assert read_log(tmp_path / "log.jsonl") == [
        {"step": it, "loss": 1 / it, "note": "n"} for it in (1, 2, 3, 4)
    ]
    assert [line.split("  ")[:2] for line in shown.splitlines()] == [
        ["step 1/4", "loss 1.0000"],
        ["step 2/4", "loss 0.5000"],
        ["step 4/4", "loss 0.2500"],
    ]


def test_a_resumed_training_forgets_what_it_computes_again(tmp_path: Path) -> None:
    track(tmp_path, [(it, {"loss": float(it)}) for it in (1, 2, 3)])
    with (tmp_path / "log.jsonl").open("a") as log:
        log.write('{"step": 4, "lo')  # the kill came while it wrote
    track(tmp_path, [(3, {"loss": 9.0})], step=2)
    assert [row["loss"] for row in read_log(tmp_path / "log.jsonl")] == [1, 2, 9]


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="wandb is installed")
def test_a_tracker_that_is_not_installed_is_named_with_its_extra(tmp_path: Path) -> None:
    with pytest.raises(ExtraMissing, match=r"pip install .*\[wandb\]"):
        track(tmp_path, [], wandb="project")


def test_weights_and_biases_goes_on_with_the_run_of_that_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[dict[str, object]] = []

    class Run:
        def log(self, metrics: dict[str, float], *, step: int) -> None:
            begun[-1][f"step {step}"] = metrics

        def finish(self) -> None:
            begun[-1]["finished"] = True

    def init(**options: object) -> Run:
        begun.append(dict(options))
        return Run()

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    track(tmp_path, [(1, {"loss": 1.0})], wandb="project", run_id="c0ffee")
    (first,) = begun
    assert (first["id"], first["resume"], first["finished"]) == ("c0ffee", "allow", True)
    assert first["step 1"] == {"loss": 1.0}


def test_tensorboard_gets_the_same_figures(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `train` is not installed")
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    track(tmp_path, [(it, {"loss": float(it)}) for it in (1, 2)], tensorboard=True)
    events = loader.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(it.step, it.value) for it in events.Scalars("loss")] == [(1, 1.0), (2, 2.0)]


def test_peaks_are_known_by_name_or_given() -> None:
    assert peak_flops("NVIDIA H100 80GB HBM3", 0) == 989e12
    assert peak_flops("NVIDIA A100-SXM4-80GB", 0) == 312e12
    assert peak_flops("cpu", 0) is None
    assert peak_flops("NVIDIA H100 PCIe", 756) == 756e12
