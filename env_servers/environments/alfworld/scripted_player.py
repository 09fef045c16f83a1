"""A scripted player of ALFWorld's six kinds of tasks: one step towards the goal from any state.

It searches nothing. It reads the goal of the game and where things are, hidden or not, and is a
pure function of both. Games whose actions do not have ALFWorld's names are not played.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from env_servers.environments.alfworld.game import Game, GroundedAction
from env_servers.environments.alfworld.pddl import (
    And,
    Atom,
    Equal,
    Exists,
    Fact,
    Forall,
    Formula,
    Not,
    Or,
)
from env_servers.environments.alfworld.world import State

__all__ = ["GoalSpec", "Purpose", "Step", "next_step", "parse_goal", "plan"]

STATES: Final = ("isclean", "ishot", "iscool")
_TREATMENTS: Final = {
    "isclean": ("cleanobject", ("sinkbasintype", "sinktype")),
    "ishot": ("heatobject", ("microwavetype",)),
    "iscool": ("coolobject", ("fridgetype",)),
}
"""Action and receptacle types by the state they bring about."""


class Purpose(StrEnum):
    """Why a step is made."""

    FETCH = "fetch"
    """Go to where the wanted object is."""
    REVEAL = "reveal"
    """Open what hides the wanted object."""
    TAKE = "take"
    """Take the wanted object."""
    APPROACH = "approach"
    """Carry the object to where it is cleaned, heated or cooled."""
    TREAT = "treat"
    """Clean, heat or cool it."""
    DELIVER = "deliver"
    """Carry the object to where it belongs."""
    UNLOCK = "unlock"
    """Open where it belongs."""
    PUT = "put"
    """Put it there."""
    SEEK_LIGHT = "seek_light"
    """Carry the object to the lamp."""
    LIGHT = "light"
    """Use the lamp."""
    RID = "rid"
    """Put away what hinders."""


@dataclass(frozen=True, slots=True)
class Entity:
    """An object that the goal speaks of."""

    types: tuple[str, ...]
    states: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GoalSpec:
    """A goal as a household task."""

    things: tuple[Entity, ...]
    """What has to be put together, or the one thing to look at."""
    place_types: tuple[str, ...] = ()
    """Types of the receptacle; empty = look at the thing by the lamp."""
    lamp_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """The next action, and what it is for."""

    grounded: GroundedAction
    purpose: Purpose
    thing: str = ""
    """Id of the object that it is about."""
    place: str = ""
    """Id of the receptacle that it is about."""


def parse_goal(goal: Formula) -> GoalSpec | None:
    """Return the household task of a goal; None where it is none of the six kinds."""
    types: dict[str, list[str]] = {}
    states: dict[str, list[str]] = {}
    placed: list[str] = []
    place = ""
    held: list[str] = []
    lit: list[str] = []
    for predicate, *arguments in _facts(goal):
        match predicate:
            case "objecttype" | "receptacletype":
                types.setdefault(arguments[0], []).append(arguments[1])
            case "isclean" | "ishot" | "iscool":
                states.setdefault(arguments[0], []).append(predicate)
            case "inreceptacle":
                placed.append(arguments[0])
                place = arguments[1]
            case "holds":
                held.append(arguments[1])
            case "istoggled":
                lit.append(arguments[0])
            case _:
                pass

    def thing(name: str) -> Entity:
        return Entity(tuple(types.get(name, ())), tuple(states.get(name, ())))

    if held and lit:
        return GoalSpec((thing(held[0]),), lamp_types=tuple(types.get(lit[0], ())))
    if not placed:
        return None
    return GoalSpec(tuple(thing(name) for name in placed), tuple(types.get(place, ())))


def plan(game: Game, state: State, limit: int) -> list[Step] | None:
    """Steps from a state to the goal; None where the planner finds none of at most `limit`."""
    steps: list[Step] = []
    while not game.won(state):
        step = next_step(game, state) if len(steps) < limit else None
        if step is None:
            return None
        steps.append(step)
        state, _ = game.do(state, step.grounded)
    return steps


def next_step(game: Game, state: State) -> Step | None:
    """Return the next step towards the goal; None where the planner knows none."""
    spec = parse_goal(game.goal)
    return None if spec is None else _Plan(game, state).step(spec)


class _Plan:
    """The questions that planning asks of a state."""

    def __init__(self, game: Game, state: State) -> None:
        self.game = game
        self.state = state
        self.here = next(iter(state.matching("atlocation", (None, None))), ("", ""))[1]
        self.held = next((fact[1] for fact in state.matching("holds", (None, None))), None)

    def step(self, spec: GoalSpec) -> Step | None:
        """Return the next step towards a goal."""
        return self._place(spec) if spec.place_types else self._look(spec)

    def _look(self, spec: GoalSpec) -> Step | None:
        thing = spec.things[0]
        if self.held is None or not self._is(self.held, thing.types):
            return self._rid() if self.held else self._get(thing, avoid=None)
        for lamp, place in self._inside(spec.lamp_types):
            if not self._at(place):
                return self._go(place, Purpose.SEEK_LIGHT, self.held)
            return self._do("toggleobject", {"o": lamp}, Purpose.LIGHT, lamp, place)
        return None

    def _place(self, spec: GoalSpec) -> Step | None:
        place, missing = self._choose_place(spec)
        if place is None:
            return None
        if self.held is None:
            return self._get(missing[0], avoid=place) if missing else None
        thing = next((t for t in missing if self._is(self.held, t.types)), None)
        if thing is None:
            return self._rid()
        for state in thing.states:
            if not self.state.is_fact(state, (self.held,)):
                return self._treat(state)
        if not self._at(place):
            return self._go(place, Purpose.DELIVER, self.held)
        if self._closed(place):
            return self._do("openobject", {"r": place}, Purpose.UNLOCK, self.held, place)
        return self._do("putobject", {"o": self.held, "r": place}, Purpose.PUT, self.held, place)

    def _choose_place(self, spec: GoalSpec) -> tuple[str | None, list[Entity]]:
        """Return where to put things, and which of them are not there yet."""
        best: tuple[tuple[int, bool, bool, str], str, list[Entity]] | None = None
        for place in self._places(spec.place_types):
            missing = self._missing(place, spec.things)
            order = (len(missing), self._closed(place), not self._at(place), place)
            if best is None or order < best[0]:
                best = order, place, missing
        return (None, []) if best is None else (best[1], best[2])

    def _missing(self, place: str, things: Sequence[Entity]) -> list[Entity]:
        there = sorted(fact[0] for fact in self.state.matching("inreceptacle", (None, place)))
        missing: list[Entity] = []
        for thing in things:
            match = next((name for name in there if self._fits(name, thing)), None)
            if match is None:
                missing.append(thing)
            else:
                there.remove(match)
        return missing

    def _get(self, thing: Entity, avoid: str | None) -> Step | None:
        """A step towards holding such a thing, from anywhere but `avoid` unless it needs work."""
        best: tuple[tuple[int, bool, bool, str, str], str, str] | None = None
        for name, place in self._inside(thing.types):
            lacking = sum(not self.state.is_fact(s, (name,)) for s in thing.states)
            if not self.state.is_fact("pickupable", (name,)) or (place == avoid and not lacking):
                continue
            order = (lacking, not self._at(place), self._closed(place), place, name)
            if best is None or order < best[0]:
                best = order, name, place
        if best is None:
            return None
        _, name, place = best
        if not self._at(place):
            return self._go(place, Purpose.FETCH, name)
        if self._closed(place):
            return self._do("openobject", {"r": place}, Purpose.REVEAL, name, place)
        return self._do("pickupobject", {"o": name, "r": place}, Purpose.TAKE, name, place)

    def _treat(self, state: str) -> Step | None:
        action, types = _TREATMENTS[state]
        for kind in types:
            for place in self._places((kind,)):
                if not self._at(place):
                    return self._go(place, Purpose.APPROACH, self.held or "")
                arguments = {"o": self.held or "", "r": place}
                if step := self._do(action, arguments, Purpose.TREAT, self.held or "", place):
                    return step
        return None

    def _rid(self) -> Step | None:
        """Return a step towards having free hands."""
        held = self.held or ""
        for grounded in self.game.grounded_actions(self.state, "putobject"):
            return Step(grounded, Purpose.RID, held, self.game.argument(grounded, "r"))
        best: tuple[tuple[bool, bool, str], str] | None = None
        for _, own in self.state.matching("objecttype", (held, None)):
            for kind, _ in self.state.matching("cancontain", (None, own)):
                for place in self._places((kind,)):
                    order = (not self._at(place), self._closed(place), place)
                    if best is None or order < best[0]:
                        best = order, place
        if best is None:
            return None
        if not self._at(best[1]):
            return self._go(best[1], Purpose.RID, held)
        return self._do("openobject", {"r": best[1]}, Purpose.RID, held, best[1])

    def _do(
        self, action: str, arguments: dict[str, str], purpose: Purpose, thing: str, place: str
    ) -> Step | None:
        for grounded in self.game.grounded_actions(self.state, action):
            if all(self.game.argument(grounded, key) == value for key, value in arguments.items()):
                return Step(grounded, purpose, thing, place)
        return None

    def _go(self, place: str, purpose: Purpose, thing: str) -> Step | None:
        return self._do("gotolocation", {"r": place}, purpose, thing, place)

    def _places(self, types: Sequence[str]) -> list[str]:
        """Receptacles of all the types, in order of their ids."""
        receptacles = {f[0] for kind in types[:1] for f in self._of_type("receptacletype", kind)}
        return sorted(p for p in receptacles if all((p, t) in self._typed(p) for t in types))

    def _typed(self, place: str) -> set[Fact]:
        return set(self.state.matching("receptacletype", (place, None)))

    def _of_type(self, predicate: str, kind: str) -> Iterator[Fact]:
        yield from self.state.matching(predicate, (None, kind))

    def _inside(self, types: Sequence[str]) -> list[tuple[str, str]]:
        """(object, receptacle) of objects of all the types, in order."""
        facts = self.state.matching("inreceptacle", (None, None))
        return sorted((name, place) for name, place in facts if self._is(name, types))

    def _is(self, name: str, types: Sequence[str]) -> bool:
        return all(self.state.is_fact("objecttype", (name, kind)) for kind in types)

    def _fits(self, name: str, thing: Entity) -> bool:
        has_states = all(self.state.is_fact(state, (name,)) for state in thing.states)
        return has_states and self._is(name, thing.types)

    def _at(self, place: str) -> bool:
        return self.state.is_fact("receptacleatlocation", (place, self.here))

    def _closed(self, place: str) -> bool:
        return self.state.is_fact("openable", (place,)) and not self.state.is_fact(
            "opened", (place,)
        )


def _facts(formula: Formula) -> Iterator[Fact]:
    """Yield the facts that a formula wants to hold, in the order written."""
    match formula:
        case Atom(predicate, arguments):
            yield (predicate, *arguments)
        case And(parts):
            for part in parts:
                yield from _facts(part)
        case Exists(_, part):
            yield from _facts(part)
        case Or() | Not() | Forall() | Equal():
            return
        case _:
            return
