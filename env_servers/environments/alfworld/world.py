"""The facts of a game and what follows from them: queries, formulas, effects.

Contains `Scenery`, which never changes and is shared by all episodes of a game, and `State`, an
immutable snapshot of the rest; an action gives a new one that shares all it did not change. It
knows predicates and objects by name only, and nothing of what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from env_servers.environments.alfworld.pddl import (
    ALWAYS,
    And,
    Atom,
    Domain,
    Effect,
    Equal,
    Exists,
    Fact,
    Forall,
    Formula,
    GameError,
    Member,
    Not,
    Or,
    Parameter,
    Problem,
)

__all__ = ["NEGATED", "Binding", "Scenery", "State", "read_scenery"]

Binding: TypeAlias = Mapping[str, str]
"""Object by variable."""
Extension: TypeAlias = frozenset[Fact]
"""Argument tuples of one predicate."""

NEGATED: Final = "not_"
"""Prefix of the facts that an action made false; texts may ask for them."""
_EMPTY: Final[Extension] = frozenset()
_MAX_OBJECTS: Final = 20_000
_MAX_FACTS: Final = 200_000


@dataclass(slots=True)
class Scenery:
    """Objects, types and the facts that no action changes."""

    types: Mapping[str, str]
    """Type by object."""
    parents: Mapping[str, str]
    """Supertype by type."""
    fixed: Mapping[str, tuple[Fact, ...]]
    """Argument tuples by predicate, in ascending order."""
    changing: frozenset[str]
    remembered: frozenset[str]
    """Predicates of which also the facts made false are kept, as `not_x`."""
    _lines: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """A type with all its supertypes."""
    _sets: dict[str, frozenset[Fact]] = field(default_factory=dict[str, frozenset[Fact]])
    """Fixed facts of a predicate; filled as asked."""
    _members: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    _index: dict[tuple[str, tuple[int, ...]], dict[Fact, tuple[Fact, ...]]] = field(
        default_factory=dict[tuple[str, tuple[int, ...]], dict[Fact, tuple[Fact, ...]]]
    )
    """Fixed facts by the values at some positions; filled as asked, the same for every order of
    asking."""

    def line(self, type_name: str) -> frozenset[str]:
        """Return the type and its supertypes."""
        ancestors = self._lines.get(type_name)
        if ancestors is None:
            above = {"object", type_name}
            current = type_name
            while (current := self.parents.get(current, "object")) not in above:
                above.add(current)
            ancestors = self._lines[type_name] = frozenset(above)
        return ancestors

    def is_a(self, name: str, type_name: str) -> bool:
        """Return whether the object has the type or a subtype of it."""
        own = self.types.get(name)
        return own is not None and (own == type_name or type_name in self.line(own))

    def members(self, type_name: str) -> tuple[str, ...]:
        """Return all objects of a type, in ascending order; none of a type that nobody declared."""
        members_found = self._members.get(type_name)
        if members_found is None:
            matching = (name for name in self.types if self.is_a(name, type_name))
            members_found = self._members[type_name] = tuple(sorted(matching))
        return members_found

    def is_fixed(self, predicate: str, arguments: Fact) -> bool:
        """Return whether the fact is one of a predicate that no action changes."""
        facts = self._sets.get(predicate)
        if facts is None:
            facts = self._sets[predicate] = frozenset(self.fixed.get(predicate, ()))
        return arguments in facts

    def matching(self, predicate: str, pattern: Sequence[str | None]) -> tuple[Fact, ...]:
        """Fixed facts that fit the pattern, in ascending order."""
        positions = tuple(i for i, value in enumerate(pattern) if value is not None)
        facts = self.fixed.get(predicate, ())
        if not positions:
            return facts
        index = self._index.get((predicate, positions))
        if index is None:
            collected: dict[Fact, list[Fact]] = {}
            for fact in facts:
                if positions[-1] < len(fact):
                    collected.setdefault(tuple(fact[i] for i in positions), []).append(fact)
            index = {key: tuple(matching_facts) for key, matching_facts in collected.items()}
            self._index[predicate, positions] = index
        return index.get(tuple(value for value in pattern if value is not None), ())


def read_scenery(
    domain: Domain, problem: Problem, changing: frozenset[str], remembered: frozenset[str]
) -> Scenery:
    """Return what never changes in a game; raises GameError for one that is unreasonably large."""
    types = {**domain.constants, **problem.objects}
    if len(types) > _MAX_OBJECTS or len(problem.facts) > _MAX_FACTS:
        raise GameError(f"the game has {len(types)} objects and {len(problem.facts)} facts")
    fixed: dict[str, list[Fact]] = {}
    for predicate, *arguments in problem.facts:
        if predicate not in domain.changing:
            fixed.setdefault(predicate, []).append(tuple(arguments))
    ordered = {name: tuple(sorted(facts)) for name, facts in fixed.items()}
    return Scenery(types, domain.parents, ordered, changing, remembered)


class State:
    """What holds at one moment. Never changed: `apply` gives another state."""

    __slots__ = ("facts", "scenery")

    def __init__(self, scenery: Scenery, facts: Mapping[str, Extension]) -> None:
        self.scenery = scenery
        self.facts = facts

    @classmethod
    def first(cls, scenery: Scenery, problem: Problem) -> State:
        """Return the state in which a game begins."""
        by_predicate: dict[str, set[Fact]] = {}
        for predicate, *arguments in problem.facts:
            if predicate in scenery.changing:
                by_predicate.setdefault(predicate, set()).add(tuple(arguments))
        return cls(scenery, {name: frozenset(facts) for name, facts in by_predicate.items()})

    def matching(self, predicate: str, pattern: Sequence[str | None]) -> Iterable[Fact]:
        """Argument tuples that fit the pattern, in no particular order."""
        if predicate in self.scenery.fixed:
            return self.scenery.matching(predicate, pattern)
        facts = self.facts.get(predicate, _EMPTY)
        if None not in pattern:
            bound_values = tuple(value for value in pattern if value is not None)
            return (bound_values,) if bound_values in facts else ()
        bound = [(i, value) for i, value in enumerate(pattern) if value is not None]
        if not bound:
            return facts
        if len(bound) == 1:
            position, value = bound[0]
            return [fact for fact in facts if fact[position] == value]
        return [fact for fact in facts if all(fact[i] == value for i, value in bound)]

    def sorted_facts(self, predicate: str, pattern: Sequence[str | None]) -> Sequence[Fact]:
        """Argument tuples that fit the pattern, in ascending order."""
        return sorted(self.matching(predicate, pattern))

    def is_fact(self, predicate: str, arguments: Fact) -> bool:
        """Return whether the fact holds."""
        if predicate in self.scenery.fixed:
            return self.scenery.is_fixed(predicate, arguments)
        return arguments in self.facts.get(predicate, _EMPTY)

    def holds(self, formula: Formula, binding: Binding) -> bool:
        """Whether an arranged formula holds; variables that are not bound may be anything."""
        match formula:
            case Atom(predicate, arguments) if all(a in binding or a[0] != "?" for a in arguments):
                return self.is_fact(predicate, tuple(binding.get(a, a) for a in arguments))
            case Not(part):
                return not self.holds(part, binding)
            case Equal(left, right):
                return binding.get(left, left) == binding.get(right, right)
            case Forall(parameters, part):
                return not self.holds(Exists(parameters, Not(part)), binding)
            case _:
                return next(self.solve(formula, binding), None) is not None

    def solve(self, formula: Formula, binding: Binding) -> Iterator[Binding]:
        """Extensions of the binding that make the formula hold; may repeat one."""
        match formula:
            case Atom(predicate, arguments):
                yield from self._solve_atom(predicate, arguments, binding)
            case And(parts):
                yield from self._solve_all(parts, binding)
            case Or(parts):
                for part in parts:
                    yield from self.solve(part, binding)
            case Exists(parameters, part):
                yield from self._solve_exists(parameters, part, binding)
            case Member(parameter):
                yield from self._complete((parameter,), binding)
            case _:
                if self.holds(formula, binding):
                    yield binding

    def assignments(
        self, parameters: Sequence[Parameter], formula: Formula, binding: Binding
    ) -> list[Fact]:
        """Return all objects for the parameters that make the formula hold, in ascending order."""
        names = [parameter.name for parameter in parameters]
        answers_found: set[Fact] = set()
        for answer in self.solve(formula, binding):
            try:
                values = tuple([answer[name] for name in names])
            except KeyError:  # a variable that may be any object of its type
                for full in self._complete(parameters, answer):
                    answers_found.add(tuple([full[name] for name in names]))
                continue
            if values not in answers_found and self._are_of_types(values, parameters):
                answers_found.add(values)
        return sorted(answers_found)

    def apply(self, effects: Sequence[Effect], binding: Binding) -> State:
        """Return the state after an action's effects; conditions are those of the state before."""
        removed: list[tuple[str, Fact]] = []
        added: list[tuple[str, Fact]] = []
        for effect in effects:
            if effect.condition is not ALWAYS and not self.holds(effect.condition, binding):
                continue
            atom = effect.atom
            arguments = tuple(binding.get(a, a) for a in atom.arguments)
            (added if effect.added else removed).append((atom.predicate, arguments))
        changed = dict(self.facts)
        for predicate, arguments in removed:
            # Adding wins over deleting the same fact.
            if (predicate, arguments) not in added:
                _remove(changed, predicate, arguments)
                if predicate in self.scenery.remembered:
                    _add(changed, NEGATED + predicate, arguments)
        for predicate, arguments in added:
            _add(changed, predicate, arguments)
            _remove(changed, NEGATED + predicate, arguments)
        return State(self.scenery, changed)

    def difference(
        self, other: State
    ) -> tuple[tuple[str, tuple[Fact, ...], tuple[Fact, ...]], ...]:
        """Return what holds here and not there, and there and not here, by predicate, in order."""
        changes: list[tuple[str, tuple[Fact, ...], tuple[Fact, ...]]] = []
        for name in sorted(self.facts.keys() | other.facts.keys()):
            ours, theirs = self.facts.get(name, _EMPTY), other.facts.get(name, _EMPTY)
            if ours is not theirs and ours != theirs:
                changes.append((name, tuple(sorted(ours - theirs)), tuple(sorted(theirs - ours))))
        return tuple(changes)

    def _are_of_types(self, values: Fact, parameters: Sequence[Parameter]) -> bool:
        is_a = self.scenery.is_a
        for value, parameter in zip(values, parameters, strict=True):
            if not is_a(value, parameter.type):
                return False
        return True

    def _solve_atom(
        self, predicate: str, arguments: tuple[str, ...], binding: Binding
    ) -> Iterator[Binding]:
        pattern = [binding.get(a) if a[0] == "?" else a for a in arguments]
        if None not in pattern:
            if next(iter(self.matching(predicate, pattern)), None) is not None:
                yield binding
            return
        free = [(i, arguments[i]) for i, value in enumerate(pattern) if value is None]
        for fact in self.matching(predicate, pattern):
            if len(fact) != len(arguments):
                continue
            extended = dict(binding)
            for position, variable in free:
                # A variable that stands there twice has to mean the same object.
                if extended.setdefault(variable, fact[position]) != fact[position]:
                    break
            else:
                yield extended

    def _solve_all(
        self, parts: Sequence[Formula], binding: Binding, first: int = 0
    ) -> Iterator[Binding]:
        """Solve the parts from `first` on."""
        # What binds nothing is only asked: a generator for each would cost more than the answer.
        while first < len(parts) and (holds := self._decided(parts[first], binding)) is not None:
            if not holds:
                return
            first += 1
        if first == len(parts):
            yield binding
            return
        for answer in self.solve(parts[first], binding):
            yield from self._solve_all(parts, answer, first + 1)

    def _decided(self, formula: Formula, binding: Binding) -> bool | None:
        """Return whether a formula holds that has nothing left to bind, else None."""
        if isinstance(formula, Atom):
            values: list[str] = []
            for argument in formula.arguments:
                value = binding.get(argument) if argument[0] == "?" else argument
                if value is None:
                    return None
                values.append(value)
            return self.is_fact(formula.predicate, tuple(values))
        if isinstance(formula, Member):
            value = binding.get(formula.parameter.name)
            return None if value is None else self.scenery.is_a(value, formula.parameter.type)
        if isinstance(formula, Not | Equal | Forall):
            return self.holds(formula, binding)
        return None

    def _solve_exists(
        self, parameters: Sequence[Parameter], part: Formula, binding: Binding
    ) -> Iterator[Binding]:
        # An inner variable hides an outer one of the same name.
        hidden = {p.name for p in parameters}
        inner = {name: value for name, value in binding.items() if name not in hidden}
        if not all(self.scenery.members(p.type) for p in parameters):
            return
        for answer in self.solve(part, inner):
            if next(self._complete(parameters, answer), None) is None:
                continue
            outer = {name: value for name, value in answer.items() if name not in hidden}
            yield {**outer, **binding}

    def _complete(self, parameters: Sequence[Parameter], binding: Binding) -> Iterator[Binding]:
        """Bindings in which every parameter has an object of its type."""
        is_a = self.scenery.is_a
        for number, parameter in enumerate(parameters):
            value = binding.get(parameter.name)
            if value is None:
                for member in self.scenery.members(parameter.type):
                    extended = {**binding, parameter.name: member}
                    yield from self._complete(parameters[number + 1 :], extended)
                return
            if not is_a(value, parameter.type):
                return
        yield binding


def _add(facts: dict[str, Extension], predicate: str, arguments: Fact) -> None:
    facts[predicate] = facts.get(predicate, _EMPTY) | {arguments}


def _remove(facts: dict[str, Extension], predicate: str, arguments: Fact) -> None:
    existing = facts.get(predicate)
    if existing is not None and arguments in existing:
        facts[predicate] = existing - {arguments}
