"""Recorded episodes, played again: AgentTraj-L's conversations and ScienceWorld's oracle logs.

AgentTraj-L was recorded with release 1.0 of the simulator, which listed things in the order of
their identity hashes: another one in every process. So a recorded observation is the same if it is
made of the same phrases, in whatever order.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from env_servers.sciworld import SciWorld
from env_servers.sciworld.engine import Engine
from env_servers.sciworld.simulator import Assignment
from env_servers.sciworld.tasks import SciWorldTasks
from env_servers.sdk import ActionFormat, Rejected, ResetOptions

_SEPARATORS = re.compile(r"[\n\t,.():]| containing |\bcontaining\b")
EACH = 53
"""The default tests play one of so many conversations."""


class Tally(NamedTuple):
    """What came of a replay."""

    steps: int
    same: int
    """Made of the same phrases."""
    exact: int
    """Character by character, outer white space aside."""


def phrases(text: str) -> list[str]:
    return sorted(phrase for part in _SEPARATORS.split(text) if (phrase := part.strip()))


def replay(tasks: SciWorldTasks, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(our text, the recorded text) of the first observation and of each step that has one."""
    turns = [turn["value"] for turn in row["conversations"]]
    episode = SciWorld(tasks)
    options = ResetOptions(options={"as_recorded": True})
    yield episode.reset(tasks.get(row["item_id"]), options).text, turns[2]
    for index in range(3, len(turns) - 1, 2):
        action = episode.spec.grammar.read(turns[index], ActionFormat.REACT)
        assert not isinstance(action, Rejected)
        yield episode.step(action).text, turns[index + 1]
    episode.close()


def conversations(data_dir: Path) -> list[Mapping[str, Any]]:
    path = data_dir / "agenttraj_l" / "sciworld.jsonl.gz"
    if not path.is_file():
        pytest.skip("needs AgentTraj-L")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def tally(tasks: SciWorldTasks, rows: list[Mapping[str, Any]]) -> Tally:
    steps = same = exact = 0
    for row in rows:
        (first, recorded_first), *rest = replay(tasks, row)
        assert phrases(first) == phrases(recorded_first), row["item_id"]
        for ours, theirs in rest:
            steps += 1
            same += phrases(ours) == phrases(theirs)
            exact += ours.strip() == theirs.strip()
    return Tally(steps, same, exact)


def test_recorded_conversations_come_back(tasks: SciWorldTasks, data_dir: Path) -> None:
    steps, same, exact = tally(tasks, conversations(data_dir)[::EACH])
    assert steps > 300
    assert same >= 0.97 * steps
    assert exact >= 0.85 * steps


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_recorded_conversations_come_back(tasks: SciWorldTasks, data_dir: Path) -> None:
    rows = conversations(data_dir)
    found = tally(tasks, rows)
    print(found, found.same / found.steps, found.exact / found.steps)
    assert (len(rows), found.steps) == (1060, 18966)
    assert found.same >= 0.99 * found.steps


def oracle(data_dir: Path, *, all_of_them: bool) -> Iterator[Mapping[str, Any]]:
    for path in sorted((data_dir / "sciworld" / "oracle").glob("*.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            episodes = [found["history"] for found in json.load(stream).values()]
        yield from episodes if all_of_them else episodes[-1:]


def scores(engine: Engine, log: Mapping[str, Any]) -> Tally:
    """Replays one log; same = equal scores, exact = also equal observations."""
    play = engine.open(Assignment(log["taskName"], int(log["variationIdx"])))
    assert play.description() == log["taskDescription"].strip()
    same = exact = 0
    for line in log["history"]:
        outcome = play.step(line["action"])
        score = outcome.score == float(line["score"])
        same += score and outcome.completed == (line["isCompleted"] == "true")
        exact += score and phrases(outcome.text) == phrases(line["observation"])
    play.close()
    return Tally(len(log["history"]), same, exact)


@pytest.mark.parametrize("all_of_them", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
def test_oracle_scores_come_back(
    tasks: SciWorldTasks, data_dir: Path, *, all_of_them: bool
) -> None:
    logs = list(oracle(data_dir, all_of_them=all_of_them))
    found = [(log, scores(tasks.engine, log)) for log in logs]
    steps, same, exact = (sum(column) for column in zip(*(each for _, each in found), strict=True))
    print(len(logs), "episodes", steps, "steps", same, "scores", exact, "observations")
    assert len({log["taskName"] for log in logs}) == 15
    wrong = [
        (log["taskName"], log["variationIdx"], each)
        for log, each in found
        if each.same != each.steps
    ]
    assert wrong == []
