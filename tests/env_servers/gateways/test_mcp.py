"""Environments as MCP servers, played by the official client over HTTP and stdio."""

import base64
import contextlib
import json
import sys

import httpx
import pytest

mcp = pytest.importorskip("mcp", reason="needs the extra `mcp`")

from env_servers.__main__ import main  # noqa: E402
from env_servers.gateways.mcp.application import McpGateway  # noqa: E402
from tests.kit.gateways import on_a_port, open_backend  # noqa: E402


@contextlib.asynccontextmanager
async def open_mcp(*environments, token="", functions=True, **options):
    async with open_backend(*environments, **options) as backend:
        if not functions:  # as servers that offer none
            for described in backend.environments.values():
                described.functions_json = ""
        gateway = McpGateway(backend)
        async with on_a_port(gateway, token=token) as address:
            yield gateway, address


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_environment_is_played_by_its_functions_over_http(mode):
    async with open_mcp("textcraft", "maze") as (_, address):
        async with mcp.Client(f"http://{address}/textcraft/mcp", mode=mode) as client:
            tools = {it.name: it for it in (await client.list_tools()).tools}
            assert {"reset", "craft", "inventory"} <= set(tools)
            assert "episode_id" in tools["craft"].input_schema["required"]
            tasks = await client.list_resources()
            assert len(tasks.resources) == 100
            following = await client.list_resources(cursor=tasks.next_cursor)
            assert following.resources[0].uri.endswith("/100")
            read = await client.read_resource(tasks.resources[2].uri)
            task = json.loads(read.contents[0].text)
            opened = await client.call_tool("reset", {"item_id": task["item_id"]})
            first = opened.structured_content
            assert first["item_id"] == task["item_id"]
            assert (first["seq"], first["done"]) == (0, False)
            named = {"episode_id": first["episode_id"]}
            played = await client.call_tool("inventory", named)
            assert "Inventory" in played.content[0].text
            assert played.structured_content["seq"] == 1


async def test_images_are_content_of_their_own():
    async with open_mcp("echo") as (_, address):
        async with mcp.Client(f"http://{address}/mcp") as client:
            opened = await client.call_tool("reset", {"options": {"images": 2}})
            images = [it for it in opened.content if it.type == "image"]
            assert [it.mime_type for it in images] == ["image/png"] * 2
            assert base64.b64decode(images[0].data).startswith(b"\x89PNG")
            assert "images" not in opened.structured_content
            plain = await client.call_tool("reset", {})
            assert {it.type for it in plain.content} == {"text"}


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("reset", {"surplus": 1}, "BAD_REQUEST"),
        ("reset", {"options": 1}, "BAD_REQUEST"),
        ("reset", {"seed": "x"}, "VALIDATION_ERROR"),
        ("reset", {"item_id": "maze_x"}, "UNKNOWN_ITEM"),
        ("reset", {"split": "none"}, "UNKNOWN_SPLIT"),
        ("move", {"direction": "up"}, "EPISODE_NOT_FOUND"),
        ("move", {"direction": "up", "episode_id": "x"}, "EPISODE_NOT_FOUND"),
    ],
)
async def test_what_is_wrong_is_a_tools_error_with_a_reason(tool, arguments, reason):
    async with open_mcp("maze") as (gateway, address):
        async with mcp.Client(f"http://{address}/mcp") as client:
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            assert result.structured_content["reason"] == reason
            assert "reward" not in result.structured_content
            with pytest.raises(mcp.MCPError, match="there is no tool"):
                await client.call_tool("dance", {})
            with pytest.raises(mcp.MCPError, match="no number"):
                await client.read_resource("agentgym://maze/train/x")
    assert len(gateway.leases[0]) == 0


async def test_an_episode_ends_with_its_score_and_a_lapsed_one_says_so():
    async with open_mcp("maze") as (gateway, address):
        async with mcp.Client(f"http://{address}/mcp") as client:
            opened = (await client.call_tool("reset", {"seed": 3})).structured_content
            up = {"direction": "up", "episode_id": opened["episode_id"]}
            last = await client.call_tool("move", up)
            while not last.structured_content["done"]:
                last = await client.call_tool("move", up)
            assert last.structured_content["stop_reason"]
            assert '"done":true' in last.content[-1].text
            over = await client.call_tool("move", up)
            assert over.structured_content["reason"] == "EPISODE_ENDED"
            (lease,) = gateway.leases[0]
            lease.used -= 3601
            gateway.leases[0].sweep()
            gone = await client.call_tool("move", up)
            assert gone.structured_content["reason"] == "EPISODE_LAPSED"


async def test_a_token_is_wanted_and_what_is_no_request_is_refused():
    token = "a token that nobody guesses"
    async with open_mcp("maze", token=token) as (_, address):
        async with httpx.AsyncClient(base_url=f"http://{address}") as client:
            refused = await client.post("/mcp", json={})
            assert (refused.status_code, refused.json()["jsonrpc"]) == (401, "2.0")
            headers = {
                "authorization": f"Bearer {token}",
                "accept": "application/json, text/event-stream",
                "content-type": "application/json",
            }
            for content in (b"{", b"[" * 5000, b"{}"):
                refused = await client.post("/mcp", content=content, headers=headers)
                assert refused.status_code == 400
                assert "Traceback" not in refused.text


async def test_without_functions_one_tool_plays_and_a_lost_server_is_an_error_and_no_reward(
    server_process,
):
    server = server_process(environments=["echo"])
    options = {"addresses": (server.address,), "patience": 0.5, "functions": False}
    async with open_mcp("echo", **options) as (_, address):
        async with mcp.Client(f"http://{address}/mcp") as client:
            opened = (await client.call_tool("reset", {})).structured_content
            tools = [it.name for it in (await client.list_tools()).tools]
            assert tools == ["reset", "act"]
            named = {"action": "hello", "episode_id": opened["episode_id"]}
            assert "hello" in (await client.call_tool("act", named)).content[0].text
            server.kill()
            lost = await client.call_tool("act", named)
    assert lost.is_error
    assert "reward" not in lost.structured_content


async def test_one_client_plays_over_stdio(server_process):
    server = server_process(environments=["maze"])
    command = ["-m", "env_servers", "gateway", "mcp", "--stdio", "--target", server.address]
    async with mcp.Client(
        mcp.StdioServerParameters(command=sys.executable, args=command)
    ) as client:
        tools = {it.name: it for it in (await client.list_tools()).tools}
        assert "episode_id" not in tools["move"].input_schema["properties"]
        for seed in (3, 4):
            await client.call_tool("reset", {"seed": seed})
            played = await client.call_tool("move", {"direction": "up"})
            assert played.structured_content["seq"] == 1


def test_stdio_is_for_one_environment_of_mcp(capsys, server_process):
    server = server_process(environments=["maze", "echo"])
    target = ["--stdio", "--target", server.address]
    assert main(["gateway", "mcp", *target]) == 2
    assert "--stdio serves one environment" in capsys.readouterr().err
    assert main(["gateway", "rest", *target]) == 2
    assert "--stdio is for mcp" in capsys.readouterr().err
