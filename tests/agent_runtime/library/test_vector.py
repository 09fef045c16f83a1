"""`agentgym.Vector`: many episodes stepped together."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import psutil
import pytest

import agentgym
from agentgym import Autoreset

TASKS = ["echo_1000001", "echo_1000002", "echo_1000003"]


@pytest.fixture(scope="module")
def echo() -> Iterator[agentgym.Environment]:
    with agentgym.make("echo") as env:
        yield env


def vector_of(
    env: agentgym.Environment, autoreset: Autoreset, count: int = 2, **options: int
) -> agentgym.Vector:
    return agentgym.Vector(env, count, tasks=TASKS, autoreset=autoreset, options=options)


def items(vector: agentgym.Vector) -> list[str | None]:
    return [episode and episode.item_id for episode in vector.episodes]


def test_hundreds_of_episodes_are_stepped_together(echo: agentgym.Environment) -> None:
    with agentgym.Vector(echo, 300, options={"length": 2}) as vector:
        batch = vector.reset()
        assert len(vector) == len(batch.texts) == 300
        assert len({*items(vector)}) == 300
        assert batch.texts == [state and state.text for state in batch.opened]
        batch = vector.step([f"slot {number}" for number in range(300)])
        assert all(f"slot {number}'" in text for number, text in enumerate(batch.texts))
        assert batch.rewards == [None] * 300 == batch.scores
        batch = vector.step(["last"] * 300)
        assert batch.rewards == [1.0] * 300 == batch.scores
        assert batch.terminated == [True] * 300 == batch.ended
        assert batch.truncated == [False] * 300
        assert batch.errors == [None] * 300


def test_next_step_opens_a_new_episode_in_place_of_stepping(echo: agentgym.Environment) -> None:
    with vector_of(echo, Autoreset.NEXT_STEP, length=2) as vector:
        vector.reset()
        vector.step(["a", None])
        batch = vector.step(["b", "a"])
        assert (batch.ended, items(vector)) == ([True, False], TASKS[:2])
        batch = vector.step(["ignored", "b"])
        assert items(vector) == [TASKS[2], TASKS[1]]
        assert batch.transitions[0] is None
        assert (batch.ended, batch.rewards) == ([False, True], [None, 1.0])
        assert "This is echo_1000003" in batch.texts[0]
        assert vector.step(["a", "ignored"]).transitions[0] is not None
        assert items(vector) == [TASKS[2], TASKS[0]]


def test_same_step_shows_the_new_episode_and_tells_how_the_old_one_ended(
    echo: agentgym.Environment,
) -> None:
    with vector_of(echo, Autoreset.SAME_STEP, length=1) as vector:
        vector.reset()
        batch = vector.step(["over", None])
        assert (batch.ended, batch.rewards) == ([True, False], [1.0, None])
        last, opened = batch.transitions[0], batch.opened[0]
        assert last is not None
        assert "'over'" in last.text
        assert opened is not None
        assert batch.texts[0] == opened.text
        assert items(vector) == [TASKS[2], TASKS[1]]


def test_disabled_leaves_what_has_ended_to_the_caller(echo: agentgym.Environment) -> None:
    with vector_of(echo, Autoreset.DISABLED, length=1) as vector:
        vector.reset()
        vector.step(["over", None])
        batch = vector.step([None, None])
        assert batch.transitions == [None, None] == batch.opened
        batch = vector.step(["too many", None])
        assert isinstance(batch.errors[0], agentgym.EnvironmentFailure)
        assert batch.errors[0].reason == "EPISODE_ENDED"
        assert isinstance(vector.step(["again", None]).errors[0], agentgym.EpisodeClosed)
        batch = vector.reset([True, False])
        assert items(vector) == [TASKS[2], TASKS[1]]
        assert [state is not None for state in batch.opened] == [True, False]


def test_seeds_and_tasks_are_given_out_in_order_and_begin_anew_with_a_seed(
    echo: agentgym.Environment,
) -> None:
    with vector_of(echo, Autoreset.NEXT_STEP, count=4) as vector:
        first = vector.reset(seed=7)
        assert items(vector) == [*TASKS, TASKS[0]]
        assert vector.reset().texts != first.texts
        assert items(vector) == [*TASKS[1:], *TASKS[:2]]
        assert vector.reset(seed=7).texts == first.texts
        with echo.reset(TASKS[0], seed=10) as alone:
            assert alone.text == first.texts[3]


def test_an_episode_that_fails_is_told_by_its_kind_and_the_others_go_on(
    echo: agentgym.Environment,
) -> None:
    with vector_of(echo, Autoreset.NEXT_STEP, crash_at=1) as vector:
        vector.reset()
        batch = vector.step(["boom", None])
        failure = batch.errors[0]
        assert isinstance(failure, agentgym.EnvironmentFailure)
        assert failure.reason == "ENVIRONMENT_CRASHED"
        assert batch.errors[1] is None
        assert (batch.rewards[0], batch.texts[0], batch.ended) == (None, "", [True, False])
        assert vector.step([None, None]).opened[0] is not None
        assert items(vector) == [TASKS[2], TASKS[1]]
    with vector_of(echo, Autoreset.NEXT_STEP, nonsense=1) as vector:
        batch = vector.reset()
        assert [error and error.reason for error in batch.errors] == ["UNKNOWN_OPTION"] * 2
        assert vector.episodes == (None, None)


def test_replies_and_advice_are_for_all_slots(echo: agentgym.Environment) -> None:
    with vector_of(echo, Autoreset.NEXT_STEP) as vector:
        assert vector.consult() == [None, None]
        vector.reset()
        with pytest.raises(agentgym.UnknownName, match="valid: expert, random, noop"):
            vector.consult("oracle")
        batch = vector.reply([advice.reply if advice else None for advice in vector.consult()])
        actions = [state and state.parsed_action for state in batch.transitions]
        assert all(actions)


def test_a_bad_value_is_refused_before_anything_is_sent(echo: agentgym.Environment) -> None:
    with vector_of(echo, Autoreset.NEXT_STEP) as vector:
        vector.reset()
        with pytest.raises(ValueError, match="1 values were given for 2 slots"):
            vector.step(["one"])
        with pytest.raises(ValueError, match="surrogates not allowed"):
            vector.step(["fine", "\udfff"])
        with pytest.raises(TypeError, match="not float"):
            vector.step(["fine", 0.5])  # pyright: ignore[reportArgumentType]
        assert [episode and episode.seq for episode in vector.episodes] == [0, 0]
        assert vector.step(["fine", "too"]).errors == [None, None]
    with pytest.raises(ValueError, match="at least 1 slot"):
        agentgym.Vector(echo, 0)
    with pytest.raises(ValueError, match="'Never' is not a valid Autoreset"):
        agentgym.Vector(echo, 1, autoreset="Never")
    with pytest.raises(ValueError, match="the list is empty"):
        agentgym.Vector(echo, 1, tasks=[])


def test_all_episodes_outlive_their_server(echo: agentgym.Environment) -> None:
    address = echo.asynchronous.connection.address
    with agentgym.Vector(echo, 200) as vector:
        vector.reset()
        vector.step(["before"] * 200)
        (server,) = [it for it in psutil.Process().children() if address in it.cmdline()]
        server.send_signal(signal.SIGKILL)
        batch = vector.step(["after"] * 200)
        assert batch.errors == [None] * 200
        assert {episode and episode.seq for episode in vector.episodes} == {2}


async def test_with_an_event_loop_a_vector_is_awaited(echo: agentgym.Environment) -> None:
    address = echo.asynchronous.connection.address
    async with (
        agentgym.aio.make("echo", target=address) as env,
        agentgym.aio.Vector(env, 3, autoreset="Disabled") as vector,
    ):
        assert (await vector.reset()).errors == [None] * 3
        assert (await vector.step(["a", "b", None])).ended == [False] * 3


def test_a_vector_of_a_name_opens_and_closes_its_environment(echo: agentgym.Environment) -> None:
    address = echo.asynchronous.connection.address
    with agentgym.Vector("echo", 2, target=address) as vector:
        assert vector.reset().errors == [None, None]
    with pytest.raises(agentgym.EpisodeClosed):
        vector.environment.reset()
