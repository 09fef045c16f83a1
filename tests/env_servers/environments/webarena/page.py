"""What a test answers a browser with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["HOST", "Page"]

HOST = "a.test"


@dataclass(frozen=True)
class Page:
    body: bytes
    status: int = 200
    headers: Sequence[tuple[str, str]] = (("Content-Type", "text/html; charset=utf-8"),)
