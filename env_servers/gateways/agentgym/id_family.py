"""AgentGym's environments whose clients name them by `id`, and are told errors with status 200.

A reply of these servers is either what was asked for or `{"error": text}`. The texts for what a
client did wrong are the original's; what went wrong behind the gateway is told in a sentence.
"""

from __future__ import annotations

import base64
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import orjson
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
    plain_number,
)
from env_servers.gateways.agentgym.requests import BodyReader, Id, QueryReader
from env_servers.gateways.errors import GatewayError, problem_of

__all__ = ["ID_FAMILY"]

_SERVER_ERROR: Final = Answer(500, b"Internal Server Error", b"text/plain; charset=utf-8")


class _Refused(Exception):
    """When a request is answered by an error; its text is the reply's."""


class _IdBody(BaseModel):
    id: Id


class _StepBody(BaseModel):
    id: Id
    action: str


class _DataBody(BaseModel):
    id: Id
    data_idx: int


class _IdEnvironment(HttpEnvironment):
    """What the six have in common."""

    reset_body: ClassVar[type[BaseModel]] = _DataBody
    number_field: ClassVar[str] = "data_idx"
    closes: ClassVar[bool] = True
    """Whether there is a route to close an environment."""
    unset: ClassVar[str] = ""
    """The error of a step before the first reset; empty = the environment's number."""
    unset_observation: ClassVar[str] = "'observation'"
    """The error of asking for an observation before the first reset."""

    def routes(self) -> Sequence[Route]:
        by_id = QueryReader("id", "env_id")
        listed = [
            Route("GET", "/", self.greet),
            Route("POST", "/create", self._replying(self.create)),
            self._route("POST", "/step", BodyReader(_StepBody), self.step),
            self._route("POST", "/reset", BodyReader(self.reset_body), self.reset),
            self._route("GET", "/observation", by_id, self.observe),
        ]
        if self.closes:
            listed.append(Route("POST", "/close", self.close, BodyReader(_IdBody)))
        return [*listed, *self.further_routes(by_id)]

    def further_routes(self, by_id: Read) -> Sequence[Route]:
        """Return the routes that not all have."""
        return [self._route("GET", "/detail", by_id, self.describe)]

    # ------------------------------------------------------------------ what differs

    @abstractmethod
    def reset_reply(self, lease: SlotLease, first: Transition) -> Any:
        """Return the reply to a reset."""

    @abstractmethod
    def step_reply(self, slot: Slot, last: Transition) -> Any:
        """Return the reply to a step."""

    def observation(self, lease: SlotLease) -> Any:
        """Return the reply to the question for the observation."""
        return self.text(self.played(lease, self.unset_observation).last)

    def detail(self, lease: SlotLease) -> Any:
        """Return the reply to the question for everything."""
        return {"done": False, "reward": 0, "deleted": False}

    def text(self, transition: Transition) -> str:
        """Return an observation as the original's server says it."""
        return transition.text

    def gone(self, number: int) -> str:
        """Return the error for an id under which nothing is."""
        return f"The id {number} is not valid."

    # ------------------------------------------------------------------ the requests

    async def create(self, _: object) -> Any:
        """Make an environment; it is reset later."""
        return {"id": self.slots.add(Slot()).id}

    async def step(self, body: Any) -> Any:
        """Play an action."""
        lease = self.find(body.id)
        async with lease as slot:
            last = await self.played(lease, self.unset).step(body.action)
            slot.reward += earned(last)
            return self.step_reply(slot, last)

    async def reset(self, body: Any) -> Any:
        """Begin a task."""
        lease = self.find(body.id)
        async with lease as slot:
            first = await self.open(slot, getattr(body, self.number_field))
            lease.lapsed = False
            return self.reset_reply(lease, first)

    async def observe(self, number: int) -> Any:
        """Tell the last observation."""
        lease = self.find(number)
        async with lease:
            return self.observation(lease)

    async def describe(self, number: int) -> Any:
        """Tell everything."""
        lease = self.find(number)
        async with lease as slot:
            if slot.episode is not None or lease.lapsed:
                self.played(lease, "")
            return self.detail(lease)

    async def close(self, body: Any) -> Answer:
        """End an environment; closing what is not there is no error."""
        return json_answer(self.slots.end(body.id))

    def find(self, number: int) -> SlotLease:
        """Return an environment; raises _Refused."""
        lease = self.slots.get(number)
        if lease is None:
            raise _Refused(self.gone(number))
        return lease

    def played(self, lease: SlotLease, unset: str) -> Any:
        """Return the episode of an environment; raises _Refused where there is none to ask.

        Args:
            lease: The environment.
            unset: The error of one that was never reset; empty = its number.
        """
        if lease.lapsed:
            minutes = self.slots.idle_limit / 60
            raise _Refused(
                f"The task with environment {lease.id} was closed after {minutes:g} minutes "
                "without a request. Reset it to begin again."
            )
        episode = lease.held.episode
        if episode is None:
            raise _Refused(unset or str(lease.id))
        if episode.last.ended:
            raise _Refused(f"The task with environment {lease.id} has finished.")
        return episode

    def _route(
        self, method: str, path: str, read: Read, ask: Callable[[Any], Awaitable[Any]]
    ) -> Route:
        return Route(method, path, self._replying(ask), read)

    def _replying(self, ask: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Answer]]:
        """Return what answers with JSON, errors too."""

        async def answer(values: Any) -> Answer:
            try:
                return json_answer(await ask(values))
            except _Refused as refused:
                return json_answer({"error": str(refused)})
            except (GatewayError, AgentRuntimeError) as error:
                return json_answer({"error": problem_of(error).detail})

        return answer


