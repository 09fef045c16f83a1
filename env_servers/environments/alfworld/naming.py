"""What a game's objects are called in texts: `apple 1` for `apple_bar__minus_00_dot_23_...`.

Contains the numbering that players see. It has to be ALFWorld's, because recorded actions use it:
the objects of a class are numbered downwards in the order of their ids, so the last id is number 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

__all__ = ["display_names"]

_SEPARATOR: Final = "_bar_"
_ESCAPES: Final = (("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ","))


def display_names(ids: Iterable[str]) -> dict[str, str]:
    """Names by id. An id that names no position keeps its text, and a blank follows it."""
    ordered = sorted(ids)
    left = Counter(
        kind_found for name in ordered if (kind_found := _object_class(name)) is not None
    )
    names: dict[str, str] = {}
    for name in ordered:
        kind = _object_class(name)
        if kind is None:
            names[name] = f"{_plain(name)} "
        else:
            names[name] = f"{kind} {left[kind]}"
            left[kind] -= 1
    return names


def _object_class(name: str) -> str | None:
    kind, separator, _ = name.partition(_SEPARATOR)
    if not separator:
        return None
    return _plain(f"{kind}basin" if "basin" in name else kind)


def _plain(text: str) -> str:
    for escape, meaning in _ESCAPES:
        text = text.replace(escape, meaning)
    return text
