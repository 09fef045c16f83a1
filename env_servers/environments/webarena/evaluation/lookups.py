"""The functions that a task file may call for an address or a text, by the names that it has.

A call is parsed, never evaluated: `name('text', __page__)`, with texts and the page as arguments.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol, cast
from urllib.parse import quote, urlencode, urlsplit

from env_servers.environments.webarena.evaluation.errors import (
    EvaluationFailed,
    PageFailed,
    UnusableCriteria,
)
from env_servers.environments.webarena.evaluation.page import Page

__all__ = ["LOOKUPS", "Call", "Lookup", "ShopService", "parse_call", "post_address"]

PAGE: Final = "__page__"
LAST_URL: Final = "__last_url__"


class ShopService(Protocol):
    """The shop's programming interface (Magento's REST), asked as its administrator."""

    @property
    def address(self) -> str:
        """Address of the shop, without a slash at the end."""
        ...

    async def get(self, path: str) -> object:
        """Return the JSON at a path below `/rest/V1/`; raises EvaluationFailed."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """A parsed call; an argument None stands for the page."""

    name: str
    arguments: tuple[str | None, ...]


Lookup = Callable[[Call, Page, ShopService], Awaitable[str]]


def parse_call(text: str) -> Call:
    """Return a call; raises UnusableCriteria for anything else and for an unknown function."""
    try:
        expression = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise UnusableCriteria(f"{text[:100]!r} is no call of a function: {error}") from error
    if not isinstance(expression, ast.Call) or not isinstance(expression.func, ast.Name):
        raise UnusableCriteria(f"{text[:100]!r} is no call of a function")
    name = expression.func.id
    if name not in LOOKUPS:
        raise UnusableCriteria(f"name '{name}' is not defined")
    arguments = tuple(_argument(argument, text) for argument in expression.args)
    if expression.keywords or len(arguments) != len(_PARAMETERS[name]):
        raise UnusableCriteria(f"{text[:100]!r} has other arguments than {_PARAMETERS[name]}")
    return Call(name, arguments)


def _argument(node: ast.expr, text: str) -> str | None:
    if isinstance(node, ast.Name) and node.id == PAGE:
        return None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise UnusableCriteria(f"an argument of {text[:100]!r} is neither a text nor {PAGE}")


def post_address(url: str) -> str:
    """Return the address of a forum's post without what follows its number."""
    parts = urlsplit(url)
    steps = parts.path.split("/")
    if len(steps) < 4 or steps[1] != "f":
        return url
    return f"{parts.scheme}://{parts.netloc}/f/{steps[2]}/{steps[3]}/"


async def _post_url(call: Call, page: Page, shop: ShopService) -> str:
    return post_address((call.arguments[0] or "").replace(LAST_URL, page.url))


async def _latest_order(call: Call, page: Page, shop: ShopService) -> str:
    newest = {
        "searchCriteria[sortOrders][0][field]": "created_at",
        "searchCriteria[sortOrders][0][direction]": "DESC",
        "searchCriteria[pageSize]": "1",
    }
    answer = await shop.get(f"orders?{urlencode(newest)}")
    try:
        number = int(cast("Any", answer)["items"][0]["increment_id"])
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise EvaluationFailed(f"the shop has no newest order: {error!r}") from error
    return f"{shop.address}/sales/order/view/order_id/{number}/"


async def _review_author(call: Call, page: Page, shop: ShopService) -> str:
    review = await _latest_review(call, shop)
    return "" if review is None else str(review["nickname"])


async def _review_rating(call: Call, page: Page, shop: ShopService) -> str:
    review = await _latest_review(call, shop)
    try:
        return "" if review is None else str(review["ratings"][0]["percent"])
    except (IndexError, KeyError, TypeError) as error:
        raise EvaluationFailed(f"the shop's latest review has no rating: {error!r}") from error


async def _latest_review(call: Call, shop: ShopService) -> Mapping[str, Any] | None:
    answer = await shop.get(f"products/{quote(call.arguments[0] or '', safe='')}/reviews")
    if not isinstance(answer, list):
        raise EvaluationFailed("the shop gave no list of reviews")
    reviews = cast("list[Mapping[str, Any]]", answer)
    return reviews[-1] if reviews else None


_ROLE: Final = """(() => {
  const accounts = [...document.querySelectorAll(
    "td[data-label='Account'] span.gl-avatar-labeled-sublabel")];
  const row = accounts.findIndex((account) => account.outerText === "@" + %s);
  return document.querySelectorAll("td.col-max-role span")[row].outerText;
})()"""


async def _member_role(call: Call, page: Page, shop: ShopService) -> str:
    try:
        return str(await page.evaluate(_ROLE % json.dumps(call.arguments[1])))
    except PageFailed:  # also where the account is no member, as in the original
        return ""


LOOKUPS: Final[Mapping[str, Lookup]] = MappingProxyType(
    {
        "reddit_get_post_url": _post_url,
        "shopping_get_latest_order_url": _latest_order,
        "shopping_get_sku_latest_review_author": _review_author,
        "shopping_get_sku_latest_review_rating": _review_rating,
        "gitlab_get_project_memeber_role": _member_role,
    }
)
"""All functions; the names are the original's."""
_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "reddit_get_post_url": ("url",),
        "shopping_get_latest_order_url": (),
        "shopping_get_sku_latest_review_author": ("sku",),
        "shopping_get_sku_latest_review_rating": ("sku",),
        "gitlab_get_project_memeber_role": (PAGE, "account"),
    }
)