class _TextCraftCreate(BaseModel):
    commands: str | None = None
    goal: str | None = None


class _TextCraftReset(BaseModel):
    id: Id
    data_idx: int | None = 0


class _TextCraft(_IdEnvironment):
    """Created with the task of its own number. Goals and commands that are sent are not heard.

    The goal is no end: the original tells `done` of the step that reaches it, and plays on.
    """

    kind = "textcraft"
    greeting = "This is environment TextCraft."
    official_count = 544
    reset_options = {"play_on": True}
    reset_body = _TextCraftReset

    def routes(self) -> Sequence[Route]:
        create = self._route("POST", "/create", BodyReader(_TextCraftCreate), self.create)
        return [it if it.path != "/create" else create for it in super().routes()]

    def further_routes(self, by_id: Read) -> Sequence[Route]:
        broken = [Route("GET", path, self._broken, by_id) for path in ("/commands", "/goal")]
        return [*super().further_routes(by_id), *broken]

    async def _broken(self, _: object) -> Answer:
        return _SERVER_ERROR  # the original's methods do not exist

    def official_number(self, number: int) -> int:
        return number % self.official_count

    async def create(self, _: object) -> Any:
        number, slot = self.slots.reserve(), Slot()
        first = await self.open(slot, number)
        return self.reset_reply(self.slots.add(slot, number), first)

    async def reset(self, body: Any) -> Any:
        if body.data_idx is None:
            self.find(body.id)
            raise _Refused("unsupported operand type(s) for %: 'NoneType' and 'int'")
        return await super().reset(body)

    def reset_reply(self, lease: SlotLease, first: Transition) -> Any:
        return {"id": lease.id, "observation": first.text, "done": False, "reward": 0}

    def step_reply(self, slot: Slot, last: Transition) -> Any:
        return {
            "observation": last.text,
            "reward": plain_number(last.reward),
            "done": bool(last.reward),
        }

    def detail(self, lease: SlotLease) -> Any:
        last = self.played(lease, "").last
        reward = plain_number(last.reward)
        done = bool(last.reward)
        return {"observation": last.text, "done": done, "reward": reward, "deleted": False}


