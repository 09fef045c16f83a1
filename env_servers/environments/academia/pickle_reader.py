"""Reads pickled graphs without giving a pickle anything that it could run.

A pickle is a program: `GLOBAL` names a class or function, `REDUCE` calls it. `pickle.Unpickler`
looks every name up through `find_class`, so reading is safe as long as that gives nothing away.
Here it gives no class or function that the file names, but inert stand-ins, for a short list of
names; any other name is refused before it is imported. What the standard machine builds besides is
plain data. What is left are files that take all memory or the C stack; the checks below bound them.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO, ClassVar, Final, NoReturn

__all__ = ["GraphObject", "UnreadablePickle", "read_pickle"]

MAX_FILE: Final = 2**30
"""Bytes of a file. It is read as a whole: the machine then never allocates what a damaged length
promises, but at most what is there."""
MAX_TUPLE: Final = 100
"""Values of a tuple, those of its own tuples included. Hashing a key visits each of them, however
often it is shared, and goes down nested tuples on the C stack, unguarded. Published graphs hold
lists."""
MAX_VALUES: Final = 50_000_000
"""Values of the result, with shared ones counted each time: thirty lists, each of ten times the one
before, are a small file and more than any memory once they are written out."""
MAX_DEPTH: Final = 100
"""Nesting of the result."""
_PLAIN: Final = (str, bytes, int, float, type(None))
_MARKED: Final = (pickletools.markobject, pickletools.stackslice)
_OPCODES: Final = frozenset(
    (
        *("PROTO", "FRAME", "STOP", "MARK", "POP", "NONE", "NEWTRUE", "NEWFALSE"),
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("EMPTY_DICT", "EMPTY_LIST", "EMPTY_SET", "EMPTY_TUPLE", "DICT", "LIST"),
        *("SETITEM", "SETITEMS", "APPEND", "APPENDS", "ADDITEMS"),
        *("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
        *("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET", "LONG_BINGET"),
        *("GLOBAL", "STACK_GLOBAL", "NEWOBJ", "REDUCE", "BUILD"),
    )
)
"""Instructions that plain data and graphs need. Left out are, above all, those that go round
`find_class` (EXT1 ...) or ask the reader for objects (PERSID)."""


_EFFECTS: Final[Mapping[str, tuple[bool, int, int]]] = {
    opcode.name: (
        pickletools.markobject in opcode.stack_before,
        len([taken for taken in opcode.stack_before if taken not in _MARKED]),
        len(opcode.stack_after),
    )
    for opcode in pickletools.opcodes
}
"""Of each instruction: whether it takes all down to the last mark, how many values it takes
besides, how many it leaves."""


class UnreadablePickle(ValueError):
    """When a file asks for something else than plain data and graphs."""


@dataclass(slots=True)
class GraphObject:
    """A graph's class and its attributes, as they were stored."""

    kind: str
    state: dict[str, Any]

    def __setstate__(self, state: object) -> None:
        """Take the attributes that a pickle gives an object."""
        if not isinstance(state, dict):
            raise UnreadablePickle("the pickle gives a graph no attributes by name")
        self.state.update(state)  # pyright: ignore[reportUnknownArgumentType]


class _StandIn:
    """Stands for a class or function that a pickle names; calling it gives plain data.

    `__setstate__` is there so that a pickle cannot set attributes of the stand-in itself: the
    machine prefers it to `setattr`, and called on the class it lacks an argument.
    """

    name: ClassVar[str]
    build: ClassVar[Callable[..., Any]]

    def __new__(cls, *arguments: Any) -> Any:
        return cls.build(*arguments)

    def __setstate__(self, state: object) -> NoReturn:
        raise UnreadablePickle(f"the pickle sets attributes of {self.name}")


def _stand_in(name: str, build: Callable[..., Any]) -> type[_StandIn]:
    return type("StandIn", (_StandIn,), {"name": name, "build": staticmethod(build)})


def _graph(kind: str) -> type[_StandIn]:
    return _stand_in(kind, lambda *_: GraphObject(kind, {}))


def _uncallable(name: str) -> type[_StandIn]:
    def refuse(*_: Any) -> NoReturn:
        raise UnreadablePickle(f"the pickle calls {name}")

    return _stand_in(name, refuse)


def _reconstruct(kind: Any, *_: Any) -> Any:
    """`copyreg._reconstructor`: how protocols 0 and 1 make objects."""
    if kind not in _GRAPHS:
        raise UnreadablePickle("the pickle calls something else than a graph")
    return kind()


