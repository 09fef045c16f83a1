"""What a person sees while a run goes on: bars on a terminal, plain lines elsewhere.

Either fits 80 columns, and a terminal's bars its height. A new reason of failures is named when it
comes up for the first time, and events of servers when they happen. Counts this session's records;
what else is shown it asks through callables.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from agent_runtime.supervision import cancel_tasks, supervise
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator.records import blamed, fault_name
from orchestrator.terminal import visible

__all__ = ["EpisodeCounts", "RunProgress"]

_TERMINAL_SECONDS = 0.2
_LINE_SECONDS = 5.0
_LINE_COLUMNS = 80
_MESSAGE_CHARS = 300
_WHOLE = ("all", "")
_OTHER_LINES = 6
"""Of a terminal's height: status, what holds the run up, a line of a message, the prompt."""

Series = tuple[str, str]
"""(environment, policy): what one bar counts."""


class EpisodeCounts(NamedTuple):
    """What a stored record counts with."""

    environment: str
    policy: str
    steps: int
    tokens: int
    """Of its replies."""
    success: bool | None
    """None = nothing judged it."""
    failure: tuple[types_pb2.Fault, str, str] | None
    """Fault, reason and message of one that failed."""

    @classmethod
    def of(cls, record: episode_pb2.Episode) -> Self:
        """Return what a record counts with."""
        error = record.error if record.HasField("error") else None
        return cls(
            record.environment,
            record.policy,
            max(0, len(record.steps) - 1),
            sum([call.completion_tokens for call in record.generations]),
            record.success if record.HasField("success") else None,
            (error.fault, error.reason, error.message) if error is not None else None,
        )


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


