"""Environments by name, as far as they are loaded: the mapping that the whole server looks in."""

from __future__ import annotations

import asyncio

from env_servers.server.runners import Host

__all__ = ["Hosts"]


class Hosts(dict[str, Host]):
    """Grows while a server that listens already loads its environments."""

    def __init__(self) -> None:
        super().__init__()
        self._complete = False
        self._changed = asyncio.Event()

    @property
    def complete(self) -> bool:
        """Whether no other environment will come."""
        return self._complete

    def add(self, host: Host) -> None:
        """Take an environment in, and wake those who wait for it."""
        self[host.spec.name] = host
        self._wake()

    def complete_now(self) -> None:
        """Say that no other environment will come."""
        self._complete = True
        self._wake()

    async def wait_for(self, name: str = "") -> None:
        """Wait until an environment is there, or until all are; empty: until all are."""
        while not self._complete and (not name or name not in self):
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
