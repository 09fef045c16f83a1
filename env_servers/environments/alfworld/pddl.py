"""PDDL text to values: the part of the language that ALFWorld's game files use.

Contains the reader and the formula types. Names are lower-cased as planners do. Anything outside
the supported part raises GameError, which names what it is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

__all__ = [
    "ALWAYS",
    "And",
    "Atom",
    "Domain",
    "Effect",
    "Equal",
    "Exists",
    "Fact",
    "Forall",
    "Formula",
    "GameError",
    "Member",
    "Not",
    "Or",
    "Parameter",
    "Problem",
    "Schema",
    "free_variables",
    "read_domain",
    "read_problem",
    "used_predicates",
]

Fact: TypeAlias = tuple[str, ...]
"""Predicate and arguments."""
Node: TypeAlias = "str | list[Node]"

_TOKEN: Final = re.compile(r"[()]|\?[^\s()?]*|[^\s()?]+")
_COMMENT: Final = re.compile(r";[^\n]*")
_MAX_DEPTH: Final = 100
"""Deepest nesting that is read; official files need 12."""


class GameError(ValueError):
    """When a game file is not what this interpreter understands; says where."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A typed variable; the name keeps its question mark."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Atom:
    """A predicate over variables (`?x`) and constants."""

    predicate: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Equal:
    """Both sides are the same object."""

    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Not:
    """Negation as failure."""

    part: Formula


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold; no parts hold always."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of the parts holds."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """Some objects of the types make the part hold."""

    parameters: tuple[Parameter, ...]
    part: Formula


@dataclass(frozen=True, slots=True)
class Forall:
    """All objects of the types make the part hold."""

    parameters: tuple[Parameter, ...]
    part: Formula


@dataclass(frozen=True, slots=True)
class Member:
    """The variable stands for an object of its type. Never in a file: `arrange` puts it in."""

    parameter: Parameter


Formula: TypeAlias = Atom | Equal | Not | And | Or | Exists | Forall | Member
ALWAYS: Final = And(())


@dataclass(frozen=True, slots=True)
class Effect:
    """One fact that an action makes true or false, where its condition held before."""

    atom: Atom
    added: bool
    condition: Formula = ALWAYS


@dataclass(frozen=True, slots=True)
class Schema:
    """An action with its variables still open."""

    name: str
    parameters: tuple[Parameter, ...]
    precondition: Formula
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """The rules of a family of games."""

    parents: Mapping[str, str]
    """Type to supertype; `object` has none."""
    schemas: tuple[Schema, ...]
    predicates: Mapping[str, tuple[str, ...]]
    """Argument types by predicate."""
    constants: Mapping[str, str]
    """Type by object."""

    @property
    def changing(self) -> frozenset[str]:
        """Predicates that some action changes."""
        return frozenset(e.atom.predicate for schema in self.schemas for e in schema.effects)


@dataclass(frozen=True, slots=True)
class Problem:
    """One game: its objects, what holds at first, and what is wanted."""

    objects: Mapping[str, str]
    """Type by object, in the order declared."""
    facts: tuple[Fact, ...]
    goal: Formula


@lru_cache(maxsize=32)
def read_domain(text: str) -> Domain:
    """Read a domain; raises GameError. Equal texts give the same value."""
    parents: dict[str, str] = {}
    constants: dict[str, str] = {}
    predicates: dict[str, tuple[str, ...]] = {}
    schemas: list[Schema] = []
    for section in _sections(text, "domain"):
        match section:
            case [":types", *rest]:
                parents |= {p.name: p.type for p in _typed(rest)}
            case [":constants", *rest]:
                constants |= {p.name: p.type for p in _typed(rest)}
            case [":predicates", *rest]:
                for declared in rest:
                    name, *parameters = _list(declared)
                    predicates[_word(name)] = tuple(p.type for p in _typed(parameters))
            case [":action", *rest]:
                schemas.append(_schema(rest))
            case [":derived", *_] | [":durative-action", *_]:
                raise GameError(f"{section[0]} is not supported")
            case _:
                pass  # requirements, functions: costs do not matter for playing
    parents.pop("object", None)
    return Domain(parents, tuple(schemas), predicates, constants)


def read_problem(text: str) -> Problem:
    """Read a problem; raises GameError."""
    objects: dict[str, str] = {}
    facts: list[Fact] = []
    goal: Formula | None = None
    for section in _sections(text, "problem"):
        match section:
            case [":objects", *rest]:
                objects = {p.name: p.type for p in _typed(rest)}
            case [":init", *rest]:
                facts = [fact for fact in map(_fact, rest) if fact]
            case [":goal", part]:
                goal = _formula(part)
            case _:
                pass
    if goal is None:
        raise GameError("the problem has no goal")
    return Problem(objects, tuple(dict.fromkeys(facts)), goal)