_GRAPH_NAMES: Final = {
    "networkx.classes.graph Graph": _graph("Graph"),
    "networkx.classes.digraph DiGraph": _graph("DiGraph"),
    "networkx.classes.multigraph MultiGraph": _graph("MultiGraph"),
    "networkx.classes.multidigraph MultiDiGraph": _graph("MultiDiGraph"),
}
_GRAPHS: Final = tuple(_GRAPH_NAMES.values())
_DICTIONARY: Final = _stand_in("a dictionary", lambda *_: {})
_RECONSTRUCTOR: Final = _stand_in("copyreg _reconstructor", _reconstruct)
ALLOWED: Final[dict[str, type[_StandIn]]] = {
    **_GRAPH_NAMES,
    "collections OrderedDict": _DICTIONARY,
    "collections defaultdict": _DICTIONARY,
    "copyreg _reconstructor": _RECONSTRUCTOR,
    "copy_reg _reconstructor": _RECONSTRUCTOR,
    # A defaultdict names what its values are; the reconstructor names a base class.
    **{
        f"{module} {name}": _uncallable(f"builtins {name}")
        for module in ("builtins", "__builtin__")
        for name in ("dict", "list", "set", "object")
    },
}
"""All that a pickle may name, with what it gets; the second spellings are those of protocols
before 3, which use Python 2's names."""


class _InertUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> type[_StandIn]:
        """Return the stand-in of an allowed name. Nothing is imported and nothing looked up."""
        try:
            return ALLOWED[f"{module} {name}"]
        except KeyError:
            raise UnreadablePickle(
                f"the pickle names {f'{module} {name}'!r}, which is neither plain data nor a graph"
            ) from None


def read_pickle(file: BinaryIO) -> Any:
    """Return the plain data and graphs of a pickle.

    Raises:
        UnreadablePickle: the file is damaged, asks for anything else, or is too large.
    """
    data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise UnreadablePickle(f"the pickle is larger than {MAX_FILE} bytes")
    try:
        _check_instructions(data)
        value = _InertUnpickler(io.BytesIO(data)).load()
    except UnreadablePickle:
        raise
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
        MemoryError,
    ) as error:
        raise UnreadablePickle(f"damaged pickle: {error!r}") from error
    _measure(value, MAX_DEPTH, {})
    return value


def _check_instructions(data: bytes) -> None:
    """Refuse instructions that plain data does not need, and claims of memory for nothing."""
    sizes = _Sizes()
    argument: Any
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        name = opcode.name
        if name not in _OPCODES:
            raise UnreadablePickle(f"the pickle uses {name}, which plain data does not need")
        # The memo is an array as long as the largest index: six bytes could claim 32 GB.
        if name.endswith("PUT") and argument > count:
            raise UnreadablePickle(f"the pickle remembers value {argument} of {count}")
        sizes.follow(name, argument)


class _Sizes:
    """Follows a pickle's stack as far as to know how many values each tuple holds."""

    MARK: ClassVar[int] = 0

    def __init__(self) -> None:
        self._stack: list[int] = []
        """Of each value: 1, or what hashing it visits; or MARK."""
        self._memo = bytearray()
        """The same of each remembered value; 0 = there is none."""
        self._remembered = 0

    def follow(self, name: str, argument: Any) -> None:
        """Take one instruction; IndexError or ValueError where the stack is too short for it."""
        stack = self._stack
        if name == "MARK":
            stack.append(self.MARK)
        elif name.endswith("GET"):
            stack.append(self._memo[argument])
        elif name.endswith("PUT"):
            self._remember(argument)
        elif name == "MEMOIZE":
            self._remember(self._remembered)
        else:
            to_mark, taken, given = _EFFECTS[name]
            values = self._pop_to_mark() if to_mark else []
            values += [stack.pop() for _ in range(taken)]
            if given:
                stack.append(1 + sum(values) if name.startswith("TUPLE") else 1)
                if stack[-1] > MAX_TUPLE:
                    raise UnreadablePickle(
                        f"the pickle has a tuple of more than {MAX_TUPLE} values"
                    )

    def _pop_to_mark(self) -> list[int]:
        values: list[int] = []
        while (value := self._stack.pop()) != self.MARK:
            values.append(value)
        return values

    def _remember(self, index: int) -> None:
        if index >= len(self._memo):
            self._memo.extend(bytes(index + 1 - len(self._memo)))
        self._remembered += not self._memo[index]
        self._memo[index] = self._stack[-1]


def _measure(value: Any, levels: int, measured: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return how many values a value holds and how deep it is; refuse what is too much of either.

    Args:
        value: Any part of the result.
        levels: How many levels it may have.
        measured: What was returned before, by identity: shared parts are counted often, but walked
            once. A part that holds itself runs out of levels.
    """
    if isinstance(value, _PLAIN):
        return 1, 0
    count, depth = measured.get(id(value), (0, -1))
    if levels <= max(depth, 0):
        raise UnreadablePickle(f"the pickle is nested more than {MAX_DEPTH} levels deep")
    if depth >= 0:
        return count, depth
    for part in _parts(value):
        more, below = _measure(part, levels - 1, measured)
        count, depth = count + more, max(depth, below)
        if count > MAX_VALUES:
            raise UnreadablePickle(f"the pickle holds more than {MAX_VALUES} values")
    measured[id(value)] = count + 1, depth + 1
    return measured[id(value)]


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, GraphObject):
        value = value.state
    if isinstance(value, dict):
        return chain.from_iterable(value.items())  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, list | tuple | set):
        return value  # pyright: ignore[reportUnknownVariableType]
    raise UnreadablePickle("the pickle holds a class or function")
