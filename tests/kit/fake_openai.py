"""A fake OpenAI-compatible server that behaves as hosted ones do, for tests and benchmarks.

It speaks chat completions, responses and, with a tokenizer, vLLM's completions in token ids. Tests
say what it replies: a text, or the fields of a chat message, or the output items of a response. A
conversation in which a tool call has no result is refused, as OpenAI does. It answers after 50 to
300 ms, refuses now and then with `retry-after`, fails, cuts answers off and hangs; all by a seed,
so that two runs meet the same faults where they ask in the same order. Tests may take it down and
bring it back. In a process of its own:

    python -m tests.kit.fake_openai --port 8000 --faults hosted

or, inside a test, `async with serving(FakeOpenAI()) as url:`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tests.kit.openai_answers import (
    chat_completion,
    chat_pieces,
    load_tokenizer,
    response,
    token_completion,
    unanswered_calls,
)

__all__ = [
    "FAULTLESS",
    "HOSTED",
    "Behaviour",
    "FakeOpenAI",
    "serving",
    "serving_in_thread",
    "text_of",
]

Reply = str | dict[str, Any] | list[dict[str, Any]]
"""A text, fields of a message, or items."""
_REPLY: Final = "Thought:\nI try this.\n\nAction:\nlook around"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How a server behaves: seconds, and shares of its answers."""

    quickest: float = 0.05
    slowest: float = 0.3
    refused: float = 0.0
    """HTTP 429, at once, with `retry-after`."""
    retry_after: float = 1.0
    failed: float = 0.0
    """HTTP 500."""
    truncated: float = 0.0
    """Half of the JSON, as if it were all of it."""
    hung: float = 0.0
    """No answer, ever."""


FAULTLESS: Final = Behaviour()
HOSTED: Final = Behaviour(refused=0.03, failed=0.02, truncated=0.02, hung=0.01)


class FakeOpenAI:
    """One server; `app` serves it. Tests set its attributes."""

    def __init__(
        self,
        behaviour: Behaviour = FAULTLESS,
        reply: Callable[[dict[str, Any]], Reply] = lambda _: _REPLY,
        seed: int = 0,
        model: Path | None = None,
    ) -> None:
        """`model` is the folder of a tokenizer: with it the server speaks token ids, as vLLM."""
        self.behaviour = behaviour
        self.name = "fake"
        """The model that it serves."""
        self.model = model
        self.context_length = 8192
        self.spoil: Callable[[dict[str, Any]], object] = lambda _: None
        """Changes an answer before it is sent."""
        self._tokenizer = None if model is None else load_tokenizer(model)
        self.down = False
        """While set, connections are cut as they come."""
        self.bodies: list[dict[str, Any]] = []
        """What was asked, in the order of arrival."""
        self.answers: Counter[str] = Counter()
        """What was answered: ok, refused, failed, truncated, hung, cut."""
        self._reply = reply
        self._random = random.Random(seed)

    def app(self) -> web.Application:
        """The HTTP interface."""
        app = web.Application(client_max_size=2**26)
        app.add_routes(
            [
                web.post("/v1/chat/completions", self._complete),
                web.post("/v1/responses", self._complete),
                web.post("/v1/completions", self._complete),
                web.post("/tokenize", self._tokenize),
                web.get("/v1/models", self._list_models),
                web.get("/fake/answers", self._tell_answers),
            ]
        )
        return app

    async def _tell_answers(self, _: web.Request) -> web.Response:
        return web.json_response(dict(self.answers))

    def _draw(self) -> str:
        behaviour, at = self.behaviour, self._random.random()
        for fault in ("refused", "failed", "truncated", "hung"):
            at -= getattr(behaviour, fault)
            if at < 0:
                return fault
        return "ok"

    async def _complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        if self.down:
            return self._cut(request)
        self.bodies.append(body)
        if left := unanswered_calls(body):
            error = f"No tool output found for: {', '.join(left)}"
            return web.json_response({"error": {"message": error}}, status=400)
        fate = self._draw()
        behaviour = self.behaviour
        if fate in ("refused", "hung"):
            self.answers[fate] += 1
        if fate == "refused":
            wait = {"retry-after": f"{behaviour.retry_after:g}"}
            error = {"error": {"message": "Rate limit reached", "type": "tokens"}}
            return web.json_response(error, status=429, headers=wait)
        if fate == "hung":
            await asyncio.Event().wait()
        await asyncio.sleep(self._random.uniform(behaviour.quickest, behaviour.slowest))
        if self.down:
            return self._cut(request)
        self.answers[fate] += 1
        if fate == "failed":
            error = {"error": {"message": "The server had an error", "type": "server_error"}}
            return web.json_response(error, status=500)
        answer = self._answer(request.path, body)
        self.spoil(answer)
        if body.get("stream"):
            return await self._stream(request, answer, cut=fate == "truncated")
        text = json.dumps(answer)
        if fate == "truncated":
            text = text[: len(text) // 2]
        return web.Response(text=text, content_type="application/json")

    async def _stream(
        self, request: web.Request, answer: dict[str, Any], *, cut: bool
    ) -> web.Response:
        """Send a chat completion in pieces, some of them comments."""
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        pieces = chat_pieces(answer)
        for piece in pieces[: len(pieces) // 2] if cut else pieces:
            await stream.write(b": keep alive\r\n\r\n")
            await stream.write(b"data: " + json.dumps(piece).encode() + b"\n\n")
            await asyncio.sleep(0)
        if not cut:
            await stream.write(b"data: [DONE]\n\n")
        await stream.write_eof()
        return stream  # type: ignore[return-value]

    def _cut(self, request: web.Request) -> web.Response:
        self.answers["cut"] += 1
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    def _answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        reply = self._reply(body)
        if path.endswith("/responses"):
            return response(body, reply)
        if path.endswith("/chat/completions"):
            return chat_completion(body, reply)
        assert isinstance(reply, str) and self._tokenizer is not None
        return token_completion(body, self._tokenizer.encode(reply).ids, reply)

    async def _list_models(self, _: web.Request) -> web.Response:
        card = {"id": self.name, "object": "model", "root": str(self.model)}
        limit = {"max_model_len": self.context_length}
        return web.json_response({"object": "list", "data": [card | limit]})

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert self._tokenizer is not None
        ids = self._tokenizer.encode(body["prompt"], add_special_tokens=False).ids
        return web.json_response({"count": len(ids), "tokens": ids})


@contextmanager
def serving_in_thread(server: FakeOpenAI) -> Iterator[str]:
    """Serve beside a command under test, which has a loop of its own."""
    loop, stop, started = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
    urls: list[str] = []

    async def serve() -> None:
        async with serving(server) as url:
            urls.append(url)
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        if not started.wait(20):
            raise TimeoutError("the server did not start")
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def text_of(message: dict[str, Any]) -> str:
    """Return the text of a request's message, which may come in parts."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@asynccontextmanager
async def serving(server: FakeOpenAI, port: int = 0) -> AsyncGenerator[str]:
    """Serve on a loopback port; gives the base address, /v1 included."""
    # Hanging answers end when the client leaves, not when the server wants to go.
    runner = web.AppRunner(server.app(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def _serve_forever(server: FakeOpenAI, port: int) -> None:
    async with serving(server, port) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Serve until killed; prints the address once it can be asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.fake_openai")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--faults", choices=("none", "hosted"), default="hosted")
    options = parser.parse_args()
    behaviour = HOSTED if options.faults == "hosted" else FAULTLESS
    asyncio.run(_serve_forever(FakeOpenAI(behaviour), options.port))


if __name__ == "__main__":
    main()
