"""OpenEnv's own clients against the gateway. They need `openenv`, which the default suite has not:
`nox -s openenv` installs it beside."""

import asyncio

import pytest

core = pytest.importorskip("openenv.core", reason="needs openenv: nox -s openenv")

from openenv.cli._validation import validate_running_environment  # noqa: E402

from tests.kit.gateways import open_openenv  # noqa: E402


async def test_its_generic_client_plays():
    async with open_openenv("maze") as (_, address):
        async with core.GenericEnvClient(f"http://{address}") as client:
            first = await client.reset(seed=3)
            assert first.observation["item_id"] == "maze_1000003"
            step = await client.step({"action": "move up"})
            assert (step.observation["seq"], step.done) == (1, False)
            assert (await client.state())["step_count"] == 1
            with pytest.raises(RuntimeError, match="VALIDATION_ERROR"):
                await client.step({"value": 1})
            assert (await client.step({"action": "move up"})).observation["seq"] == 2


async def test_its_synchronous_client_plays():
    def play(address):
        with core.GenericEnvClient(f"http://{address}").sync() as client:
            client.reset(episode_id="mine")
            return client.step({"action": "hello"}).observation["episode_id"]

    async with open_openenv("echo") as (_, address):
        assert await asyncio.to_thread(play, address) == "mine"


@pytest.mark.parametrize("by_http", [False, True])
async def test_its_client_of_tools_plays(by_http):
    async with open_openenv("textcraft") as (_, address):
        client = core.MCPToolClient(f"http://{address}")
        client.use_production_mode = by_http
        async with client:
            await client.reset(index=0)
            assert await client.has_tool("inventory")
            assert "Inventory" in await client.call_tool("inventory")


async def test_a_client_that_gave_up_is_not_answered_one_step_late():
    """The next step of this client is on another connection: it is told that nothing is there."""
    async with open_openenv("echo") as (gateway, address):
        async with core.GenericEnvClient(f"http://{address}", message_timeout_s=5) as client:
            await client.reset()
            (lease,) = gateway.leases[0]
            async with lease:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(client.step({"action": "first"}), 0.2)
            with pytest.raises(RuntimeError, match="reset first"):
                await client.step({"action": "second"})


async def test_its_validation_finds_nothing_wrong():
    async with open_openenv("maze") as (_, address):
        report = await asyncio.to_thread(validate_running_environment, f"http://{address}")
    assert report["passed"], report
