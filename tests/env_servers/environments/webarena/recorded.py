"""The original's recorded scores, and stand-ins for what it scored them on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
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


@dataclass(frozen=True, slots=True)
class FileAnswer:
    """A recorded page, as the browser gets it."""

    body: bytes
    status: int = 200
    headers: Sequence[tuple[str, str]] = (("Content-Type", "text/html; charset=utf-8"),)


def recorded_page(folder: Path, url: str) -> FileAnswer:
    """Return what the server of the recordings answered for a page."""
    parts = urlsplit(url)
    wanted = folder / (parts.hostname or "") / parts.path.strip("/")
    for path in (wanted, wanted.with_name(f"{wanted.name}.html"), wanted / "index.html"):
        if path.is_file():
            return FileAnswer(path.read_bytes())
    return FileAnswer(b"<title>404 Not Found</title><h1>Not Found</h1>", 404)
