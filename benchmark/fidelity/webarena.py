"""What the original WebArena showed of 138 pages, compared with what our browser layer shows.

Scenarios were recorded by running the original; the pages are answered in process, as the server
of the recordings answered them. Numbers of elements are normalised: the n-th line of an observation
is n. An observation, a previous action and an error count as one step, which matches or does not.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from rich.console import Console

from env_servers.environments.webarena.addresses import Addresses
from env_servers.environments.webarena.browser.gate import Door, Request
from env_servers.environments.webarena.browser.shared_browser import SharedBrowser
from env_servers.environments.webarena.browsing import (
    AGENTGYM,
    WEBARENA,
    Browsing,
    Manner,
    Seen,
    Step,
    View,
)
from env_servers.environments.webarena.grammar import read_fenced_action
from env_servers.environments.webarena.probe import PlainRequest
from env_servers.sdk import Rejected

__all__ = [
    "Difference",
    "RecordedPages",
    "ScenarioScore",
    "compare_first_observations",
    "has_recordings",
    "replay_all",
    "replay_scenarios",
    "score_scenario",
]

_ADDRESSES: Final = Addresses(
    {
        "forum": "http://forum.test",
        "shop": "http://shop.test",
        "shop_admin": "http://admin.test/admin",
        "code": "http://git.test",
        "encyclopedia": "http://wiki.test/wiki",
        "map": "http://map.test",
        "home": "http://home.test",
    }
)
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
}
_NUMBER: Final = re.compile(r"^(\t*)\[(\d+)\] ", re.MULTILINE)
_PLACEHOLDER: Final = re.compile(r"<(\d+)>")
_TARGET: Final = re.compile(r"\{([^}|]*)\|([^}|]*)(?:\|(\d+))?\}")
_UNKNOWN: Final = "99999999"
"""What was sent for an element that was not there."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes = b""
    headers: Sequence[tuple[str, str]] = (("Content-Type", _TYPES[".html"]),)


@dataclass(frozen=True, slots=True)
class RecordedPages:
    """The sites of the recordings: files below one folder per host, and five routes."""

    root: Path

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(folder.name for folder in self.root.iterdir() if folder.is_dir())

    async def __call__(self, request: Request) -> _Answer:
        """Answer a request of a browser."""
        parts = urlsplit(request.url)
        host = parts.hostname or ""
        query = parse_qsl(parts.query, keep_blank_values=True)
        named = dict(query)
        posted = parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True)
        match parts.path:
            case "/_redirect":
                return _Answer(int(named.get("code", "302")), b"", (("Location", named["to"]),))
            case "/_echo":
                return _echo(request.method, posted if request.method == "POST" else query)
            case "/_status":
                text = f"This page was answered with status {named['code']}."
                title = f"Status {named['code']}"
                body = f"<h1>{title}</h1><p>{text}</p>"
                return _Answer(int(named["code"]), _document(title, body))
            case "/_slow":
                await asyncio.sleep(int(named["ms"]) / 1000)
                return self._file(host, named["page"])
            case "/_post":
                joined = urlencode(posted or query[1:])
                place = named["to"] + ("&" if "?" in named["to"] else "?") + joined
                return _Answer(303, b"", (("Location", place),))
            case path:
                return self._file(host, path)

    def _file(self, host: str, path: str) -> _Answer:
        base = (self.root / host).resolve()
        wanted = (base / path.lstrip("/")).resolve()
        if wanted == base or base in wanted.parents:
            for file in (wanted, wanted.with_name(f"{wanted.name}.html"), wanted / "index.html"):
                if file.is_file():
                    kind = _TYPES.get(file.suffix, "application/octet-stream")
                    return _Answer(200, file.read_bytes(), (("Content-Type", kind),))
        missing = f"<h1>Not Found</h1><p>No page at {html.escape(path)}</p><a href='/'>Home</a>"
        return _Answer(404, _document("404 Not Found", missing))


def _document(title: str, body: str) -> bytes:
    return (
        f"<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>{title}</title></head>"
        f"<body>{body}</body></html>"
    ).encode()


