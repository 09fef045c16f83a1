"""A game: what can be done in a state, what it changes, and what is said about it.

Contains the meaning of a game file: PDDL decides what is possible and when the game is won, the
text grammar what is typed and told. Everything here is shared by all episodes of a game and nothing
of it changes but caches of what follows from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from env_servers.environments.alfworld.arrange import arrange
from env_servers.environments.alfworld.naming import display_names
from env_servers.environments.alfworld.pddl import (
    And,
    Atom,
    Domain,
    Effect,
    Fact,
    Formula,
    GameError,
    Not,
    Parameter,
    Problem,
    Schema,
    read_domain,
    read_problem,
    used_predicates,
)
from env_servers.environments.alfworld.textgen import Placeholder, TextGrammar, read_grammar
from env_servers.environments.alfworld.wording import Wording, wording_of
from env_servers.environments.alfworld.world import (
    NEGATED,
    Binding,
    Scenery,
    State,
    read_scenery,
)

__all__ = ["NOTHING_HAPPENS", "Game", "GroundedAction", "build_game", "read_game"]

NOTHING_HAPPENS: Final = "Nothing happens."
_FIELDS: Final = ("pddl_domain", "pddl_problem", "grammar")


class GroundedAction(NamedTuple):
    """An action with all its variables bound."""

    action: str
    arguments: Fact
    """Objects in the order of the action's parameters."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """An action as this game needs it."""

    name: str
    parameters: tuple[Parameter, ...]
    precondition: Formula
    effects: tuple[Effect, ...]
    prefix: str
    """The literal text with which its commands begin."""
    wording: Wording | None
    """How its commands are read back, where they can be."""
    steady: bool
    """Its commands depend on nothing that changes."""
    idleness: _Idleness | None
    """When its actions change nothing, where that can be."""


@dataclass(frozen=True, slots=True)
class _Idleness:
    """What an action's precondition demands, and what its effects are."""

    required: tuple[Atom, ...]
    denied: tuple[Atom, ...]
    added: tuple[Atom, ...]
    deleted: tuple[Atom, ...]


