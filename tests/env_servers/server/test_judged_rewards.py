"""Verdicts are part of an episode: whoever plays it again asks nobody."""

from __future__ import annotations

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb
from env_servers.sdk.judging import Examiner
from tests.env_servers.server import opinions
from tests.kit.servers import serving

SERVED = {"environments": ("tests.env_servers.server.opinions",), "execution": {}}


async def test_a_rebuild_on_another_server_gives_the_verdicts_back():
    reset = pb.Reset(environment="opinions", item_id="echo_1000000")
    async with (
        serving(**SERVED) as first,
        Connection(first.addresses[0]) as there,
        serving(**SERVED) as second,
        Connection(second.addresses[0]) as here,
    ):
        episode = RemoteEpisode(there, "judged", reset, deterministic=True)
        await episode.reset()
        rewards = [(await episode.step(action)).reward for action in ("a", "b")]
        assert rewards == [0.25, 0.5]
        before = len(opinions.asked)
        opinions.Opinions.examiner = Examiner(opinions.Moody())  # as in another process
        episode.connection = here
        assert (await episode.step("c")).reward == 0.75
        assert (episode.rebuilds, len(opinions.asked) - before) == (1, 1)
