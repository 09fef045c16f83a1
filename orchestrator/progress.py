"""What a person sees while a run goes on: bars on a terminal, plain lines elsewhere.

A new reason of failures is named when it comes up for the first time. Counts this session's
records; what else is shown it asks through callables.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from agent_runtime.supervision import cancel_tasks, supervise
from agentgym.episode.v1 import episode_pb2
from orchestrator.records import blamed, fault_name
from orchestrator.terminal import visible

__all__ = ["RunProgress"]

_TERMINAL_SECONDS = 0.2
_LINE_SECONDS = 5.0
_LINE_COLUMNS = 80
_MESSAGE_CHARS = 300

Series = tuple[str, str]
"""(environment, policy): what one bar counts."""


class _Tally:
    """What was seen of one series."""

    __slots__ = ("done", "failed", "scored", "successes")

    def __init__(self, done: int = 0) -> None:
        self.done = done
        self.failed = 0
        self.scored = 0
        self.successes = 0

    def success(self) -> str:
        """Return the share of scored episodes that succeeded, as text."""
        return f"{100 * self.successes / self.scored:.0f} %" if self.scored else "-"


class RunProgress:
    """Shows a run's progress; a context manager."""

    def __init__(
        self,
        totals: Mapping[Series, int],
        console: Console,
        *,
        finished: Mapping[Series, int] | None = None,
        live: Callable[[], int],
        notice: Callable[[], str] = str,
    ) -> None:
        """Describe what is shown; the context manager shows it.

        Args:
            totals: Planned episodes of each series.
            console: Where to show it.
            finished: Records of earlier sessions.
            live: Asks for the number of live episodes.
            notice: Asks for what holds the run up; empty = nothing.
        """
        self._totals = dict(totals)
        self._tallies: dict[Series, _Tally] = {
            series: _Tally((finished or {}).get(series, 0)) for series in totals
        }
        self._console = console
        self._live = live
        self._notice = notice
        self._steps = 0
        """Of stored records."""
        self._live_steps: Callable[[], int] = int
        self._tokens = 0
        self._named: set[tuple[int, str]] = set()
        """Faults and reasons of failures that were shown."""
        self._started = time.monotonic()
        self._bars: dict[Series, TaskID] = {}
        self._progress: Progress | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._started = time.monotonic()
        if self._console.is_terminal:
            self._start_bars()
        self._task = supervise(self._refresh(), "show progress")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await cancel_tasks(self._task)
        self._update()
        if self._progress is not None:
            self._progress.stop()
        else:
            self._print_lines()

    def add(self, record: episode_pb2.Episode) -> None:
        """Count a stored record."""
        tally = self._tallies[(record.environment, record.policy)]
        self._steps += max(0, len(record.steps) - 1)
        self._tokens += sum(g.completion_tokens for g in record.generations)
        if record.HasField("error"):
            tally.failed += 1
            self._name_failure(record.error)
            return
        tally.done += 1
        if record.HasField("success"):
            tally.scored += 1
            tally.successes += record.success

    def follow(self, live_steps: Callable[[], int]) -> None:
        """Count the steps of live episodes, too: `live_steps` asks for them."""
        self._live_steps = live_steps

    def _name_failure(self, error: episode_pb2.EpisodeError) -> None:
        kind = (error.fault, error.reason)
        if kind in self._named:
            return
        self._named.add(kind)
        message = " ".join(visible(error.message).split())
        self._console.print(
            f"an attempt failed: {blamed(fault_name(error.fault))}, {visible(error.reason)}: "
            f"{message[:_MESSAGE_CHARS]}",
            style="red",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )

    def _start_bars(self) -> None:
        self._progress = Progress(
            TextColumn("{task.fields[environment]:<10}"),
            TextColumn("[cyan]{task.fields[policy]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("success {task.fields[success]:>5}"),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            auto_refresh=False,
        )
        for (environment, policy), total in self._totals.items():
            fields = {"environment": environment, "policy": policy, "success": "-", "note": ""}
            bar = self._progress.add_task("", total=total, **fields)  # pyright: ignore[reportArgumentType]
            self._bars[(environment, policy)] = bar
        fields = {"environment": "all", "policy": "", "success": "-", "note": ""}
        total = sum(self._totals.values())
        self._bars[("all", "")] = self._progress.add_task("", total=total, **fields)  # pyright: ignore[reportArgumentType]
        self._progress.start()

    async def _refresh(self) -> None:
        pause = _TERMINAL_SECONDS if self._progress is not None else _LINE_SECONDS
        while True:
            await asyncio.sleep(pause)
            self._update()
            if self._progress is None:
                self._print_lines()

    def _update(self) -> None:
        if self._progress is None:
            return
        for series, tally in self._tallies.items():
            note = f"[red]{tally.failed} failed[/]" if tally.failed else ""
            self._progress.update(
                self._bars[series], completed=tally.done, success=tally.success(), note=note
            )
        whole = self._whole()
        self._progress.update(
            self._bars[("all", "")],
            completed=whole.done,
            success=whole.success(),
            note=self._held_up() or f"{self._live()} live  {self._rates()}",
        )
        self._progress.refresh()

    def _held_up(self) -> str:
        return f"[yellow]{escape(notice)}[/]" if (notice := self._notice()) else ""

    def _whole(self) -> _Tally:
        whole = _Tally()
        for tally in self._tallies.values():
            whole.done += tally.done
            whole.failed += tally.failed
            whole.scored += tally.scored
            whole.successes += tally.successes
        return whole

    def _rates(self) -> str:
        seconds = max(time.monotonic() - self._started, 1e-6)
        steps = self._steps + self._live_steps()
        text = f"{steps:,} steps ({steps / seconds:,.0f}/s)"
        return f"{text}  {self._tokens / seconds:,.0f} tokens/s" if self._tokens else text

    def _line(self) -> str:
        whole, total = self._whole(), sum(self._totals.values())
        seconds = time.monotonic() - self._started
        parts = [f"{whole.done}/{total} episodes", f"{self._live()} live"]
        if whole.failed:
            parts.append(f"{whole.failed} failed attempts")
        parts.append(self._rates())
        if whole.done:
            parts.append(f"ETA {seconds * (total - whole.done) / whole.done:.0f} s")
        parts += [
            f"{environment} {policy} {tally.success()}"
            for (environment, policy), tally in self._tallies.items()
        ]
        return _joined(parts)

    def _print_lines(self) -> None:
        """Print where the run stands, and before it what holds it up."""
        if notice := self._notice():
            text = f"waiting: {visible(notice)}"
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)
        self._console.print(self._line(), highlight=False, markup=False)


def _joined(parts: Sequence[str]) -> str:
    """Return the parts in one line: the first one, and as many more as fit into its columns."""
    line = parts[0]
    for part in parts[1:]:
        if len(line) + len(", ") + len(part) > _LINE_COLUMNS:
            return line
        line = f"{line}, {part}"
    return line
