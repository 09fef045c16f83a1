"""How numbers, amounts and times are written in pages, and addresses made of names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, Final

__all__ = ["FILTERS", "ago", "count", "long_day", "minute", "money", "short_day", "slug"]

_SPANS: Final = (
    (365 * 86400, "year"),
    (30 * 86400, "month"),
    (7 * 86400, "week"),
    (86400, "day"),
    (3600, "hour"),
    (60, "minute"),
)


def money(cents: int) -> str:
    """Return `$1,234.50`."""
    sign = "-" if cents < 0 else ""
    return f"{sign}${abs(cents) // 100:,}.{abs(cents) % 100:02d}"


def short_day(day: date) -> str:
    """Return `6/30/25`."""
    return f"{day.month}/{day.day}/{day.year % 100:02d}"


def long_day(day: date) -> str:
    """Return `June 30, 2025`."""
    return f"{day:%B} {day.day}, {day.year}"


def minute(time: datetime) -> str:
    """Return `Jun 30, 2025 9:05:00 AM`."""
    return f"{time:%b} {time.day}, {time.year} {time.hour % 12 or 12}:{time:%M:%S %p}"


def ago(time: datetime, now: datetime) -> str:
    """Return how long ago something was: `3 days ago`."""
    seconds = int((now - time).total_seconds())
    for span, name in _SPANS:
        if seconds >= span:
            return f"{count(seconds // span, name)} ago"
    return "just now"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return `1 comment`, `2 comments`, `0 comments`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def slug(text: str, limit: int = 80) -> str:
    """Return a text as a part of an address: lower-case letters, digits and hyphens."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub("[^a-z0-9]+", "-", plain.lower())[:limit].strip("-") or "-"


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "money": money,
    "short_day": short_day,
    "long_day": long_day,
    "minute": minute,
    "ago": ago,
    "count_of": count,
    "slug": slug,
}
"""What every template can use."""
