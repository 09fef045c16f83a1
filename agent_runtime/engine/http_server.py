"""The engine behind SGLang's HTTP interface, as far as `--policy sglang:URL` uses it.

As at an SGLang server, new weights wait until running replies have ended, unless generation was
paused, and requests that come meanwhile wait for the weights. A client that hangs up aborts its
request. `http_messages` holds the form of requests and replies. Imports no torch.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import orjson
from aiohttp import web

from agent_runtime.engine.generation import GenerationResult
from agent_runtime.engine.http_admission import (
    MAX_BODY_BYTES,
    MAX_TEXT_CHARS,
    refuse_web_pages,
    too_large,
)
from agent_runtime.engine.http_messages import GenerateCall, read_request, write_reply
from agent_runtime.errors import (
    AgentRuntimeError,
    PolicyError,
    PolicyMisconfigured,
    PolicyRejected,
    PolicyUnavailable,
)
from agent_runtime.huggingface import ModelTokenizer

if TYPE_CHECKING:
    from agent_runtime.engine.worker import EngineThread

__all__ = ["EngineHttpServer"]

_ROUTING_KEY: Final = "X-SMG-Routing-Key"
_PAUSE_MODES: Final = ("abort", "retract", "in_place")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class EngineHttpServer:
    """Serves one engine; start the runner of its `app` with `handler_cancellation`."""

    def __init__(
        self, thread: EngineThread, folder: Path, tokenizer: ModelTokenizer, version: str
    ) -> None:
        """`folder` holds the weights that the engine has loaded, `version` is theirs."""
        self._thread = thread
        self._version = version
        self._model_path = str(folder)
        """Of the weights that are served now."""
        self._served_model = str(folder)
        self._tokenizer = tokenizer
        self._startup_time = time.time()
        self._paused = False
        self._admitting = True
        """Whether requests may go to the engine; false while it drains for new weights."""
        self._in_flight = 0
        self._changed = asyncio.Condition()
        """Notified when `_admitting` or `_in_flight` has changed."""
        self._update_lock = asyncio.Lock()

    def app(self) -> web.Application:
        """Return the HTTP application."""
        app = web.Application(
            client_max_size=MAX_BODY_BYTES, middlewares=[refuse_web_pages, _answer_errors]
        )
        gets: dict[str, Handler] = {
            "/health": self._health,
            "/model_info": self._model_info,
            "/get_model_info": self._model_info,
            "/server_info": self._server_info,
            "/get_server_info": self._server_info,
            "/v1/models": self._models,
            "/v1/loads": self._loads,
        }
        posts: dict[str, Handler] = {
            "/generate": self._generate,
            "/v1/tokenize": self._tokenize,
            "/abort_request": self._abort,
            "/pause_generation": self._pause,
            "/continue_generation": self._continue,
            "/update_weights_from_disk": self._update,
            "/flush_cache": self._flush,
        }
        app.add_routes([web.get(path, handler) for path, handler in gets.items()])
        app.add_routes([web.post(path, handler) for path, handler in posts.items()])
        return app

    # ------------------------------------------------------------------ replies

    async def _generate(self, http: web.Request) -> web.StreamResponse:
        body = await _read(http)
        engine = await self._thread.ready()
        streamed = bool(body.get("stream"))
        try:
            call = read_request(
                body,
                request_id=str(body.get("rid") or uuid.uuid4().hex),
                episode_id=http.headers.get(_ROUTING_KEY, ""),
                end_ids=self._tokenizer.end_ids,
                context_length=engine.context_length,
            )
        except PolicyError as error:
            if not streamed:
                raise
            return await self._refuse_stream(http, error)
        await self._enter()
        try:
            if streamed:
                return await self._stream(http, call)
            prompt_logprobs = await self._prompt_logprobs(call)
            result = await self._thread.generate(call.request)
            return _json(self._reply(call, result, prompt_logprobs=prompt_logprobs))
        finally:
            await self._leave()

    async def _prompt_logprobs(self, call: GenerateCall) -> list[float]:
        if call.prompt_logprobs_from is None:
            return []
        return await self._thread.call(lambda engine: engine.score(call.request.prompt))

    def _reply(self, call: GenerateCall, result: GenerationResult, **more: Any) -> dict[str, Any]:
        text = self._tokenizer.decode(result.ids)
        return write_reply(call, result, text, version=self._version, **more)

    async def _stream(self, http: web.Request, call: GenerateCall) -> web.StreamResponse:
        """Send events that each hold all tokens so far; a slow reader gets fewer of them."""
        response = await _event_stream(http)
        changed = asyncio.Event()
        newest: list[GenerationResult] = []

        def progress(result: GenerationResult) -> None:
            newest[:] = [result]
            changed.set()

        generation = asyncio.create_task(self._thread.generate(call.request, progress=progress))
        generation.add_done_callback(lambda _: changed.set())
        try:
            while await changed.wait() and not generation.done():
                changed.clear()
                await _send(response, self._reply(call, newest[0], ended=False))
            await _send(response, self._reply(call, await generation))
        except PolicyError as error:
            await _send(response, _event_error(error))
        finally:
            generation.cancel()
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _refuse_stream(self, http: web.Request, error: PolicyError) -> web.StreamResponse:
        response = await _event_stream(http)
        await _send(response, _event_error(error))
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _enter(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._admitting)
            self._in_flight += 1

    async def _leave(self) -> None:
        async with self._changed:
            self._in_flight -= 1
            self._changed.notify_all()

    # ------------------------------------------------------------------ control

    async def _abort(self, http: web.Request) -> web.StreamResponse:
        body = await _read(http)
        prefix, abort_all = str(body.get("rid") or ""), bool(body.get("abort_all"))
        if abort_all or prefix:
            await self._thread.abort(lambda request: request.request_id.startswith(prefix))
        return web.Response()

    async def _pause(self, http: web.Request) -> web.StreamResponse:
        mode = (await _read(http)).get("mode") or "abort"
        if mode not in _PAUSE_MODES:
            raise PolicyRejected(f"mode is one of {', '.join(_PAUSE_MODES)}")
        await self._thread.pause()
        self._paused = True
        if mode == "abort":
            await self._thread.abort()
        elif mode == "retract":
            await self._thread.call(lambda engine: engine.flush_cache())
        return _json({"message": "Generation paused successfully.", "status": "ok"})

    async def _continue(self, http: web.Request) -> web.StreamResponse:
        await _read(http)
        self._paused = False
        await self._thread.resume()
        return _json({"message": "Generation continued successfully.", "status": "ok"})

    async def _update(self, http: web.Request) -> web.StreamResponse:
        body = await _read(http)
        # Shielded: where a client hangs up between the swap and the new version's being noted, the
        # server would name the new weights by the old version.
        try:
            in_flight = await asyncio.shield(asyncio.create_task(self._replace_weights(body)))
        except PolicyMisconfigured as error:
            return _json({"success": False, "message": str(error)}, status=400)
        message = f"Succeeded to update model weights. Weight version updated to {self._version}."
        return _json({"success": True, "message": message, "num_paused_requests": in_flight})

    async def _replace_weights(self, body: Mapping[str, Any]) -> int:
        """Load a folder's weights; return the number of requests that continue with them."""
        folder = str(body.get("model_path") or "")
        if not folder:
            raise PolicyMisconfigured("model_path names no folder")
        async with self._update_lock:
            if body.get("abort_all_requests"):
                await self._thread.abort()
            async with self._drained():
                self._version = await self._thread.update_weights(
                    folder,
                    version=str(body.get("weight_version") or ""),
                    keep_cache=body.get("flush_cache") is False,
                )
                self._model_path = folder
                return self._in_flight

    @contextlib.asynccontextmanager
    async def _drained(self) -> AsyncGenerator[None]:
        """Keep replies from being sampled: they are paused, or have ended and others wait."""
        if self._paused:
            yield
            return
        self._admitting = False
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: not self._in_flight)
            yield
        finally:
            async with self._changed:
                self._admitting = True
                self._changed.notify_all()

    async def _flush(self, http: web.Request) -> web.StreamResponse:
        if not self._in_flight:
            await self._thread.call(lambda engine: engine.flush_cache())
        return web.Response(text="Cache flushed.\n")

    # ------------------------------------------------------------------ questions

    async def _health(self, _: web.Request) -> web.StreamResponse:
        await self._thread.call(lambda engine: engine.version)  # raises where it has stopped
        return web.Response()

    async def _model_info(self, _: web.Request) -> web.StreamResponse:
        return _json(
            {
                "model_path": self._model_path,
                "served_model_name": self._served_model,
                "tokenizer_path": self._served_model,
                "is_generation": True,
                "weight_version": self._version,
            }
        )

    async def _server_info(self, _: web.Request) -> web.StreamResponse:
        engine = await self._thread.ready()
        return _json(
            {
                "model_path": self._model_path,
                "version": "embedded",
                "backend": engine.backend.name,
                "context_length": engine.context_length,
                "max_total_num_tokens": engine.slots * engine.context_length,
                "max_req_input_len": engine.context_length,
                "max_running_requests": engine.slots,
                "startup_time": {"embedded": self._startup_time},
                "internal_states": [],
            }
        )

    async def _models(self, _: web.Request) -> web.StreamResponse:
        model = {"id": self._served_model, "object": "model", "owned_by": "embedded"}
        return _json({"object": "list", "data": [model]})

    async def _loads(self, _: web.Request) -> web.StreamResponse:
        engine = await self._thread.ready()
        running, waiting, usage = await self._thread.call(
            lambda engine: (engine.running, engine.waiting, engine.cache_usage)
        )
        row = {
            "dp_rank": 0,
            "num_running_reqs": running,
            "num_waiting_reqs": waiting,
            "token_usage": usage,
            "max_running_requests": engine.slots,
            "max_total_num_tokens": engine.slots * engine.context_length,
            "queues": {"waiting": waiting, "retracted": 0},
        }
        return _json({"version": "embedded", "loads": [row]})

    async def _tokenize(self, http: web.Request) -> web.StreamResponse:
        body = await _read(http)
        prompt = body.get("prompt")
        if not isinstance(prompt, str):
            raise PolicyRejected("prompt has to be one text")
        if len(prompt) > MAX_TEXT_CHARS:
            return too_large("the text", MAX_TEXT_CHARS)
        special = body.get("add_special_tokens") is not False
        # In a thread: others are answered meanwhile.
        ids = await asyncio.to_thread(self._tokenizer.encode, prompt, add_special=special)
        limit = (await self._thread.ready()).context_length
        return _json({"tokens": ids, "count": len(ids), "max_model_len": limit})


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPRequestEntityTooLarge:
        return too_large("the request", MAX_BODY_BYTES)
    except AgentRuntimeError as error:
        return _json({"error": {"message": str(error)}}, status=_status(error))


def _status(error: AgentRuntimeError) -> int:
    if isinstance(error, PolicyRejected | PolicyMisconfigured):
        return 400
    return 503 if isinstance(error, PolicyUnavailable) else 500


async def _read(http: web.Request) -> dict[str, Any]:
    try:
        body = orjson.loads(await http.read())
    except ValueError as error:
        raise PolicyRejected(f"the request is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise PolicyRejected("the request is not a JSON object")
    return cast("dict[str, Any]", body)


def _json(content: Mapping[str, Any], status: int = 200) -> web.Response:
    body = orjson.dumps(content)
    return web.Response(body=body, status=status, content_type="application/json")


async def _event_stream(http: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(http)
    return response


async def _send(response: web.StreamResponse, event: Mapping[str, Any]) -> None:
    await response.write(b"data: " + orjson.dumps(event) + b"\n\n")


def _event_error(error: PolicyError) -> dict[str, Any]:
    return {"error": {"message": str(error), "code": _status(error), "retryable": error.retriable}}
