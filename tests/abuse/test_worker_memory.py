"""A worker process that takes more memory than it may costs its own episode, and nobody else's."""

import asyncio

import pytest

from env_servers.conformance.verdicts import expect_error
from tests.env_servers.server.conftest import harness_for

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("action", "said"),
    [
        pytest.param("at once 2000", "MemoryError", id="more than there is, at once"),
        pytest.param(
            "slowly 640", "killed its worker process twice", id="slowly", marks=pytest.mark.slow
        ),
    ],
)
async def test_a_step_that_takes_too_much_memory_fails_alone(action, said, server_process):
    """A worker process once took more than 5 GB before anybody looked."""
    server = server_process(
        environments=["tests.abuse.hog"],
        execution={"hog": "process"},
        workers=1,
        worker_memory=256 * MIB,
    )
    async with asyncio.timeout(60), harness_for(server.address, environment="hog") as harness:
        neighbours = [await harness.play(length=0) for _ in range(3)]
        for play in neighbours:
            await play.step("on")
        culprit = await harness.play(length=0)
        refused = await culprit.ask(1, action=action)
        expect_error(refused, "ENVIRONMENT_CRASHED", fault="ENVIRONMENT")
        assert said in refused.error.message
        for play in neighbours:
            assert "Step 2, " in (await play.step("on")).observation
    assert ("worker killed for its memory" in server.log) == action.startswith("slowly")
