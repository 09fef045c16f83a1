"""Workers that are waited for: they answer at once, whatever patience they were told to have."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from agent_runtime.policies.base import TrainablePolicy
from orchestrator.ray_cluster.messages import Orders, Welcome
from orchestrator.ray_cluster.worker import RolloutWorker
from orchestrator.records import EpisodeKey
from orchestrator.scheduler import Assignment

GRANTS = (Assignment(EpisodeKey("echo", "echo_1", 0, "agent"), 1),)


class Idle:
    """A dispatcher that begins nothing."""

    live = live_steps = 0

    def wake(self) -> None: ...

    def describe_outages(self) -> str:
        return ""

    def request_counts(self) -> dict[str, Any]:
        return {}


def worker() -> RolloutWorker:
    made = RolloutWorker(
        Welcome(
            name="s1-w1",
            node="",
            runs=(),
            policies={},
            workers=1,
            members=None,
            token="",
            lease=3600.0,
        )
    )
    made._dispatcher = cast("Any", Idle())
    return made


def orders(**changes: Any) -> Orders:
    return Orders(**{"rest": 0.0, "pause": 3600.0, "patience": 3600.0, **changes})


@pytest.mark.parametrize("grants", [(), GRANTS])
async def test_a_worker_that_waits_answers_when_it_is_hurried(grants) -> None:
    asked = worker()
    answer = asyncio.create_task(asked.exchange(orders(grants=grants)))
    await asyncio.sleep(0.01)
    assert not answer.done()
    await asked.hurry()
    assert (await answer).outcomes == ()
    # Once: the next question waits again.
    answer = asyncio.create_task(asked.exchange(orders()))
    await asyncio.sleep(0.01)
    assert not answer.done()
    answer.cancel()


@pytest.mark.parametrize("grants", [(), GRANTS])
async def test_to_be_hurried_between_two_questions_counts_for_the_next(grants) -> None:
    asked = worker()
    await asked.hurry()
    await asked.exchange(orders(grants=grants))
    answer = asyncio.create_task(asked.exchange(orders(rest=0.01)))
    await asked.hurry()  # while it rests
    await answer


async def test_policies_are_told_of_weights_before_anything_begins_with_them() -> None:
    told: list[str] = []

    class Following(TrainablePolicy):
        update_weights = score = open = cast("Any", None)

        def follow(self, version: str) -> None:
            told.append(version)

    asked = worker()
    asked._policies["agent"] = Following()
    await asked.hurry()
    cast("Any", asked._dispatcher).wake = lambda: told.append("begins")
    await asked.exchange(orders(weights="step-3"))
    await asked.hurry()
    await asked.exchange(orders())
    assert told == ["step-3", "begins", "begins"]
