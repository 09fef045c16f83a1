"""How long the answers took that a reply is made of, apart from all waiting.

A reply may wait for a place, for a server that is down and for requests that fail: none of it is
the agent's doing. Whoever sends requests notes the time of each answer here; whoever awaits the
reply reads the sum. Works within a task and the tasks that it starts.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Self

__all__ = ["AnswerTime", "note_answer"]


class AnswerTime:
    """The time of the answers to one reply's requests: of those that are noted in the block.

    It is a context manager of its own, because each reply needs one: made by `contextlib`, it took
    four times as long.
    """

    __slots__ = ("_token", "answers", "seconds")

    def __init__(self) -> None:
        self.answers = 0
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self._token: Token[AnswerTime | None] = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)

    def within(self, whole: float) -> float:
        """Return the seconds that count of a reply that took `whole`: all, if it asked nobody.

        Requests that are in flight at once add up to no more than the whole.
        """
        return min(whole, self.seconds) if self.answers else whole


_current: ContextVar[AnswerTime | None] = ContextVar("answer_time", default=None)


def note_answer(seconds: float) -> None:
    """Note that a request was answered, and how long after it was sent."""
    timed = _current.get()
    if timed is not None:
        timed.answers += 1
        timed.seconds += seconds