def _echo(method: str, fields: Sequence[tuple[str, str]]) -> _Answer:
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>"
        for name, value in fields
    )
    body = (
        f"<h1>Received by {method}</h1><table><thead><tr><th>Field</th><th>Value</th></tr></thead>"
        f"<tbody>{rows}</tbody></table><a href='/'>Back to start</a>"
    )
    return _Answer(200, _document(f"Echo {method}", body))


@dataclass(frozen=True, slots=True)
class Difference:
    """A step that came out differently."""

    scenario: str
    step: int
    """-1 = the first observation."""
    what: str
    recorded: str
    replayed: str


@dataclass(slots=True)
class ScenarioScore:
    """What came out."""

    steps: int = 0
    matched: int = 0
    differences: list[Difference] = field(default_factory=list[Difference])


async def replay_scenarios(data: Path, manner: Manner = WEBARENA, every: int = 1) -> ScenarioScore:
    """Replay the scenarios that were recorded with a release of the original, or every n-th."""
    scenarios = list(_read_scenarios(data, manner))[::every]
    score = ScenarioScore()
    browser = SharedBrowser()
    try:
        for scenario in scenarios:
            await score_scenario(scenario, data, browser, manner, score)
    finally:
        await browser.close()
    return score


async def compare_first_observations(data: Path) -> ScenarioScore:
    """Compare what the original showed first with Chromium 112, which is translated."""
    pages = RecordedPages(data / "webarena" / "pages")
    score = ScenarioScore()
    browser = SharedBrowser()
    try:
        for scenario in _read_scenarios(data, WEBARENA):
            window = await browser.open_window(Door(pages.hosts, pages))
            view = View(chromium_112=True, browser_numbers=True)
            browsing = Browsing(window, _ADDRESSES, scenario["intent"], WEBARENA, view)
            step = await browsing.open([scenario["start_url"]])
            recorded = {"observation": scenario["chromium112"]["reset"]["observation"]}
            _count(scenario, -1, recorded, step, (), score)
            await window.close()
    finally:
        await browser.close()
    return score


def has_recordings(data: Path) -> bool:
    """Return whether the scenarios are in a folder of data."""
    return _scenarios_path(data).is_file()


async def replay_all(data: Path, console: Console) -> dict[str, Any]:
    """Replay the scenarios of both releases; prints what differs, returns the figures."""
    figures: dict[str, Any] = {}
    for name, manner in (("original", WEBARENA), ("agentgym", AGENTGYM)):
        score = await replay_scenarios(data, manner)
        share = 100 * score.matched / score.steps
        console.print(f"webarena as {name}: {score.matched} / {score.steps} steps ({share:.2f} %)")
        for each in score.differences:
            console.print(f"webarena as {name}: {each}", markup=False, highlight=False)
        figures[name] = {
            "steps": score.steps,
            "steps_identical": score.matched,
            "differences": [f"{d.scenario} {d.step} {d.what}" for d in score.differences],
        }
    score = await compare_first_observations(data)
    console.print(f"webarena in Chromium 112's words: {score.matched} / {score.steps} first ones")
    figures["chromium_112"] = {
        "first_observations": score.steps,
        "first_observations_identical": score.matched,
        "differences": [each.scenario for each in score.differences],
    }
    return figures


def _scenarios_path(data: Path) -> Path:
    return data / "webarena" / "given" / "scenarios.jsonl"


def _read_scenarios(data: Path, manner: Manner) -> Iterator[Mapping[str, Any]]:
    for line in _scenarios_path(data).read_text(encoding="utf-8").splitlines():
        scenario = json.loads(line)
        if manner is WEBARENA or scenario.get("agentgym_recorded"):
            yield scenario


