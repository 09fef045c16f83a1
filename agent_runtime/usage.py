"""Token counts that a model server reports of its replies: read where they arrive.

They are the server's bookkeeping, not its reply: a figure that is no count is absent, which is
logged, and the reply stays usable.
"""

from __future__ import annotations

from typing import Final

from agent_runtime.logs import get_logger

__all__ = ["LARGEST_COUNT", "read_count"]

LARGEST_COUNT: Final = 2**53 - 1
"""The largest whole number that every JSON reader gives back exactly; sums of a thousand of them
fit the store's 63 bits."""
_SHOWN: Final = 40

log = get_logger(__name__)


def read_count(figure: object, name: str) -> int | None:
    """Return a number of tokens; None = the server gave none, or something that is no count.

    Args:
        figure: What the reply holds.
        name: How the reply calls it.
    """
    if figure is None:
        return None
    # A boolean is an int for Python, but no count.
    if type(figure) is int and 0 <= figure <= LARGEST_COUNT:
        return figure
    _warn_once(name, type(figure).__name__, _shown(figure))
    return None


_warned: set[str] = set()


def _warn_once(name: str, kind: str, figure: str) -> None:
    if name not in _warned:
        _warned.add(name)
        log.warning("usage figure is no count, left out", figure=name, value=figure, kind=kind)


def _shown(figure: object) -> str:
    if type(figure) is int and figure.bit_length() > 128:  # str() of a huge one raises
        return f"a number of {figure.bit_length()} bits"
    return repr(figure)[:_SHOWN]
