"""What is fuzzed, by name: each target takes one input and lets pass only errors of its kind."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import orjson
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import PolicyError
from agent_runtime.ledger import TokenLedger
from agent_runtime.openai.answer import ToolResult
from agent_runtime.openai.chat import ChatApi
from agent_runtime.openai.responses import ResponsesApi
from agent_runtime.openai.token_ids import read_completion
from agent_runtime.policies.base import EpisodeContext, LiveEpisode
from agent_runtime.policies.config import OpenAIOptions, PolicyConfig
from agent_runtime.policies.openai import OpenAIPolicy
from agent_runtime.request_retry import RequestRetry
from agent_runtime.sampling import Sampling
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.sdk import ActionFormat, EnvironmentConfig
from env_servers.server import EnvironmentServer, ServerConfig, ServerLimits
from env_servers.server.inputs import Action, Reply, ToolCall
from env_servers.server.instance import LoadedEnvironment, ResetSpec
from env_servers.server.stream import Stream
from orchestrator.audit import audit_run
from orchestrator.conversations import read_conversations
from orchestrator.errors import EntryUnreadable, OrchestratorError
from orchestrator.manifest import MANIFEST_FILE
from orchestrator.records import RecordDamaged, decode, encode
from orchestrator.run_folder import DATABASE_FILE
from orchestrator.store import RunReader, RunStore
from tests.fuzz.inputs import broken, damaged, json_texts, json_values, messages, texts
from tests.orchestrator.records import build_episode, build_manifest, build_session

__all__ = ["TARGETS"]

TARGETS: dict[str, Callable[..., None]] = {}
"""Hypothesis tests by name; `hypothesis.fuzz_one_input` of each takes bytes."""

_FEW = settings(
    max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
"""For the suite; a time budget draws its own inputs."""


def target(**inputs: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
    """Make a target of a function, under its name."""

    def add(function: Callable[..., None]) -> None:
        TARGETS[function.__name__] = _FEW(given(**inputs)(function))

    return add


@functools.cache
def _runner() -> asyncio.Runner:
    return asyncio.Runner()


def _run(work: Coroutine[Any, Any, None]) -> None:
    _runner().run(work)


# ---------------------------------------------------------------------- what clients send

_IDS = st.sampled_from(["a", "b", "c", "", "x" * 200])
_COMMANDS = messages(
    pb.InteractRequest,
    episode_id=_IDS,
    from_episode_id=_IDS,
    environment=st.sampled_from(["echo", "echo", "", "nosuch"]),
    item_id=st.sampled_from(["echo_1000000", "1000000", "", "echo_x", "9" * 3000]),
    seq=st.integers(0, 4) | st.just(2**64 - 1),
    lease_ms=st.sampled_from([0, 1, 2**32 - 1]),
    deadline_ms=st.sampled_from([0, 60_000, 2**32 - 1]),
)


@target(
    requests=st.lists(
        _COMMANDS.map(lambda request: request.SerializeToString())
        | damaged(_COMMANDS.map(lambda request: request.SerializeToString()))
        | st.binary(max_size=300),
        max_size=4,
    )
)
def commands(requests: list[bytes]) -> None:
    """Every command of whatever requests can be read is answered once, journals included."""
    _run(_answer_all(requests))


async def _answer_all(requests: list[bytes]) -> None:
    limits = ServerLimits(max_episodes=50, step_limit=5.0)
    server = EnvironmentServer(ServerConfig(environments=("echo",), limits=limits))
    sent: list[pb.InteractResponse] = []

    async def send(response: pb.InteractResponse) -> None:
        sent.append(pb.InteractResponse.FromString(response.SerializeToString()))

    stream = Stream(
        send,
        client="fuzz",
        account=server.table.admission.account("fuzz"),
        max_items=16,
        max_in_flight=100,
        max_bytes=limits.max_outbox_bytes,
    )
    asked = 0
    try:
        for data in requests:
            with contextlib.suppress(DecodeError):
                request = pb.InteractRequest.FromString(data)
                asked += len(request.commands)
                await server.handler.handle_message(stream, request)
        async with asyncio.timeout(20):
            await stream.finish()
    finally:
        server.handler.close()
    answered = sum(len(response.events) for response in sent)
    assert answered == asked, f"{asked} commands had {answered} answers"


# ---------------------------------------------------------------------- what agents write

_GAMES = ("textcraft", "wordle", "maze", "movie", "todo", "academia", "weather", "sheet")


@functools.cache
def _game(name: str) -> tuple[LoadedEnvironment, str]:
    loaded = LoadedEnvironment(name, EnvironmentConfig())
    return loaded, loaded.tasks.item_ids("train", 0, 1)[0]


_CALLS = json_texts(
    st.fixed_dictionaries(
        {"thought": texts(), "function_name": texts(), "arguments": json_values()}
    )
).map(lambda data: data.decode(errors="replace"))
_INPUTS = st.one_of(
    st.builds(Action, texts()),
    st.builds(Reply, st.sampled_from(list(ActionFormat)), texts()),
    st.builds(Reply, st.just(ActionFormat.FUNCTION_CALLING), _CALLS),
    st.builds(ToolCall, texts(), _CALLS),
)


@target(name=st.sampled_from(_GAMES), inputs=st.lists(_INPUTS, max_size=4))
def replies(name: str, inputs: list[Action | Reply | ToolCall]) -> None:
    """Whatever a model writes, its episode goes on, and shows a text that UTF-8 can carry."""
    loaded, item_id = _game(name)
    formats = list(loaded.spec.conversation_starts)
    reset = ResetSpec(name, item_id, 1, loaded.spec.profiles[0], formats[0], {})
    instance, _ = loaded.open(reset)
    try:
        for step_input in inputs:
            if isinstance(step_input, Reply) and step_input.action_format not in formats:
                continue
            observation = instance.step(step_input).observation
            observation.text.encode()
            if observation.terminated or observation.truncated:
                break
    finally:
        instance.environment.close()


# ---------------------------------------------------------------------- what model servers answer

_COMPLETION = {
    "id": "1",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {
                "role": "assistant",
                "content": "Action: up",
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 1},
    },
}


_CONTEXT = EpisodeContext(
    episode_id="1",
    environment="echo",
    item_id="echo_1",
    action_format=types_pb2.ACTION_FORMAT_FUNCTION_CALLING,
    live=cast("LiveEpisode", None),
)


@functools.cache
def _model_server() -> dict[str, Any]:
    """A server on loopback that answers with the bytes under `answer`, whatever is asked."""
    state: dict[str, Any] = {"answer": b""}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length:")
            )
            await reader.readexactly(length)
            writer.write(state["answer"])
            await writer.drain()
        writer.close()

    async def start() -> None:
        state["server"] = await asyncio.start_server(answer, "127.0.0.1", 0)

    _run(start())
    port = state["server"].sockets[0].getsockname()[1]
    state["url"] = f"http://127.0.0.1:{port}/v1"
    return state


_HEADERS = st.lists(
    st.tuples(
        st.sampled_from([b"Retry-After", b"retry-after-ms", b"Content-Type", b"Content-Encoding",
                         b"Transfer-Encoding", b"Content-Length", b"Location", b"X"]),
        st.sampled_from([b"0", b"1e9", b"9" * 400, b"Fri, 31 Dec 9999 23:59:59 GMT", b"gzip",
                         b"deflate", b"chunked", b"-1", b"text/html", b"", b"\xff"]),
    ),
    max_size=2,
)  # fmt: skip


@st.composite
def _responses(draw: st.DrawFn) -> bytes:
    status = draw(st.sampled_from([200, 200, 200, 200, 204, 301, 400, 401, 404, 429, 500, 503]))
    body = draw(json_texts(broken(_COMPLETION)))
    headers = [(b"Content-Length", b"%d" % len(body)), (b"Connection", b"close")]
    headers += draw(_HEADERS)
    lines = [b"HTTP/1.1 %d X" % status, *(name + b": " + value for name, value in headers)]
    return b"\r\n".join([*lines, b"", body])


@target(answer=_responses() | damaged(_responses()) | st.binary(max_size=200))
def completions(answer: bytes) -> None:
    """Whatever a model server answers becomes a reply, or fails the request as the policy's."""
    server = _model_server()
    server["answer"] = answer
    _run(_ask(server["url"]))