class _Bars(Progress):
    """Bars with lines below them."""

    def __init__(self, console: Console) -> None:
        self.below: Sequence[RenderableType] = ()

        def text(field: str, width: int, style: str = "none") -> TextColumn:
            column = Column(max_width=width, no_wrap=True, overflow="ellipsis")
            shown = f"{{task.fields[{field}]}}"
            return TextColumn(shown, style=style, markup=False, table_column=column)

        super().__init__(
            text("environment", 12),
            text("policy", 16, "cyan"),
            BarColumn(bar_width=10),
            MofNCompleteColumn(),
            text("success", 13),
            text("failed", 11, "red"),
            console=console,
            auto_refresh=False,
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield from self.below


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
        status: Callable[[], Iterable[str]] = tuple[str],
    ) -> None:
        """Describe what is shown; the context manager shows it.

        Args:
            totals: Planned episodes of each series.
            console: Where to show it.
            finished: Records of earlier sessions.
            live: Asks for the number of live episodes.
            notice: Asks for what holds the run up; empty = nothing.
            status: Asks for what else is worth a word, each in a few, the most important first.
        """
        self._totals = dict(totals)
        self._tallies: dict[Series, _Tally] = {
            series: _Tally((finished or {}).get(series, 0)) for series in totals
        }
        self._console = console
        self._live = live
        self._notice = notice
        self._status = status
        self._last_status: list[str] = []
        """What was printed last."""
        self._held_up = ""
        """What held the run up when it was last looked."""
        self._done_before = sum((finished or {}).values())
        self._steps = 0
        """Of stored records."""
        self._live_steps: Callable[[], int] = int
        self._tokens = 0
        self._named: set[tuple[int, str]] = set()
        """Faults and reasons of failures that were shown."""
        self._started = time.monotonic()
        self._bars: dict[Series, TaskID] = {}
        self._progress: _Bars | None = None
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
        self._look()
        self._update()
        if self._progress is not None:
            self._progress.stop()
        else:
            self._print_lines()

    def add(self, record: episode_pb2.Episode) -> None:
        """Count a stored record."""
        self.count(EpisodeCounts.of(record))

    def count(self, played: EpisodeCounts) -> None:
        """Count what a record that is stored elsewhere counts with."""
        tally = self._tallies[(played.environment, played.policy)]
        self._steps += played.steps
        self._tokens += played.tokens
        if played.failure is not None:
            tally.failed += 1
            self._name_failure(*played.failure)
            return
        tally.done += 1
        if played.success is not None:
            tally.scored += 1
            tally.successes += played.success

    def follow(self, live_steps: Callable[[], int]) -> None:
        """Count the steps of live episodes, too: `live_steps` asks for them."""
        self._live_steps = live_steps

    def _name_failure(self, fault: types_pb2.Fault, reason: str, message: str) -> None:
        if (fault, reason) in self._named:
            return
        self._named.add((fault, reason))
        message = " ".join(message.split())[:_MESSAGE_CHARS]
        blame = blamed(fault_name(fault))
        self.tell(f"an attempt failed: {blame}, {reason}: {message}", style="red")

    def tell(self, event: str, *, style: str = "yellow") -> None:
        """Show a sentence in a line of its own, above the bars."""
        self._console.print(
            visible(event), style=style, highlight=False, markup=False, soft_wrap=True
        )

    def _start_bars(self) -> None:
        self._progress = _Bars(self._console)
        totals = {_WHOLE: sum(self._totals.values()), **self._totals}
        for (environment, policy), total in totals.items():
            fields = {"environment": environment, "policy": policy, "success": "", "failed": ""}
            bar = self._progress.add_task("", total=total, **fields)  # pyright: ignore[reportArgumentType]
            self._bars[(environment, policy)] = bar
        self._update()
        self._progress.start()

    async def _refresh(self) -> None:
        pause = _TERMINAL_SECONDS if self._progress is not None else _LINE_SECONDS
        while True:
            await asyncio.sleep(pause)
            self._look()
            self._update()
            if self._progress is None:
                self._print_lines()

    def _look(self) -> None:
        """Look what holds the run up, and say so when that is over."""
        before, self._held_up = self._held_up, self._notice()
        if before and not self._held_up:
            self.tell("going on", style="green")

    def _update(self) -> None:
        if self._progress is None:
            return
        shown = self._shown_series()
        for series, tally in {_WHOLE: self._whole(), **self._tallies}.items():
            self._progress.update(
                self._bars[series],
                completed=tally.done,
                success=f"success {tally.success():>5}",
                failed=f"{tally.failed} failed" if tally.failed else "",
                visible=series == _WHOLE or series in shown,
            )
        below = [", ".join([f"{self._live()} live", *self._status()]), ", ".join(self._pace())]
        if hidden := len(self._tallies) - len(shown):
            below.append(f"{hidden} more lines, for which there is no room")
        lines = [Text(visible(line)) for line in below]
        if self._held_up:
            lines.append(Text(f"waiting: {visible(self._held_up)}", style="yellow"))
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        self._progress.below = lines
        self._progress.refresh()

    def _shown_series(self) -> set[Series]:
        """Return the series for whose bars there is room, those first that go on."""
        room = max(1, self._console.height - _OTHER_LINES)
        order = sorted(
            self._tallies, key=lambda series: self._tallies[series].done >= self._totals[series]
        )
        return set(order[:room])

    def _whole(self) -> _Tally:
        whole = _Tally()
        for tally in self._tallies.values():
            whole.done += tally.done
            whole.failed += tally.failed
            whole.scored += tally.scored
            whole.successes += tally.successes
        return whole

    def _pace(self) -> list[str]:
        """Return steps and tokens so far, and when the run will be over."""
        seconds = max(time.monotonic() - self._started, 1e-6)
        steps = self._steps + self._live_steps()
        pace = [f"{steps:,} steps ({steps / seconds:,.0f}/s)"]
        if self._tokens:
            pace.append(f"{self._tokens / seconds:,.0f} tokens/s")
        whole, total = self._whole(), sum(self._totals.values())
        played = whole.done - self._done_before
        if played:
            pace.append(f"ETA {seconds * (total - whole.done) / played:.0f} s")
        return pace

    def _line(self) -> str:
        whole, total = self._whole(), sum(self._totals.values())
        parts = [f"{whole.done}/{total} episodes", f"{self._live()} live"]
        if whole.failed:
            parts.append(f"{whole.failed} failed")
        parts += self._pace()
        parts += [
            f"{environment} {policy} {tally.success()}"
            for (environment, policy), tally in self._tallies.items()
        ]
        return _joined(parts)

    def _print_lines(self) -> None:
        """Print what holds the run up, where it stands, and the status where it has changed."""
        if self._held_up:
            self.tell(f"waiting: {self._held_up}")
        lines = [self._line()]
        status = list(self._status())
        if status != self._last_status:
            self._last_status = status
            lines.append(_joined(status))
        for line in filter(None, lines):
            self._console.print(visible(line), highlight=False, markup=False)


def _joined(parts: Sequence[str]) -> str:
    """Return the parts in one line: the first one, and those of the others that fit beside it."""
    line = parts[0] if parts else ""
    for part in parts[1:]:
        if len(line) + len(", ") + len(part) <= _LINE_COLUMNS:
            line = f"{line}, {part}"
    return line
