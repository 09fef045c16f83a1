"""A fake SGLang engine: its HTTP interface over a made-up model, for tests and load tests.

It answers as SGLang 0.5.23 does (tests compare it with the real server, field by field), by a clock
of decode steps: every `step_seconds` each running request gains one token, however many run, as in
an engine that is bound by its batch. The "model" is a hash of seed and position, so a reply that is
resumed half-way goes on as it would have; tests may script replies and spoil answers. It holds
10,000 requests in one process:

    python -m tests.kit.fake_sglang --model FOLDER --port 30000

or, inside a test, `async with serving(FakeSGLang(FakeModel(model_path=FOLDER))) as url:`.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import math
import time
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from tokenizers import Tokenizer

__all__ = ["FakeModel", "FakeSGLang", "serving"]

_BLOCK = 16
"""Tokens per entry of the prefix cache; the real one is exact to a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeModel:
    """What the made-up model is like."""

    model_path: str
    """Folder with the tokenizer."""
    name: str = ""
    """What it is served as; empty = its folder."""
    step_seconds: float = 0.0
    """Time of one decode step for the whole batch; 0 = as fast as possible."""
    reply_tokens: int = 96
    """Tokens of a reply, before its stop token; requests may ask for less. 0 = as many as asked."""
    vocabulary: Sequence[int] = ()
    """Ids that are sampled; empty = all of the tokenizer's but the special ones."""
    context_length: int = 32_768
    cache_tokens: int = 100_000_000
    max_running: int = 4096
    max_queued: int | None = None
    """Requests that may wait; more are refused. None = no limit."""
    version: str = "default"
    weights_seconds: float = 0.0
    """Time that loading weights takes."""
    keep_requests: bool = True
    """Whether `FakeSGLang.requests` fills; not in load tests, whose prompts are large."""


@dataclass(slots=True, eq=False)
class _Request:
    rid: str
    prompt: list[int]
    params: dict[str, Any]
    limit: int
    """Tokens it may sample."""
    done: asyncio.Future[None]
    script: list[int] | None = None
    """Ids to begin with instead of the model's."""
    cache_salt: str = ""
    """Prefixes are shared between requests of the same salt only."""
    cached: int = 0
    started: int = -1
    """Step at which its first token was due; -1 = it waits."""
    length: int = 0
    """Tokens that it has by now."""
    spans: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    finish: dict[str, Any] | None = None
    retractions: int = 0
    changed: asyncio.Event | None = None
    """Set at every token of a streamed request."""
    arrived: float = field(default_factory=time.perf_counter)

    @property
    def stop_ids(self) -> Sequence[int]:
        return self.params.get("stop_token_ids") or ()


@dataclass(slots=True)
class _IdleTime:
    """The time in which no request runs."""

    before: float = 0.0
    since: float | None = field(default_factory=time.perf_counter)
    """None = some run now."""

    @property
    def seconds(self) -> float:
        """All of it so far."""
        return self.before + (0.0 if self.since is None else time.perf_counter() - self.since)

    def end(self) -> None:
        """Note that a request runs."""
        self.before, self.since = self.seconds, None


