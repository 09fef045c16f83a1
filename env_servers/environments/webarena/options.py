"""What a reset may choose of how pages are shown, and the setting of element numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from env_servers.environments.webarena.browsing import View
from env_servers.sdk import InvalidOption, ResetOptions

__all__ = ["NUMBERS", "OPTIONS", "numbered_by_browser", "read_view"]

OPTIONS: Final = ("dialect", "images", "name_sites", "observation", "tree")
"""The options of a reset."""
NUMBERS: Final = "numbers"
"""The setting that says who numbers elements."""
_DIALECTS: Final = ("chromium", "chromium_112")
_OBSERVATIONS: Final = ("tree", "html")
_TREES: Final = ("window", "full")
_NUMBERED_BY: Final = ("episode", "browser")


def read_view(options: ResetOptions, *, browser_numbers: bool) -> View:
    """Return how an episode shows pages; raises InvalidOption."""
    return View(
        html=options.choose("observation", _OBSERVATIONS) == "html",
        full=options.choose("tree", _TREES) == "full",
        chromium_112=options.choose("dialect", _DIALECTS) == "chromium_112",
        browser_numbers=browser_numbers,
        images=options.wants("images"),
    )


def numbered_by_browser(settings: Mapping[str, str]) -> bool:
    """Return whether the browser's own numbers are asked for; raises InvalidOption."""
    value = settings.get(NUMBERS, _NUMBERED_BY[0])
    if value not in _NUMBERED_BY:
        raise InvalidOption(f"setting webarena.{NUMBERS}={value[:100]!r}", valid=_NUMBERED_BY)
    return value == "browser"
