"""What the HTTP interface of the embedded engine costs a reply, in the server and in its client.

    python -m benchmark.policy.engine_http --model smollm2

An engine that computes nothing answers every request after a while with tokens, logprobs and
entropies: behind the real server in a process of its own, spoken to by the real policy; and, for
what conversations cost by themselves, called by a session of the same kind without HTTP between.
What is reported is CPU time, which a busy machine moves less than time; the two take turns.

Owns the measurement; prints one table and writes JSON.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, Final

import tyro
from aiohttp import web
from rich.console import Console
from rich.table import Table

from agent_runtime.conversation import Message, Role
from agent_runtime.engine.generation import GenerationRequest, GenerationResult
from agent_runtime.engine.http_server import EngineHttpServer
from agent_runtime.event_loop import run_event_loop
from agent_runtime.huggingface import ModelTokenizer, load_renderer
from agent_runtime.ledger import VersionSpan
from agent_runtime.models import resolve_model
from agent_runtime.policies import PolicyConfig, Sampling
from agent_runtime.policies.base import EpisodeContext, PolicySession
from agent_runtime.policies.sglang import SGLangPolicy
from agent_runtime.policies.token_session import TokenSession
from agent_runtime.sampled_reply import SampledReply
from agent_runtime.sampling import FinishReason
from agentgym.env.v1 import types_pb2
from benchmark.manifest import read_manifest

__all__ = ["Conversations", "main"]

RESULT: Final = Path(__file__).parent.parent / "results" / "policy" / "engine_http.json"
_PACKAGES: Final = ("agentgym-grpc", "aiohttp", "orjson", "tokenizers", "uvloop")
_VERSION: Final = "weights-0"
_CONTEXT: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """What is said, by how many at once."""

    model: str = "smollm2"
    """A folder with tokenizer and chat template, or a known model; its weights are not read."""
    live: tuple[int, ...] = (256, 1024)
    """Conversations at once."""
    turns: int = 12
    words: int = 800
    """Of the first message."""
    reply_tokens: int = 16
    seconds: float = 0.3
    """From request to answer in the engine."""
    repeats: int = 3
    out: Path = RESULT


class _Engine:
    """Answers as an `EngineThread` does, without a model."""

    def __init__(self, options: Conversations) -> None:
        self.answered = 0
        self._options = options
        self._engine = SimpleNamespace(
            context_length=_CONTEXT, slots=max(options.live), backend=SimpleNamespace(name="none")
        )
        self._engine.running = self._engine.waiting = self._engine.cache_usage = 0
        self._engine.version = _VERSION

    async def ready(self) -> Any:
        return self._engine

    async def call(self, work: Callable[[Any], Any]) -> Any:
        return work(self._engine)

    async def generate(self, request: GenerationRequest, **_: Any) -> GenerationResult:
        await asyncio.sleep(self._options.seconds)
        self.answered += 1
        count = self._options.reply_tokens
        return GenerationResult(
            ids=[1000 + (self.answered + at) % 5000 for at in range(count)],
            logprobs=[-0.123456789 * (at + 1) for at in range(count)],
            entropies=[1.23456789 * (at + 1) for at in range(count)],
            finish=FinishReason.LENGTH,
            versions=[VersionSpan(0, count, _VERSION)],
            prompt_tokens=len(request.prompt),
            cached_tokens=0,
        )


class _DirectSession(TokenSession):
    """A conversation with the engine in this process."""

    engine: _Engine

    async def sample(self, prompt: list[int], budget: int, seed: int) -> SampledReply:
        result = await self.engine.generate(
            GenerationRequest(prompt=prompt, sampling=Sampling(), seed=seed)
        )
        return SampledReply(
            ids=result.ids,
            logprobs=list(result.logprobs),
            versions=result.versions,
            finish=result.finish,
            cached=0,
            entropies=result.entropies,
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    options = tyro.cli(Conversations, args=argv, prog="python -m benchmark.policy.engine_http")
    runs: dict[int, list[dict[str, float]]] = {live: [] for live in options.live}
    for live in options.live:
        for _ in range(options.repeats):
            runs[live].append(run_event_loop(_measure(options, live)))
    table = Table("CPU of a reply, ms", *(f"{live:,} live" for live in options.live))
    for name in runs[options.live[0]][0]:
        middles = (median(each[name] for each in measured) for measured in runs.values())
        table.add_row(name, *(f"{middle:,.3f}" for middle in middles))
    Console().print(table)
    told = {**asdict(options), "model": Path(options.model).name, "out": ""}
    result = {"options": told, "runs": runs, "manifest": asdict(read_manifest(_PACKAGES))}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    return 0


async def _measure(options: Conversations, live: int) -> dict[str, float]:
    """Return milliseconds of CPU per reply, and how long prompts are."""
    folder = resolve_model(options.model)
    sampling = Sampling(max_new_tokens=options.reply_tokens)
    renderer = load_renderer(folder, None, None)
    engine = _Engine(options)

    def direct(_: str) -> PolicySession:
        session = _DirectSession(renderer, sampling, _CONTEXT)
        session.engine = engine
        return session

    alone, _ = await _talk_all(options, live, direct)
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(options, folder, theirs), daemon=True
    )
    process.start()
    policy = SGLangPolicy(
        f"http://127.0.0.1:{await asyncio.to_thread(ours.recv)}", PolicyConfig(sampling=sampling)
    )
    await policy.start()

    def served(name: str) -> PolicySession:
        nobody: Any = None  # a session that does not stream asks nothing of the live episode
        context = EpisodeContext(
            episode_id=name,
            environment="",
            item_id="",
            action_format=types_pb2.ACTION_FORMAT_REACT,
            live=nobody,
        )
        return policy.open(context)

    client, prompt = await _talk_all(options, live, served)
    await policy.close()
    ours.send("stop")
    server = 1000 * await asyncio.to_thread(ours.recv)
    await asyncio.to_thread(process.join)
    return {
        "conversation alone": alone,
        "conversation and client": client,
        "client": client - alone,
        "server": server,
        "prompt tokens": prompt,
    }


async def _talk_all(
    options: Conversations, live: int, begin: Callable[[str], PolicySession]
) -> tuple[float, float]:
    before = time.process_time()
    talks = (_talk(options, begin(f"episode-{number}"), number) for number in range(live))
    prompts = await asyncio.gather(*talks)
    seconds = time.process_time() - before
    return 1000 * seconds / (live * options.turns), sum(prompts) / live


async def _talk(options: Conversations, session: PolicySession, number: int) -> float:
    """Hold one conversation; return the tokens of its prompts on average."""
    messages = [
        Message(Role.USER, "door " * options.words),
        Message(Role.ASSISTANT, "OK."),
        Message(Role.USER, f"You stand before door {number}."),
    ]
    prompts = 0
    for turn in range(options.turns):
        reply = await session.reply(messages, turn=turn, seed=turn)
        prompts += reply.prompt_tokens
        messages += [
            Message(Role.ASSISTANT, reply.text, sampled=True),
            Message(Role.USER, "The door is closed. You see a wall and another door."),
        ]
    await session.close()
    return prompts / options.turns


def _serve(options: Conversations, folder: str, told: Connection) -> None:
    run_event_loop(_serve_until_told(options, folder, told))


async def _serve_until_told(options: Conversations, folder: str, told: Connection) -> None:
    """Serve; tell the port, then seconds of CPU per reply."""
    engine: Any = _Engine(options)
    server = EngineHttpServer(engine, Path(folder), ModelTokenizer(folder), _VERSION)
    runner = web.AppRunner(
        server.app(), access_log=None, handler_cancellation=True, shutdown_timeout=1.0
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=16_384).start()
    before = time.process_time()
    told.send(runner.addresses[0][1])
    await asyncio.to_thread(told.recv)
    told.send((time.process_time() - before) / max(1, engine.answered))
    await runner.cleanup()


if __name__ == "__main__":
    raise SystemExit(main())
