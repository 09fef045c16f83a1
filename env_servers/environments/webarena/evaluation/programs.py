"""What pages say at the end of an episode, target after target.

Looking moves the page: targets that name an address open it.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any, Final, cast

from env_servers.environments.webarena.evaluation.answers import exact_match, includes
from env_servers.environments.webarena.evaluation.criteria import Target
from env_servers.environments.webarena.evaluation.errors import PageFailed, UnusableCriteria
from env_servers.environments.webarena.evaluation.lookups import (
    LOOKUPS,
    ShopService,
    parse_call,
)
from env_servers.environments.webarena.evaluation.page import Page

__all__ = ["check_target", "score_target"]

_FUNCTION: Final = "func:"
_SCRIPTS: Final = ("document.", "[...document.")
LAST: Final = "last"


def check_target(target: Target) -> None:
    """Raise UnusableCriteria for a locator, a function or a requirement that does not exist."""
    if target.url.startswith(_FUNCTION):
        parse_call(target.url.removeprefix(_FUNCTION))
    locator = target.locator
    if locator.startswith(_FUNCTION):
        parse_call(locator.removeprefix(_FUNCTION))
    elif locator.strip() and not locator.startswith(_SCRIPTS):
        raise UnusableCriteria(f"Unknown locator: {locator}")
    if not {"exact_match", "must_include"} & target.required.keys():
        raise UnusableCriteria(f"Unknown required_contents: {target.required.keys()}")


async def score_target(target: Target, page: Page, shop: ShopService) -> float:
    """Return 1.0 or 0.0; raises UnusableCriteria, PageFailed."""
    url = target.url
    if url.startswith(_FUNCTION):
        url = await _call(url, page, shop)
    if url != LAST:
        await page.goto(url)
    found = html.unescape(await _locate(target, page, shop))
    return float(_holds(target.required, found))


async def _call(text: str, page: Page, shop: ShopService) -> str:
    call = parse_call(text.removeprefix(_FUNCTION))
    return await LOOKUPS[call.name](call, page, shop)


async def _locate(target: Target, page: Page, shop: ShopService) -> str:
    locator = target.locator
    if not locator.strip():
        return await page.content()
    if locator.startswith(_FUNCTION):
        return await _call(locator, page, shop)
    if not locator.startswith(_SCRIPTS):
        raise UnusableCriteria(f"Unknown locator: {locator}")
    try:
        for statement in target.preparations:
            await page.run(statement)
    except PageFailed:  # the rest is left out and the place is looked at all the same
        pass
    try:
        return str(await page.evaluate(locator))
    except PageFailed:  # such a place is not on the page
        return ""


def _holds(required: Mapping[str, Any], found: str) -> bool:
    if "exact_match" in required:
        return exact_match(required["exact_match"], found)
    if "must_include" not in required:
        raise UnusableCriteria(f"Unknown required_contents: {required.keys()}")
    parts = required["must_include"]
    if not isinstance(parts, list):
        raise UnusableCriteria("must_include is no list", shown="")
    return all(
        any(includes(choice, found) for choice in part.split(" |OR| "))
        for part in cast("list[str]", parts)
    )
