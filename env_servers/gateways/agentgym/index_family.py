"""AgentGym's environments whose clients name them by `env_idx`: from webshop to the tools.

An error of these servers is a response with status 500; the clients of webshop and bird then ask up
to five times. Its body is a sentence here. Where there is no room it is 503, as webshop has it.
Steps after the end of a task are played on by the originals: here in an episode of the same task
that is opened anew.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from pydantic import BaseModel

from agent_runtime.episode import Transition
from agent_runtime.errors import AgentRuntimeError
from agentgym.env.v1 import environment_pb2 as pb
from env_servers.gateways.agentgym.environment import (
    Answer,
    HttpEnvironment,
    Read,
    Route,
    Slot,
    SlotLease,
    Unknown,
    earned,
    json_answer,
)
from env_servers.gateways.agentgym.requests import BodyReader, OldInt, OldStr, QueryReader
from env_servers.gateways.backend import HeldEpisode
from env_servers.gateways.errors import EpisodeLapsed, GatewayError, UnknownId, problem_of

__all__ = ["INDEX_FAMILY"]

_TEXT: Final = b"text/plain; charset=utf-8"
_NO_ROOM: Final = 503


class _StepBody(BaseModel):
    env_idx: int
    action: str


class _IndexBody(BaseModel):
    env_idx: int


class _IndexEnvironment(HttpEnvironment):
    """What all of the family have in common."""

    greeting = "ok"
    reset_body: ClassVar[type[BaseModel]]
    step_body: ClassVar[type[BaseModel]] = _StepBody
    number_field: ClassVar[str]
    lists: ClassVar[bool] = True
    """Whether there is a route that lists the environments."""
    old: ClassVar[bool] = False
    """Whether the original reads requests as pydantic 1 did."""

    def routes(self) -> Sequence[Route]:
        by_index = QueryReader("env_idx", old=self.old)
        listed = [
            Route("GET", "/", self.greet),
            self._route("POST", "/create", None, self.create),
            self._route("POST", "/step", self._body(self.step_body), self.step),
            self._route("POST", "/reset", self._body(self.reset_body), self.reset),
            self._route("GET", "/observation", by_index, self.observe),
        ]
        if self.lists:
            listed.append(self._route("GET", "/list_envs", None, self.list_all))
        return [*listed, *self.further_routes(by_index)]

    def further_routes(self, by_index: Read) -> Sequence[Route]:
        """Return the routes that not all have."""
        return ()

    # ------------------------------------------------------------------ what differs

    @abstractmethod
    def step_reply(self, slot: Slot, last: Transition) -> Any:
        """Return the reply to a step."""

    def reset_reply(self, slot: Slot, first: Transition) -> Any:
        """Return the reply to a reset."""
        return first.text

    def observation(self, slot: Slot) -> str:
        """Return what the question for the observation is answered with."""
        assert slot.episode is not None
        return slot.episode.last.text

    async def play(self, episode: HeldEpisode, action: str) -> Transition:
        """Play what a client sent; raises AgentRuntimeError, GatewayError."""
        return await episode.step(action)

    async def continued(self, slot: Slot, episode: HeldEpisode) -> HeldEpisode:
        """Return an episode that goes on after the end of its task."""
        return await self.backend.open_reset(episode.reset)

    # ------------------------------------------------------------------ the requests

    async def create(self, values: Any) -> Any:
        """Make an environment; it is reset later."""
        return self.slots.add(Slot()).id

    async def step(self, body: Any) -> Any:
        """Play an action."""
        lease = self.find(body.env_idx)
        async with lease as slot:
            episode = self.played(lease)
            if episode.last.ended:
                following = await self.continued(slot, episode)
                episode.close()
                slot.episode = episode = following
            return self.step_reply(slot, await self.play(episode, body.action))

    async def reset(self, body: Any) -> Any:
        """Begin a task."""
        lease = self.find(body.env_idx)
        async with lease as slot:
            number = self.wanted(slot, getattr(body, self.number_field))
            first = await self.open(slot, number)
            lease.lapsed = False
            slot.facts["first"] = first.text
            return self.reset_reply(slot, first)

    def wanted(self, slot: Slot, number: int | None) -> int:
        """Return the number of the task that a reset wants; raises Unknown."""
        if number is None:
            raise Unknown(f"a reset of {self.kind} has to name its task")
        return number

    async def observe(self, number: int) -> Any:
        """Tell the observation."""
        lease = self.find(number)
        async with lease as slot:
            self.played(lease)
            return self.observation(slot)

    async def list_all(self, _: object) -> Any:
        """Tell the environments."""
        return [it.id for it in self.slots]

    def find(self, number: int) -> SlotLease:
        """Return an environment; raises UnknownId."""
        lease = self.slots.get(number)
        if lease is None:
            raise UnknownId(f"there is no environment {number}: it was never created, or closed")
        return lease

    def played(self, lease: SlotLease) -> HeldEpisode:
        """Return the episode of an environment; raises GatewayError where there is none."""
        if lease.lapsed:
            minutes = self.slots.idle_limit / 60
            raise EpisodeLapsed(
                f"environment {lease.id} was closed after {minutes:g} minutes without a request: "
                "reset it to begin again"
            )
        if lease.held.episode is None:
            raise UnknownId(f"environment {lease.id} was not reset yet")
        return lease.held.episode

    def _body(self, model: type[BaseModel]) -> BodyReader:
        return BodyReader(model, any_content_type=self.old)

    def _route(
        self, method: str, path: str, read: Read | None, ask: Callable[[Any], Awaitable[Any]]
    ) -> Route:
        async def answer(values: Any) -> Answer:
            try:
                return json_answer(await ask(values))
            except (GatewayError, AgentRuntimeError) as error:
                problem = problem_of(error)
                # The clients know no other status than these two.
                status = _NO_ROOM if problem.status == _NO_ROOM else 500
                return Answer(status, f"{problem.detail}\n".encode(), _TEXT)

        return Route(method, path, answer, read)


class _OldStepBody(BaseModel):
    env_idx: OldInt
    action: OldStr


class _WebShopReset(BaseModel):
    env_idx: OldInt
    session_id: OldInt | None = None


class _WebShop(_IndexEnvironment):
    """A client's number is drawn; it has a task, drawn too, before the first reset."""

    kind = "webshop"
    official_count = 6910
    reset_body = _WebShopReset
    step_body = _OldStepBody
    number_field = "session_id"
    numbers_below: ClassVar = 48_950_077
    old = True
    reset_options = {"list_actions": True}

    def further_routes(self, by_index: Read) -> Sequence[Route]:
        return [
            self._route("GET", "/available_actions", by_index, self.list_actions),
            self._route("GET", "/instruction_text", by_index, self.instruct),
            self._route("GET", "/state", by_index, self.state),
        ]

    async def create(self, values: Any) -> Any:
        slot = Slot()
        await self.open(slot, self._any_task())
        return self.slots.add(slot, _drawn(self.slots.get, self.numbers_below)).id

    def wanted(self, slot: Slot, number: int | None) -> int:
        return self._any_task() if number is None else number

    def reset_reply(self, slot: Slot, first: Transition) -> Any:
        return [first.text, None]

    def step_reply(self, slot: Slot, last: Transition) -> Any:
        reward = earned(last)
        return {"state": last.text, "reward": reward, "done": last.ended, "info": None}

    async def list_actions(self, number: int) -> Any:
        """Tell what can be clicked."""
        lease = self.find(number)
        async with lease:
            info = self.played(lease).last.info or {}
            clickables = list(info.get("clickables", ()))
            return {"has_search_bar": bool(info.get("has_search_bar")), "clickables": clickables}

    async def instruct(self, number: int) -> Any:
        """Tell what is to be bought."""
        lease = self.find(number)
        async with lease as slot:
            self.played(lease)
            first = slot.facts["first_text"]
            return (
                first.removeprefix("WebShop [SEP] ")
                .removesuffix(" [SEP] Search")
                .replace(" [SEP] ", " ", 1)
            )

    async def state(self, number: int) -> Any:
        """Answer the names of the fields, as the original does."""
        self.find(number)
        return {name: name for name in ("url", "html", "instruction_text")}

    async def open(self, slot: Slot, number: int) -> Transition:
        first = await super().open(slot, number)
        slot.facts["first_text"] = first.text
        return first

    def _any_task(self) -> int:
        return random.randrange(self.numbering.size or self.official_count)


