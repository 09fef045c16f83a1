"""The viewer's pages for everybody: axe-core's rules, small screens, and the keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("playwright", reason="needs playwright")
pytest.importorskip("starlette", reason="needs the extra viewer")
pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python")

from axe_playwright_python.base import AXE_SCRIPT

from tests.kit.viewer import TOKEN, RunningViewer, open_browser, run_viewer
from tests.orchestrator.trainings import append_log, write_agentevol
from tests.orchestrator.viewer.page_addresses import page_addresses
from tests.orchestrator.viewer.test_server import record_run

WIDTHS = (1280, 400)


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningViewer]:
    runs = tmp_path_factory.mktemp("accessible") / "runs"
    record_run(runs / "first")
    record_run(runs / "second")
    append_log(write_agentevol(runs / "evol"), {"step": 1, "loss": 2.0})
    with run_viewer(runs) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as started:
        yield started


@pytest.mark.parametrize("colours", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_every_page_passes_axe_and_fits_the_screen(
    browser: Any, viewer: RunningViewer, colours: str
) -> None:
    problems: list[str] = []
    with browser.new_context(color_scheme=colours) as context:
        page = context.new_page()
        page.goto(viewer.page("/", token=TOKEN))
        pages = page_addresses(viewer, "runs/first", "runs/second", "runs/evol")
        for path, (address, last) in pages.items():
            page.goto(address)
            page.locator(last).first.wait_for()
            page.locator("details").evaluate_all("all => all.forEach((it) => { it.open = true; })")
            page.evaluate(AXE_SCRIPT)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 800})
                problems += [f"{path} at {width}: {it}" for it in violations(page)]
                if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
                    problems.append(f"{path} at {width}: the page is {wide} pixels wide")
    assert not problems, "\n".join(problems)


def violations(page: Any) -> list[str]:
    found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
    return [
        f"{it['id']}: {it['help']}: {node['target']} {node['failureSummary']}"
        for it in found
        for node in it["nodes"][:2]
    ]


def test_the_keyboard_alone_leads_from_the_runs_to_an_episodes_tokens_and_back(
    browser: Any, viewer: RunningViewer
) -> None:
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        page.goto(viewer.page("/", token=TOKEN))
        page.locator(".state.finished").first.wait_for()
        tab_to(page, "Filter")
        page.keyboard.type("first")
        page.get_by_text("1 of 5 runs").wait_for()
        tab_to(page, "runs/first")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Results").wait_for()
        tab_to(page, "All episodes")
        page.keyboard.press("Enter")
        page.get_by_text("12 of 12 episodes").wait_for()
        page.keyboard.press("ArrowDown")  # the list has the focus
        page.keyboard.press("Enter")
        page.get_by_text("2 of 12", exact=True).wait_for()
        page.keyboard.press("j")
        page.wait_for_url("**turn=1*")
        tab_to(page, "Tokens")
        page.keyboard.press("Space")
        page.locator(".token").first.wait_for()
        page.keyboard.press("?")
        page.locator("dialog[open]").wait_for()
        page.keyboard.press("Escape")
        page.locator("dialog[open]").wait_for(state="detached")
        tab_to(page, "turn 2")
        page.keyboard.press("Enter")
        page.wait_for_url("**turn=2*")
        page.keyboard.press("l")
        page.get_by_text("12 of 12 episodes").wait_for()
        tab_to(page, "Runs")
        page.keyboard.press("Enter")
        for run in ("runs/first", "runs/second"):
            tab_to(page, f"Compare {run}")
            page.keyboard.press("Space")
        tab_to(page, "Compare", exact=True)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="runs/first → runs/second").wait_for()


FOCUSED = """() => {
    const it = document.activeElement;
    const style = getComputedStyle(it);
    const name = it.getAttribute('aria-label') ?? it.labels?.[0]?.textContent ?? it.textContent;
    const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
    return { name, seen, is_page: it === document.body };
}"""


def tab_to(page: Any, name: str, *, exact: bool = False) -> None:
    """Press Tab until what begins with `name` has the focus; whatever has it must show it."""
    passed = []
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if focused["is_page"]:
            continue
        assert focused["seen"], f"nothing shows that {focused['name']!r} has the focus"
        found = focused["name"].strip()
        if found == name or (found.startswith(name) and not exact):
            return
        passed.append(found[:40])
    raise AssertionError(f"Tab did not come to {name!r}, but to {passed}")
