"""Servers that are written with the official SDK, over stdio and over streamable HTTP."""

import contextlib
import socket
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")

import uvicorn

from env_servers.environments.mcp.environment import Mcp
from env_servers.environments.mcp.errors import OversizeMessage, ServerNotStarted
from env_servers.sdk import EnvironmentConfig, ResetOptions
from env_servers.toolkit.tool_calls import write_call
from tests.env_servers.environments.mcp.calculator import make_server

TASKS = """
[[tasks]]
id = 0
instruction = "What is 2.5 times 4?"
solution = [{ tool = "multiply", arguments = { a = 2.5, b = 4 } }]
answer = 10
checks = [{ kind = "answer", number = 10 }, { kind = "result", tool = "last", contains = "10" }]
"""


@contextlib.contextmanager
def on_a_port(application):
    """An application that answers in a thread: its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(application, log_level="error"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def begin(tmp_path, **settings):
    tasks = tmp_path / "tasks.toml"
    tasks.write_text(TASKS, encoding="utf-8")
    values = {"mcp.tasks": str(tasks)} | {f"mcp.{key}": it for key, it in settings.items()}
    config = EnvironmentConfig(None, values)
    environment = Mcp.configured(config)
    episode = environment(environment.load_tasks(config))
    episode.reset(episode.tasks.get("0"), ResetOptions(profile="fixed"))
    return episode


def play(episode):
    """Let the expert play: what it was told, and the last observation."""
    texts = []
    while True:
        last = episode.step(episode.advise_expert(0).action)
        texts.append(last.text)
        if last.terminated:
            return texts, last


@pytest.mark.slow
def test_a_server_of_the_sdk_is_played_over_stdio(tmp_path):
    command = f"{sys.executable} {Path(__file__).with_name('calculator.py')}"
    with contextlib.closing(begin(tmp_path, command=command)) as episode:
        assert "multiply" in [tool.name for tool in episode.toolset.tools]
        texts, last = play(episode)
        assert '"value": 10.0' in texts[0] or '"value":10.0' in texts[0]
        assert (last.reward, last.info["checks"]) == (1.0, [True, True])


@pytest.mark.parametrize("json_response", [True, False])
def test_a_server_of_the_sdk_is_played_over_http(tmp_path, json_response):
    application = make_server().streamable_http_app(json_response=json_response)
    with on_a_port(application) as address:
        with contextlib.closing(begin(tmp_path, url=f"{address}/mcp")) as episode:
            assert not episode.spec.deterministic
            _, last = play(episode)
            assert last.reward == 1.0
        with contextlib.closing(begin(tmp_path, url=f"{address}/mcp")) as episode:
            assert "ERROR | " in episode.step(write_call("last_", {})).text
            with pytest.raises(OversizeMessage):
                episode.step(write_call("flood", {}))
        with pytest.raises(ServerNotStarted):
            begin(tmp_path, url=f"{address}/other")


def test_the_bearer_token_of_an_address_is_sent(tmp_path, monkeypatch):
    seen = []
    application = make_server().streamable_http_app()

    async def noting(scope, receive, send):
        seen.append(dict(scope.get("headers", ())).get(b"authorization"))
        await application(scope, receive, send)

    monkeypatch.setenv("MCP_TEST_TOKEN", "a token")
    with on_a_port(noting) as address:
        begin(tmp_path, url=f"{address}/mcp", token="MCP_TEST_TOKEN").close()
    assert b"Bearer a token" in seen
