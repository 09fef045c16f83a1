"""Which tasks a run plays, as its servers list them, and what of its suite cannot be played here.

Without a suite everything that was asked for has to be there. In a suite an environment that is not
installed, or a split whose data is not there, is a gap: it is told, and the others are played.
Anything else that does not exist is an error before the first episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from orchestrator import seeds
from orchestrator.config import RunConfig, parse_action_format
from orchestrator.errors import UsageError
from orchestrator.fleet import Fleet
from orchestrator.records import enum_name

__all__ = ["Selection", "Tasks", "select_tasks"]

Tasks = Mapping[str, list[pb.TaskSummary]]
"""The tasks of each environment, in the order in which they are played."""
_NOT_BEGUN = "this run was begun without it; play it in a run of its own"
_DATA = "in the folder of official data (--data, or AGENTGYM_DATA)"


@dataclass(frozen=True, slots=True)
class Selection:
    """What a run plays."""

    tasks: Tasks
    gaps: Mapping[str, str]
    """What its suite has and is not played, by environment: why, and what to do."""


async def select_tasks(config: RunConfig, fleet: Fleet) -> Selection:
    """Ask the servers for a run's tasks; raises UsageError for what does not exist."""
    tasks: dict[str, list[pb.TaskSummary]] = {}
    gaps: dict[str, str] = {}
    for name in config.environments:
        problem = _absence(name, config, fleet)
        if problem:
            gaps[name] = problem
            continue
        _check_settings(config, fleet.described[name])
        tasks[name] = await _select(name, config, fleet)
        wanted = replace(config, episodes=0).environment_episodes(name)
        if config.resolved_suite is not None and len(tasks[name]) < _at_most(config, wanted):
            gaps[name] = _shortage(name, config, len(tasks[name]), wanted)
    if not tasks:
        reasons = "".join(f"\n  {name}: {problem}" for name, problem in gaps.items())
        raise UsageError(f"nothing of the suite can be played here:{reasons}")
    return Selection(tasks, gaps)


def _absence(name: str, config: RunConfig, fleet: Fleet) -> str:
    """Return why a suite's environment cannot be played; empty = it can, or has to be."""
    if name not in fleet.environments:
        return _NOT_BEGUN
    if name in fleet.absent:
        return fleet.absent[name]
    entry, split = config.suite_entry(name), config.environment_split(name)
    splits = {split.name for split in fleet.described[name].splits}
    if not entry.needs or split != entry.split or split in splits:
        return ""
    return f"its split {split} is not there: it needs {entry.needs} {_DATA}"


def _at_most(config: RunConfig, wanted: int) -> int:
    """Return how many tasks of a suite's number the run's own flags leave."""
    return min(config.episodes or wanted, wanted)


def _shortage(name: str, config: RunConfig, found: int, wanted: int) -> str:
    split, needs = config.environment_split(name), config.suite_entry(name).needs
    remedy = f": the others need {needs} {_DATA}" if needs else ""
    return f"its split {split} has {found} of {wanted} tasks{remedy}"


def _check_settings(config: RunConfig, described: pb.GetEnvironmentResponse) -> None:
    name = described.name
    if parse_action_format(config.action_format) not in described.action_formats:
        formats = described.action_formats
        valid = [enum_name(types_pb2.ActionFormat, number).lower() for number in formats]
        raise UsageError(f"{name} does not speak {config.action_format}", valid=valid)
    profile = config.environment_settings(name).profile
    if profile and profile not in described.profiles:
        raise UsageError(f"{name} has no profile {profile!r}", valid=described.profiles)


async def _select(name: str, config: RunConfig, fleet: Fleet) -> list[pb.TaskSummary]:
    split = config.environment_split(name)
    splits = [it.name for it in fleet.described[name].splits]
    if split and split not in splits:
        raise UsageError(f"{name} has no split {split!r}", valid=splits)
    if split:
        listed = await fleet.list_items(name, split)
    else:
        listed = await fleet.get_items(name, config.environment_settings(name).items)
    return _choose(listed, config.environment_episodes(name))


def _choose(tasks: Sequence[pb.TaskSummary], count: int) -> list[pb.TaskSummary]:
    """Return `count` tasks (0 = all) in their order, chosen by a hash of their ids.

    Splits are sorted by difficulty or cycle through levels: neither the first ones nor every k-th
    would be fair. More tasks contain fewer, so a larger run extends a smaller one.
    """
    if count == 0 or count >= len(tasks):
        return list(tasks)
    ranks = {task.item_id: seeds.derive("choose-task", task.item_id) for task in tasks}
    last = sorted(ranks.values())[count - 1]
    return [task for task in tasks if ranks[task.item_id] <= last]
