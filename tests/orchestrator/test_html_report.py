"""A run as one HTML file: whole by itself, and harmless whatever the run says."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from env_servers.environments.webarena.browser.chromium import AUTO, find_chromium
from orchestrator import export
from orchestrator.distributions import list_distributions, make_histogram
from orchestrator.html_report import conversation
from orchestrator.html_report.elements import element, render
from orchestrator.records import summarise
from orchestrator.run_plan import RunPlan, SessionEnd
from orchestrator.store import RunStore
from tests.env_servers.environments.webarena.chromium import needs_chromium
from tests.orchestrator.records import (
    RED_SQUARE,
    build_episode,
    build_failed,
    build_manifest,
    build_seeing,
    build_session,
)

HOSTILE = (
    "</pre><script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<style>*{display:none}</style>]]><!-- \x1b[31m \x00 \u202e \u2066 & &amp; \ud7ff"
)


def write_run(folder: Path, episodes, *, samples: int = 1, **manifest) -> Path:
    items = {"maze": tuple(f"maze_{at}" for at in range(3))}
    session = build_session()
    with RunStore.create(folder, build_manifest(**manifest), session) as store:
        store.begin_playing(RunPlan(items=items, samples=samples, policies=("scripted",)))
        store.append_all(episodes)
        store.end_playing(SessionEnd(interrupted=False))
    return folder


def report_of(run: Path, *flags: str) -> str:
    out = run.with_suffix(".html")
    assert export.main([str(run), "--format", "html", "--out", str(out), *flags]) == 0
    return out.read_text("utf-8")


def hostile_episode():
    episode = build_episode("maze_2", replies=(f"Thought: {HOSTILE}\nAction: {HOSTILE}",))
    episode.messages[0].text = HOSTILE * 500
    episode.generations[0].reasoning = HOSTILE
    episode.generations[0].finish_reason = HOSTILE
    episode.steps[1].parsed_action = HOSTILE
    episode.category = HOSTILE
    return episode


@pytest.fixture
def run(tmp_path) -> Path:
    failed = build_failed("maze_1")
    failed.error.message = HOSTILE
    episodes = [build_episode("maze_0", success=False, reward=0.25), failed, hostile_episode()]
    return write_run(tmp_path / "run", episodes, config={"note": HOSTILE})


class Page(HTMLParser):
    """The tags, attributes and text of a page, as a browser would take them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def test_a_report_has_figures_distributions_failures_settings_and_conversations(run):
    page = Page(report_of(run))
    for word in (
        *("Results", "By category", "Distributions", "Failures", "Configuration", "Conversations"),
        "INCOMPLETE: 2 of 3 planned episodes finished, 1 were given up",
        "33.3..66.7 [",
        "POLICY_UNAVAILABLE",
        "sampling.temperature",
        "2 of 3 recorded episodes, of which 2 passed the filters",
        "more characters",
        "maze maze_0",
        "You see a wall.",
    ):
        assert word in page.text, word
    assert page.tags.count("details") == 2
    assert page.tags.count("svg") >= 3


def test_every_conversation_has_an_address_in_the_page(run):
    page = Page(report_of(run))
    targets = {value for name, value in page.attributes if name == "id"}
    links = {value for name, value in page.attributes if name == "href"}
    assert len(links) == 2
    assert links == {f"#{target}" for target in targets}


def test_what_a_run_says_is_text_and_the_page_asks_for_nothing(run):
    html = report_of(run)
    page = Page(html)
    assert not {"script", "img", "link", "iframe", "object", "form"} & set(page.tags)
    assert page.tags.count("style") == 1
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "src"]
    assert "<script>document.title" in page.text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)
    policy = re.search(r'content="(default[^"]*)"', html)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy[1]


def test_images_are_shown_as_far_as_there_is_room(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run", [build_seeing("maze_0")])
    html = report_of(run)
    page = Page(html)
    shown = [value for name, value in page.attributes if name == "src"]
    assert len(shown) == 3
    assert all(value.startswith("data:image/png;base64,") for value in shown)
    assert "img-src data:;" in html
    monkeypatch.setattr(conversation, "_IMAGE_BYTES", len(RED_SQUARE))
    html = report_of(run, "--overwrite")
    assert Page(html).tags.count("img") == 1
    assert html.count("1 images are not shown here") == 2


@needs_chromium
async def test_in_a_browser_no_script_runs_nothing_is_asked_for_and_nothing_overflows(run):
    playwright = pytest.importorskip("playwright.async_api", reason="needs the extra webarena")
    report_of(run)
    told: list[str] = []
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=find_chromium(AUTO), args=["--no-sandbox"]
        )
        page = await browser.new_page(viewport={"width": 400, "height": 800})
        page.on("request", lambda request: told.append(request.url))
        page.on("console", lambda message: told.append(message.text))
        address = run.with_suffix(".html").as_uri()
        await page.goto(address)
        assert await page.title() == "Run run"
        assert told == [address]
        assert await page.evaluate("document.documentElement.scrollWidth") <= 400
        assert await page.evaluate("getComputedStyle(document.body).maxWidth") != "none"
        await page.click("a[href^='#']")
        assert "#" in page.url
        await browser.close()


def test_conversations_are_limited_and_that_is_said(run, capsys):
    page = Page(report_of(run, "--limit", "1", "--include-failed"))
    assert page.tags.count("details") == 1
    assert "1 of 3 recorded episodes; the first 1 by --limit." in page.text
    assert "1 episodes, 0 left out by the filters, 2 by the limit" in capsys.readouterr().err


def test_a_limit_holds_for_the_other_formats_too(run, tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    arguments = [str(run), "--format", "messages", "--out", str(out)]
    assert export.main([*arguments, "--limit", "1"]) == 0
    assert len(out.read_text().splitlines()) == 1
    assert export.main([*arguments, "--limit", "-1"]) == 2
    assert "0 = all" in capsys.readouterr().err


def test_a_run_without_records_or_with_several_samples_has_a_report(tmp_path):
    assert "0 of 0 recorded episodes" in report_of(write_run(tmp_path / "empty", []))
    episodes = [build_episode(f"maze_{at}", sample=k) for at in range(3) for k in range(2)]
    shown = report_of(write_run(tmp_path / "sampled", episodes, samples=2))
    assert "pass@k" in shown


def test_what_no_file_can_hold_is_shown_by_its_code():
    assert render(element("p", "a\ud800b")) == "<p>a\\ud800b</p>"


def test_histograms_count_every_value_once():
    assert make_histogram([1, 1, 3]).counts == [2, 0, 1]
    assert make_histogram([2.5]).counts == [1]
    assert sum(make_histogram([at / 7 for at in range(100)]).counts) == 100
    assert sum(make_histogram([0, 10**6]).counts) == 2
    finished = [summarise(build_episode(f"maze_{at}")) for at in range(4)]
    found = list_distributions([*finished, summarise(build_failed("maze_9"))])
    assert {name: sum(it.counts) for name, it in found.items()} == dict.fromkeys(
        ("score", "rounds", "tokens", "seconds"), 4
    )
