"""What a client sent by query or form: names and texts, read as the kinds that pages want.

Every reader answers a default where the text is missing or is not of its kind, so that a page never
fails because of what was typed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import date, datetime
from typing import Final
from urllib.parse import parse_qsl

__all__ = ["MAX_FIELDS", "MAX_TEXT", "Fields"]

MAX_FIELDS: Final = 1000
MAX_TEXT: Final = 20_000
"""Characters of a field; longer texts are cut."""
_DAY_FORMATS: Final = ("%m/%d/%Y", "%m/%d/%y", "%Y-%m-%d")
_NUMBER: Final = re.compile(r"-?[0-9]{1,12}")
_AMOUNT: Final = re.compile(r"-?\$?([0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,9})(\.[0-9]{1,4})?")


class Fields:
    """Named texts in the order in which they were sent; a name may come several times."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self.pairs = tuple(pairs)
        self._texts: dict[str, list[str]] = {}
        for name, text in self.pairs:
            self._texts.setdefault(name, []).append(text)

    @classmethod
    def parse(cls, encoded: str | bytes) -> Fields:
        """Read what a form sends (`application/x-www-form-urlencoded`); more fields are dropped."""
        text = encoded if isinstance(encoded, str) else encoded.decode("latin-1")
        text = "&".join(text.split("&", MAX_FIELDS)[:MAX_FIELDS])
        return cls(
            (name, value.replace("\x00", "").replace("\r\n", "\n")[:MAX_TEXT])
            for name, value in parse_qsl(text, keep_blank_values=True)
        )

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def __iter__(self) -> Iterable[str]:
        return iter(self._texts)

    def text(self, name: str, default: str = "") -> str:
        """Return the text of a field without blanks around it."""
        texts = self._texts.get(name)
        return texts[-1].strip() if texts else default

    def all(self, name: str) -> list[str]:
        """Return all texts of a name."""
        return list(self._texts.get(name, ()))

    def number(self, name: str, default: int = 0, *, low: int = 0, high: int = 10**9) -> int:
        """Return a whole number within bounds; a number beyond a bound gives the bound."""
        found = _NUMBER.fullmatch(self.text(name))
        return min(max(int(found[0]), low), high) if found else default

    def numbers(self, name: str) -> list[int]:
        """Return all whole numbers of a name."""
        return [int(text) for text in self.all(name) if _NUMBER.fullmatch(text.strip())]

    def cents(self, name: str) -> int | None:
        """Return an amount of money in cents, written `12`, `12.50`, `$1,200.00`."""
        return self._amount(name, 100)

    def _amount(self, name: str, unit: int) -> int | None:
        text = self.text(name)
        if _AMOUNT.fullmatch(text) is None:
            return None
        return round(float(text.replace("$", "").replace(",", "")) * unit)

    def day(self, name: str) -> date | None:
        """Return a day, written `6/30/2025`, `6/30/25` or `2025-06-30`."""
        for form in _DAY_FORMATS:
            try:
                return datetime.strptime(self.text(name), form).date()
            except ValueError:
                continue
        return None

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        """Return the text if it is one of the choices."""
        text = self.text(name)
        return text if text in choices else default
