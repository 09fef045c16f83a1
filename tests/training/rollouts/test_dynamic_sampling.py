from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agentgym.episode.v1 import episode_pb2
from tests.orchestrator.records import build_episode
from training.rollouts.dynamic_sampling import further_tasks, sample_groups
from training.rollouts.on_policy import Task

TASKS = {"maze": [f"maze_{n}" for n in range(6)], "wordle": ["wordle_0", "wordle_1"]}


def sample(rewards: dict[str, tuple[float, ...]], planned: Sequence[Task], rounds: int):
    """Play, where tasks that are not named agree; returns what was played in which round, too."""
    calls: list[list[Task]] = []

    async def play(tasks: Sequence[Task]) -> list[episode_pb2.Episode]:
        calls.append(list(tasks))
        return [
            build_episode(item, environment=name, sample=number, reward=reward)
            for name, item in tasks
            for number, reward in enumerate(rewards.get(item, (1.0, 1.0)))
        ]

    def further(replaced: Sequence[Task], played: Sequence[Task]) -> list[Task]:
        return further_tasks(TASKS, replaced, played, step=3, seed=0)

    done = asyncio.run(
        sample_groups(play, planned, further, lambda episode: episode.reward, rounds=rounds)
    )
    return done, calls


def test_groups_that_agree_are_replaced_by_tasks_of_their_environment():
    differing = {"maze_0": (0.0, 1.0)}
    planned = [("maze", "maze_0"), ("wordle", "wordle_0"), ("maze", "maze_1")]
    done, calls = sample(differing, planned, rounds=1)
    assert [name for name, _ in calls[1]] == ["wordle", "maze"]
    assert calls[1][0] == ("wordle", "wordle_1")
    assert not set(calls[1]) & set(planned)
    assert (done.replacements, len(done.episodes)) == (2, 10)


def test_replacing_ends_where_all_differ_and_at_its_bound_and_where_no_task_is_left():
    planned = [("maze", "maze_0")]
    done, calls = sample({"maze_0": (0.0, 1.0)}, planned, rounds=9)
    assert (len(calls), done.replacements) == (1, 0)
    done, calls = sample({}, planned, rounds=2)
    assert (len(calls), done.replacements) == (3, 2)
    done, calls = sample({}, planned, rounds=9)
    assert sorted(item for call in calls for _, item in call) == TASKS["maze"]
    assert sample({}, planned, rounds=0)[0].replacements == 0


def test_a_group_without_episodes_is_replaced_and_the_choice_is_the_steps_alone():
    planned = [("maze", "maze_2")]
    assert sample({"maze_2": ()}, planned, rounds=1)[1] == sample({}, planned, rounds=1)[1]
    chosen = [further_tasks(TASKS, planned, planned, step=step, seed=0)[0] for step in range(20)]
    assert len(set(chosen)) == 5
