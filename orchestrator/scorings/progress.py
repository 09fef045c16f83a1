"""What a scoring shows while it judges: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from orchestrator.scorings.table import EpisodeScore

__all__ = ["ScoringProgress"]

_TERMINAL_SECONDS: Final = 0.5
_LINE_SECONDS: Final = 5.0


class ScoringProgress:
    """Counts verdicts; use as an async context manager."""

    def __init__(self, console: Console, total: int, notice: Callable[[], str]) -> None:
        """`total` episodes are to be judged; `notice` says what is wrong now, empty = nothing."""
        self._console = console
        self._total = total
        self._notice = notice
        self._done = 0
        self._unscored: Counter[str] = Counter()
        self._said = ""
        self._bar = Progress(
            TextColumn("judging"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[notes]}", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("judging", total=total, notes="")
        self._ticker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._bar.start()
        if not self._console.is_terminal and self._total:
            self._say(f"judging {self._total} episodes")
        self._ticker = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._ticker is not None
        self._ticker.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._ticker
        self._bar.stop()
        if error is not None and self._done:
            self._say(f"{self._done} of {self._total} judged, and kept: the same command goes on")

    def judged(self, row: EpisodeScore) -> None:
        """Count a verdict."""
        self._done += 1
        if row.reason is not None:
            self._unscored[row.reason] += 1

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TERMINAL_SECONDS if self._console.is_terminal else _LINE_SECONDS)
            notes = self._notes()
            self._bar.update(self._task, completed=self._done, notes=notes)
            line = f"{self._done}/{self._total} judged"
            if not self._console.is_terminal:
                self._say(f"{line}, {notes}" if notes else line)

    def _notes(self) -> str:
        notes = [f"{count} {reason}" for reason, count in self._unscored.most_common(2)]
        return ", ".join(filter(None, (*notes, self._notice())))

    def _say(self, line: str) -> None:
        if line != self._said:
            self._console.print(line, highlight=False, soft_wrap=True)
        self._said = line
