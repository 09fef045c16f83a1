"""Reads pickled plain data without running anything that a pickle may ask for.

Owns a small machine for the part of the pickle format that graphs of networkx and dictionaries
need: numbers, texts, containers, and objects of known graph classes, which come out as their bare
state. Nothing is imported, called or constructed; whatever else a file asks for is refused by name.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

__all__ = ["GraphObject", "UnreadablePickle", "read_pickle"]

GRAPH_CLASSES: Final = frozenset(
    {
        "networkx.classes.graph Graph",
        "networkx.classes.digraph DiGraph",
        "networkx.classes.multigraph MultiGraph",
        "networkx.classes.multidigraph MultiDiGraph",
    }
)
_FACTORIES: Final = frozenset({"collections OrderedDict", "collections defaultdict"})
"""Containers that are read as dictionaries; `builtins dict` is what a defaultdict may name."""
_RECONSTRUCTOR: Final = "copyreg _reconstructor"
_NAMED_ONLY: Final = frozenset(
    {"builtins dict", "builtins list", "builtins set", "builtins object"}
)


class UnreadablePickle(ValueError):
    """When a file asks for something else than plain data and graphs."""


@dataclass(slots=True)
class GraphObject:
    """A graph's class and its attributes, as they were stored."""

    kind: str
    state: dict[str, Any]


class _Mark:
    """Where a group of items begins on the stack."""


@dataclass(frozen=True, slots=True)
class _Name:
    """A class or function that a file names; it is never looked up."""

    text: str


_MARK: Final = _Mark()
_PUSHED: Final = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
        *("BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    )
)
"""Instructions that put their argument on the stack."""
_CONSTANTS: Final[Mapping[str, Any]] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: Final[Mapping[str, Callable[[], Any]]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_SET": set,
    "EMPTY_TUPLE": tuple,
}
_IGNORED: Final = frozenset({"PROTO", "FRAME"})


def read_pickle(file: BinaryIO) -> Any:
    """The data of a pickle; raises UnreadablePickle."""
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(file):
            if opcode.name == "STOP":
                return machine.stack.pop()
            machine.run(opcode.name, argument)
    except UnreadablePickle:
        raise
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UnreadablePickle(f"damaged pickle: {error!r}") from error
    raise UnreadablePickle("the pickle ends too early")


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, name: str, argument: Any) -> None:
        """Carry out one instruction."""
        if name in _PUSHED:
            self.stack.append(argument)
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            self.stack.append(self._memo[argument])
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self.stack[-1]
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self._memo[argument] = self.stack[-1]
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            self.stack.append(_EMPTY[name]())
        elif name == "MARK":
            self.stack.append(_MARK)
        elif name not in _IGNORED:
            self._compound(name, argument)

    def _compound(self, name: str, argument: Any) -> None:
        """Instructions that build something of what lies on the stack."""
        stack = self.stack
        match name:
            case "SETITEM" | "SETITEMS":
                items = [stack.pop(-2), stack.pop()] if name == "SETITEM" else self._group()
                stack[-1].update(zip(items[::2], items[1::2], strict=True))
            case "APPEND" | "APPENDS":
                items = [stack.pop()] if name == "APPEND" else self._group()
                stack[-1].extend(items)
            case "ADDITEMS":
                items = self._group()
                stack[-1].update(items)
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(name[-1])
                stack[-count:] = [tuple(stack[-count:])]
            case "TUPLE":
                stack.append(tuple(self._group()))
            case "DICT":
                items = self._group()
                stack.append(dict(zip(items[::2], items[1::2], strict=True)))
            case "LIST":
                stack.append(self._group())
            case "POP":
                stack.pop()
            case _:
                self._object(name, argument)

    def _object(self, name: str, argument: Any) -> None:
        """Instructions that would make objects: graphs come out as their state."""
        stack = self.stack
        match name:
            case "GLOBAL":
                stack.append(_known(argument))
            case "STACK_GLOBAL":
                member, module = stack.pop(), stack.pop()
                stack.append(_known(f"{module} {member}"))
            case "NEWOBJ" | "REDUCE":
                arguments, made = stack.pop(), stack.pop()
                stack.append(_instance(made, arguments))
            case "BUILD":
                state = stack.pop()
                if not isinstance(stack[-1], GraphObject) or not isinstance(state, dict):
                    raise UnreadablePickle(
                        "the pickle sets attributes of something else than a graph"
                    )
                stack[-1].state.update(state)
            case _:
                raise UnreadablePickle(f"the pickle uses {name}, which plain data does not need")

    def _group(self) -> list[Any]:
        """What lies above the last mark, which is taken away too."""
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items


def _known(text: str) -> _Name:
    if text in GRAPH_CLASSES or text in _FACTORIES or text in _NAMED_ONLY:
        return _Name(text)
    if text == _RECONSTRUCTOR:
        return _Name(text)
    raise UnreadablePickle(f"the pickle names {text!r}, which is neither plain data nor a graph")


def _instance(made: Any, arguments: Any) -> Any:
    text = made.text if isinstance(made, _Name) else ""
    if text == _RECONSTRUCTOR and arguments and isinstance(arguments[0], _Name):
        text = arguments[0].text
    if text in GRAPH_CLASSES:
        return GraphObject(text.partition(" ")[2], {})
    if text in _FACTORIES:
        return {}
    raise UnreadablePickle(f"the pickle calls {text or 'something'}")
