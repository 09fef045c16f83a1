"""What a served model is, whatever serves it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

__all__ = ["Served"]


class Served(ABC):
    """A model that is being served; use between `start` and `stop`."""

    address: str = ""
    """What clients use: `--policy sglang:ADDRESS`."""
    engines: Sequence[str] = ()
    """Addresses of the engines behind it, for weights and other control."""

    @abstractmethod
    async def start(self) -> None:
        """Start to serve; returns when requests are answered. Raises PolicyError."""

    @abstractmethod
    async def stop(self) -> None:
        """End everything that `start` began."""

    @abstractmethod
    async def wait(self) -> None:
        """Wait until serving has failed for good; raises PolicyUnavailable then."""
