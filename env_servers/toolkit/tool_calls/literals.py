"""What a model writes as an argument, as a value: literals and sums of numbers, nothing else.

The original hands the text to `eval`; here the syntax tree is walked, so names, calls, attributes
and subscripts are refused. Sums of numbers such as `18.2 - 6.0` stay allowed: recorded agents leave
them to the environment.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

__all__ = ["MAX_CHARS", "read_json", "read_python"]

MAX_CHARS: Final = 65_536
"""Longest text that is parsed: the parser needs seconds for a megabyte."""
_MAX_MAGNITUDE: Final = 10**30
"""Largest integer that a product may have."""

_NOT_BOTH: Final = re.compile(r"\\|true|false|null|NaN|Infinity|\{.*\{", re.DOTALL)
"""What JSON and Python read differently, or one of them not at all; and objects in objects."""
_SHALLOW: Final = 50
"""Python's parser refuses brackets beyond a depth of 200."""

_OPERATORS: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_SIGNS: Final[Mapping[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_UNREADABLE: Final = (
    SyntaxError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
)


class _Set(set[Any]):
    """A set literal whose text does not depend on hash seeds."""

    def __repr__(self) -> str:
        return "{" + ", ".join(sorted(map(repr, self))) + "}" if self else "set()"

    __str__ = __repr__


def read_python(text: str) -> Any:
    """Return the value of a Python literal; raises ValueError for anything else."""
    if len(text) > MAX_CHARS:
        raise ValueError("too long")
    if text.startswith("{") and not _NOT_BOTH.search(text) and text.count("[", 1) < _SHALLOW:
        try:  # most inputs are JSON objects that Python reads alike, only ten times as slowly
            return _JSON.decode(text)
        except (ValueError, RecursionError):
            pass
    try:
        return _value(ast.parse(text.lstrip(" \t"), "<agent input>", mode="eval").body)
    except _UNREADABLE as error:
        raise ValueError(f"no literal: {type(error).__name__}") from None


def read_json(text: str) -> Any:
    """Return the value of the JSON document at the start of a text, whatever follows it.

    Line breaks inside strings are allowed: models write them. Raises ValueError.
    """
    if len(text) > MAX_CHARS:
        raise ValueError("too long")
    try:
        return _JSON.raw_decode(text.lstrip())[0]
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


_JSON = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value) if value is not Ellipsis:
            return value
        case ast.List(elts=items):
            return [_value(item) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_value(item) for item in items)
        case ast.Set(elts=items):
            return _Set(_value(item) for item in items)
        case ast.Dict(keys=keys, values=values):
            # A `**other` has no key; it is no literal.
            return {
                _value(cast("ast.expr", key)): _value(item)
                for key, item in zip(keys, values, strict=True)
            }
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _SIGNS:
            return _SIGNS[type(sign)](_number(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _bounded(_OPERATORS[type(op)](_number(left), _number(right)))
        case _:
            raise ValueError(f"{type(node).__name__} is no literal")


def _number(node: ast.expr) -> Any:
    value = _value(node)
    if isinstance(value, bool) or not isinstance(value, int | float | complex):
        raise ValueError("only numbers can be reckoned with")
    return value


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and abs(value) > _MAX_MAGNITUDE:
        raise ValueError("number too large")
    return value
