"""The room as a table of its places, what is in each, and what the agent holds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from env_servers.environments.alfworld.game import Game
from env_servers.environments.alfworld.scripted_player import parse_goal
from env_servers.environments.alfworld.world import NEGATED, State
from env_servers.sdk import View
from env_servers.toolkit.drawing import Markup, Table, document, element, facts, join, text_view

__all__ = ["draw"]

_NUMBERS: Final = re.compile(r"\d+")
_TASK: Final = "Your task is to: "


def draw(game: Game, state: State, steps: int) -> list[View]:
    """Draw a state of a game; `steps` are the actions so far."""
    room = _Room(game, state)
    known = {
        "task": game.intro().rpartition(_TASK)[2].strip(),
        "holding": ", ".join(room.held) or "nothing",
        "at": ", ".join(room.here) or "the middle of the room",
        "steps": steps,
    }
    head = ["", "place", "is", "holds"]
    marked = Table(head, [room.row(place) for place in room.places])
    plain = Table(head, [room.row_as_text(place) for place in room.places])
    lines = [f"{name}: {value}" for name, value in known.items()]
    return [
        document("room", "Places and things", facts(known), marked.html()),
        text_view("text", "Places as text", "\n".join([*lines, "", plain.text()])),
    ]


class _Room:
    """A reading of one state."""

    def __init__(self, game: Game, state: State) -> None:
        self._state = state
        self._names = game.names
        goal = parse_goal(game.goal)
        self._wanted = frozenset(
            () if goal is None else (kind for thing in goal.things for kind in thing.types)
        )
        self._targets = frozenset(() if goal is None else (*goal.place_types, *goal.lamp_types))
        self._contents: dict[str, list[str]] = defaultdict(list)
        for thing, place in state.matching("inreceptacle", (None, None)):
            self._contents[place].append(thing)
        for inner, outer in state.matching("inreceptacleobject", (None, None)):
            self._contents[outer].append(inner)
        self._states: dict[str, list[str]] = defaultdict(list)
        for predicate, arguments in sorted(state.facts.items()):
            if not predicate.startswith(NEGATED):
                for fact in arguments:
                    if len(fact) == 1:
                        self._states[fact[0]].append(predicate.removeprefix("is"))
        locations = [fact[1] for fact in state.matching("atlocation", (None, None))]
        places = [fact[0] for fact in state.matching("receptacletype", (None, None))]
        self.places = sorted(places, key=self._by_name)
        self.here = [
            self._named(place)
            for place in self.places
            if any(state.is_fact("receptacleatlocation", (place, where)) for where in locations)
        ]
        self.held = sorted(
            self._described(fact[1]) for fact in state.matching("holds", (None, None))
        )

    def row(self, place: str) -> list[object]:
        """What is shown of a place, with what the task asks for marked."""
        things = [self._marked(thing) for thing in self._things(place)]
        spaced = [part for thing in things for part in (", ", thing)][1:]
        name = self._named(place)
        shown = element("mark", name) if self._is_kind(place, self._targets) else join((name,))
        return [self._sign(place), shown, self._condition(place), join(spaced)]

    def row_as_text(self, place: str) -> list[object]:
        """The same, as text; what the task asks for stands in brackets."""
        things = ", ".join(
            f"[{self._described(thing)}]" if self._is_wanted(thing) else self._described(thing)
            for thing in self._things(place)
        )
        name = self._named(place)
        name = f"[{name}]" if self._is_kind(place, self._targets) else name
        return [self._sign(place), name, self._condition(place), things]

    def _sign(self, place: str) -> str:
        return "@" if self._named(place) in self.here else ""

    def _things(self, place: str) -> Sequence[str]:
        return sorted(self._contents[place], key=self._by_name)

    def _condition(self, place: str) -> str:
        states = list(self._states[place])
        if self._state.is_fact("openable", (place,)) and "opened" not in states:
            states.append("closed")
        return ", ".join(states)

    def _named(self, name: str) -> str:
        return self._names.get(name, name)

    def _by_name(self, name: str) -> tuple[str, int]:
        """In the order of numbers, not of digits."""
        shown = self._named(name)
        number = _NUMBERS.search(shown)
        return _NUMBERS.sub("", shown), int(number[0]) if number else 0

    def _described(self, thing: str) -> str:
        inside = [self._described(inner) for inner in self._things(thing)]
        states = [*self._states[thing], *([f"with {', '.join(inside)}"] if inside else [])]
        return f"{self._named(thing)} ({', '.join(states)})" if states else self._named(thing)

    def _marked(self, thing: str) -> Markup:
        text = self._described(thing)
        return element("mark", text) if self._is_wanted(thing) else join((text,))

    def _is_wanted(self, thing: str) -> bool:
        return self._is_kind(thing, self._wanted) or self._is_kind(thing, self._targets)

    def _is_kind(self, name: str, kinds: frozenset[str]) -> bool:
        return any(
            self._state.is_fact(predicate, (name, kind))
            for kind in kinds
            for predicate in ("objecttype", "receptacletype")
        )