def _drawn(taken: Callable[[int], object], below: int) -> int:
    """Return a number that nobody has."""
    while taken(number := random.randrange(below)) is not None:
        pass
    return number


class _BirdReset(BaseModel):
    env_idx: int
    item_id: int


class _Bird(_IndexEnvironment):
    """Every step ends the task and tells the right statement."""

    kind = "bird"
    official_prefix = "sqlgym"
    official_count = 10_962
    reset_body = _BirdReset
    number_field = "item_id"
    numbers_below: ClassVar = 489_577

    async def create(self, values: Any) -> Any:
        number = _drawn(self.slots.get, self.numbers_below)
        return self.slots.add(Slot(), number).id

    async def step(self, body: Any) -> Any:
        lease = self.find(body.env_idx)
        async with lease as slot:
            episode = self.played(lease)
            if "gold" not in slot.facts:
                advice = await episode.consult(pb.ADVISOR_EXPERT)
                slot.facts["gold"] = advice.action
        return await super().step(body)

    def reset_reply(self, slot: Slot, first: Transition) -> Any:
        return [first.text, None]

    def observation(self, slot: Slot) -> str:
        return slot.facts["first"]

    def step_reply(self, slot: Slot, last: Transition) -> Any:
        return {
            "state": last.text,
            "reward": earned(last),
            "done": last.ended,
            "info": {"ground_truth": slot.facts["gold"]},
        }


