"""Over gRPC: which version of the original reads the replies, and what a given list changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agent_runtime.errors import AgentRuntimeError
from agentgym.env.v1 import environment_pb2 as pb
from env_servers.sdk import Execution
from tests.kit.data import find_data, needs_data
from tests.kit.servers import serving

BOAT = {"goal": "oak boat"}
TWO_LINES = "Thought:\nBoth.\n\nAction:\nget 1 oak logs\nget 2 oak logs"
NO_ACTION = "get 1 oak logs"
TWO_ACTIONS = "Action: inventory\nAction:\nget 1 oak logs."
MADE_UP = "Action:\nget 1 oak logs\nInstruction:\nGot 1 oak logs\nAction:\ninventory"
ONLY_ONE = "Error: Only one 'Action' is allowed per response. Please adjust your response."


@pytest.fixture(params=[Execution.INLINE, Execution.PROCESS])
async def connection(request: pytest.FixtureRequest) -> AsyncIterator[Connection]:
    options = {"environments": ("textcraft",), "data_dir": find_data("textcraft"), "workers": 1}
    async with (
        serving(execution={"textcraft": request.param}, **options) as server,
        Connection(server.addresses[0]) as opened,
    ):
        yield opened


async def begun(connection: Connection, name: str, **options: Any) -> RemoteEpisode:
    reset = pb.Reset(environment="textcraft", item_id="textcraft_1500000")
    reset.options.update(options)
    episode = RemoteEpisode(connection, name, reset)
    await episode.reset()
    return episode


async def answers(
    connection: Connection, options: Mapping[str, Any], *replies: str, forked: bool = False
) -> list[str]:
    episode = await begun(connection, f"{options} {forked}", **options)
    if forked:
        episode = await episode.fork(f"twin {options}")
    return [(await episode.step_reply(reply)).text for reply in replies]


@pytest.mark.parametrize("forked", [False, True])
async def test_the_version_of_the_original_reads_the_replies(
    connection: Connection, forked: bool
) -> None:
    replies = (TWO_LINES, NO_ACTION, TWO_ACTIONS, MADE_UP)
    today = await answers(connection, BOAT, *replies, forked=forked)
    assert today == ["Got 1 oak logs", "Could not execute ", ONLY_ONE, ONLY_ONE]
    recorded = await answers(connection, {**BOAT, "original": 2024}, *replies, forked=forked)
    assert recorded == [
        "Could not find oak logsget 2 oak logs",
        "Got 1 oak logs",
        "Got 1 oak logs",
        "Got 1 oak logs",
    ]


async def test_look_is_no_action(connection: Connection) -> None:
    for version in ("2025", "2024"):
        shown = await answers(connection, {**BOAT, "original": version}, "Action:\nlook")
        assert shown == ["Could not execute look"]


async def test_an_unknown_version_is_refused(connection: Connection) -> None:
    for version in ("2023", "", True, 2024.5, "x" * 10_000):
        with pytest.raises(AgentRuntimeError, match="option original cannot be"):
            await begun(connection, f"version {version!s:.9}", original=version)


IRON = "craft 1 iron ingot using 9 iron nugget"
GOLD = "craft 9 gold nugget using 1 gold ingot"
HONEY = "craft 1 honey block using 4 honey bottle"


async def official(connection: Connection, goal: str, *commands: str) -> RemoteEpisode:
    reset = pb.Reset(environment="textcraft", item_id="textcraft_0")
    reset.options.update({"goal": goal, "commands": "\n".join(commands)})
    episode = RemoteEpisode(connection, f"{goal} {commands}", reset)
    await episode.reset()
    return episode


@needs_data("textcraft")
async def test_a_given_list_decides_where_the_cycles_are_cut(connection: Connection) -> None:
    for goal, command, inputs in (
        ("iron ingot", IRON, "get 9 iron nugget"),
        ("gold nugget", GOLD, "get 1 gold ingot"),
        ("honey block", HONEY, "get 4 honey bottle"),
        ("iron nugget", "craft 9 iron nugget using 1 iron ingot", "get 1 iron ingot"),
    ):
        episode = await official(connection, goal, command)
        refused = await episode.step(f"get 1 {goal}")
        assert (refused.text, refused.reward) == (f"Could not find {goal}", 0.0)
        assert (await episode.step(inputs)).text == inputs.replace("get", "Got", 1)
        made = await episode.step(command)
        assert made.text.startswith("Crafted ")
        assert (made.reward, made.ended) == (1.0, True)


@needs_data("textcraft")
@pytest.mark.parametrize(
    "commands",
    [
        (IRON, "craft 9 iron nugget using 1 iron ingot"),
        ("craft 1 iron ingot using 8 iron nugget",),
        (IRON, ""),
    ],
)
async def test_a_list_that_the_world_contradicts_is_refused(
    connection: Connection, commands: tuple[str, ...]
) -> None:
    with pytest.raises(AgentRuntimeError, match="option commands: the official world"):
        await official(connection, "iron ingot", *commands)


@needs_data("textcraft")
async def test_a_goal_that_the_given_list_leaves_a_plain_material_is_refused(
    connection: Connection,
) -> None:
    with pytest.raises(AgentRuntimeError, match="cannot be crafted"):
        await official(connection, "iron nugget", IRON)