def free_variables(formula: Formula) -> frozenset[str]:
    """Return the free variables of a formula."""
    match formula:
        case Atom(_, arguments):
            return frozenset(a for a in arguments if a[0] == "?")
        case Equal(left, right):
            return frozenset(a for a in (left, right) if a[0] == "?")
        case Not(part):
            return free_variables(part)
        case Exists(parameters, part) | Forall(parameters, part):
            return free_variables(part) - {p.name for p in parameters}
        case And(parts) | Or(parts):
            return frozenset[str]().union(*(free_variables(part) for part in parts))
        case Member(parameter):
            return frozenset((parameter.name,))


def used_predicates(formula: Formula) -> frozenset[str]:
    """Return the predicates that a formula asks for."""
    match formula:
        case Atom(predicate, _):
            return frozenset((predicate,))
        case Not(part) | Exists(_, part) | Forall(_, part):
            return used_predicates(part)
        case And(parts) | Or(parts):
            return frozenset[str]().union(*(used_predicates(part) for part in parts))
        case _:
            return frozenset()


def _nested(text: str) -> list[Node]:
    """Return the expressions of a text as nested lists of lower-cased words."""
    top: list[Node] = []
    stack: list[list[Node]] = []
    current = top
    for token in _TOKEN.findall(_COMMENT.sub("", text).lower()):
        if token == "(":
            if len(stack) >= _MAX_DEPTH:
                raise GameError("PDDL is nested too deeply")
            inner: list[Node] = []
            current.append(inner)
            stack.append(current)
            current = inner
        elif token == ")":
            if not stack:
                raise GameError("PDDL has a closing bracket too many")
            current = stack.pop()
        else:
            current.append(sys.intern(token))
    if stack:
        raise GameError("PDDL ends inside a bracket")
    return top


def _sections(text: str, kind: str) -> Iterator[list[Node]]:
    top = _nested(text)
    if not top or not isinstance(top[0], list) or top[0][:1] != ["define"]:
        raise GameError(f"the {kind} does not begin with (define")
    for section in top[0][1:]:
        nodes = _list(section)
        if nodes and isinstance(nodes[0], str):
            yield nodes


def _list(node: Node) -> list[Node]:
    if isinstance(node, str):
        raise GameError(f"PDDL has {node[:60]!r} where a list belongs")
    return node


def _word(node: Node) -> str:
    if isinstance(node, str):
        return node
    raise GameError(f"PDDL has a list where a word belongs: {str(node)[:60]}")


def _typed(nodes: Sequence[Node]) -> tuple[Parameter, ...]:
    """`a b - t c` as parameters; without a type it is `object`."""
    typed: list[Parameter] = []
    waiting: list[str] = []
    words = iter(nodes)
    for node in words:
        word = _word(node)
        if word == "-":
            kind = _word(next(words, "object"))
            typed.extend(Parameter(name, kind) for name in waiting)
            waiting = []
        else:
            waiting.append(word)
    typed.extend(Parameter(name, "object") for name in waiting)
    return tuple(typed)


def _fact(node: Node) -> Fact | None:
    """Return an initial fact; None for equalities, which only set costs and distances."""
    match _list(node):
        case ["=", *_]:
            return None
        case ["not", *_]:
            return None
        case words:
            return tuple(_word(word) for word in words)


def _formula(node: Node) -> Formula:
    match _list(node):
        case []:
            return ALWAYS
        case ["and", *parts]:
            return And(tuple(_formula(part) for part in parts))
        case ["or", *parts]:
            return Or(tuple(_formula(part) for part in parts))
        case ["not", part]:
            return Not(_formula(part))
        case ["imply", left, right]:
            return Or((Not(_formula(left)), _formula(right)))
        case ["exists", parameters, part]:
            return Exists(_typed(_list(parameters)), _formula(part))
        case ["forall", parameters, part]:
            return Forall(_typed(_list(parameters)), _formula(part))
        case ["=", left, right]:
            return Equal(_word(left), _word(right))
        case [str(predicate), *arguments]:
            return Atom(predicate, tuple(_word(argument) for argument in arguments))
        case other:
            raise GameError(f"not a formula: {str(other)[:60]}")


def _schema(nodes: list[Node]) -> Schema:
    name, fields = _word(nodes[0]), nodes[1:]
    by_key = {_word(key): value for key, value in zip(fields[::2], fields[1::2], strict=False)}
    return Schema(
        name,
        _typed(_list(by_key.get(":parameters", []))),
        _formula(by_key.get(":precondition", [])),
        tuple(_effects(by_key.get(":effect", []), ALWAYS)),
    )


def _effects(node: Node, condition: Formula) -> Iterator[Effect]:
    match _list(node):
        case []:
            return
        case ["and", *parts]:
            for part in parts:
                yield from _effects(part, condition)
        case ["when", given, part]:
            yield from _effects(part, And((condition, _formula(given))))
        case ["increase", *_]:
            return
        case ["not", part]:
            yield Effect(_atom(part), added=False, condition=condition)
        case ["forall" | "assign" | "decrease" as head, *_]:
            raise GameError(f"{head} in an effect is not supported")
        case _:
            yield Effect(_atom(node), added=True, condition=condition)


def _atom(node: Node) -> Atom:
    formula = _formula(node)
    if not isinstance(formula, Atom):
        raise GameError(f"an effect must be a fact: {str(node)[:60]}")
    return formula
