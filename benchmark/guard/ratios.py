"""What a step over the wire and the steps of environments cost, in steps of echo without a server.

CPU of this process, all of its threads, in blocks of some 20 ms. Each block stands between two of
echo, with which it is compared, and the blocks of one figure lie apart: what else happens on the
machine hits both sides alike, and the median leaves out where it did not.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb
from env_servers.sdk import EnvironmentConfig
from env_servers.server import EnvironmentServer, ServerConfig
from env_servers.server.inputs import Action
from env_servers.server.instance import LoadedEnvironment, ResetSpec

__all__ = ["ENVIRONMENTS", "WIRE", "measure"]

ENVIRONMENTS: Final = (
    "academia",
    "alfworld",
    "babyai",
    "bird",
    "maze",
    "movie",
    "searchqa",
    "sheet",
    "textcraft",
    "todo",
    "weather",
    "webshop",
    "wordle",
)
"""Those that compute in this process. The others are as fast as a JVM, a browser, a program."""
WIRE: Final = "wire step"
_ECHO: Final = "echo"
_ITEMS: Final = 12
_EPISODES: Final = 64
"""That are stepped together over the wire."""
_BLOCK_SECONDS: Final = 0.02

Block = Callable[[], Awaitable[float]]
"""Does a figure's work once; returns CPU seconds of a step or reset."""


@dataclass(frozen=True, slots=True)
class _Script:
    """An episode as the expert plays it."""

    reset: ResetSpec
    actions: tuple[Action, ...]


async def measure(names: Sequence[str], rounds: int) -> dict[str, float]:
    """Return the ratios by figure ("wire step", "maze step", "maze reset"), medians of rounds.

    `names` are environments, or `WIRE`. Raises SdkError for an environment that does not run here.
    """
    echo = _repeated(*_parts(_ECHO)[0])
    async with contextlib.AsyncExitStack() as opened:
        blocks: dict[str, Block] = {}
        for name in names:
            if name == WIRE:
                blocks[WIRE] = await opened.enter_async_context(_wire())
                continue
            for what, part in zip(("step", "reset"), _parts(name), strict=True):
                blocks[f"{name} {what}"] = _repeated(*part)
        gc.collect()
        gc.disable()
        try:
            return await _compare(blocks, echo, rounds)
        finally:
            gc.enable()


async def _compare(blocks: dict[str, Block], echo: Block, rounds: int) -> dict[str, float]:
    found: dict[str, list[float]] = {figure: [] for figure in blocks}
    before = await echo()
    for _ in range(rounds):
        for figure, block in blocks.items():
            cost = await block()
            after = await echo()
            found[figure].append(2 * cost / (before + after))
            before = after
        gc.collect()
    return {figure: round(median(ratios), 2) for figure, ratios in found.items()}


def _parts(name: str) -> tuple[tuple[Callable[[], float], int], tuple[Callable[[], float], int]]:
    """The work of an environment's steps and of its resets, each with how many it does.

    The work returns CPU seconds.
    """
    loaded = LoadedEnvironment(name, EnvironmentConfig())
    scripts = [_script(loaded, item) for item in loaded.tasks.item_ids("train", 0, _ITEMS)]

    def step() -> float:
        spent = 0.0
        for script in scripts:
            instance, _ = loaded.begin(script.reset)
            started = time.process_time()
            for action in script.actions:
                instance.step(action)
            spent += time.process_time() - started
            instance.environment.close()
        return spent

    def reset() -> float:
        spent = 0.0
        for script in scripts:
            started = time.process_time()
            instance, _ = loaded.begin(script.reset)
            spent += time.process_time() - started
            instance.environment.close()
        return spent

    return (step, sum(len(script.actions) for script in scripts)), (reset, len(scripts))


def _script(loaded: LoadedEnvironment, item_id: str) -> _Script:
    spec = loaded.spec
    action_format = next(iter(spec.conversation_starts))
    reset = ResetSpec(spec.name, item_id, 0, spec.profiles[0], action_format, {})
    instance, _ = loaded.begin(reset)
    actions: list[Action] = []
    for turn in range(spec.max_rounds):
        actions.append(Action(instance.environment.advise_expert(turn).action))
        observation = instance.step(actions[-1]).observation
        if observation.terminated or observation.truncated:
            break
    instance.environment.close()
    return _Script(reset, tuple(actions))


def _repeated(work: Callable[[], float], count: int) -> Block:
    """A block that does work of `count` pieces as often as takes long enough to be timed."""
    work()
    times = max(1, round(_BLOCK_SECONDS / max(work(), 1e-6)))

    async def block() -> float:
        return sum(work() for _ in range(times)) / times / count

    return block


@contextlib.asynccontextmanager
async def _wire() -> AsyncGenerator[Block]:
    """Steps of echo by the client, over a server in this process, many episodes at once."""
    server = EnvironmentServer(ServerConfig(environments=(_ECHO,), bind=("127.0.0.1:0",)))
    await server.start()
    try:
        async with Connection(server.addresses[0]) as connection:
            reset = pb.Reset(environment=_ECHO, item_id="echo_1000000")
            reset.options.update({"length": 0})  # it never ends
            episodes = [RemoteEpisode(connection, f"e{n}", reset) for n in range(_EPISODES)]
            await asyncio.gather(*(episode.reset() for episode in episodes))
            times = 30

            async def block() -> float:
                started = time.process_time()
                for number in range(times):
                    action = f"say {number}"
                    await asyncio.gather(*(episode.step(action) for episode in episodes))
                return (time.process_time() - started) / times / _EPISODES

            await block()
            yield block
    finally:
        await server.stop()
