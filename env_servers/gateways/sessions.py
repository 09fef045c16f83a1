"""The episodes of one client, one after the other."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from typing import Any

import orjson

from agent_runtime.episode import Transition
from env_servers.gateways.backend import Backend, HeldEpisode
from env_servers.gateways.errors import BadRequest, EpisodeLapsed, UnknownId
from env_servers.gateways.leases import Lease, Leases
from env_servers.gateways.messages import Action, Reset, State, to_result

__all__ = ["Environment", "Session", "Sessions"]


class Environment:
    """An environment of the backend: its tasks and tools."""

    def __init__(self, backend: Backend, name: str, split: str = "") -> None:
        """Serve an environment.

        Args:
            backend: Where it is played.
            name: Of the environment.
            split: Tasks of resets that name none; empty = the first split that has some.

        Raises:
            UnknownId: It has no such split, or no tasks.
        """
        self.backend = backend
        self.name = name
        self.described = backend.environments[name]
        self.split = split or next((it.name for it in self.described.splits if it.size), "")
        self.size(self.split)
        self._next = itertools.count()
        """Resets that say nothing get one task after the other, whoever asks."""

    def size(self, split: str) -> int:
        """Return the number of tasks of a split; raises UnknownId for none."""
        sizes = {it.name: it.size for it in self.described.splits}
        if not sizes.get(split):
            known = ", ".join(sizes)
            raise UnknownId(
                f"{self.name} has no tasks of a split {split[:100]!r}: {known}",
                reason="UNKNOWN_SPLIT",
            )
        return sizes[split]

    @property
    def instruction(self) -> str:
        """What an agent is told before the first observation."""
        return next((it.instruction for it in self.described.conversation_starts), "")

    def tools(self) -> Sequence[dict[str, Any]]:
        """Return the environment's functions as OpenEnv lists tools."""
        listed = orjson.loads(self.described.functions_json or "[]")
        functions = [it.get("function", it) for it in listed]
        return [
            {
                "name": it["name"],
                "description": it.get("description", ""),
                "input_schema": it.get("parameters", {"type": "object"}),
            }
            for it in functions
        ]

    async def items(self, split: str, start: int, stop: int) -> list[str]:
        """Return the item ids of places of a split; raises UnknownId, AgentRuntimeError."""
        return [await self.backend.item_at(self.name, split, it) for it in range(start, stop)]

    async def open(self, reset: Reset) -> HeldEpisode:
        """Open an episode as a reset says; raises GatewayError, AgentRuntimeError."""
        if reset.item_id is not None and (reset.index is not None or reset.split is not None):
            raise BadRequest("name a task by `item_id`, or by `index` and `split`")
        item = reset.item_id
        if item is None:
            split = self.split if reset.split is None else reset.split
            size = self.size(split)
            place = reset.index
            if place is None:
                place = (next(self._next) if reset.seed is None else reset.seed) % size
            item = await self.backend.item_at(self.name, split, place)
        return await self.backend.open(
            self.name,
            item,
            seed=reset.seed or 0,
            profile=reset.profile,
            options=reset.options,
            images=True,
        )


