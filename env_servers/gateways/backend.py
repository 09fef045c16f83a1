"""Episodes behind a gateway: opened on a fleet of servers, rebuilt elsewhere when one is lost.

A step's answer is either the environment's or an error: what failed never becomes a reward.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf import struct_pb2

from agent_runtime.episode import RemoteEpisode, Transition
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.gateways.errors import EpisodeLapsed, EpisodeOver, NoRoom, UnknownId
from orchestrator.fleet import Fleet, Place

__all__ = ["Backend", "HeldEpisode"]

_ROOM_SECONDS: Final = 60.0
"""Time that a reset may wait for room on a server; HTTP clients wait 300 s at most."""
_PAGE: Final = 100
"""Tasks that are asked for at once."""


class HeldEpisode:
    """A live episode, its last answer and its place on a server; for one task at a time."""

    def __init__(
        self, backend: Backend, remote: RemoteEpisode, place: Place, reset: pb.Reset
    ) -> None:
        self.reset = reset
        """What it was opened with."""
        self.last: Transition
        """The answer to the last step, or to the reset."""
        self.inputs: list[types_pb2.ActionInput] = []
        """What was played, in order."""
        self.hashes: list[bytes] = []
        """State hash after the reset, and after each input."""
        self._backend = backend
        self._remote = remote
        self._place: Place | None = place

    @property
    def episode_id(self) -> str:
        """Id of the episode on its server."""
        return self._remote.episode_id

    @property
    def rebuilds(self) -> int:
        """Times that it was opened again with its journal because its server was lost."""
        return self._remote.rebuilds

    async def step(self, action: str) -> Transition:
        """Apply a native action; raises AgentRuntimeError, EpisodeOver."""
        self._require_open()
        last = await self._remote.step(action)
        return self._note(types_pb2.ActionInput(action=action), last)

    async def step_reply(
        self,
        reply: str,
        action_format: types_pb2.ActionFormat = types_pb2.ACTION_FORMAT_UNSPECIFIED,
    ) -> Transition:
        """Apply a model's whole reply, which the server reads; raises as `step`."""
        self._require_open()
        last = await self._remote.step_reply(reply, action_format)
        return self._note(types_pb2.ActionInput(reply=reply, action_format=action_format), last)

    async def step_call(self, name: str, arguments_json: str) -> Transition:
        """Apply a function call; `arguments_json` is a JSON object. Raises as `step`."""
        self._require_open()
        last = await self._remote.step_call(name, arguments_json)
        call = types_pb2.ToolCall(name=name, arguments_json=arguments_json)
        return self._note(types_pb2.ActionInput(tool_call=call), last)

    async def consult(self, advisor: pb.Advisor, seed: int = 0) -> pb.Advice:
        """Ask a scripted player what it would do now; raises AgentRuntimeError."""
        return await self._remote.consult(advisor, seed)

    async def render(self) -> pb.RenderResponse:
        """Ask for pictures of the state, strangers' bytes; raises AgentRuntimeError."""
        return await self._remote.connection.render(self.episode_id)

    async def fork(self) -> HeldEpisode:
        """Return a copy in the same state; raises AgentRuntimeError."""
        place = self._place
        if place is None:
            raise EpisodeLapsed("the episode was closed")
        copy = await self._remote.fork(self._backend.new_id())
        held = HeldEpisode(self._backend, copy, place.another(), self.reset)
        held.last, held.inputs, held.hashes = self.last, list(self.inputs), list(self.hashes)
        return held

    def journal(self) -> pb.Reset:
        """Return the reset that opens the same episode in the same state, with all state hashes."""
        reset = pb.Reset()
        reset.CopyFrom(self.reset)
        reset.initial_state_hash = self.hashes[0]
        for played, state_hash in zip(self.inputs, self.hashes[1:], strict=True):
            reset.journal.add(input=played, state_hash=state_hash)
        return reset

    def close(self) -> None:
        """End the episode and give its place back."""
        place, self._place = self._place, None
        if place is not None:
            self._remote.close()
            place.release()

    def _note(self, played: types_pb2.ActionInput, last: Transition) -> Transition:
        self.inputs.append(played)
        self.hashes.append(last.state_hash)
        self.last = last
        return last

    def _require_open(self) -> None:
        if self._place is None:
            raise EpisodeLapsed("the episode was closed")
        if self.last.ended:
            raise EpisodeOver("the episode has ended and takes no more steps: open another")


