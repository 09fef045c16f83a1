"""An episode's turn on its sites: from when they are free to when they are set back.

Setting back may take minutes. It goes on after the episode was closed, and its sites stay reserved
meanwhile; what fails there is found again by whoever reserves the site next.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final

from env_servers.environments.webarena.official.reservations import SiteBusy
from env_servers.sdk import EnvironmentUnavailable

__all__ = ["Turn"]

_TURNS: Final[set[asyncio.Task[None]]] = set()
"""Turns that have not ended: a task that nobody holds could be collected."""


class Turn:
    """One reservation, held by a task of its own."""

    def __init__(self, reservation: AbstractAsyncContextManager[None]) -> None:
        self._reservation = reservation
        self._began = asyncio.Event()
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self, seconds: float) -> None:
        """Wait until the sites are reserved and as they should be.

        Raises:
            SiteBusy: They were not within `seconds`.
            ResetFailed: A site could not be set back.
        """
        task = self._task = asyncio.ensure_future(self._hold())
        _TURNS.add(task)
        task.add_done_callback(_forget)
        began = asyncio.ensure_future(self._began.wait())
        try:
            await asyncio.wait([task, began], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            began.cancel()
        if task.done():
            task.result()
        if not self._began.is_set():
            self.end()
            raise SiteBusy(
                f"the task's sites were not free and set back within {seconds:g} s: play later, "
                "or raise --set webarena.wait_seconds"
            )

    def end(self) -> None:
        """Let the sites be set back and used by others."""
        self._ended.set()

    async def over(self) -> None:
        """Wait until the sites are free again, whether or not they could be set back."""
        if self._task is not None:
            with suppress(EnvironmentUnavailable):
                await asyncio.shield(self._task)

    async def _hold(self) -> None:
        async with self._reservation:
            self._began.set()
            await self._ended.wait()


def _forget(task: asyncio.Task[None]) -> None:
    """Drop an ended turn; what its end failed with is noted at the site."""
    _TURNS.discard(task)
    if not task.cancelled():
        task.exception()
