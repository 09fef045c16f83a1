"""`python -m benchmark.front_door`: `agentgym.Vector` beside the asynchronous client under it.

Both play the same closed loops on the same server, in turn. The vector is used as a program
without an event loop uses it: all actions in, all observations out, a barrier after every step.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from typing import Final

import tyro

import agentgym
from benchmark.drive import ClosedLoop, Tally, Target
from benchmark.load import Contender, Settings, measure
from benchmark.system import SYSTEM_UNIX
from benchmark.tables import RESULTS, render_markdown, summarise

__all__ = ["FrontDoor", "VectorClient", "main"]

GOAL: Final = 0.7
"""Of the asynchronous client's steps per second, medians of all rounds."""
VECTOR: Final = Contender(
    name="agentgym.Vector",
    client="benchmark.front_door:VectorClient",
    server=SYSTEM_UNIX.server,
    transport="unix",
    note="the same server; synchronous, all episodes stepped together; Unix socket",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontDoor:
    """Measure the steps per second of `agentgym.Vector` and of the asynchronous client."""

    rounds: int = 5
    """Every cell is measured so often, in turn."""
    seconds: float = 4.0
    """Measured per cell."""
    episodes: tuple[int, ...] = (256, 1000, 4000)
    """Slots of the vector, and coroutines of the client."""
    environment: str = "echo"
    """Or textcraft."""
    quick: bool = False
    """One short round, to see that it works; writes nothing."""


class VectorClient:
    """The front door without an event loop of the program's own."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._vector: agentgym.Vector | None = None

    async def open(self, episodes: int) -> None:
        """Open the slots, all with the same task, as the other contender does."""
        options = {"length": 0} if self._target.environment == "echo" else None
        vector = self._vector = agentgym.Vector(
            self._target.environment,
            episodes,
            target=self._target.address,
            options=options,
            autoreset="Disabled",
        )
        batch = await asyncio.to_thread(vector.reset)
        for error in batch.errors:
            if error is not None:
                raise error

    async def run_closed_loop(self, loop: ClosedLoop) -> Tally:
        """Step all slots until the window ends."""
        assert self._vector is not None
        return await asyncio.to_thread(self._play, self._vector, loop)

    def _play(self, vector: agentgym.Vector, loop: ClosedLoop) -> Tally:
        begin, end = loop.window.begin, loop.window.end
        tally = Tally()
        scripts = [loop.moves(slot) for slot in range(len(vector))]
        started = time.monotonic()
        for actions in zip(*scripts, strict=True):
            batch = vector.step(actions)
            finished = time.monotonic()
            for action, text in zip(actions, batch.texts, strict=True):
                loop.check(action, text)
            if begin <= finished < end:
                tally.latencies.extend([finished - started] * len(vector))
                tally.answered = len(vector)
            tally.observation_bytes = len(batch.texts[-1])
            if finished >= end:
                break
            started = time.monotonic()
        return tally

    async def close(self) -> None:
        """Leave the server."""
        if self._vector is not None:
            await asyncio.to_thread(self._vector.close)


def main() -> int:
    """Measure, print the tables, and write them where nothing was cut short."""
    config = tyro.cli(FrontDoor, prog="python -m benchmark.front_door")
    settings = Settings(
        episodes=(64,) if config.quick else config.episodes,
        seconds=1.0 if config.quick else config.seconds,
        rounds=1 if config.quick else config.rounds,
        environment=config.environment,
    )
    report = measure((SYSTEM_UNIX, VECTOR), settings)
    rates = {(it.contender, it.episodes): it.steps_per_s for it in summarise(report.cells)}
    ratios: dict[int, float | None] = {}
    for episodes in settings.episodes:
        client = rates.get((SYSTEM_UNIX.name, episodes))
        vector = rates.get((VECTOR.name, episodes))
        ratios[episodes] = round(vector / client, 3) if vector and client else None
    text = render_markdown(report)
    print(text)
    for episodes, ratio in ratios.items():
        print(f"{episodes:,} episodes: {ratio} of the client's steps/s (goal: {GOAL})")
    if not config.quick:
        data = {"goal": GOAL, "ratios": ratios, **report.as_json()}
        RESULTS.joinpath("front_door.json").write_text(json.dumps(data, indent=1) + "\n")
    return 0 if all(ratios.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
