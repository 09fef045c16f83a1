"""A `</s>` at the end of a reply: understood where the original's client understood it."""

from __future__ import annotations

import pytest

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb
from env_servers.sdk import BUILT_IN, ActionFormat, EnvironmentUnavailable, load_environment
from tests.kit.servers import serving

UNDERSTOOD = ("maze", "wordle", "alfworld", "sciworld", "webshop")
PLAYED = ("maze", "wordle", "alfworld", "webshop")
"""SciWorld's server would have to start Java."""


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_mark_is_no_part_of_a_reply_where_the_original_drops_it(name: str) -> None:
    try:
        grammar = load_environment(name).spec.grammar
    except EnvironmentUnavailable as error:
        pytest.skip(str(error))
    reply = "Action:\nclick[a </s> b]"
    plain = grammar.read(reply, ActionFormat.REACT)
    same = {
        grammar.read(reply + end, ActionFormat.REACT) == plain
        for end in (" </s>", "</s>", "\n</s>")
    }
    if name in UNDERSTOOD:
        assert (plain, same) == ("click[a </s> b]", {True})
    assert grammar.drops_end_mark == (name in UNDERSTOOD)


async def test_the_expert_wins_with_the_mark_behind_every_reply() -> None:
    async with (
        serving(environments=PLAYED, execution={}) as server,
        Connection(server.addresses[0]) as connection,
    ):
        for name in PLAYED:
            item_id = (await connection.list_tasks(name, "eval", "", 1)).tasks[0].item_id
            reset = pb.Reset(environment=name, item_id=item_id)
            episode = RemoteEpisode(connection, name, reset)
            seen = await episode.reset()
            while not seen.ended:
                advice = await episode.consult(pb.ADVISOR_EXPERT, episode.seq)
                seen = await episode.step_reply(f"{advice.reply} </s>")
            assert (name, seen.reward) == (name, 1.0)
            episode.close()