@dataclass(slots=True)
class Game:
    """One game, at the ready for any number of episodes."""

    grammar: TextGrammar
    names: Mapping[str, str]
    scenery: Scenery
    first: State
    """The state in which episodes begin."""
    goal: Formula
    """As the problem states it."""
    _won: Formula
    _goal_facts: frozenset[str]
    """Predicates of the goal."""
    _kinds: tuple[_Kind, ...]
    _won_at_first: bool | None = None
    _opening: tuple[str, tuple[str, ...]] | None = None
    """The first text and the first commands: every episode begins with them."""
    _commands: dict[GroundedAction, str] = field(default_factory=dict[GroundedAction, str])

    def intro(self) -> str:
        """Return the text with which the game begins."""
        return self._open()[0]

    def won(self, state: State) -> bool:
        """Return whether the goal is reached."""
        if state is self.first:
            # Every episode asks that.
            if self._won_at_first is None:
                self._won_at_first = state.holds(self._won, {})
            return self._won_at_first
        return state.holds(self._won, {})

    def bears_on_goal(self, before: State, after: State) -> bool:
        """Return whether facts changed on which the goal depends: most actions change none."""
        return any(before.facts.get(name) is not after.facts.get(name) for name in self._goal_facts)

    def admissible(self, state: State) -> list[str]:
        """Return all commands that do something, in ascending order, each once."""
        return list(self._open()[1]) if state is self.first else self._offered(state)

    def grounded_actions(self, state: State, action: str) -> list[GroundedAction]:
        """Return what can be done by one action, named in lower case."""
        return [
            grounded
            for kind in self._kinds
            if kind.name == action
            for grounded in _grounded_actions(kind, state)
        ]

    def find(self, state: State, command: str) -> GroundedAction | None:
        """Return what a command means in a state; None where it means nothing."""
        for kind in self._kinds:
            # Asked first, because it is quick and true of one kind or two.
            if not command.startswith(kind.prefix):
                continue
            named = self._named(kind, command)
            if named is None:
                continue
            for grounded in _possible(kind, state, named):
                if self._command(state, kind, grounded) == command and not _idles(kind, grounded):
                    return grounded
        return None

    def do(self, state: State, grounded: GroundedAction) -> tuple[State, str]:
        """Return the state after an action that is possible, and what is told about it."""
        kind = next(kind for kind in self._kinds if kind.name == grounded.action)
        binding = {p.name: v for p, v in zip(kind.parameters, grounded.arguments, strict=True)}
        after = state.apply(kind.effects, binding)
        bindings = _bindings(kind, grounded)
        return after, self.grammar.feedback(kind.name, _View(self, after), bindings)

    def act(self, state: State, command: str) -> tuple[State, str]:
        """Return the state after a command, any text, and what is told about it."""
        grounded = self.find(state, command.strip())
        return (state, NOTHING_HAPPENS) if grounded is None else self.do(state, grounded)

    def command(self, state: State, grounded: GroundedAction) -> str:
        """Return what an agent types for an action."""
        return self._command(state, self._kind(grounded.action), grounded)

    def argument(self, grounded: GroundedAction, parameter: str) -> str:
        """Return the object of an action's parameter, named without question mark."""
        for declared, value in zip(
            self._kind(grounded.action).parameters, grounded.arguments, strict=True
        ):
            if declared.name == f"?{parameter}":
                return value
        raise KeyError(parameter)

    def _kind(self, action: str) -> _Kind:
        return next(kind for kind in self._kinds if kind.name == action)

    def _open(self) -> tuple[str, tuple[str, ...]]:
        opening = self._opening
        if opening is None:
            text = self.grammar.render("#intro#", _View(self, self.first), {})
            opening = self._opening = text, tuple(self._offered(self.first))
        return opening

    def _offered(self, state: State) -> list[str]:
        return sorted(
            {
                self._command(state, kind, grounded)
                for kind in self._kinds
                for grounded in _grounded_actions(kind, state)
            }
        )

    def _named(self, kind: _Kind, command: str) -> Binding | None:
        """Return objects that every action with this command has; None: it is none of the kind.

        A filter that spares looking at all that can be done: what is left is compared in the end.
        """
        if kind.wording is None:
            return {}
        shown = kind.wording.read(command)
        if not shown:
            return shown
        binding: dict[str, str] = {}
        for variable, text in shown.items():
            objects = self._objects(text)
            if not objects:
                return None
            if len(objects) > 1:
                return {}
            binding[variable] = objects[0]
        return binding

    def _objects(self, text: str) -> list[str]:
        """Return the objects that are shown as this text."""
        # Gone through, because a table the other way round would grow every game in memory.
        objects = [name for name, shown in self.names.items() if shown == text]
        if text in self.scenery.types and text not in self.names:
            objects.append(text)
        return objects

    def _command(self, state: State, kind: _Kind, grounded: GroundedAction) -> str:
        command = self._commands.get(grounded)
        if command is None:
            bindings = _bindings(kind, grounded)
            command = self.grammar.command(kind.name, _View(self, state), bindings)
            if kind.steady:
                self._commands[grounded] = command
        return command


class _View:
    """A state as texts see it."""

    __slots__ = ("_game", "_state", "is_a", "sorted_facts")

    def __init__(self, game: Game, state: State) -> None:
        self._game = game
        self._state = state
        self.sorted_facts = state.sorted_facts
        self.is_a = state.scenery.is_a

    def attribute(self, name: str, attribute: str) -> str:
        match attribute:
            case "name":
                return self._game.names.get(name, name)
            case "indefinite":
                return "a"
            case "definite":
                return "the"
            case "type":
                return self._state.scenery.types.get(name, "")
            case _:
                return name


def read_game(text: str | bytes) -> Game:
    """Return the game of a `game.tw-pddl` file; raises GameError."""
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GameError(f"the game file is no JSON: {error}") from error
    if not isinstance(data, dict) or not all(isinstance(data.get(k), str) for k in _FIELDS):
        raise GameError(f"the game file lacks one of {', '.join(_FIELDS)}")
    domain, problem = read_domain(data["pddl_domain"]), read_problem(data["pddl_problem"])
    return build_game(domain, problem, read_grammar(data["grammar"]))


