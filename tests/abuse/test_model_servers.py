"""A model server cannot take the memory of whoever asks it, nor make it wait for ever."""

import asyncio
import json
import resource
import sys
import zlib
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from agent_runtime.endpoint import error_for
from tests.agent_runtime import tiny_tokenizers as tiny
from tests.kit.fake_sglang import FakeModel, FakeSGLang

MIB = 1024 * 1024
_MEMORY = 1024 * MIB
"""Address space of a player; it needs some 300 MiB to start."""
_SECONDS = 60

_PLAYER = """
import asyncio, sys
from agent_runtime.conversation import Message, Role
from agent_runtime.errors import PolicyError
from agent_runtime.policies import OpenAIOptions, PolicyConfig, make_policy
from tests.agent_runtime.policies.live_episode import episode_context

async def main():
    kind, url = sys.argv[1:]
    config = PolicyConfig(openai=OpenAIOptions(base_url=url + "/v1"))
    policy = make_policy(f"sglang:{url}" if kind == "sglang" else "openai:tiny", config)
    await policy.start()
    said = ((Role.USER, "Play."), (Role.ASSISTANT, "Ok."), (Role.USER, "Go."))
    conversation = [Message(role, text) for role, text in said]
    try:
        reply = await policy.open(episode_context()).reply(conversation, turn=0, seed=1)
        print("reply", len(reply.text))
    except PolicyError as error:
        print(error.reason, error)
    await policy.close()

asyncio.run(main())
"""


async def answer_bomb(_: web.Request) -> web.Response:
    """4 MiB that gzip unpacks to 4 GiB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = b" " * MIB
    start, block = (packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    return web.Response(body=start + block * 4095, headers=headers)


async def answer_without_end(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    piece = b" " * MIB
    while True:
        await response.write(piece)


async def answer_error_without_end(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(status=400)
    await response.prepare(request)
    piece = b"no " * MIB
    while True:
        await response.write(piece)


async def play_against(app: web.Application, kind: str) -> str:
    """What a player in a process of little memory says of a server."""
    async with TestServer(app) as server:
        player = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _PLAYER, kind, str(server.make_url("")).rstrip("/")),
            stdout=asyncio.subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY)),
        )
        try:
            async with asyncio.timeout(_SECONDS):
                output, _ = await player.communicate()
        finally:
            if player.returncode is None:
                player.kill()
    return output.decode()


@pytest.mark.parametrize("kind", ["openai", "sglang"])
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answer_bomb, "POLICY_MISBEHAVED the reply is longer than 16 MiB"),
        (answer_without_end, "POLICY_MISBEHAVED the reply is longer than 16 MiB"),
        (answer_error_without_end, "POLICY_REJECTED HTTP 400: no no"),
    ],
)
async def test_a_reply_that_never_ends_is_given_up_at_a_size(kind, answer, said, tmp_path: Path):
    """A gzip bomb once took a run above 3 GB, an endless body 1.1 GB."""
    app = web.Application()
    if kind == "sglang":
        app = FakeSGLang(FakeModel(model_path=str(tiny.chatml(tmp_path)))).app()
        routes = [route for route in app.router.routes() if route.resource is not None]
        generate = next(it for it in routes if it.resource.canonical == "/generate")
        generate._handler = answer
    else:
        app.router.add_post("/v1/chat/completions", answer)
    assert (await play_against(app, kind)).startswith(said)


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "100000000"},
        {"Retry-After": "9" * 400},
        {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"},
        {"retry-after-ms": "1e300"},
    ],
)
def test_no_server_can_ask_to_be_left_alone_for_ever(headers):
    assert error_for(429, json.dumps({"error": "later"}), headers).retry_after == 300.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "1.5"}, 1.5),
        ({"retry-after-ms": "20", "Retry-After": "1"}, 0.02),
        ({"retry-after-ms": "soon", "Retry-After": "2"}, 2.0),
        ({"Retry-After": "-5"}, 0.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "a while"}, None),
        ({}, None),
    ],
)
def test_the_wait_that_a_server_asks_for_is_read_in_each_of_its_forms(headers, seconds):
    assert error_for(429, "", headers).retry_after == seconds
