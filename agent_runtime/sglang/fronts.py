"""Where requests to SGLang are sent: to one engine or router, or to one of several by their keys.

A list of addresses does what a router does for those who run none: requests of a key (an episode's)
go to one engine, which has their prefixes cached, as long as that one serves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from typing import Final

from agent_runtime.endpoint import Endpoint
from agent_runtime.errors import PolicyMisconfigured

__all__ = ["Fronts", "prefer"]

_SEPARATOR: Final = "+"


def prefer(addresses: Collection[str], key: str) -> str:
    """Return the address of a key: when one leaves, only its own keys go elsewhere."""

    def weight(address: str) -> bytes:
        return hashlib.blake2b(f"{key}\n{address}".encode(), digest_size=8).digest()

    return max(sorted(addresses), key=weight)


class Fronts:
    """The addresses that a policy was told; use between `open` and `close`."""

    def __init__(self, text: str, connect: Callable[[str], Endpoint]) -> None:
        """Read addresses, separated by `+`; raises PolicyMisconfigured where one is none."""
        endpoints = [connect(address.strip()) for address in text.split(_SEPARATOR)]
        self._endpoints = {it.base_url: it for it in endpoints}
        if len(self._endpoints) < len(endpoints):
            raise PolicyMisconfigured(f"an address is given twice: {self.base_url}")

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints.values())

    def __len__(self) -> int:
        return len(self._endpoints)

    def __contains__(self, address: str) -> bool:
        return address in self._endpoints

    @property
    def base_url(self) -> str:
        """All of them, for people."""
        return _SEPARATOR.join(self._endpoints)

    async def open(self) -> None:
        """Make the connection pools."""
        for endpoint in self:
            await endpoint.open()

    async def close(self) -> None:
        """Close all connections."""
        for endpoint in self:
            await endpoint.close()

    def choose(self, key: str, serving: Collection[str]) -> Endpoint:
        """Return where a request of a key goes now: to one that serves, if any does."""
        addresses = serving or self._endpoints
        address = next(iter(addresses)) if len(addresses) == 1 else prefer(addresses, key)
        return self._endpoints[address]
