"""Whether an episode is what ended its server: evidence, and how much of it is enough.

Pure. When a server ends, every command in flight may have done it. Once proves nothing: all go on
at the same time. An episode that was in flight at two ends in a row is under suspicion: from then
on it sends its commands while no other suspect does, and two further ends convict it. A message
that broke only its stream counts double, for no network and no operator does that. An answered step
clears, and so does a server that ends without the suspect: somebody else kills it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Suspicion"]

_ENOUGH = 2


@dataclass(slots=True)
class Suspicion:
    """What is known against one episode."""

    breaks: int = 0
    """Times since its last answered step that a server or stream broke with it in flight."""
    _among_others: int = 0
    _alone: int = 0

    @property
    def suspected(self) -> bool:
        """Its next command has to be the only suspect one in flight."""
        return self._among_others >= _ENOUGH

    @property
    def tried_alone(self) -> bool:
        """A server ended while its command was the only suspect one."""
        return self._alone > 0

    @property
    def convicted(self) -> bool:
        """It is given up."""
        return self._alone >= _ENOUGH

    def record(self, *, alone: bool, by_message: bool) -> None:
        """Note a break while a command of the episode was in flight.

        Args:
            alone: No other suspect was in flight.
            by_message: The stream broke of a message, and the server lived on.
        """
        weight = _ENOUGH if by_message else 1
        self.breaks += 1
        if alone:
            self._alone += weight
        else:
            self._among_others += weight

    def clear(self) -> None:
        """Note that a step was answered, or that the server ended without the episode."""
        self.breaks = self._among_others = self._alone = 0
