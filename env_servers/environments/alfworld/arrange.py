"""In which order the parts of a formula are tried.

Contains a rewriting that keeps what a formula means and makes `State.solve` quick and right: parts
with few answers come first, and negations come when their variables are bound. It looks at how many
facts a game begins with, never at a state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from env_servers.environments.alfworld.pddl import (
    And,
    Atom,
    Equal,
    Exists,
    Forall,
    Formula,
    Member,
    Not,
    Or,
    Parameter,
    free_variables,
)

__all__ = ["arrange"]

_BOUND_FACTOR: Final = 0.1
"""A bound argument is taken to leave this share of the facts."""
_LATE: Final = 1e9


def arrange(formula: Formula, parameters: Sequence[Parameter], sizes: Mapping[str, int]) -> Formula:
    """Return the formula in a good order; `parameters` are its free variables, bound by nobody yet.

    `sizes` are numbers of facts by predicate. Every parameter is bound in every answer.
    """
    types = {p.name: p for p in parameters}
    arranged, bound = _arrange(formula, types, frozenset(), sizes)
    missing = [Member(p) for p in parameters if p.name not in bound]
    return And((*_parts(arranged), *missing)) if missing else arranged


def _arrange(
    formula: Formula,
    types: Mapping[str, Parameter],
    bound: frozenset[str],
    sizes: Mapping[str, int],
) -> tuple[Formula, frozenset[str]]:
    """Return the formula rearranged, and the variables that are bound after it."""
    match formula:
        case Atom() | Member():
            return formula, bound | free_variables(formula)
        case And(parts):
            return _arrange_all(parts, types, bound, sizes)
        case Or(parts):
            done = [_arrange(part, types, bound, sizes) for part in parts]
            common = frozenset.intersection(*(after for _, after in done)) if done else bound
            return Or(tuple(part for part, _ in done)), common
        case Exists(parameters, part):
            inner = {**types, **{p.name: p for p in parameters}}
            names = {p.name for p in parameters}
            arranged, after = _arrange(part, inner, bound - names, sizes)
            return Exists(parameters, arranged), bound | (after - names)
        case Forall(parameters, part):
            inner = {**types, **{p.name: p for p in parameters}}
            free = bound - {p.name for p in parameters}
            # What is tested is that no objects make the part fail: each has to be tried.
            members = tuple(Member(p) for p in parameters)
            arranged, _ = _arrange(Not(part), inner, free.union(p.name for p in parameters), sizes)
            return Not(Exists(parameters, And((*members, arranged)))), bound
        case Not(part):
            return Not(_arrange(part, types, bound, sizes)[0]), bound
        case Equal():
            return formula, bound


def _arrange_all(
    parts: Sequence[Formula],
    types: Mapping[str, Parameter],
    bound: frozenset[str],
    sizes: Mapping[str, int],
) -> tuple[Formula, frozenset[str]]:
    waiting = [part for each in parts for part in _parts(each)]
    done: list[Formula] = []
    while waiting:
        cheapest = min(waiting, key=lambda part: _cost(part, bound, sizes))
        waiting.remove(cheapest)
        if isinstance(cheapest, Not | Equal | Forall):
            unbound = sorted(free_variables(cheapest) - bound)
            done.extend(Member(types[name]) for name in unbound if name in types)
            bound = bound.union(unbound)
        arranged, bound = _arrange(cheapest, types, bound, sizes)
        done.append(arranged)
    return And(tuple(done)), bound


def _parts(formula: Formula) -> tuple[Formula, ...]:
    return formula.parts if isinstance(formula, And) else (formula,)


def _cost(formula: Formula, bound: frozenset[str], sizes: Mapping[str, int]) -> float:
    """About how many answers a formula has, where some variables are bound."""
    match formula:
        case Atom(predicate, arguments):
            is_bound = [a in bound or a[0] != "?" for a in arguments]
            size = sizes.get(predicate, 0)
            return 0.0 if all(is_bound) else 0.01 + size * _BOUND_FACTOR ** sum(is_bound)
        case And(parts):
            return min((_cost(part, bound, sizes) for part in parts), default=0.0)
        case Or(parts):
            return sum(_cost(part, bound, sizes) for part in parts) + 0.5
        case Exists(parameters, part):
            # All of it is gone through, once for every answer so far: it had better wait until the
            # variables from outside are bound, as in goals that want two things of a kind.
            inner = bound - {p.name for p in parameters}
            return max((_cost(each, inner, sizes) for each in _parts(part)), default=0.0) + 0.5
        case Not() | Equal() | Forall():
            return 0.0 if free_variables(formula) <= bound else _LATE
        case Member():
            return _LATE