class FakeSGLang:
    """One engine; `app` serves it. Tests set its attributes."""

    def __init__(self, model: FakeModel) -> None:
        self.model = model
        self.version = model.version
        self.model_path = model.model_path
        self.step_seconds = model.step_seconds
        self.context_length: int | None = model.context_length
        """Prompts beyond it are refused; None = no limit."""
        self.told_context_length: int | None = None
        """What it says that the model was built for; None = nothing, as most servers."""
        self.tells_limits = True
        """Whether it says how long a prompt its memory bears."""
        self.script: list[list[int]] = []
        """Replies to give, one a request, instead of the model's."""
        self.write: Callable[[], list[int]] | None = None
        """Gives the reply of each request that has no script, instead of the model."""
        self.version_after: tuple[int, str] | None = None
        """Replace the weights before this output token of a request."""
        self.healthy = True
        self.queue_full = False
        self.edit: Callable[[dict[str, Any]], Any] | None = None
        """Spoils a reply before it is sent."""
        self.requests: list[dict[str, Any]] = []
        """Bodies of /generate, in the order of arrival."""
        self.routing_keys: list[str | None] = []
        self.aborted: list[str] = []
        """Request ids of /abort_request."""
        self.request_seen = asyncio.Event()
        self.abort_seen = asyncio.Event()
        self.url = ""
        self.busy = 0.0
        """Seconds that requests spent here, all of them together."""
        self.idle = _IdleTime()
        self._startup = time.time()
        self._tokenizer = Tokenizer.from_file(str(Path(model.model_path, "tokenizer.json")))
        specials = self._tokenizer.get_added_tokens_decoder()
        size = self._tokenizer.get_vocab_size()
        plain = [token for token in range(size) if token not in specials]
        self._vocabulary = list(model.vocabulary) or plain
        self._step = 0
        self._paused = False
        self._running: dict[str, _Request] = {}
        self._waiting: deque[_Request] = deque()
        self._due: list[tuple[int, int, _Request]] = []
        self._serial = 0
        self._cache: set[int] = set()
        self._wake = asyncio.Event()
        self._unlocked = asyncio.Event()
        self._unlocked.set()
        """Cleared while an update of weights waits for replies that were not paused."""
        self._ticker: asyncio.Task[None] | None = None

    def app(self) -> web.Application:
        """The HTTP interface."""
        app = web.Application(client_max_size=2**30)
        app.on_startup.append(self._start)
        app.on_cleanup.append(self._stop)
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/model_info", self._model_info),
                web.get("/get_model_info", self._model_info),
                web.get("/server_info", self._server_info),
                web.get("/get_server_info", self._server_info),
                web.get("/v1/models", self._models),
                web.get("/v1/loads", self._loads),
                web.post("/v1/tokenize", self._tokenize),
                web.post("/generate", self._generate),
                web.post("/abort_request", self._abort),
                web.post("/pause_generation", self._pause),
                web.post("/continue_generation", self._continue),
                web.post("/update_weights_from_disk", self._update),
                web.post("/flush_cache", self._flush),
            ]
        )
        return app

    # ------------------------------------------------------------------ the decode clock

    async def _start(self, _: web.Application) -> None:
        self._ticker = asyncio.create_task(self._tick())

    async def _stop(self, _: web.Application) -> None:
        if self._ticker is not None:
            self._ticker.cancel()

    async def _tick(self) -> None:
        """Advance the batch; sleeps to absolute times, so that steps do not drift."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            if self._paused or not self._running:
                self._wake.clear()
                await self._wake.wait()
                due = loop.time()
            due = max(due + self.step_seconds, loop.time() - 1.0)
            await asyncio.sleep(max(0.0, due - loop.time()))
            if self._paused:
                continue
            self._step += 1
            for request in list(self._streams()):
                self._catch_up(request)
            while self._due and self._due[0][0] <= self._step:
                self._complete(heapq.heappop(self._due)[2])

    def _streams(self) -> Sequence[_Request]:
        return [request for request in self._running.values() if request.changed is not None]

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self.model.max_running:
            request = self._waiting.popleft()
            if request.finish is not None:
                continue
            request.started = self._step - request.length
            self.idle.end()
            self._running[request.rid] = request
            self._serial += 1
            end = request.started + self._full_length(request)
            heapq.heappush(self._due, (end, self._serial, request))
            self._wake.set()

    def _complete(self, request: _Request) -> None:
        if request.finish is not None or self._running.get(request.rid) is not request:
            return
        if request.started + self._full_length(request) > self._step:
            return  # it was put back meanwhile
        self._catch_up(request)
        last = self._ids(request)[-1]
        if request.length < request.limit or last in request.stop_ids:
            self._end(request, {"type": "stop", "matched": last})
        else:
            self._end(request, {"type": "length", "length": request.length})

    def _catch_up(self, request: _Request) -> None:
        """Give a request the tokens of the steps that have passed."""
        if request.started < 0:
            return
        length = min(self._step - request.started, self._full_length(request))
        if length <= request.length:
            return
        if self.version_after is not None and request.length <= self.version_after[0] < length:
            first, self.version_after = self.version_after, None
            self._extend(request, first[0])
            self.version = first[1]
        self._extend(request, length)
        if request.changed is not None:
            request.changed.set()

    def _extend(self, request: _Request, length: int) -> None:
        """Give a request tokens of the weights of the moment."""
        if length <= request.length:
            return
        last = request.spans[-1] if request.spans else None
        if last is not None and last["version"] == self.version:
            last["end"] = length
        else:
            request.spans.append({"version": self.version, "start": request.length, "end": length})
        request.length = length

    def _end(self, request: _Request, finish: dict[str, Any]) -> None:
        request.finish = finish
        self.busy += time.perf_counter() - request.arrived
        if self._running.pop(request.rid, None) is not None and not self._running:
            self.idle = _IdleTime(self.idle.seconds)
        self._cache.update(_block_hashes(request.prompt + self._ids(request), request.cache_salt))
        if not request.done.done():
            request.done.set_result(None)
        if request.changed is not None:
            request.changed.set()
        self._admit()

    # ------------------------------------------------------------------ the made-up model

    def _full_length(self, request: _Request) -> int:
        """Tokens that a request samples in the end; replies differ by a quarter, by seed."""
        script = request.script or []
        for position, token in enumerate(script):
            if token in request.stop_ids:
                return min(request.limit, position + 1)
        mean = self.model.reply_tokens
        if request.script is not None or not mean:
            return request.limit
        seed = int(request.params.get("sampling_seed") or 0)
        natural = max(1, mean + (seed * 7919) % (mean // 2 + 1) - mean // 4)
        # A resumed request has the sampled part in its prompt: positions count from there.
        return min(request.limit, natural)

    def _ids(self, request: _Request) -> list[int]:
        offset = len(request.prompt)
        seed = int(request.params.get("sampling_seed") or 0)
        vocabulary = self._vocabulary
        ids = [
            vocabulary[((seed + 1) * 2654435761 + (offset + position) * 40503) % len(vocabulary)]
            for position in range(request.length)
        ]
        if request.script is not None:
            script = request.script[: request.length]
            return script + ids[len(script) :]
        stops = request.stop_ids
        if stops and request.length == self._full_length(request) < request.limit:
            ids[-1] = stops[0]
        return ids

    def _answer(self, request: _Request) -> dict[str, Any]:
        ids = self._ids(request)
        rows = [[_logprob(token), token, None] for token in ids]
        spans = request.spans or [{"version": self.version, "start": 0, "end": 0}]
        meta: dict[str, Any] = {
            "id": request.rid,
            "finish_reason": request.finish,
            "prompt_tokens": len(request.prompt),
            "weight_version": self.version,
            "num_retractions": request.retractions,
            "input_token_logprobs": self._scores(request),
            "output_token_logprobs": rows,
            "output_token_logprobs_length": len(rows),
            "reasoning_tokens": 0,
            "completion_tokens": len(ids),
            "cached_tokens": request.cached,
            "cached_tokens_details": {"device": request.cached, "host": 0},
            "dp_rank": None,
        }
        if request.finish is not None:
            meta |= {
                "weight_versions": [dict(span) for span in spans],
                "e2e_latency": time.perf_counter() - request.arrived,
            }
        if not request.params.get("_logprobs"):
            for name in ("input_token_logprobs", "output_token_logprobs"):
                del meta[name]
            del meta["output_token_logprobs_length"]
        return {"text": self._tokenizer.decode(ids), "output_ids": ids, "meta_info": meta}

    def _scores(self, request: _Request) -> list[list[Any]]:
        """The prompt's rows from `logprob_start_len` on, by default none."""
        start = request.params.get("_start")
        if start is None:
            return []
        rows: list[list[Any]] = [[_logprob(token), token, None] for token in request.prompt[start:]]
        return [[None, *rows[0][1:]], *rows[1:]] if start == 0 else rows

    def _cached(self, prompt: Sequence[int], cache_salt: str) -> int:
        count = 0
        for key in _block_hashes(prompt[:-1], cache_salt):
            if key not in self._cache:
                break
            count += _BLOCK
        return count

    # ------------------------------------------------------------------ HTTP

    async def _generate(self, http: web.Request) -> web.StreamResponse:
        body = await http.json()
        params = {
            **body.get("sampling_params", {}),
            "_logprobs": body.get("return_logprob"),
            "_start": body.get("logprob_start_len"),
        }
        if self.model.keep_requests:
            self.requests.append(body)
            self.routing_keys.append(http.headers.get("X-SMG-Routing-Key"))
        prompt = body.get("input_ids") or []
        limit = params.get("max_new_tokens", 128)
        problem = self._problem(prompt, params, limit)
        queued = self.model.max_queued
        streaming = bool(body.get("stream"))
        if problem is not None and not streaming:
            return web.json_response({"error": {"message": problem}}, status=400)
        if problem is not None:
            error = {"message": problem, "type": "invalid_request_error", "code": 400}
            return await _events(http, [{"error": {**error, "retryable": False}}])
        if self.queue_full or (queued is not None and len(self._waiting) >= queued):
            return web.json_response({"detail": "The request queue is full."}, status=503)
        self.request_seen.set()
        await self._unlocked.wait()
        request = _Request(
            rid=body.get("rid") or uuid.uuid4().hex,
            prompt=prompt,
            params=params,
            limit=limit,
            done=asyncio.get_running_loop().create_future(),
            script=self._next_script(),
            cache_salt=body.get("extra_key") or "",
            cached=self._cached(prompt, body.get("extra_key") or ""),
            changed=asyncio.Event() if streaming else None,
        )
        self._waiting.append(request)
        self._admit()
        try:
            if streaming:
                return await self._stream(http, request)
            await request.done
        except asyncio.CancelledError:
            self._give_up(request)
            raise
        answer = self._answer(request)
        return web.json_response(answer if self.edit is None else self.edit(answer))

    def _next_script(self) -> list[int] | None:
        if self.script:
            return self.script.pop(0)
        return self.write() if self.write is not None else None

    def _problem(self, prompt: Sequence[int], params: dict[str, Any], limit: int) -> str | None:
        length, context = len(prompt), self.context_length
        temperature = params.get("temperature", 1.0)
        if not prompt:
            return "input_ids cannot be empty."
        if not (math.isfinite(temperature) and temperature >= 0):
            return f"temperature must be a non-negative finite number, got {temperature}."
        if context is None:
            return None
        if length >= context:
            return (
                f"The input ({length} tokens) is longer than the model's context length "
                f"({context} tokens)."
            )
        if length + limit > context:
            return (
                f"Requested token count exceeds the model's maximum context length of {context} "
                f"tokens. You requested a total of {length + limit} tokens."
            )
        return None

    async def _stream(self, http: web.Request, request: _Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(http)
        assert request.changed is not None
        while request.finish is None:
            await request.changed.wait()
            request.changed.clear()
            event = json.dumps(self._answer(request))
            await response.write(f"data: {event}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    def _give_up(self, request: _Request) -> None:
        """Its client has gone."""
        if request.finish is None:
            self._end(request, {"type": "abort", "message": "Aborted"})

    async def _abort(self, http: web.Request) -> web.Response:
        body = await http.json()
        prefix = body.get("rid") or ""
        self.aborted.append(prefix)
        everything = bool(body.get("abort_all"))
        for request in [*self._running.values(), *self._waiting]:
            if everything or (prefix and request.rid.startswith(prefix)):
                self._abort_one(request)
        self.abort_seen.set()
        return web.Response()

    def _abort_one(self, request: _Request) -> None:
        if request.finish is None:
            self._catch_up(request)
            finish = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
            self._end(request, finish)

    async def _pause(self, http: web.Request) -> web.Response:
        mode = (await http.json()).get("mode", "abort")
        for request in list(self._running.values()):
            self._catch_up(request)
            if mode == "retract":
                request.retractions += 1
        self._paused = True
        if mode == "abort":
            for request in [*self._running.values(), *self._waiting]:
                self._abort_one(request)
        return web.json_response({"message": "Generation paused successfully.", "status": "ok"})

    async def _continue(self, http: web.Request) -> web.Response:
        await http.json()
        self._paused = False
        self._wake.set()
        return web.json_response({"message": "Generation continued successfully.", "status": "ok"})

    async def _update(self, http: web.Request) -> web.Response:
        body = await http.json()
        path = body["model_path"]
        if not _is_model(path):
            message = f"Failed to get weights iterator: {path!r}."
            failed = {"success": False, "message": message, "num_paused_requests": 0}
            return web.json_response(failed, status=400)
        self._unlocked.clear()
        while self._running and not self._paused:
            await asyncio.gather(*(request.done for request in self._running.values()))
        await asyncio.sleep(self.model.weights_seconds)
        self._unlocked.set()
        for request in self._running.values():
            self._catch_up(request)
        self.model_path = path
        self.version = body.get("weight_version") or self.version
        if body.get("flush_cache", True):
            self._cache.clear()
        message = f"Succeeded to update model weights. Weight version updated to {self.version}."
        return web.json_response({"success": True, "message": message, "num_paused_requests": 0})

    async def _flush(self, _: web.Request) -> web.Response:
        if not self._running and not self._waiting:
            self._cache.clear()
        return web.Response(text="Cache flushed.\n")

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self.healthy else 503)

    async def _model_info(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "model_path": self.model_path,
                "served_model_name": self.model.name or self.model.model_path,
                "tokenizer_path": self.model.model_path,
                "is_generation": True,
                "weight_version": self.version,
                "model_type": "llama",
                "architectures": ["LlamaForCausalLM"],
            }
        )

    async def _server_info(self, _: web.Request) -> web.Response:
        cache_tokens = self.model.cache_tokens
        longest = min(self.context_length or cache_tokens, cache_tokens) - 6
        return web.json_response(
            {
                "model_path": self.model_path,
                "version": "0.5.23",
                "context_length": self.told_context_length,
                "max_total_num_tokens": cache_tokens,
                **({"max_req_input_len": longest} if self.tells_limits else {}),
                "random_seed": int(self._startup * 1e6) % 2**31,
                "startup_time": {"tokenizer_e2e": self._startup},
                "internal_states": [],
                "fake_busy_seconds": self.busy,
                "fake_idle_seconds": self.idle.seconds,
                "status": "ready",
            }
        )

    async def _models(self, _: web.Request) -> web.Response:
        model = {"id": self.model.model_path, "object": "model", "owned_by": "fake-sglang"}
        return web.json_response({"object": "list", "data": [model]})

    async def _loads(self, _: web.Request) -> web.Response:
        tokens = sum(
            len(request.prompt) + self._step - request.started for request in self._running.values()
        )
        waiting = sum(request.finish is None for request in self._waiting)
        row = {
            "dp_rank": 0,
            "num_running_reqs": len(self._running),
            "num_waiting_reqs": waiting,
            "num_used_tokens": tokens,
            "max_total_num_tokens": self.model.cache_tokens,
            "max_running_requests": self.model.max_running,
            "token_usage": tokens / self.model.cache_tokens,
            "queues": {"waiting": waiting, "grammar": 0, "paused": 0, "retracted": 0},
        }
        return web.json_response({"version": "0.5.23", "loads": [row]})

    async def _tokenize(self, http: web.Request) -> web.Response:
        body = await http.json()
        encoded = self._tokenizer.encode(
            body["prompt"], add_special_tokens=body.get("add_special_tokens", True)
        )
        limit = self.model.context_length
        answer = {"tokens": encoded.ids, "count": len(encoded.ids), "max_model_len": limit}
        return web.json_response(answer)


