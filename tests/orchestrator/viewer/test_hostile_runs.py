"""What a hostile run says is text on every page: nothing of it runs, loads, or moves the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("playwright", reason="needs playwright")
pytest.importorskip("starlette", reason="needs the extra viewer")

from tests.kit.viewer import TOKEN, RunningViewer, open_browser, run_viewer
from tests.orchestrator.trainings import append_log, write_agentevol
from tests.orchestrator.viewer import hostile_run
from tests.orchestrator.viewer.hostile_run import record_hostile_run
from tests.orchestrator.viewer.page_addresses import page_addresses

HOSTILE = "runs/<img src=x onerror='window.owned=1'>\u202e"
HEBREW = "אבג/דהו"

# Finds elements that only markup in a record could have made.
MADE = """() => [...document.querySelectorAll('*')].filter((it) =>
    it.matches('body script, img, iframe, object, embed, base, link:not(head link), [style*=url]')
    || it.getAttributeNames().some((name) => name.startsWith('on'))
    || /^(?!https?:)[a-z]+:/i.test(it.getAttribute('href') ?? '')).map((it) => it.outerHTML)"""

# Finds text nodes in which recorded letters share their direction with the page's own.
MIXED = """() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const mixed = [];
    while (walker.nextNode()) {
        const { data, parentElement: it } = walker.currentNode;
        if (!/[א-ת]/.test(data) || !it.checkVisibility()) continue;
        if (it.closest('bdi, option, .text, .settings, .facts dd, [role=note]')) continue;
        const style = getComputedStyle(it);
        const alone = style.display !== 'inline' && it.childNodes.length === 1;
        const apart = alone || style.unicodeBidi.startsWith('isolate');
        if (!apart || /[a-z]{2}/i.test(data)) mixed.push(`${it.tagName}: ${data}`);
    }
    return mixed;
}"""


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningViewer]:
    folder = tmp_path_factory.mktemp("hostile")
    for root in ("runs", "אבג"):
        (folder / root).mkdir()
    for again in ("", "2"):
        record_hostile_run(folder / (HOSTILE + again))
        record_hostile_run(folder / (HEBREW + again), "אבג", "אבג")
    for name, text in ((HOSTILE, hostile_run.HOSTILE), (HEBREW, "אבג")):
        training = write_agentevol(folder / f"{name}3", environment=text)
        append_log(training, {"step": 1, text: 2.5, "note": text})
    with run_viewer(folder / "runs", folder / "אבג") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as started:
        yield started


@pytest.fixture
def page(browser: Any, viewer: RunningViewer) -> Iterator[Any]:
    """A page of which everything that a script could bring about is a failure."""
    brought: list[str] = []

    def ask(request: Any) -> None:
        if not request.url.startswith(viewer.origin + "/"):
            brought.append(f"request {request.url}")

    with browser.new_context() as context:
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on("request", ask)
        page.on("dialog", lambda it: (brought.append(f"dialog {it.message}"), it.dismiss()))
        page.on("pageerror", lambda error: brought.append(str(error)))
        page.on("popup", lambda it: brought.append(f"popup {it.url}"))
        page.on("console", lambda said: said.type == "error" and brought.append(said.text))
        page.goto(viewer.page("/", token=TOKEN))
        yield page
    assert brought == []


def every_page(viewer: RunningViewer, run: str) -> dict[str, tuple[str, str]]:
    pages = page_addresses(viewer, run, run + "2", run + "3")
    failed = viewer.ask("episodes", run=run, outcome="failed")["rows"][0]["episode_id"]
    return {**pages, "failed": (viewer.page("/episode", run=run, id=failed), ".turn")}


def show(page: Any, address: str, last: str) -> None:
    page.goto(address)
    page.locator(last).first.wait_for()
    page.locator("details").evaluate_all("all => all.forEach((it) => { it.open = true; })")


def test_what_a_hostile_run_says_is_text_on_every_page(page: Any, viewer: RunningViewer) -> None:
    for path, (address, last) in every_page(viewer, HOSTILE).items():
        show(page, address, last)
        assert "<img src=x" in page.locator("main").text_content(), path
        assert page.evaluate(MADE) == [], path
        shown = page.locator("body").text_content() + page.title()
        assert not [it for it in set(shown) - {"\n", "\t"} if not it.isprintable()], path
        assert page.evaluate("window.owned") is None, path
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
        page.set_viewport_size({"width": 1280, "height": 800})


def test_long_lines_are_shown_in_part_until_they_are_asked_for(
    page: Any, viewer: RunningViewer
) -> None:
    show(page, *every_page(viewer, HOSTILE)["/episode"])
    observation = page.locator(".turn").nth(1).locator(".observation .text").text_content()
    assert "\\x1b[31m" in observation and "\\x202e" in observation
    reply = page.locator(".turn").nth(1).locator(".reply")
    assert "THE END" not in page.locator("body").text_content()
    reply.get_by_role("button", name="more characters").click()
    reply.get_by_text("THE END").wait_for()


def test_what_is_saved_from_a_hostile_run_is_no_page(page: Any, viewer: RunningViewer) -> None:
    rows = viewer.ask("episodes", run=HOSTILE)["rows"]
    asked = {"run": HOSTILE, "id": rows[0]["episode_id"]}
    for path in ("/api/record", "/api/text"):
        page.goto(viewer.page(path, **asked, part="observation", index=1))
        assert "<script>" in page.locator("body").text_content()
        assert page.evaluate("window.owned") is None


def test_names_written_from_right_to_left_move_nothing_around_them(
    page: Any, viewer: RunningViewer
) -> None:
    for path, (address, last) in every_page(viewer, HEBREW).items():
        show(page, address, last)
        assert "אבג" in page.locator("main").text_content(), path
        assert page.evaluate(MIXED) == [], path