class _ToolCreate(BaseModel):
    id: OldInt


class _ToolReset(BaseModel):
    env_idx: OldInt
    id: OldInt | None = None


class _Tool(_IndexEnvironment):
    """Reads whole replies. What is asked after a step is the question of the beginning."""

    reset_body = _ToolReset
    step_body = _OldStepBody
    number_field = "id"
    old = True

    def routes(self) -> Sequence[Route]:
        create = self._route("POST", "/create", self._body(_ToolCreate), self.create)
        return [it if it.path != "/create" else create for it in super().routes()]

    async def create(self, values: Any) -> Any:
        number, slot = self.slots.reserve(), Slot()  # a number is used up where this fails
        first = await self.open(slot, values.id)
        slot.facts["first"] = first.text
        return self.slots.add(slot, number).id

    def wanted(self, slot: Slot, number: int | None) -> int:
        return slot.facts["number"] if number is None else number

    def observation(self, slot: Slot) -> str:
        return slot.facts["first"]

    async def play(self, episode: HeldEpisode, action: str) -> Transition:
        return await episode.step_reply(action)

    async def continued(self, slot: Slot, episode: HeldEpisode) -> HeldEpisode:
        """Play what was played before the end again: tools change what they work on."""
        following = await self.backend.open_reset(episode.reset)
        for it in episode.inputs[:-1]:
            await following.step_reply(it.reply)
        slot.facts["earned"] = earned(episode.last)
        return following

    def step_reply(self, slot: Slot, last: Transition) -> Any:
        # The originals tell what was earned so far, also after the end.
        reward = max(earned(last), slot.facts.get("earned", 0.0))
        return {"observation": last.text, "reward": reward, "done": last.ended}


class _Weather(_Tool):
    kind = "weather"
    official_count = 343


class _Movie(_Tool):
    kind = "movie"
    official_count = 238


class _Academia(_Tool):
    kind = "academia"
    official_count = 20


class _Todo(_Tool):
    kind = "todo"
    official_count = 155


class _Sheet(_Tool):
    kind = "sheet"
    official_prefix = "tool_sheet"
    official_count = 20


class _SearchQAReset(BaseModel):
    env_idx: int
    id: int | None = None


class _SearchQACreate(BaseModel):
    id: int


