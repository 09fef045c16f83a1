"""A chat completions server for tests: it records requests and plays scripted answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

KEY = "sk-right"
Answer = Callable[[dict[str, Any]], web.StreamResponse | dict[str, Any]]


def completion(content: str | None = "Action:\nmove", **fields: Any) -> dict[str, Any]:
    """A reply as servers give it; `fields` go to the message or, if known there, to the choice."""
    finish = fields.pop("finish_reason", "stop")
    return {
        "id": "cmpl-1",
        "object": "chat.completion",
        "model": "tiny-2024",
        "system_fingerprint": "fp_1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **fields},
                "finish_reason": finish,
            }
        ],
        "usage": {
            "prompt_tokens": 1000,
            "completion_tokens": 100,
            "total_tokens": 1100,
            "prompt_tokens_details": {"cached_tokens": 400},
        },
    }


class ChatServer:
    """POST /v1/chat/completions."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer: Answer = answer or (lambda _body: completion())
        self.bodies: list[dict[str, Any]] = []
        self.running = 0
        self.most_running = 0
        self.gate: asyncio.Event | None = None
        """When set, answers wait for it."""
        self.break_next = False
        """When set, the next answer breaks off."""
        self.url = ""
        self._arrived = asyncio.Condition()

    async def until_asked(self, times: int) -> None:
        """Return once this many requests have arrived in all."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.bodies) >= times)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            error = {"message": "Incorrect API key: sk-wrong", "code": "invalid_api_key"}
            return web.json_response({"error": error}, status=401)
        body = await request.json()
        async with self._arrived:
            self.bodies.append(body)
            self._arrived.notify_all()
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if self.gate is not None:
                await self.gate.wait()
            answer = self.answer(body)
        finally:
            self.running -= 1
        if self.break_next:
            self.break_next = False
            assert request.transport is not None
            request.transport.abort()
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)


@asynccontextmanager
async def serving(answer: Answer | None = None) -> AsyncIterator[ChatServer]:
    """A running server on a loopback port."""
    server = ChatServer(answer)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.handle)
    async with TestServer(app) as running:
        server.url = str(running.make_url("/v1"))
        yield server
