"""Episodes as addresses: one that is opened answers under a number of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agent_runtime.episode import Transition
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.gateways.backend import Backend, HeldEpisode
from env_servers.gateways.errors import BadRequest, EpisodeLapsed, UnknownId
from env_servers.gateways.leases import Lease, Leases
from env_servers.gateways.rest.messages import as_json, json_response, read_message, to_event

__all__ = ["EPISODES", "Episodes"]

EPISODES: Final = "/v1/episodes"
_UNREAD: Final = 64
"""Events that a listener may be behind; then it is let go."""
_SANDBOX: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
"""A view is a stranger's: it runs nothing and loads nothing."""
_SIGN_OF_LIFE: Final = 15.0
"""Seconds after which a listener hears that it is still connected."""


class _Told:
    """An episode and those who listen to it."""

    def __init__(self, episode: HeldEpisode) -> None:
        self.episode = episode
        self.listeners: set[asyncio.Queue[Transition | None]] = set()

    def tell(self, last: Transition) -> None:
        """Tell an answer to all listeners; the end of the episode is the end of their streams."""
        for queue in tuple(self.listeners):
            if queue.full():
                self.listeners.discard(queue)
                queue.get_nowait()
                queue.put_nowait(None)
                continue
            queue.put_nowait(last)

    def close(self) -> None:
        """End the episode."""
        self.episode.close()
        for queue in self.listeners:
            if not queue.full():
                queue.put_nowait(None)


class Episodes:
    """The addresses of episodes."""

    def __init__(self, backend: Backend, idle_limit: float) -> None:
        """Play on a backend; an episode that nobody asks for in `idle_limit` seconds is closed."""
        self.leases: Leases[_Told] = Leases(idle_limit)
        self._backend = backend

    async def create(self, request: Request) -> Response:
        """Open an episode as a Reset says."""
        reset = await read_message(request, pb.Reset())
        known = self._backend.environments
        if not reset.environment and len(known) == 1:
            reset.environment = next(iter(known))
        if reset.environment not in known:
            raise UnknownId(
                f"there is no environment {reset.environment!r}: {', '.join(known)}",
                reason="UNKNOWN_ENVIRONMENT",
            )
        if reset.journal:
            raise BadRequest("a journal is played by steps here: leave `journal` out")
        return self._opened(await self._backend.open_reset(reset))

    async def show(self, request: Request) -> Response:
        """Tell which task an episode is of, and its last answer."""
        lease = self._find(request)
        async with lease as told:
            episode = told.episode
            return json_response(
                {
                    **self._named(lease),
                    "environment": episode.reset.environment,
                    "itemId": episode.reset.item_id,
                    "rebuilds": episode.rebuilds,
                    "event": self._event(lease, episode.last),
                }
            )

    async def list_all(self, request: Request) -> Response:
        """Tell the live episodes."""
        live = [it for it in self.leases if not it.lapsed]
        return json_response({"episodes": [self._named(it) for it in live]})

    async def step(self, request: Request) -> Response:
        """Play an ActionInput: an action, a reply or a tool call."""
        played = await read_message(request, types_pb2.ActionInput())
        lease = self._find(request)
        async with lease as told:
            last = await _play(told.episode, played)
            told.tell(last)
            return json_response(self._event(lease, last))

    async def advise(self, request: Request) -> Response:
        """Ask a scripted player for its next action."""
        consult = await read_message(request, pb.Consult())
        async with self._find(request) as told:
            advisor = consult.advisor or pb.ADVISOR_EXPERT
            return json_response(as_json(await told.episode.consult(advisor, consult.seed)))

    async def fork(self, request: Request) -> Response:
        """Copy an episode in its state."""
        async with self._find(request) as told:
            return self._opened(await told.episode.fork())

    async def journal(self, request: Request) -> Response:
        """Tell the Reset that opens the same episode in the same state anywhere, with its proof."""
        async with self._find(request) as told:
            return json_response(as_json(told.episode.journal()))

    async def views(self, request: Request) -> Response:
        """Tell the pictures of the state: a RenderResponse."""
        async with self._find(request) as told:
            return json_response(as_json(await told.episode.render()))

    async def view(self, request: Request) -> Response:
        """Show one picture of the state."""
        name = request.path_params["name"]
        async with self._find(request) as told:
            drawn = await told.episode.render()
        for view in drawn.views:
            if view.name == name:
                headers = {"content-security-policy": _SANDBOX}
                return Response(view.content, 200, headers, view.media_type)
        names = ", ".join(view.name for view in drawn.views)
        raise UnknownId(f"this state has no view {name!r}: {names}", reason="UNKNOWN_VIEW")

    async def events(self, request: Request) -> Response:
        """Tell the last answer and all that follow, as server-sent events."""
        lease = self._find(request)
        queue: asyncio.Queue[Transition | None] = asyncio.Queue(_UNREAD)
        queue.put_nowait(lease.held.episode.last)
        lease.held.listeners.add(queue)
        return StreamingResponse(self._stream(lease, queue), media_type="text/event-stream")

    async def end(self, request: Request) -> Response:
        """Close an episode; closing it twice is no error."""
        self.leases.end(_number(request))
        return Response(status_code=204)

    async def _stream(
        self, lease: Lease[_Told], queue: asyncio.Queue[Transition | None]
    ) -> AsyncGenerator[bytes]:
        try:
            while True:
                try:
                    async with asyncio.timeout(_SIGN_OF_LIFE):
                        last = await queue.get()
                except TimeoutError:
                    yield b": waiting\n\n"
                    continue
                if last is None:
                    return
                data = orjson.dumps(self._event(lease, last))
                yield b"id: %d\ndata: %b\n\n" % (last.seq, data)
                if last.ended:
                    return
        finally:
            lease.held.listeners.discard(queue)

    def _opened(self, episode: HeldEpisode) -> Response:
        lease = self.leases.add(_Told(episode))
        body = {**self._named(lease), "event": self._event(lease, episode.last)}
        return json_response(body, 201, {"location": self._named(lease)["self"]})

    def _named(self, lease: Lease[_Told]) -> dict[str, Any]:
        return {"episode": str(lease.id), "self": f"{EPISODES}/{lease.id}"}

    def _event(self, lease: Lease[_Told], last: Transition) -> dict[str, Any]:
        return as_json(to_event(str(lease.id), last))

    def _find(self, request: Request) -> Lease[_Told]:
        number = _number(request)
        lease = self.leases.get(number)
        if lease is None:
            raise UnknownId(f"there is no episode {number}: it was never opened, or is closed")
        if lease.lapsed:
            minutes = self.leases.idle_limit / 60
            raise EpisodeLapsed(
                f"episode {number} was closed after {minutes:g} minutes without a request"
            )
        return lease


def _number(request: Request) -> int:
    text = request.path_params["episode"]
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise UnknownId(f"{text!r} is no episode: they are numbers")
    return int(text)


async def _play(episode: HeldEpisode, played: types_pb2.ActionInput) -> Transition:
    """Apply an input; raises BadRequest for none, and as `HeldEpisode.step`."""
    kind = played.WhichOneof("input")
    if kind == "action":
        return await episode.step(played.action)
    if kind == "reply":
        return await episode.step_reply(played.reply, played.action_format)
    if kind == "tool_call":
        return await episode.step_call(played.tool_call.name, played.tool_call.arguments_json)
    raise BadRequest("name one of `action`, `reply` and `toolCall`")
