"""`agentgym.make`: environments, tasks and episodes, with and without an event loop."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

import agentgym
from agentgym.env.v1 import environment_pb2 as pb

ITEM = "echo_1000003"


@pytest.fixture(scope="module")
def echo() -> Iterator[agentgym.Environment]:
    with agentgym.make("echo") as env:
        yield env


def address_of(env: agentgym.Environment) -> str:
    return env.asynchronous.connection.address


def server_of(env: agentgym.Environment) -> psutil.Process:
    (found,) = [
        child for child in psutil.Process().children() if address_of(env) in child.cmdline()
    ]
    return found


def test_importing_costs_nothing_before_something_is_used() -> None:
    program = (
        "import sys, agentgym; from agentgym.episode.v1 import episode_pb2; "
        "print(sorted({'grpc', 'agent_runtime', 'env_servers', 'asyncio'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert printed.stdout == "[]\n", printed.stderr


def test_every_public_name_is_there_and_no_other() -> None:
    assert all(getattr(agentgym, name) is not None for name in agentgym.__all__)
    assert set(agentgym.__all__) <= set(dir(agentgym))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = agentgym.nothing  # pyright: ignore[reportAttributeAccessIssue]


def test_images_come_where_an_option_asks_for_them(echo: agentgym.Environment) -> None:
    with echo.reset(ITEM, options={"images": 2}) as episode:
        first, second = episode.images
        assert (first.media_type, first.content[1:4]) == ("image/png", b"PNG")
        assert first != second
        assert "data:image/png;base64," in first._repr_html_()
        episode.step("look")
        assert len(episode.fork().images) == 2
    with echo.reset(ITEM) as episode:
        assert episode.images == ()


def test_an_episode_takes_five_lines(echo: agentgym.Environment) -> None:
    with echo.reset() as episode:
        while not episode.ended:
            episode.step(episode.consult().action)
    assert (episode.score, episode.terminated, episode.truncated) == (1.0, True, False)
    assert episode.item_id == next(echo.tasks()).item_id


def test_an_environment_says_what_it_is(echo: agentgym.Environment) -> None:
    assert (echo.name, echo.splits) == ("echo", {"train": 10_000, "eval": 1_000})
    assert {"deterministic", "fork", "expert", "render"} <= echo.capabilities
    assert echo.action_formats == ("react", "function_calling", "code_as_action")
    assert "Thought" in echo.instruction()
    assert echo.instruction("function_calling") != echo.instruction("react")
    assert echo.max_rounds == 20
    assert "echo" in agentgym.environment_names()


def test_tasks_are_fetched_by_and_by_and_by_their_ids(echo: agentgym.Environment) -> None:
    eval_ids = [task.item_id for task in echo.tasks("eval")]
    assert len(set(eval_ids)) == 1_000
    assert [it.item_id for it in echo.tasks(item_ids=[eval_ids[7], ITEM])] == [eval_ids[7], ITEM]
    with pytest.raises(agentgym.UnknownName, match=r"split .*'test' \(valid: train, eval\)"):
        next(echo.tasks("test"))
    with pytest.raises(agentgym.EnvironmentFailure, match="unknown item"):
        next(echo.tasks(item_ids=["echo_x"]))


def test_absent_rewards_are_none_and_the_score_follows_them(echo: agentgym.Environment) -> None:
    with echo.reset(ITEM, options={"length": 2}) as episode:
        first = episode.step("a")
        assert (first.reward, episode.reward, episode.score, first.seq) == (None, None, None, 1)
        assert episode.step("b").reward == 1.0 == episode.score


def test_a_reply_is_read_by_the_server_and_a_call_is_one_action(echo: agentgym.Environment) -> None:
    with echo.reset(ITEM) as episode:
        state = episode.reply("Thought:\nHello.\n\nAction:\nsay hello")
        assert state.parsed_action == "say hello"
        assert episode.call("say", '{"text": "you"}').parsed_action == "you"
        code = "```python\nsay('there')\n```"
        assert episode.reply(code, "code_as_action").parsed_action == "there"
        with pytest.raises(agentgym.UnknownName, match="valid: react, function_calling"):
            episode.reply("x", "json")
        with pytest.raises(agentgym.UnknownName, match="valid: expert, random, noop"):
            episode.consult("oracle")


def test_a_fork_goes_on_alone_and_a_journal_leads_to_the_same_state(
    echo: agentgym.Environment,
) -> None:
    with echo.reset(ITEM, seed=5) as episode:
        episode.step("one")
        episode.reply("Thought:\nTwo.\n\nAction:\ntwo")
        episode.call("say", '{"text": "three"}')
        with episode.fork() as copy:
            assert copy.state == episode.state
            copy.step("four")
            assert (copy.seq, episode.seq) == (4, 3)
        with echo.reset(ITEM, seed=5, journal=episode.journal) as again:
            assert again.state == episode.state
            assert again.journal == episode.journal
        wrong = [*episode.journal]
        wrong[1] = pb.JournalEntry(input=wrong[1].input, state_hash=b"12345678")
        with pytest.raises(agentgym.EnvironmentFailure, match=r"another state .* at seq 2"):
            echo.reset(ITEM, seed=5, journal=wrong)


def test_views_are_pictures_for_people_and_harmless_in_a_notebook(
    echo: agentgym.Environment,
) -> None:
    with echo.reset(ITEM) as episode:
        episode.step("<script>alert(1)</script>")
        views = episode.render()
        assert episode.seq == 1
    assert {view.media_type for view in views} >= {"text/plain"}
    for view in views:
        shown = view._repr_html_()
        assert "<script" not in shown
        assert shown.startswith(("<img ", "<pre>"))


def test_mistakes_are_told_by_their_kind(echo: agentgym.Environment) -> None:
    episode = echo.reset(ITEM, options={"length": 1})
    with pytest.raises(TypeError, match="an action is a string, not int"):
        episode.step(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="surrogates not allowed"):
        episode.step("\ud800")
    episode.step("last")
    with pytest.raises(agentgym.EnvironmentFailure) as ended:
        episode.step("one more")
    assert ended.value.reason == "EPISODE_ENDED"
    episode.close()
    episode.close()
    with pytest.raises(agentgym.EpisodeClosed, match=r"of echo_1000003 was closed"):
        episode.step("after all")
    with pytest.raises(agentgym.EnvironmentFailure, match="unknown option"):
        echo.reset(ITEM, options={"lenght": 1})
    with pytest.raises(agentgym.ServerArgumentsInvalid, match=r"'ecko' .*valid: .*echo"):
        agentgym.make("ecko")
    with pytest.raises(agentgym.EnvironmentFailure, match="maze"):
        agentgym.make("maze", target=address_of(echo))


def test_all_who_ask_alike_share_one_server_and_the_last_one_ends_it() -> None:
    options = ("--lease", "61")
    one = agentgym.make("echo", server_options=options)
    server, address = server_of(one), address_of(one)
    with agentgym.make("echo", server_options=options) as other:
        assert address_of(other) == address
        one.close()
        one.close()
        with other.reset(ITEM) as episode:
            assert episode.step("still there").seq == 1
    assert not server.is_running()
    with pytest.raises(agentgym.EpisodeClosed, match="echo is not open"):
        one.reset(ITEM)


def test_an_episode_outlives_its_server(echo: agentgym.Environment) -> None:
    with echo.reset(ITEM, seed=9) as episode, echo.reset(ITEM, seed=9) as twin:
        episode.step("before")
        twin.step("before")
        server_of(echo).send_signal(signal.SIGKILL)
        assert episode.step("after") == twin.step("after")
        assert episode.asynchronous.remote.rebuilds == 1


async def test_with_an_event_loop_everything_is_awaited(echo: agentgym.Environment) -> None:
    async def play(env: agentgym.aio.Environment, task: agentgym.Task) -> float | None:
        async with await env.reset(task) as episode:
            while not episode.ended:
                await episode.step((await episode.consult()).action)
            return episode.score

    async with agentgym.aio.make("echo", target=address_of(echo)) as env:
        tasks = [task async for task in env.tasks(item_ids=[ITEM, "echo_1000004"])]
        assert await asyncio.gather(*(play(env, task) for task in tasks)) == [1.0, 1.0]
        assert env.connection is not echo.asynchronous.connection
        # A program with a loop, a notebook for example, may use the other form as well.
        with echo.reset(ITEM) as episode:
            assert episode.step("hello").seq == 1
    with pytest.raises(agentgym.EpisodeClosed):
        await env.reset(ITEM)


def _play_in_child(queue: multiprocessing.Queue[str]) -> None:
    try:
        agentgym.make("echo")
    except agentgym.AgentRuntimeError as error:
        queue.put(error.reason)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_of_a_process_that_played_is_refused_and_does_not_hang(
    echo: agentgym.Environment,
) -> None:
    assert echo.name == "echo"
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_play_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == "PROCESS_FORKED"
    child.join()