def build_game(domain: Domain, problem: Problem, grammar: TextGrammar) -> Game:
    """Return the game of rules, a problem and a text grammar; raises GameError."""
    missing = [s.name for s in domain.schemas if s.name not in grammar.actions]
    if missing:
        raise GameError(f"the text grammar has no action {missing[0]}")
    queried = grammar.queried()
    read = _read_predicates(domain, problem, queried)
    remembered = frozenset(a.removeprefix(NEGATED) for a in queried if a.startswith(NEGATED))
    changing = domain.changing & read
    scenery = read_scenery(domain, problem, changing, remembered)
    sizes: dict[str, int] = {}
    for predicate, *_ in problem.facts:
        sizes[predicate] = sizes.get(predicate, 0) + 1
    kinds = tuple(
        _Kind(
            schema.name,
            schema.parameters,
            arrange(schema.precondition, schema.parameters, sizes),
            tuple(e for e in schema.effects if e.atom.predicate in read),
            grammar.prefix(schema.name),
            _wording(schema, grammar),
            not any(_changes(name, changing) for name in grammar.template_queries(schema.name)),
            _idleness(schema),
        )
        for schema in domain.schemas
    )
    return Game(
        grammar,
        display_names({name for fact in problem.facts for name in fact[1:]}),
        scenery,
        State.first(scenery, problem),
        problem.goal,
        arrange(problem.goal, (), sizes),
        used_predicates(problem.goal),
        kinds,
    )


def _changes(predicate: str, changing: frozenset[str]) -> bool:
    return predicate.removeprefix(NEGATED) in changing


def _read_predicates(domain: Domain, problem: Problem, queried: Iterable[str]) -> frozenset[str]:
    """Predicates on which anything depends; the others need not be kept."""
    formulas = [problem.goal]
    for schema in domain.schemas:
        formulas.append(schema.precondition)
        formulas.extend(effect.condition for effect in schema.effects)
    predicates = frozenset[str]().union(*(used_predicates(formula) for formula in formulas))
    return predicates.union(queried, (name.removeprefix(NEGATED) for name in queried))


def _grounded_actions(kind: _Kind, state: State) -> list[GroundedAction]:
    return [grounded for grounded in _possible(kind, state) if not _idles(kind, grounded)]


def _possible(
    kind: _Kind, state: State, binding: Binding = MappingProxyType({})
) -> list[GroundedAction]:
    """What can be done with these objects, in ascending order, idle actions included."""
    answers = state.assignments(kind.parameters, kind.precondition, binding)
    return [GroundedAction(kind.name, answer) for answer in answers]


def _conjuncts(formula: Formula) -> Iterator[Formula]:
    if isinstance(formula, And):
        for part in formula.parts:
            yield from _conjuncts(part)
    else:
        yield formula


def _wording(schema: Schema, grammar: TextGrammar) -> Wording | None:
    pattern = grammar.pattern(schema.name)
    if pattern is None:
        return None
    demanded = {part for part in _conjuncts(schema.precondition) if isinstance(part, Atom)}
    return wording_of(pattern, schema.parameters, demanded)


def _idleness(schema: Schema) -> _Idleness | None:
    """Return when an action changes nothing; None where it always changes something."""
    parts = list(_conjuncts(schema.precondition))
    denied = [part.part for part in parts if isinstance(part, Not)]
    idleness = _Idleness(
        tuple(part for part in parts if isinstance(part, Atom)),
        tuple(part for part in denied if isinstance(part, Atom)),
        tuple(e.atom for e in schema.effects if e.added),
        tuple(e.atom for e in schema.effects if not e.added),
    )
    demanded = {atom.predicate for atom in idleness.required}
    restored = {atom.predicate for atom in (*idleness.denied, *idleness.added)}
    possible = (
        all(atom.predicate in demanded for atom in idleness.added)
        and all(atom.predicate in restored for atom in idleness.deleted)
        and not any(used_predicates(e.condition) for e in schema.effects)
    )
    return idleness if possible else None


def _idles(kind: _Kind, grounded: GroundedAction) -> bool:
    """Whether an action changes nothing. Planners drop such actions, so they are not offered.

    Going to where one is, for example: it is not a command of the reference.
    """
    idleness = kind.idleness
    if idleness is None:
        return False
    binding = {p.name: v for p, v in zip(kind.parameters, grounded.arguments, strict=True)}

    def ground(atoms: Iterable[Atom]) -> set[Fact]:
        return {(a.predicate, *(binding.get(name, name) for name in a.arguments)) for a in atoms}

    added = ground(idleness.added)
    return added <= ground(idleness.required) and ground(idleness.deleted) <= (
        added | ground(idleness.denied)
    )


def _bindings(kind: _Kind, grounded: GroundedAction) -> dict[Placeholder, str]:
    return {
        Placeholder(p.name[1:], p.type): value
        for p, value in zip(kind.parameters, grounded.arguments, strict=True)
    }
