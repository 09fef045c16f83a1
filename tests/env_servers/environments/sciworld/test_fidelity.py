"""Recorded episodes, played again: AgentTraj-L's conversations and ScienceWorld's oracle logs.

AgentTraj-L was recorded with release 1.0 of the simulator, which listed things in the order of
their identity hashes: another one in every process. So a recorded observation is the same if it is
made of the same phrases, in whatever order.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmark.fidelity.recordings import SOURCES, Recording
from env_servers.environments.sciworld import SciWorld
from env_servers.environments.sciworld.simulator import Assignment
from env_servers.environments.sciworld.simulator_pool import SimulatorPool
from env_servers.environments.sciworld.tasks import SciWorldTasks
from tests.kit.fidelity import recordings, replay

EACH = 53
"""The default tests play one of so many conversations."""
canonical = SOURCES["sciworld"].canonical


class Tally(NamedTuple):
    """What came of a replay."""

    steps: int
    same: int
    """Made of the same phrases."""
    exact: int
    """Character by character, outer white space aside."""


def tally(tasks: SciWorldTasks, episodes: Iterable[Recording]) -> Tally:
    steps = same = exact = 0
    for recording in episodes:
        (first, recorded_first), *rest = replay(SciWorld, tasks, recording).pairs
        assert canonical(first) == canonical(recorded_first), recording.item_id
        for ours, theirs in rest:
            steps += 1
            same += canonical(ours) == canonical(theirs)
            exact += ours.strip() == theirs.strip()
    return Tally(steps, same, exact)


def test_recorded_conversations_come_back(tasks: SciWorldTasks) -> None:
    steps, same, exact = tally(tasks, recordings("sciworld", EACH))
    assert steps > 300
    assert same >= 0.97 * steps
    assert exact >= 0.85 * steps


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_recorded_conversations_come_back(tasks: SciWorldTasks) -> None:
    episodes = list(recordings("sciworld"))
    result = tally(tasks, episodes)
    print(result, result.same / result.steps, result.exact / result.steps)
    assert (len(episodes), result.steps) == (1060, 20026)
    assert result.same >= 0.99 * result.steps


def oracle(data_dir: Path, *, all_of_them: bool) -> Iterator[Mapping[str, Any]]:
    for path in sorted((data_dir / "sciworld" / "oracle").glob("*.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            episodes = [found["history"] for found in json.load(stream).values()]
        yield from episodes if all_of_them else episodes[-1:]


DRAWN = {"mendelian-genetics-unknown-plant", "grow-fruit"}
"""Bees pollinate by chance, and which chance depended on the order of identity hashes."""
LOST_BY_CHANCE = ("grow-fruit", 97)
"""No fruit grew in the recorded process; in ours it does, and in the original it depends."""
ONE_TICK_LATER = ("power-component-renewable-vs-nonrenewable-energy", 18)
"""Current reaches the buzzer one move later than in the recorded process; for the same reason."""


class Scores(NamedTuple):
    """What came of an oracle log."""

    steps: int
    same: int
    """Steps with the recorded score and completion."""
    phrased: int
    """Steps with the recorded observation."""
    final: bool
    """Whether the last score is the recorded one."""


def scores(pool: SimulatorPool, log: Mapping[str, Any]) -> Scores:
    """Replays one log; they were all made with the simplifications `easy`."""
    simulation = pool.open(Assignment(log["taskName"], int(log["variationIdx"]), "easy"))
    same = phrased = 0
    score = 0.0
    for line in log["history"]:
        _, score, completed, _ = outcome = simulation.step(line["action"])
        same += (score, completed) == (float(line["score"]), line["isCompleted"] == "true")
        phrased += canonical(outcome.text) == canonical(line["observation"])
    simulation.close()
    final = score == float(log["history"][-1]["score"])
    return Scores(len(log["history"]), same, phrased, final)


@pytest.mark.parametrize("all_of_them", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
def test_oracle_scores_come_back(
    tasks: SciWorldTasks, data_dir: Path, *, all_of_them: bool
) -> None:
    logs = list(oracle(data_dir, all_of_them=all_of_them))
    assert len({log["taskName"] for log in logs}) == 15
    found = [(log["taskName"], int(log["variationIdx"]), scores(tasks.pool, log)) for log in logs]
    steps, same, phrased, final = (sum(c) for c in zip(*(each for *_, each in found), strict=True))
    print(f"{len(logs)} logs, {steps} steps: {same} scores, {phrased} texts, {final} final scores")
    assert {each[:2] for each in found if not each[2].final} <= {LOST_BY_CHANCE}
    assert same >= 0.97 * steps
    for task, variation, (count, equal, _, _) in found:
        assert equal == count or task in DRAWN or (task, variation) == ONE_TICK_LATER
