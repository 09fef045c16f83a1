"""A stand-in for an SGLang server: the HTTP interface of 0.5.x over a made-up model.

It follows the facts that a client relies on: ids in and out, [logprob, id, text] rows, the stop id
within output_ids, weight versions by span, 400 for prompts beyond the context, 503 while starting
or full, abort by id prefix that answers the pending request with its partial ids. The "model" is a
function of prompt, seed and position; a decode step takes `step_seconds`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer


class SGLangServer:
    """State of the stand-in; tests set its attributes."""

    def __init__(self, tokenizer_path: str, vocabulary: list[int]) -> None:
        self.tokenizer_path = tokenizer_path
        self.vocabulary = vocabulary
        self.script: list[list[int]] = []
        """Replies to give, one a request, instead of what the model would say."""
        self.context_length: int | None = 512
        self.told_context_length: int | None = 512
        self.step_seconds = 0.0
        self.version = "default"
        self.version_after: tuple[int, str] | None = None
        """Update the weights before this output token of a request."""
        self.healthy = True
        self.queue_full = False
        self.edit: Any = None
        """Changes a reply before it is sent."""
        self.requests: list[dict[str, Any]] = []
        self.routing_keys: list[str | None] = []
        self.aborted: list[str] = []
        self.url = ""
        self._running: dict[str, asyncio.Event] = {}
        self.started = asyncio.Event()
        self.abort_seen = asyncio.Event()

    async def health(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self.healthy else 503)

    async def model_info(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "model_path": "/models/tiny",
                "served_model_name": "tiny",
                "tokenizer_path": self.tokenizer_path,
                "is_generation": True,
                "weight_version": self.version,
            }
        )

    async def server_info(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"context_length": self.told_context_length, "version": "0.5.23", "internal_states": []}
        )

    async def abort_request(self, request: web.Request) -> web.Response:
        prefix = (await request.json())["rid"]
        self.aborted.append(prefix)
        for rid, event in self._running.items():
            if prefix and rid.startswith(prefix):
                event.set()
        self.abort_seen.set()
        return web.Response()

    async def generate(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        self.routing_keys.append(request.headers.get("X-SMG-Routing-Key"))
        prompt, params = body["input_ids"], body["sampling_params"]
        if self.queue_full:
            return web.json_response({"detail": "The request queue is full."}, status=503)
        if self.context_length is not None and len(prompt) >= self.context_length:
            return _refused(
                f"The input ({len(prompt)} tokens) is longer than the model's context length "
                f"({self.context_length} tokens)."
            )
        total = len(prompt) + params["max_new_tokens"]
        if self.context_length is not None and total > self.context_length:
            return _refused(
                "Requested token count exceeds the model's maximum context length of "
                f"{self.context_length} tokens. You requested a total of {total} tokens."
            )
        reply = await self._sample(body["rid"], prompt, params)
        return web.json_response(self.edit(reply) if self.edit else reply)

    async def _sample(self, rid: str, prompt: list[int], params: dict[str, Any]) -> dict[str, Any]:
        aborted = self._running.setdefault(rid, asyncio.Event())
        self.started.set()
        wanted = self.script.pop(0) if self.script else None
        rng = random.Random(f"{prompt} {params['sampling_seed']}")
        ids: list[int] = []
        rows: list[list[Any]] = []
        spans: list[dict[str, Any]] = []
        finish: dict[str, Any] | None = None
        while finish is None:
            if self.version_after is not None and len(ids) == self.version_after[0]:
                self.version = self.version_after[1]
            if self.step_seconds:
                await asyncio.sleep(self.step_seconds)
            if aborted.is_set():
                finish = {"type": "abort", "message": "Aborted", "status_code": None}
                break
            done = wanted is not None and len(ids) == len(wanted)
            chosen = wanted[len(ids)] if wanted and not done else rng.choice(self.vocabulary)
            ids.append(chosen)
            rows.append([-rng.random(), chosen, None])
            if spans and spans[-1]["version"] == self.version:
                spans[-1]["end"] = len(ids)
            else:
                spans.append({"version": self.version, "start": len(ids) - 1, "end": len(ids)})
            if chosen in params.get("stop_token_ids", ()):
                finish = {"type": "stop", "matched": chosen}
            elif len(ids) == params["max_new_tokens"]:
                finish = {"type": "length", "length": len(ids)}
        del self._running[rid]
        meta = {
            "id": rid,
            "finish_reason": finish,
            "prompt_tokens": len(prompt),
            "completion_tokens": len(ids),
            "cached_tokens": max(0, len(prompt) - 4),
            "weight_version": self.version,
            "weight_versions": spans or [{"version": self.version, "start": 0, "end": 0}],
            "output_token_logprobs": rows,
            "num_retractions": 0,
        }
        return {"text": "text of the server is not used", "output_ids": ids, "meta_info": meta}


def _refused(message: str) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=400)


@asynccontextmanager
async def serving(server: SGLangServer) -> AsyncIterator[SGLangServer]:
    """Run the stand-in on a loopback port."""
    app = web.Application()
    app.router.add_get("/health", server.health)
    app.router.add_get("/model_info", server.model_info)
    app.router.add_get("/server_info", server.server_info)
    app.router.add_post("/abort_request", server.abort_request)
    app.router.add_post("/generate", server.generate)
    async with TestServer(app) as running:
        server.url = str(running.make_url("")).rstrip("/")
        yield server