async def _ask(url: str) -> None:
    once = RequestRetry(seconds=0)
    config = PolicyConfig(
        openai=OpenAIOptions(base_url=url), request_timeout=5.0, request_retry=once
    )
    policy = OpenAIPolicy("m", config, {})
    await policy.start()
    try:
        session = policy.open(_CONTEXT)
        with contextlib.suppress(PolicyError):
            async with asyncio.timeout(20):
                completion = await session.reply([Message(Role.USER, "hello")], turn=0, seed=1)
            completion.text.encode(errors="surrogatepass")
            assert 0 <= completion.prompt_tokens < 2**63
            assert 0 <= completion.completion_tokens < 2**63
    finally:
        await policy.close()


_TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
_RESPONSE = {
    "model": "m",
    "status": "completed",
    "error": {"code": "server_error", "message": "m"},
    "incomplete_details": {"reason": "max_output_tokens"},
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}], "content": []},
        {"type": "message", "content": [{"type": "output_text", "text": "up"}], "phase": "x"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    ],
    "usage": {
        "input_tokens": 3,
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 1},
    },
}
_SAMPLED = {
    "model": "m",
    "choices": [
        {
            "token_ids": [1, 2],
            "prompt_token_ids": [3],
            "logprobs": {"token_logprobs": [-0.5, -0.5]},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2},
}


@target(body=broken(_COMPLETION) | broken(_RESPONSE), reasoning=st.booleans())
def read_answers(body: Any, reasoning: bool) -> None:
    """An answer of either API is refused, or gives an action and a next request."""
    assume(isinstance(body, dict))
    for kind in (ChatApi, ResponsesApi):
        api = kind("m", Sampling(), OpenAIOptions(send_reasoning=reasoning), _TOOLS)
        with contextlib.suppress(PolicyError):
            answer = api.read(body, 0)
            assert all(isinstance(call.as_action(answer.text), str) for call in answer.calls)
            results = [ToolResult(call, "moved") for call in answer.calls]
            orjson.dumps(api.request([answer, *results], 1))


@target(body=broken(_SAMPLED))
def read_samples(body: Any) -> None:
    """Token ids and logprobs are refused, or can stand in a ledger."""
    assume(isinstance(body, dict))
    with contextlib.suppress(PolicyError):
        reply = read_completion(body, [3]).reply
        ledger = TokenLedger()
        ledger.append_sampled(reply.ids, reply.logprobs, generation=0, versions=reply.versions)


# ---------------------------------------------------------------------- what lies in run folders


@functools.cache
def _run_folder() -> dict[str, bytes]:
    """The files of a sound, closed run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "run")
        with RunStore.create(folder, build_manifest(), build_session()) as store:
            store.append_all(build_episode(f"maze_{at}") for at in range(3))
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@target(data=damaged(st.builds(lambda: encode(build_episode()))) | st.binary(max_size=300))
def records(data: bytes) -> None:
    """A damaged record is said to be damaged."""
    with contextlib.suppress(RecordDamaged):
        decode(data)


@target(data=st.data())
def run_folders(data: st.DataObject) -> None:
    """A damaged run is refused, or found to be damaged, or sound; looking changes nothing."""
    files = dict(_run_folder())
    manifest = json.loads(files[MANIFEST_FILE])
    files[MANIFEST_FILE] = data.draw(
        st.just(files[MANIFEST_FILE]) | json_texts(broken(manifest)), "manifest"
    )
    files[DATABASE_FILE] = data.draw(
        st.just(files[DATABASE_FILE]) | damaged(st.just(files[DATABASE_FILE])), "database"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        with contextlib.suppress(OrchestratorError), RunReader.open(Path(folder)) as run:
            audit_run(run)
            list(run.episodes())
        assert Path(folder, MANIFEST_FILE).read_bytes() == files[MANIFEST_FILE]


@target(
    content=json_texts(
        broken(
            [
                {
                    "item_id": "maze_1",
                    "conversations": [
                        {"from": "human", "loss": None, "value": "go"},
                        {"from": "gpt", "loss": True, "value": "Action: up"},
                    ],
                }
            ]
        )
    )
)
def conversation_files(content: bytes) -> None:
    """A file of conversations that cannot be read names the entry that is at fault."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "maze_train.json")
        path.write_bytes(content)
        with contextlib.suppress(EntryUnreadable):
            list(read_conversations(path))