class _BabyAI(_IdEnvironment):
    """Tells the score of the episode beside the reward; draws a picture when asked to."""

    kind = "babyai"
    greeting = "This is environment BabyAI."

    async def item(self, number: int) -> str:
        if number < 0 and not self.numbering.split:
            level = number // 40
            raise Unknown(f"Seed must be greater or equal to zero, actual value: {level}")
        return await super().item(number)

    def further_routes(self, by_id: Read) -> Sequence[Route]:
        return [self._route("POST", "/render", BodyReader(_IdBody), self.render)]

    def reset_reply(self, lease: SlotLease, first: Transition) -> Any:
        lease.held.facts["goal"] = first.text.partition("\n")[0]
        return {**self._fields(first, first.text), "deleted": False}

    def step_reply(self, slot: Slot, last: Transition) -> Any:
        return self._fields(last, last.text)

    def observation(self, lease: SlotLease) -> Any:
        slot = lease.held
        if slot.episode is None and not lease.lapsed:
            return {
                "observation": "Environment not initialized",
                "reward": 0,
                "score": 0,
                "done": False,
                "deleted": False,
            }
        last = self.played(lease, "").last
        goal = slot.facts["goal"]
        text = last.text if last.text.startswith(goal) else f"{goal}\n{last.text}"
        return {**self._fields(last, text), "deleted": False}

    async def close(self, body: Any) -> Answer:
        lease = self.slots.get(body.id)
        if lease is not None and lease.held.episode is None and not lease.lapsed:
            return json_answer(value=False)  # the original forgets only what was reset
        return await super().close(body)

    async def render(self, body: Any) -> Any:
        """Draw the state: the text of a `data:` address."""
        lease = self.find(body.id)
        async with lease:
            return await _draw(self.played(lease, ""))

    def _fields(self, last: Transition, text: str) -> dict[str, Any]:
        score = last.reward if last.score is None else last.score
        return {
            "observation": text,
            "reward": plain_number(last.reward),
            "score": plain_number(score),
            "done": last.ended,
        }


async def _draw(episode: Any) -> str:
    """Return the first picture of a state as a `data:` address; raises AgentRuntimeError."""
    drawn: pb.RenderResponse = await episode.render()
    for view in drawn.views:
        if view.media_type.startswith("image/"):
            content = base64.b64encode(view.content).decode()
            return f"data:{view.media_type};base64,{content}"
    raise _Refused("this state has no picture")


_SIMULATOR: Final = "simulator"
"""The view of ScienceWorld that has its state as data."""
_NOT_RESET: Final = "ERROR: Interface is not initialized -- call reset() before beginning."
_HINTED: Final = 10
"""Actions and objects of `/state`."""


async def _simulator(episode: Any) -> dict[str, Any]:
    """Return what the simulator tells of a state; raises AgentRuntimeError."""
    drawn: pb.RenderResponse = await episode.render()
    for view in drawn.views:
        if view.name == _SIMULATOR:
            return orjson.loads(view.content)
    raise _Refused("the server behind this gateway tells nothing of the simulator")


