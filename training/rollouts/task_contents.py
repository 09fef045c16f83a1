"""The contents of tasks, asked of an environment server: every item is reset once and closed."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb
from orchestrator.client import connection_options
from orchestrator.command_line import run_loop
from orchestrator.episode_plans import EnvironmentPlay, plan_episode
from orchestrator.fleet import Fleet
from orchestrator.records import EpisodeKey
from orchestrator.scheduler import Assignment
from training.data.contents import HeldOutContents, content_digest, list_some
from training.errors import Contaminated, RecipeError
from training.rollouts.jobs import RolloutConfig
from training.rollouts.tasks import EnvironmentTasks, ListedTasks, TaskSplit, list_ids

__all__ = ["leave_out_held_out", "list_tasks_with_contents", "read_contents"]

_AT_ONCE = 64
"""Resets under way: enough to hide the way to a server, few enough for any server's limits."""
_ASKED_TWICE = 3
"""Items that are reset with another seed, too: the seed must not decide where a task begins."""


def list_tasks_with_contents(
    rollout: RolloutConfig, environments: Sequence[EnvironmentTasks]
) -> dict[str, ListedTasks]:
    """Return each environment's tasks of both splits with their contents.

    Raises:
        RecipeError: There is no such split or category, or the contents cannot be told.
        OrchestratorError: The servers failed.
        AgentRuntimeError: A task could not be opened.
    """
    names = [tasks.name for tasks in environments]

    async def ask() -> dict[str, ListedTasks]:
        async with Fleet(names, rollout.fleet, connection_options(rollout.client)) as fleet:
            listed: dict[str, ListedTasks] = {}
            for tasks in environments:
                train, evaluation = await list_ids(fleet, tasks)
                ids = list(dict.fromkeys([*train, *evaluation]))
                contents = await read_contents(fleet, tasks, ids)
                listed[tasks.name] = ListedTasks(tuple(train), tuple(evaluation), contents)
            return listed

    return run_loop(ask())


async def read_contents(
    fleet: Fleet, tasks: EnvironmentTasks, ids: Sequence[str], *, option: str = "[judge]"
) -> dict[str, str]:
    """Return item id -> digest of the state that it begins in, under the environment's settings.

    `option` is what a recipe asks for contents by.

    Raises:
        RecipeError: The environment is not deterministic, or its first states depend on the seed.
        AgentRuntimeError: A task could not be opened.
    """
    described = fleet.described[tasks.name]
    if pb.CAPABILITY_DETERMINISTIC not in described.capabilities:
        raise RecipeError(
            "is not deterministic, so its tasks cannot be told apart by content: leave "
            f"{option} out",
            field=f"environments.{tasks.name}",
        )
    play = EnvironmentPlay.from_settings(described, tasks.settings())
    once = await _reset_all(fleet, play, ids, seed=0)
    asked = ids[:_ASKED_TWICE]
    again = await _reset_all(fleet, play, asked, seed=1)
    if differing := [item for item in asked if once[item] != again[item]]:
        raise RecipeError(
            f"begins otherwise under another seed ({list_some(differing)}), so an item has no "
            f"content of its own: choose a profile or options that fix it, or leave {option} out",
            field=f"environments.{tasks.name}",
        )
    return once


async def leave_out_held_out(
    fleet: Fleet, tasks: EnvironmentTasks, split: TaskSplit, held_out: HeldOutContents
) -> tuple[TaskSplit, dict[str, str]]:
    """Return a split without explored tasks that begin as one that is held out, and these tasks.

    Held out are the given contents and those of the split's own develop and evaluation tasks.

    Args:
        fleet: Where the environment is served.
        tasks: How it is played.
        split: Its tasks by use.
        held_out: Contents that nobody may learn from.

    Returns:
        The split, and explored item -> the item of the same content.

    Raises:
        Contaminated: Nothing is left to explore.
        RecipeError: The contents cannot be told.
    """
    apart = (*split.evaluate, *split.validate)
    ids = list(dict.fromkeys([*split.explore, *apart]))
    contents = await read_contents(fleet, tasks, ids, option="held_out_contents")
    excluded = {**held_out.of(tasks.name), **{contents[item]: item for item in apart}}
    left_out = {it: excluded[contents[it]] for it in split.explore if contents[it] in excluded}
    explore = tuple(item for item in split.explore if item not in left_out)
    if not explore:
        raise Contaminated(
            f"all {len(left_out)} tasks begin as tasks that are held out do "
            f"({list_some(left_out)}): name another split or category to learn from",
            field=f"environments.{tasks.name}.explore",
        )
    return replace(split, explore=explore), left_out


async def _reset_all(
    fleet: Fleet, play: EnvironmentPlay, ids: Sequence[str], *, seed: int
) -> dict[str, str]:
    """Reset items, some at a time; returns item id -> digest."""
    run_id = secrets.token_hex(8)  # episode ids derive from it, and must be new on the server
    digests: list[str] = []
    for start in range(0, len(ids), _AT_ONCE):
        resets = [_reset(fleet, play, item, run_id, seed) for item in ids[start : start + _AT_ONCE]]
        digests += await asyncio.gather(*resets)
    return dict(zip(ids, digests, strict=True))


async def _reset(fleet: Fleet, play: EnvironmentPlay, item: str, run_id: str, seed: int) -> str:
    name = play.described.name
    assignment = Assignment(EpisodeKey(name, item, 0, "contents"), 1)
    plan = plan_episode(assignment, play, run_id=run_id, run_seed=seed)
    async with AsyncExitStack() as stack:
        place = await fleet.acquire(name)
        stack.callback(place.release)
        episode = RemoteEpisode(
            place.connection,
            plan.episode_id,
            plan.reset(),
            deterministic=True,
            reroute=place.reroute,
        )
        transition = await episode.reset()
        await episode.end()
    return content_digest(name, transition.state_hash, transition.info)