class Session:
    """What one client plays; for one request at a time."""

    def __init__(self, environment: Environment) -> None:
        """Describe a session that has no episode yet."""
        self.environment = environment
        self._episode_id: str | None = None
        self._episode: HeldEpisode | None = None
        self._last: dict[str, Any] | None = None
        self._answered: tuple[str, dict[str, Any]] | None = None
        """The last step that had a name of its own, and its answer."""

    async def reset(self, reset: Reset) -> dict[str, Any]:
        """Open another episode in place of the one before.

        Raises:
            GatewayError: There is no such task, or no room for it.
            AgentRuntimeError: The server refused, or there is none.
        """
        self.close()
        self._episode = await self.environment.open(reset)
        self._episode_id = reset.episode_id or self._episode.episode_id
        return self._note(self._episode.last, instruction=self.environment.instruction)

    async def step(self, action: Action, request_id: str | None = None) -> dict[str, Any]:
        """Play an action; one with the `request_id` of the last is answered and not played.

        Raises:
            GatewayError: There is no episode, or it has ended.
            AgentRuntimeError: It was not played, or nobody knows what it led to.
        """
        if action.type == "list_tools":
            tools = {"tools": self.environment.tools()}
            return {"observation": tools, "reward": None, "done": False}
        if request_id is not None and self._answered and self._answered[0] == request_id:
            return self._answered[1]
        episode = self._episode
        if episode is None:
            raise BadRequest("there is no episode: reset first", reason="RESET_FIRST")
        if action.tool_name is not None:
            arguments = orjson.dumps(action.arguments).decode()
            last = await episode.step_call(action.tool_name, arguments)
            result = self._note(last, tool_name=action.tool_name, result=last.text, error=None)
        elif action.reply is not None:
            result = self._note(await episode.step_reply(action.reply))
        else:
            result = self._note(await episode.step(action.action or ""))
        self._answered = None if request_id is None else (request_id, result)
        return result

    def state(self) -> dict[str, Any]:
        """Return where the episode is."""
        state = State(environment=self.environment.name)
        if self._episode is not None and self._last is not None:
            state.episode_id = self._episode_id
            state.step_count = self._last["observation"]["seq"]
            state.item_id = self._last["observation"]["item_id"]
            state.last = self._last
            state.rebuilds = self._episode.rebuilds
        return state.model_dump()

    def close(self) -> None:
        """End the episode, if there is one."""
        episode, self._episode = self._episode, None
        self._last = self._answered = None
        if episode is not None:
            episode.close()

    def _note(self, last: Transition, **extra: Any) -> dict[str, Any]:
        assert self._episode is not None
        assert self._episode_id is not None
        item = self._episode.reset.item_id
        self._last = to_result(last, self._episode_id, item, **extra)
        return self._last


class Sessions:
    """The sessions of an environment, by number or by a name, and how requests reach them."""

    def __init__(self, environment: Environment, idle_limit: float) -> None:
        """Close what nobody uses for `idle_limit` seconds."""
        self.environment = environment
        self.leases: Leases[Session] = Leases(idle_limit)
        self._named: dict[str, int] = {}
        """Numbers of leases by name: what HTTP's clients hold sessions by."""

    def open(self) -> Lease[Session]:
        """Return a session without a name; raises NoRoom."""
        return self.leases.add(Session(self.environment))

    def create(self, name: str = "") -> str:
        """Begin a session under a name, or one that nobody guesses; raises NoRoom."""
        if len(self._named) > 2 * len(self.leases) + 64:  # those that lapsed long ago
            known = {it: to for it, to in self._named.items() if self.leases.get(to) is not None}
            self._named = known
        name = name or secrets.token_hex(8)
        self._named[name] = self.open().id
        return name

    def find(self, name: str) -> Lease[Session] | None:
        """Return a session by its name; None = there is none."""
        return self.leases.get(self._named.get(name, -1))

    def require(self, name: str) -> Lease[Session]:
        """Return a session by its name; raises UnknownId."""
        lease = self.find(name)
        if lease is None:
            raise UnknownId(
                f"there is no episode {name[:100]!r}: reset, and name the `episode_id` of its "
                "observation"
            )
        return lease

    def end(self, name: str) -> None:
        """End a session by its name; raises UnknownId."""
        self.leases.end(self.require(name).id)
        del self._named[name]

    async def reset(self, lease: Lease[Session], reset: Reset) -> dict[str, Any]:
        """Open another episode; raises as `Session.reset`."""
        async with lease as session:
            result = await session.reset(reset)
            lease.lapsed = False
            return result

    async def step(
        self, lease: Lease[Session], action: Action, request_id: str | None = None
    ) -> dict[str, Any]:
        """Play an action; raises EpisodeLapsed, and as `Session.step`."""
        async with lease as session:
            self._require_live(lease)
            return await session.step(action, request_id)

    async def state(self, lease: Lease[Session]) -> dict[str, Any]:
        """Return where an episode is; raises EpisodeLapsed."""
        async with lease as session:
            self._require_live(lease)
            return session.state()

    def _require_live(self, lease: Lease[Session]) -> None:
        if lease.lapsed:
            minutes = self.leases.idle_limit / 60
            raise EpisodeLapsed(
                f"the episode was closed after {minutes:g} minutes without a request"
            )