class _SciWorld(_IdEnvironment):
    """Tells the change of the score as reward. Its task's description is apart from the room."""

    kind = "sciworld"
    greeting = "This is environment ScienceWorld."
    reset_options = {"name_task": True}

    def official_number(self, number: int) -> int:
        # Which of the two maps of the original's numbers is served, the server's setting says.
        splits = self.backend.environments[self.kind].splits
        count = sum(it.size for it in splits if it.name.startswith("official"))
        if not -count <= number < count:
            raise Unknown("list index out of range")
        return number % count

    unset = "'ScienceWorldEnv' object has no attribute 'variationIdx'"

    def further_routes(self, by_id: Read) -> Sequence[Route]:
        return [
            *super().further_routes(by_id),
            self._route("POST", "/step_visual", BodyReader(_StepBody), self.step_visual),
            self._route("GET", "/task_description", by_id, self.describe_task),
            self._route("GET", "/action_hint", by_id, self.hint),
            self._route("GET", "/goals", by_id, self.tell_goals),
            self._route("GET", "/state", by_id, self.tell_state),
            self._route("GET", "/object_tree", by_id, self.tell_objects),
        ]

    async def close(self, body: Any) -> Answer:
        closed = await super().close(body)
        return closed if closed.body == b"true" else _SERVER_ERROR

    async def hint(self, number: int) -> Any:
        """Tell what can be done, and with what."""
        lease = self.find(number)
        async with lease as slot:
            names = ("possible_actions", "possible_objects")
            if slot.episode is None and not lease.lapsed:
                return {name: [_NOT_RESET] for name in names}
            told = await _simulator(self.played(lease, ""))
            return {name: told[name] for name in names}

    async def tell_goals(self, number: int) -> Any:
        """Tell which goals are met."""
        lease = self.find(number)
        async with lease:
            told = await _simulator(self.played(lease, _NOT_RESET))
            return {"goals": told["goal_progress"]}

    async def tell_state(self, number: int) -> Any:
        """Tell the state without a move."""
        lease = self.find(number)
        async with lease:
            told = await _simulator(self.played(lease, _NOT_RESET))
            names = ("observation", "inventory", "task_description", "goal_progress")
            return {
                **{name: told[name] for name in names},
                "possible_actions": told["possible_actions"][:_HINTED],
                "possible_objects": told["possible_objects"][:_HINTED],
                "current_moves": told["moves"],
            }

    async def tell_objects(self, number: int) -> Any:
        """Say that only the simulator knows."""
        lease = self.find(number)
        async with lease:
            self.played(lease, _NOT_RESET)
            raise _Refused("the tree of all objects stays in the simulator")

    def gone(self, number: int) -> str:
        if 0 <= number < self.slots.issued:
            return f"The task with environment {number} has been deleted."
        return super().gone(number)

    def reset_reply(self, lease: SlotLease, first: Transition) -> Any:
        facts = lease.held.facts
        description, _, room = first.text.partition("\n")
        info = first.info or {}
        facts["task"] = {
            "task_name": info.get("task"),
            "var_num": plain_number(info.get("variation")),
            "task_description": description,
        }
        facts["score"] = facts["gained"] = plain_number(info.get("score"))
        facts["room"] = room
        return {**facts["task"], **self._state(lease.held), "deleted": False}

    def step_reply(self, slot: Slot, last: Transition) -> Any:
        score = plain_number(last.reward)
        slot.facts["gained"], slot.facts["score"] = score - slot.facts["score"], score
        return self._state(slot)

    def observation(self, lease: SlotLease) -> Any:
        self.played(lease, self.unset_observation)
        return self._state(lease.held)["observation"]

    def detail(self, lease: SlotLease) -> Any:
        slot = lease.held
        if slot.episode is None:
            return {"deleted": False, "done": False}
        seen = slot.facts.get("seen", {})
        return {"deleted": False, **slot.facts["task"], **self._state(slot), **seen}

    async def describe_task(self, number: int) -> Any:
        """Tell the task's description."""
        lease = self.find(number)
        async with lease as slot:
            if slot.episode is None and not lease.lapsed:
                return {"task_description": _NOT_RESET}
            self.played(lease, "")
            return {"task_description": slot.facts["task"]["task_description"]}

    async def step_visual(self, body: Any) -> Any:
        """Play the action in a whole reply; tell the step's fields, and what is carried."""
        _, named, action = body.action.partition("Action:")
        body.action = (action if named else body.action).removesuffix("</s>").strip()
        reply = await self.step(body)
        async with self.find(body.id) as slot:
            assert slot.episode is not None
            told = await _simulator(slot.episode)
            slot.facts["seen"] = {name: told[name] for name in ("inventory", "moves")}
            return {**reply, **slot.facts["seen"]}

    def _state(self, slot: Slot) -> dict[str, Any]:
        facts = slot.facts
        assert slot.episode is not None
        last = slot.episode.last
        return {
            "observation": facts["room"] if last.seq == 0 else last.text,
            "reward": facts["gained"],
            "score": facts["score"],
            "done": last.ended,
        }


