"""Generated household games: rooms, what stands and lies in them, and a task that can be solved.

Contains the generator and the division of room layouts into those that are trained on and those
that are not. A game depends on its number alone; only the first 53 bits of Python's generator are
used, whose sequence is the same in every version. The rules are `household.pddl`, the texts
`household.twl`; nothing here plays.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple, TypeVar

from env_servers.environments.alfworld.game import Game, build_game
from env_servers.environments.alfworld.pddl import (
    And,
    Atom,
    Equal,
    Exists,
    Fact,
    Formula,
    Not,
    Parameter,
    Problem,
    read_domain,
)
from env_servers.environments.alfworld.tasktypes import TaskType
from env_servers.environments.alfworld.textgen import read_grammar
from env_servers.environments.alfworld.vocabulary import (
    CLEANABLE,
    COOLABLE,
    HEATABLE,
    HOLDS,
    LAMPS,
    OPENABLE,
    ROOMS,
    Furnishing,
    RoomKind,
)

__all__ = ["Assignment", "Layout", "assign", "build", "game_texts", "generate", "layout"]

T = TypeVar("T")

LAYOUTS: Final = 60
"""Room layouts of each kind that are trained on."""
UNSEEN_LAYOUTS: Final = 20
"""Room layouts of each kind that are kept for evaluation."""
_UNSEEN_SHARE: Final = 4
"""One layout in so many, by a hash of what it contains, is kept for evaluation."""
_TASK: Final = "UNSTATED TASK"

_K, _L, _B, _T = RoomKind
_ROOMS_OF: Final[Mapping[TaskType, tuple[RoomKind, ...]]] = {
    TaskType.PLACE: (_K, _L, _B, _T),
    TaskType.LOOK: (_L, _B),
    TaskType.CLEAN: (_K, _T),
    TaskType.HEAT: (_K,),
    TaskType.COOL: (_K,),
    TaskType.TWO: (_K, _L, _B, _T),
}
_STATE_OF: Final = {TaskType.CLEAN: "isclean", TaskType.HEAT: "ishot", TaskType.COOL: "iscool"}
_FIT_FOR: Final = {
    TaskType.CLEAN: CLEANABLE,
    TaskType.HEAT: HEATABLE,
    TaskType.COOL: COOLABLE,
}
_APPLIANCES: Final = {
    TaskType.CLEAN: frozenset({"SinkBasin", "BathtubBasin"}),
    TaskType.HEAT: frozenset({"Microwave"}),
    TaskType.COOL: frozenset({"Fridge"}),
}
_SENTENCES: Final = {
    TaskType.PLACE: ("put a {o} in {r}", "put some {o} on {r}"),
    TaskType.LOOK: ("look at {o} under the {r}", "examine the {o} with the {r}"),
    TaskType.CLEAN: ("put a clean {o} in {r}", "clean some {o} and put it in {r}"),
    TaskType.HEAT: ("put a hot {o} in {r}", "heat some {o} and put it in {r}"),
    TaskType.COOL: ("put a cool {o} in {r}", "cool some {o} and put it in {r}"),
    TaskType.TWO: ("put two {o} in {r}", "find two {o} and put them in {r}"),
}
_ABILITIES: Final = (("cleanable", CLEANABLE), ("heatable", HEATABLE), ("coolable", COOLABLE))


class Layout(NamedTuple):
    """A room and its receptacles."""

    kind: RoomKind
    receptacles: tuple[tuple[str, int], ...]
    """Class and number, in order of the classes."""


class Assignment(NamedTuple):
    """What a game is made of, short of its contents."""

    type: TaskType
    kind: RoomKind
    unseen: bool
    """The room's layout is none of those that are trained on."""
    layout: int
    seed: str


class _Wanted(NamedTuple):
    """The task: an object class and where it belongs (or the lamp to look at it by)."""

    thing: str
    place: str


