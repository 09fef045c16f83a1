"""Waiting for what happens elsewhere, in tests that would hang otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["until"]


async def until(condition: Callable[[], object], *, pause: float = 0.02) -> None:
    """Wait until a condition holds, asked every `pause` seconds. Raises TimeoutError after 60."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(pause)