class _SearchQA(_Tool):
    """The question stays the observation. Environments can be closed, and cannot be listed."""

    kind = "searchqa"
    official_count = 221_328
    reset_body = _SearchQAReset
    step_body = _StepBody
    lists = False
    old = False

    def routes(self) -> Sequence[Route]:
        create = self._route("POST", "/create", self._body(_SearchQACreate), self.create)
        return [it if it.path != "/create" else create for it in super().routes()]

    def further_routes(self, by_index: Read) -> Sequence[Route]:
        return [self._route("POST", "/close", self._body(_IndexBody), self.close)]

    def wanted(self, slot: Slot, number: int | None) -> int:
        return _IndexEnvironment.wanted(self, slot, number)

    def official_number(self, number: int) -> int:
        if not 0 <= number < self.official_count:
            raise Unknown(f"searchqa has no task {number}")
        return number

    async def continued(self, slot: Slot, episode: HeldEpisode) -> HeldEpisode:
        return await self.backend.open_reset(episode.reset)

    async def close(self, body: Any) -> Any:
        """End an environment; closing what is not there is no error."""
        return self.slots.end(body.env_idx)

    def step_reply(self, slot: Slot, last: Transition) -> Any:
        return {**super().step_reply(slot, last), "info": None}


class _WebArenaReset(BaseModel):
    env_idx: int
    seed: int = 0
    idx: int


class _WebArena(_IndexEnvironment):
    """Reads whole replies. A reset is answered without the frame that every prompt has."""

    kind = "webarena"
    official_count = 812
    reset_body = _WebArenaReset
    reset_options = {"name_sites": True}
    number_field = "idx"
    lists = False

    def further_routes(self, by_index: Read) -> Sequence[Route]:
        return [
            self._route("POST", "/close", self._body(_IndexBody), self.close),
            self._route("GET", "/observation_metadata", by_index, self.ask_browser),
            Route("GET", "/list_envs", self._broken),
        ]

    async def create(self, values: Any) -> Any:
        return {"env_idx": await super().create(values)}

    async def play(self, episode: HeldEpisode, action: str) -> Transition:
        return await episode.step_reply(action)

    def reset_reply(self, slot: Slot, first: Transition) -> Any:
        prompt = _Prompt.read(first.text)
        slot.facts["prompt"] = first.text
        sites = list((first.info or {}).get("sites", ()))
        return {"observation": prompt.content, "sites": sites, "object": prompt.objective}

    def step_reply(self, slot: Slot, last: Transition) -> Any:
        told = last.info or {}
        if last.text.startswith(_FRAME):  # else it says what is wrong with the action
            slot.facts["prompt"] = last.text
        page = {"url": _Prompt.read(slot.facts["prompt"]).url}
        return {
            "observation": last.text,
            "reward": earned(last),
            "terminated": last.terminated,
            "truncated": last.truncated,
            "info": {"page": page, "fail_error": told.get("error", "")},
        }

    def observation(self, slot: Slot) -> str:
        return slot.facts["prompt"]

    async def ask_browser(self, number: int) -> Any:
        """Say that only the browser knows."""
        self.played(self.find(number))
        raise Unknown("a gateway cannot look into the browser: it knows what an agent is told")

    async def close(self, body: Any) -> Any:
        """End an environment; closing what is not there is no error."""
        return self.slots.end(body.env_idx)

    async def _broken(self, _: object) -> Answer:
        return Answer(500, b"Internal Server Error", _TEXT)  # the original's attribute is missing


_FRAME: Final = "OBSERVATION:\n"


class _Prompt(NamedTuple):
    """The parts of a prompt."""

    content: str
    """The line of tabs, a blank line, the tree."""
    url: str
    objective: str

    @classmethod
    def read(cls, text: str) -> _Prompt:
        """Return the parts; from the end, because only the tree has lines of its own."""
        text, _, _ = text.rpartition("\nPREVIOUS ACTION: ")
        text, _, objective = text.rpartition("\nOBJECTIVE: ")
        content, _, url = text.rpartition("\nURL: ")
        return cls(content.removeprefix(_FRAME), url, objective)


INDEX_FAMILY: Final[Mapping[str, type[HttpEnvironment]]] = {
    it.kind: it
    for it in (
        *(_WebShop, _Bird, _SearchQA, _WebArena),
        *(_Weather, _Movie, _Academia, _Todo, _Sheet),
    )
}