def _is_model(path: str) -> bool:
    return any(Path(path, name).is_file() for name in ("config.json", "tokenizer.json"))


def _logprob(token: int) -> float:
    return -0.25 - (token % 64) / 32.0


def _block_hashes(ids: Sequence[int], cache_salt: str) -> list[int]:
    """One key per whole block, each standing for everything up to its end."""
    keys: list[int] = []
    key = hash(cache_salt)
    for start in range(0, len(ids) - _BLOCK + 1, _BLOCK):
        key = hash((key, *ids[start : start + _BLOCK]))
        keys.append(key)
    return keys


async def _events(http: web.Request, events: Sequence[dict[str, Any]]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(http)
    for event in events:
        await response.write(f"data: {json.dumps(event)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


@asynccontextmanager
async def serving(engine: FakeSGLang) -> AsyncGenerator[str]:
    """Serve a fake engine on a loopback port; gives its address."""
    runner = web.AppRunner(engine.app(), access_log=None, shutdown_timeout=0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def main() -> None:
    """Serve a fake engine until the process is ended."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--model", required=True, help="folder with tokenizer.json")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--step-ms", type=float, default=50.0)
    parser.add_argument("--reply-tokens", type=int, default=96)
    parser.add_argument("--max-running", type=int, default=16_384)
    parser.add_argument("--version", default="default")
    options = parser.parse_args()
    model = FakeModel(
        model_path=options.model,
        step_seconds=options.step_ms / 1000,
        reply_tokens=options.reply_tokens,
        max_running=options.max_running,
        version=options.version,
        keep_requests=False,
    )

    async def app() -> web.Application:
        return FakeSGLang(model).app()

    web.run_app(
        app(), host="127.0.0.1", port=options.port, print=None, access_log=None, backlog=16_384
    )


if __name__ == "__main__":
    main()
