"""How long a client waits for a server that answers late, never, or with a wish to wait.

Two bounds, neither of which costs anything where answers come: `Patience` for what a server asks a
command to wait, `AnswerWatch` for answers that do not come. It knows no connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from agent_runtime.errors import EnvironmentFailure, WaitTooLong

__all__ = ["LONGEST_WAIT", "AnswerWatch", "Patience"]

LONGEST_WAIT: Final = 300.0
"""Seconds that a server may ask one command to wait, all its refusals together."""


class Patience:
    """How long the present command has waited at its server's wish."""

    __slots__ = ("_seq", "_waited")

    def __init__(self) -> None:
        self._seq = -1
        self._waited = 0.0

    async def wait(self, seq: int, refusal: EnvironmentFailure, least: float) -> None:
        """Wait before the command of `seq` is sent again; raises WaitTooLong.

        Args:
            seq: A command with another number begins anew.
            refusal: May say after how long to come back.
            least: Seconds to wait where it does not.
        """
        if seq != self._seq:
            self._seq, self._waited = seq, 0.0
        seconds = max(refusal.retry_after or 0.0, least)
        self._waited += seconds
        if self._waited > LONGEST_WAIT:
            raise WaitTooLong(
                f"the server wants command {seq} to wait {self._waited:,.0f} s in all "
                f"({refusal.reason}: {refusal}); more than {LONGEST_WAIT:g} s are not waited"
            ) from refusal
        await asyncio.sleep(seconds)


class AnswerWatch:
    """Which answers are overdue, and whether a server says anything at all; asked now and then."""

    def __init__(self, deadline: float, silence: float) -> None:
        """`deadline` is for one answer, `silence` for any, in seconds."""
        self.interval = min(deadline, silence) / 8
        """Seconds from one look to the next."""
        self._deadline = deadline
        self._silence = silence
        self._since: dict[asyncio.Future[Any], float] = {}
        self._heard = -1
        self._heard_at = 0.0

    def overdue(
        self, waiting: Iterable[asyncio.Future[Any]], now: float
    ) -> list[asyncio.Future[Any]]:
        """Return those that were waiting already a deadline ago."""
        self._since = {it: self._since.get(it, now) for it in waiting}
        late = now - self._deadline
        return [it for it, since in self._since.items() if since < late]

    def silence(self, heard: int, now: float) -> float:
        """Return for how long nothing was heard, as a share of what is too long.

        Args:
            heard: Number of messages heard so far.
            now: Seconds of a monotonic clock.
        """
        if heard != self._heard:
            self._heard, self._heard_at = heard, now
        return (now - self._heard_at) / self._silence
