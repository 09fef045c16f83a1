"""The page that an evaluator looks at: the current tab of an episode, under its limits."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from env_servers.environments.webarena.browser.errors import TabLost
from env_servers.environments.webarena.browsing import Browsing
from env_servers.environments.webarena.evaluation.errors import PageFailed

__all__ = ["JudgedPage"]

_Result = TypeVar("_Result")
_SERVER_FAULT: Final = 500


@dataclass(frozen=True, slots=True)
class JudgedPage:
    """Implements `evaluation.page.Page`."""

    browsing: Browsing

    @property
    def url(self) -> str:
        return self.browsing.current.page.url

    async def content(self) -> str:
        return await _told(lambda: self.browsing.current.ask(self.browsing.current.page.content()))

    async def evaluate(self, expression: str) -> object:
        page = self.browsing.current.page
        return await _told(lambda: self.browsing.current.ask(page.evaluate(expression)))

    async def run(self, statement: str) -> None:
        tab = self.browsing.current
        await _told(lambda: tab.ask(tab.page.evaluate(f"() => {{ {statement} }}")))
        await _told(lambda: self.browsing.window.settle(tab))

    async def goto(self, url: str) -> None:
        status = await _told(lambda: self.browsing.visit(url))
        if status >= _SERVER_FAULT:
            # What such a page says is not what the site has.
            raise PageFailed(f"{url} answers {status}")


async def _told(call: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    from playwright.async_api import Error

    try:
        return await call()
    except (Error, TabLost) as error:
        raise PageFailed(str(error)) from error
