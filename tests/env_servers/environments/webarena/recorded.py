"""The original's recorded scores, and stand-ins for what it scored them on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from env_servers.environments.webarena.evaluation import PageFailed, PolicyJudge

EVALUATORS = "webarena/given/evaluators.jsonl"
PAGES = "webarena/pages"


def read_cases(data_dir: Path, *kinds: str) -> list[dict[str, Any]]:
    """Return the recorded cases of some kinds, or of all."""
    with (data_dir / EVALUATORS).open(encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    return [case for case in cases if not kinds or case["kind"] in kinds]


@dataclass(slots=True)
class StillPage:
    """A page of which only the address matters."""

    url: str = "about:blank"

    async def content(self) -> str:
        raise PageFailed("this page has no content")

    async def evaluate(self, expression: str) -> object:
        raise PageFailed(f"this page runs no script: {expression}")

    async def run(self, statement: str) -> None:
        raise PageFailed(f"this page runs no script: {statement}")

    async def goto(self, url: str) -> None:
        self.url = url


@dataclass(slots=True)
class FileShop:
    """The shop's programming interface, answered from recorded files."""

    folder: Path
    address: str = "http://shop.test"
    asked: list[str] = field(default_factory=list)

    async def get(self, path: str) -> object:
        self.asked.append(path)
        file = self.folder / "shop.test" / "rest" / "V1" / urlsplit(path).path
        return json.loads(file.read_text(encoding="utf-8"))


@dataclass(slots=True)
class SaidBefore:
    """A model that says one thing, and how often it was asked."""

    verdict: str
    calls: int = 0

    async def reply(self, messages: object) -> str:
        self.calls += 1
        return self.verdict

    def judge(self) -> PolicyJudge:
        return PolicyJudge("recorded", self.reply)


class BrowserPage:
    """A real page, as the evaluators see one."""

    def __init__(self, page: Any) -> None:
        self._page = page

    @property
    def url(self) -> str:
        return cast("str", self._page.url)

    async def content(self) -> str:
        return cast("str", self._page.content())

    async def evaluate(self, expression: str) -> object:
        return self._ask("evaluate", f"() => {expression}")

    async def run(self, statement: str) -> None:
        self._ask("evaluate", f"() => {statement}")

    async def goto(self, url: str) -> None:
        self._ask("goto", url)

    def _ask(self, method: str, argument: str) -> object:
        from playwright.sync_api import Error

        try:
            return getattr(self._page, method)(argument)
        except Error as error:
            raise PageFailed(error.message.partition("\nCall log:")[0]) from error


@contextmanager
def open_pages(folder: Path, executable: str) -> Iterator[Any]:
    """Open a page in a real browser, for which the recorded hosts are files."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable)
        try:
            page = browser.new_page()
            page.route("**/*", lambda route: route.fulfill(**_file(folder, route.request.url)))
            yield page
        finally:
            browser.close()


def _file(folder: Path, url: str) -> Mapping[str, Any]:
    parts = urlsplit(url)
    wanted = folder / (parts.hostname or "") / parts.path.strip("/")
    for path in (wanted, wanted.with_name(f"{wanted.name}.html"), wanted / "index.html"):
        if path.is_file():
            return {"status": 200, "path": path}
    body = "<title>404 Not Found</title><h1>Not Found</h1>"
    return {"status": 404, "body": body, "content_type": "text/html"}