class _AlfWorldReset(BaseModel):
    id: Id
    game: int
    world_type: str


class _AlfWorld(_IdEnvironment):
    """Text games; also where a client names another kind of world."""

    kind = "alfworld"
    greeting = "This is environment AlfWorld."
    official_count = 2620
    reset_body = _AlfWorldReset
    reset_options = {"list_actions": True}
    number_field = "game"
    closes = False
    worlds: ClassVar = ("Text", "Embody", "Hybrid")

    def further_routes(self, by_id: Read) -> Sequence[Route]:
        listed = self._route("GET", "/available_actions", by_id, self.list_actions)
        return [*super().further_routes(by_id), listed]

    async def reset(self, body: Any) -> Any:
        if body.world_type not in self.worlds:
            raise _Refused('world_type must be one of "Text", "Embody" and "Hybrid"')
        lease = self.find(body.id)
        reply = await super().reset(body)
        lease.held.facts["world_type"] = body.world_type
        return reply

    def reset_reply(self, lease: SlotLease, first: Transition) -> Any:
        text, actions = _without_actions(first.text)
        task_type = (first.info or {}).get("task_type", "")
        return {
            "id": lease.id,
            "observation": text,
            "available_actions": actions,
            "task_type": task_type,
        }

    def step_reply(self, slot: Slot, last: Transition) -> Any:
        text, actions = _without_actions(last.text)
        return {
            "observation": text,
            "reward": earned(last),
            "available_actions": actions,
            "done": last.ended,
        }

    def text(self, transition: Transition) -> str:
        return _without_actions(transition.text)[0]

    async def list_actions(self, number: int) -> Any:
        """Tell what can be done."""
        lease = self.find(number)
        async with lease:
            episode = self.played(lease, "'available_actions'")
            return _without_actions(episode.last.text)[1]

    def detail(self, lease: SlotLease) -> Any:
        slot = lease.held
        if slot.episode is None:
            return super().detail(lease)
        text, actions = _without_actions(slot.episode.last.text)
        return {
            "world_type": slot.facts["world_type"],
            "game": slot.facts["number"],
            "observation": text,
            "available_actions": actions,
            "done": False,
            "reward": plain_number(slot.reward),
            "deleted": False,
        }


def _without_actions(text: str) -> tuple[str, list[str]]:
    """Return an observation without its last line, and the actions that this line lists."""
    shown, listed, actions = text.rpartition("\nAVAILABLE ACTIONS: ")
    return (shown, actions.split(",")) if listed else (text, [])


class _MazeReset(BaseModel):
    id: Id
    game: int


class _Maze(_IdEnvironment):
    """Says where one is; the client knows the rules."""

    kind = "maze"
    greeting = "This is environment LMRL-Gym."
    official_prefix = "lmrlgym_maze"
    official_count = 26
    reset_body = _MazeReset
    reset_options = {"instructions": ""}
    number_field = "game"
    closes = False
    moves: ClassVar = ("move left", "move right", "move up", "move down")

    def further_routes(self, by_id: Read) -> Sequence[Route]:
        moves = Route("GET", "/available_actions", self._list_moves)
        return [*super().further_routes(by_id), moves]

    async def _list_moves(self, _: object) -> Answer:
        return json_answer(self.moves)

    def official_number(self, number: int) -> int:
        if number >= self.official_count:
            raise Unknown(f"The game {number} is not valid.")
        game = super().official_number(number)
        if game == self.official_count - 1:
            raise Unknown("")  # the original trips over a game that starts at its goal
        return game

    def reset_reply(self, lease: SlotLease, first: Transition) -> Any:
        return {"observation": self.text(first)}

    def step_reply(self, slot: Slot, last: Transition) -> Any:
        reward = plain_number(last.reward)
        return {"observation": self.text(last), "reward": reward, "done": last.ended}

    def text(self, transition: Transition) -> str:
        return transition.text if transition.ended else transition.text.removesuffix("\n")

    async def describe(self, number: int) -> Any:
        lease = self.find(number)
        async with lease as slot:
            last = self.played(lease, "'goal_position'").last
            official = not self.numbering.split
            return {
                "maze_name": "double_t_maze" if official else slot.facts["item"],
                "observation": self.text(last),
                "done": False,
                "reward": plain_number(slot.reward),
                "deleted": False,
            }