class _Draw:
    """Choices from the part of the random generator that never changes between versions."""

    def __init__(self, *seed: object) -> None:
        text = ":".join(map(str, seed)).encode()
        number = int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "big")
        self._next = random.Random(number).random

    def chance(self, share: float) -> bool:
        return self._next() < share

    def below(self, bound: int) -> int:
        return int(self._next() * bound)

    def one(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def order(self, items: Sequence[T]) -> list[T]:
        waiting = list(items)
        return [waiting.pop(self.below(len(waiting))) for _ in items]

    def number(self, furnishing: Furnishing) -> int:
        if not self.chance(furnishing.chance):
            return 0
        return furnishing.least + self.below(furnishing.most - furnishing.least + 1)


@cache
def layout(kind: RoomKind, number: int, *, unseen: bool) -> Layout:
    """Return the layout of a kind of room; seen and unseen ones differ in their receptacles."""
    attempt = 0
    while True:
        draw = _Draw("layout", kind, unseen, number, attempt)
        counted = ((name, draw.number(f)) for name, f in ROOMS[kind].receptacles.items())
        drawn = Layout(kind, tuple((name, count) for name, count in counted if count))
        if _is_unseen(drawn) is unseen:
            return drawn
        attempt += 1


def _is_unseen(layout: Layout) -> bool:
    return hashlib.blake2b(repr(layout[1]).encode()).digest()[0] % _UNSEEN_SHARE == 0


def assign(number: int, *, unseen: bool, stream: str) -> Assignment:
    """Return what the game of a number is; task types take turns. `stream` keeps splits apart."""
    types = list(TaskType)
    task_type = types[number % len(types)]
    draw = _Draw("game", stream, number)
    kind = draw.one(_ROOMS_OF[task_type])
    chosen_layout = draw.below(UNSEEN_LAYOUTS if unseen else LAYOUTS)
    return Assignment(task_type, kind, unseen, chosen_layout, f"{stream}:{number}")


def generate(assignment: Assignment) -> tuple[Problem, str]:
    """Return the game's problem, and its task in words. It can always be solved."""
    room = layout(assignment.kind, assignment.layout, unseen=assignment.unseen)
    attempt = 0
    while True:
        draw = _Draw("contents", assignment.seed, attempt)
        counts = {name: draw.number(f) for name, f in ROOMS[room.kind].objects.items()}
        target = _want(assignment.type, room, counts, draw)
        if target is not None:
            return _furnish(assignment.type, room, counts, target, draw)
        attempt += 1


def game_texts(assignment: Assignment) -> dict[str, str]:
    """Return the game as a `game.tw-pddl` file has it: what other engines need to play it."""
    problem, sentence = generate(assignment)
    return {
        "pddl_domain": _text("household.pddl"),
        "grammar": _text("household.twl").replace(_TASK, sentence),
        "pddl_problem": _write(problem),
    }


def build(assignment: Assignment) -> Game:
    """Return the game, ready to be played."""
    problem, sentence = generate(assignment)
    grammar = read_grammar(_text("household.twl").replace(_TASK, sentence))
    return build_game(read_domain(_text("household.pddl")), problem, grammar)


@cache
def _text(name: str) -> str:
    return files("env_servers.environments.alfworld").joinpath(name).read_text(encoding="utf-8")


def _want(kind: TaskType, room: Layout, counts: dict[str, int], draw: _Draw) -> _Wanted | None:
    """Return a task for the room, with enough objects of its class; None where there is none."""
    if kind is TaskType.LOOK:
        lamps = [name for name in sorted(LAMPS) if _homes(name, room)]
        things = [n for n, count in counts.items() if count and n not in LAMPS and _homes(n, room)]
        if not lamps or not things:
            return None
        pair_drawn = _Wanted(draw.one(things), draw.one(lamps))
        counts[pair_drawn.place] = max(1, counts.get(pair_drawn.place, 0))
        return pair_drawn
    avoided = _APPLIANCES.get(kind, frozenset())
    pairs = [
        _Wanted(thing, receptacle)
        for thing in counts
        if thing not in LAMPS and thing in _FIT_FOR.get(kind, counts)
        for receptacle, _ in room.receptacles
        if thing in HOLDS[receptacle]
        and receptacle not in avoided
        and any(home != receptacle for home in _homes(thing, room))
    ]
    if not pairs:
        return None
    # First the thing, then the place: else things that go anywhere would be wanted most.
    thing = draw.one(sorted({pair.thing for pair in pairs}))
    pair_drawn = draw.one([pair for pair in pairs if pair.thing == thing])
    counts[thing] = max(2 if kind is TaskType.TWO else 1, counts[thing])
    return pair_drawn


def _homes(thing: str, room: Layout) -> list[str]:
    return [receptacle for receptacle, _ in room.receptacles if thing in HOLDS[receptacle]]


def _furnish(
    kind: TaskType, room: Layout, counts: Mapping[str, int], target: _Wanted, draw: _Draw
) -> tuple[Problem, str]:
    places = [(name, _id(name, n)) for name, count in room.receptacles for n in range(count)]
    stops = draw.order([f"loc_bar_{n:02d}" for n in range(len(places) + 1)])
    objects = {"agent1": "agent"} | dict.fromkeys(sorted(stops), "location")
    facts: list[Fact] = [("atlocation", "agent1", stops[-1])]
    for (name, receptacle), stop in zip(places, stops, strict=False):
        objects[receptacle] = "receptacle"
        facts += [
            ("receptacletype", receptacle, _type(name)),
            ("receptacleatlocation", receptacle, stop),
        ]
        if name in OPENABLE:
            facts.append(("openable", receptacle))
    for thing, count in counts.items():
        # What is wanted somewhere is not there yet.
        homes = [p for p in places if thing in HOLDS[p[0]] and (thing, p[0]) != target]
        for n in range(count if homes else 0):
            objects[_id(thing, n)] = "object"
            facts += _describe(thing, _id(thing, n), draw.one(homes)[1])
    facts += _capacities(room, counts)
    for name in sorted({name for name, _ in room.receptacles} | _NAMED_RECEPTACLES):
        objects[_type(name)] = "rtype"
    for name in sorted(counts):
        objects[_type(name)] = "otype"
    sentence = draw.one(_SENTENCES[kind]).format(o=target.thing.lower(), r=target.place.lower())
    return Problem(objects, tuple(facts), _goal(kind, target)), sentence


_NAMED_RECEPTACLES: Final = frozenset({"SinkBasin", "Microwave", "Fridge"})
"""Classes that the rules name: they have to be declared in every game."""


def _describe(thing: str, name: str, receptacle: str) -> list[Fact]:
    facts: list[Fact] = [("objecttype", name, _type(thing)), ("inreceptacle", name, receptacle)]
    facts += [(ability, name) for ability, able in _ABILITIES if thing in able]
    facts.append(("toggleable" if thing in LAMPS else "pickupable", name))
    return facts


def _capacities(room: Layout, counts: Mapping[str, int]) -> list[Fact]:
    return [
        ("cancontain", _type(receptacle), _type(thing))
        for receptacle, _ in room.receptacles
        for thing in counts
        if thing in HOLDS[receptacle] and thing not in LAMPS
    ]


def _id(name: str, number: int) -> str:
    """Return an object's id; texts number it by these ids."""
    if name.endswith("Basin"):
        return f"{name.removesuffix('Basin').lower()}_bar_{number:02d}_bar_basin"
    return f"{name.lower()}_bar_{number:02d}"


def _type(name: str) -> str:
    return f"{name.lower()}type"


def _goal(kind: TaskType, target: _Wanted) -> Formula:
    if kind is TaskType.LOOK:
        return _look_goal(target)
    first = _in_place("?o", target, _STATE_OF.get(kind))
    if kind is TaskType.TWO:
        other = And((Not(Equal("?o", "?p")), *_in_place("?p", target, None)))
        first = (*first, Exists((Parameter("?p", "object"),), other))
    return Exists((Parameter("?r", "receptacle"), Parameter("?o", "object")), And(first))


def _in_place(name: str, target: _Wanted, state: str | None) -> tuple[Formula, ...]:
    facts = (
        Atom("receptacletype", ("?r", _type(target.place))),
        Atom("inreceptacle", (name, "?r")),
        Atom("objecttype", (name, _type(target.thing))),
    )
    return (*facts, Atom(state, (name,))) if state else facts


def _look_goal(target: _Wanted) -> Formula:
    names = ("?a agent", "?l location", "?r receptacle", "?lamp object", "?o object")
    parameters = tuple(Parameter(*name.split()) for name in names)
    facts = (
        Atom("atlocation", ("?a", "?l")),
        Atom("receptacleatlocation", ("?r", "?l")),
        Atom("inreceptacle", ("?lamp", "?r")),
        Atom("objecttype", ("?lamp", _type(target.place))),
        Atom("istoggled", ("?lamp",)),
        Atom("holds", ("?a", "?o")),
        Atom("objecttype", ("?o", _type(target.thing))),
    )
    return Exists(parameters, And(facts))


def _write(problem: Problem) -> str:
    """Return the problem as PDDL text."""
    objects = "\n    ".join(f"{name} - {kind}" for name, kind in problem.objects.items())
    facts = "\n    ".join(f"({' '.join(fact)})" for fact in problem.facts)
    return (
        "(define (problem household_game)\n  (:domain household)\n"
        f"  (:objects\n    {objects})\n  (:init\n    {facts})\n"
        f"  (:goal {_write_formula(problem.goal)}))\n"
    )


def _write_formula(formula: Formula) -> str:
    match formula:
        case Atom(predicate, arguments):
            return f"({' '.join((predicate, *arguments))})"
        case Equal(left, right):
            return f"(= {left} {right})"
        case Not(part):
            return f"(not {_write_formula(part)})"
        case And(parts):
            return f"(and {' '.join(map(_write_formula, parts))})"
        case Exists(parameters, part):
            declared = " ".join(f"{p.name} - {p.type}" for p in parameters)
            return f"(exists ({declared}) {_write_formula(part)})"
        case _:
            raise TypeError(f"{type(formula).__name__} is in no generated goal")