@dataclass(slots=True)
class _Listed:
    """The item ids of a split, as far as they were asked for."""

    items: list[str] = field(default_factory=list)
    token: str = ""
    whole: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Backend:
    """What all requests of a gateway share: the fleet and what it says of its environments."""

    def __init__(self, fleet: Fleet) -> None:
        """Play on a fleet that has been started."""
        self.fleet = fleet
        self._prefix = f"gateway-{secrets.token_hex(4)}"
        self._numbers = itertools.count()
        self._listed: dict[tuple[str, str], _Listed] = {}

    @property
    def environments(self) -> Mapping[str, pb.GetEnvironmentResponse]:
        """What the servers say of each environment."""
        return self.fleet.described

    def new_id(self) -> str:
        """Return an episode id that nobody else has."""
        return f"{self._prefix}-{next(self._numbers)}"

    async def open(
        self,
        environment: str,
        item_id: str,
        *,
        seed: int = 0,
        profile: str = "",
        options: Mapping[str, Any] | None = None,
        action_format: types_pb2.ActionFormat = types_pb2.ACTION_FORMAT_UNSPECIFIED,
        images: bool = False,
    ) -> HeldEpisode:
        """Open an episode on the least loaded server of an environment.

        `images`: the gateway's protocol has a place for them, where the options ask for some.

        Raises:
            AgentRuntimeError: The server refused, or there is none.
            NoRoom: All servers were full for too long.
        """
        reset = pb.Reset(
            environment=environment,
            item_id=item_id,
            seed=seed,
            profile=profile,
            action_format=action_format,
            images=images,
        )
        if options:
            settings = struct_pb2.Struct()
            settings.update(options)
            reset.options.CopyFrom(settings)
        return await self.open_reset(reset)

    async def open_reset(self, reset: pb.Reset) -> HeldEpisode:
        """Open an episode as a reset says; raises as `open`."""
        name = reset.environment
        place = await self.fleet.acquire(name)
        capabilities = self.environments[name].capabilities
        remote = RemoteEpisode(
            place.connection,
            self.new_id(),
            reset,
            deterministic=pb.CAPABILITY_DETERMINISTIC in capabilities,
            reroute=place.reroute,
        )
        held = HeldEpisode(self, remote, place, reset)
        try:
            async with asyncio.timeout(_ROOM_SECONDS):
                held.last = await remote.reset()
                held.hashes.append(held.last.state_hash)
        except TimeoutError:
            held.close()
            raise NoRoom(
                f"no server of {name} opened an episode within {_ROOM_SECONDS:g} s: all are full"
            ) from None
        except BaseException:
            held.close()
            raise
        return held

    async def item_at(self, environment: str, split: str, index: int) -> str:
        """Return the item id at a place of a split; raises AgentRuntimeError.

        Pages are asked for as far as they are needed, once: naming a task may mean making it.
        """
        listed = self._listed.setdefault((environment, split), _Listed())
        async with listed.lock:
            while len(listed.items) <= index and not listed.whole:
                place = await self.fleet.acquire(environment)
                try:
                    page = await place.connection.list_tasks(
                        environment, split, listed.token, _PAGE
                    )
                finally:
                    place.release()
                listed.items.extend(it.item_id for it in page.tasks)
                listed.token = page.next_page_token
                listed.whole = not listed.token or not page.tasks
        if index >= len(listed.items):
            raise UnknownId(f"the split {split} of {environment} has no task {index}")
        return listed.items[index]