class _WordleReset(BaseModel):
    id: Id
    seed: int


class _Wordle(_IdEnvironment):
    """Says what a guess told. Its client asks once for the words, and shows them itself."""

    kind = "wordle"
    greeting = "This is environment LMRL-Gym."
    official_prefix = "lmrlgym_wordle"
    reset_body = _WordleReset
    number_field = "seed"
    closes = False
    first_words: ClassVar = "Let's start Wordle!"

    def further_routes(self, by_id: Read) -> Sequence[Route]:
        words = self._route("GET", "/filtered_vocab", by_id, self.list_words)
        return [*super().further_routes(by_id), words]

    async def item(self, number: int) -> str:
        # Any integer seeds the original's generator; here the first million has a game each.
        return await super().item(number % 1_000_000)

    async def open(self, slot: Slot, number: int) -> Transition:
        first = await super().open(slot, number)
        slot.facts["words"] = _listed_words(first.text)
        return first

    async def step(self, body: Any) -> Any:
        await self._begin(body.id)
        return await super().step(body)

    async def list_words(self, number: int) -> Any:
        """Tell which words are still possible."""
        await self._begin(number)
        lease = self.find(number)
        async with lease as slot:
            self.played(lease, "")
            return slot.facts["words"]

    async def _begin(self, number: int) -> None:
        """Begin a game where none was: the original plays before the first reset, too."""
        lease = self.find(number)
        async with lease as slot:
            if slot.episode is None and not lease.lapsed:
                await self.open(slot, 0)
                slot.facts["unset"] = True

    def reset_reply(self, lease: SlotLease, first: Transition) -> Any:
        return {"id": lease.id, "observation": self.first_words}

    def step_reply(self, slot: Slot, last: Transition) -> Any:
        assert slot.episode is not None
        guess = slot.episode.inputs[-1].action.replace(" ", "")
        marks = last.text.split()
        if len(marks) == len(guess):
            slot.facts["words"] = [it for it in slot.facts["words"] if _agrees(it, guess, marks)]
        reward = plain_number(last.reward)
        return {"observation": last.text, "reward": reward, "done": last.ended}

    def observation(self, lease: SlotLease) -> Any:
        if "unset" in lease.held.facts and lease.held.episode is not None:
            raise _Refused(self.unset_observation)
        return super().observation(lease)

    def text(self, transition: Transition) -> str:
        return transition.text if transition.seq else self.first_words

    def detail(self, lease: SlotLease) -> Any:
        slot = lease.held
        if slot.episode is None or "unset" in slot.facts:
            return super().detail(lease)
        return {
            "done": False,
            "reward": plain_number(slot.reward),
            "deleted": False,
            "observation": self.text(slot.episode.last),
            "seed": slot.facts["number"],
        }


def _listed_words(text: str) -> list[str]:
    """Return the words that the first observation of a game lists; raises _Refused."""
    _, fence, listed = text.partition("```\n")
    if not fence:
        raise _Refused("this game lists no words: choose a split that does, for example train")
    return listed.partition("```")[0].split()


def _agrees(word: str, guess: str, marks: Sequence[str]) -> bool:
    """Tell whether a word agrees with what a guess told."""
    for place, (letter, mark) in enumerate(zip(guess, marks, strict=True)):
        if mark == "b" and letter in word:
            return False
        if mark == "g" and word[place] != letter:
            return False
        if mark == "y" and (letter not in word or word[place] == letter):
            return False
    return True


ID_FAMILY: Final[Mapping[str, type[HttpEnvironment]]] = {
    it.kind: it for it in (_TextCraft, _BabyAI, _SciWorld, _AlfWorld, _Maze, _Wordle)
}
