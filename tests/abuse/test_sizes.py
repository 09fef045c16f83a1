"""What does not fit into a message fails its own command, and nobody else's."""

import pytest

from env_servers.conformance.verdicts import expect_error
from tests.env_servers.server.conftest import harness_for


@pytest.mark.parametrize("how", ["inline", "process"])
async def test_an_observation_that_no_message_carries_ends_its_episode_alone(server_process, how):
    """One of 70 MB once stopped every episode of its connection, for ever and without a word."""
    server = server_process(environments=["tests.abuse.wide"], execution={"wide": how}, workers=1)
    async with harness_for(server.address, environment="wide") as harness:
        stream = await harness.open_stream()
        wide, neighbour = await harness.play(stream), await harness.play(stream)
        await neighbour.step()
        refused = await wide.ask(1, action="70000000")
        expect_error(refused, "ENVIRONMENT_CRASHED", fault="ENVIRONMENT")
        assert "70,000,000 bytes" in refused.error.message
        await neighbour.steps(3)