async def score_scenario(
    scenario: Mapping[str, Any],
    data: Path,
    browser: SharedBrowser,
    manner: Manner,
    score: ScenarioScore,
) -> None:
    """Play one scenario and count what matches."""
    pages = RecordedPages(data / "webarena" / "pages")
    window = await browser.open_window(Door(pages.hosts, pages))
    probe = PlainRequest(pages.hosts, pages)
    # What is left out as a repetition depends on the numbers that lines have.
    view = View(browser_numbers=True)
    browsing = Browsing(window, _ADDRESSES, scenario["intent"], manner, view=view, probe=probe)
    try:
        step = await browsing.open([scenario["start_url"]])
        _count(scenario, -1, scenario["reset"], step, (), score)
        last = step.seen
        for number, recorded in enumerate(scenario["steps"]):
            if manner is AGENTGYM:
                recorded = {**recorded, **recorded.get("agentgym", {})}
            numbers = _numbers(last)
            step = await _play(browsing, recorded, last)
            _count(scenario, number, recorded, step, numbers, score)
            last = step.seen or last
    finally:
        await window.close()


async def _play(browsing: Browsing, recorded: Mapping[str, Any], last: Seen | None) -> Step:
    numbers = _numbers(last)
    reply: str = recorded["response"]
    if recorded.get("unresolved"):
        reply = reply.replace(_UNKNOWN, _find(recorded["template"], last))
    reply = _PLACEHOLDER.sub(
        lambda n: numbers[int(n[1]) - 1] if int(n[1]) <= len(numbers) else _UNKNOWN, reply
    )
    action = read_fenced_action(reply)
    if isinstance(action, Rejected):
        # The recording asked the original's server, which its client would not have asked.
        return Step(text=f"Cannot parse action from response {reply}")
    return await browsing.step(action)


def _find(template: str, seen: Seen | None) -> str:
    """The element that a scenario means, where it was not there in the other release."""
    target = _TARGET.search(template)
    if target is None or seen is None:
        return _UNKNOWN
    wanted = f"{target[1]} {target[2]!r}"
    found = [n for n, each in seen.tree.elements.items() if wanted in each.line]
    place = int(target[3] or 1) - 1
    return found[place] if place < len(found) else _UNKNOWN


def _numbers(seen: Seen | None) -> list[str]:
    return [match[2] for match in _NUMBER.finditer(seen.tree.text)] if seen else []


def _normalised(text: str) -> str:
    count = iter(range(1, len(text) + 1))
    return _NUMBER.sub(lambda match: f"{match[1]}[<{next(count)}>] ", text)


def _count(
    scenario: Mapping[str, Any],
    number: int,
    recorded: Mapping[str, Any],
    step: Step,
    numbers: Sequence[str],
    score: ScenarioScore,
) -> None:
    expected = _expected(recorded)
    alternative = _expected({**recorded, **recorded.get("unstable", {})})
    seen = _seen(step, recorded, numbers)
    seen = {name: text for name, text in seen.items() if name in expected}
    score.steps += 1
    if seen in (expected, alternative):
        score.matched += 1
        return
    score.differences.extend(
        Difference(scenario["name"], number, name, expected[name], seen[name])
        for name in expected
        if expected[name] != seen.get(name)
    )


def _expected(recorded: Mapping[str, Any]) -> dict[str, str]:
    names = ("observation", "previous_action", "fail_error", "prompt_tail")
    return {name: recorded[name] for name in names if name in recorded}


def _seen(step: Step, recorded: Mapping[str, Any], numbers: Sequence[str]) -> dict[str, str]:
    def named(text: str) -> str:
        places = {each: place for place, each in enumerate(numbers, start=1)}
        return re.sub(
            r"\[(\d+)\]", lambda n: f"[<{places[n[1]]}>]" if n[1] in places else n[0], text
        )

    if step.seen is None:
        text = named(step.text) if "<" in recorded["observation"] else step.text
        return {"observation": text}
    previous = step.previous_action
    if "[<" in recorded.get("previous_action", ""):
        previous = named(previous)
    ending = f"\nPREVIOUS ACTION: {step.previous_action}"
    return {
        "observation": _normalised(step.seen.content),
        "previous_action": previous,
        "fail_error": step.error,
        "prompt_tail": step.text.removesuffix(ending).rpartition("\nURL: ")[2].join(("URL: ", "")),
    }
