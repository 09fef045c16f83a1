"""Playing on in a real browser: another way from turn 2, kept, found again, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("playwright", reason="needs playwright")
pytest.importorskip("starlette", reason="needs the extra viewer")

from orchestrator import sample
from orchestrator.servers import FleetConfig
from orchestrator.viewer.live_servers import LiveServers
from tests.kit.server_process import ServerProcess
from tests.kit.viewer import TOKEN, RunningViewer, open_browser, run_viewer


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningViewer]:
    folder = tmp_path_factory.mktemp("play-page")
    with ServerProcess(folder, environments=["maze"]) as server:
        flags = ["--env", "maze", "--policy", "expert", "--episodes", "1"]
        run = folder / "runs" / "first"
        assert sample.main([*flags, "--servers", server.address, "--out", str(run)]) == 0
        servers = LiveServers(FleetConfig(servers=(server.address,)))
        with run_viewer(folder / "runs", servers=servers) as running:
            yield running


@pytest.fixture(scope="module")
def page(viewer: RunningViewer) -> Iterator[Any]:
    with open_browser() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.set_default_timeout(20_000)
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(viewer.page("/", token=TOKEN))
        yield page
        context.close()
    assert problems == []


def test_another_way_from_turn_2_is_played_kept_found_and_seen_side_by_side(
    page: Any, viewer: RunningViewer
) -> None:
    row = viewer.ask("episodes", run="runs/first")["rows"][0]
    taken = viewer.ask("episode", run="runs/first", id=row["episode_id"])["turns"][3]
    other = "move up" if taken["step"]["action"]["text"] != "move up" else "move down"
    page.goto(viewer.page("/episode", run="runs/first", id=row["episode_id"], turn=2))
    page.get_by_role("button", name="Play on from here").click()
    page.get_by_text("Turn 2 of at most").wait_for()
    assert page.locator(".turn").count() == 3
    before = page.get_by_role("img").first.get_attribute("src")
    page.get_by_role("button", name="Ask the expert").click()
    page.get_by_role("button", name="Take it over").click()
    assert page.get_by_label("Action", exact=True).input_value() == taken["step"]["action"]["text"]
    page.get_by_label("Action", exact=True).fill(other)
    page.get_by_label("Thought").fill("Another way.")
    page.keyboard.press("Enter")
    page.get_by_text("Turn 3 of at most").wait_for()
    assert page.locator(".turn").nth(3).locator(".thought .text").text_content() == "Another way."
    assert page.get_by_role("img").first.get_attribute("src") != before
    page.get_by_role("button", name="Take the last turn back").click()
    page.get_by_text("Turn 2 of at most").wait_for()
    page.get_by_label("Action", exact=True).fill(other)
    page.keyboard.press("Enter")
    page.get_by_text("Turn 3 of at most").wait_for()
    page.get_by_label("go on for").fill("2")
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("Turn 5 of at most").wait_for()
    page.get_by_role("button", name="Keep").click()
    page.get_by_text("A branch of this episode").wait_for()
    assert "run=runs%2Ffirst-played" in page.url
    assert page.locator(".turn h2").nth(2).text_content() == "Turn 2 of the parent"
    assert page.locator(".turn h2").nth(4).text_content() == "Turn 4 by expert"
    page.get_by_role("link", name="this episode").click()
    page.get_by_text("1 branch").wait_for()
    page.get_by_role("link", name="Side by side").click()
    page.get_by_text("The same up to turn 2").wait_for()
    parts = page.locator("tr.parts").first
    assert parts.evaluate("it => it.getBoundingClientRect().top > innerHeight")
    page.get_by_role("link", name="To where they part").click()
    assert parts.evaluate("it => it.getBoundingClientRect().top < innerHeight")
    assert parts.locator(".action .text").all_text_contents() == [
        taken["step"]["action"]["text"],
        other,
    ]


def test_the_page_on_which_one_plays_passes_axe(page: Any, viewer: RunningViewer) -> None:
    pytest.importorskip("axe_playwright_python", reason="needs axe-playwright-python")
    from tests.orchestrator.viewer.test_accessibility import AXE_SCRIPT, violations

    row = viewer.ask("episodes", run="runs/first")["rows"][0]
    given = {"run": "runs/first", "id": row["episode_id"], "turn": 1}
    opened = viewer.post("branch", do="open", **given)
    page.goto(viewer.page("/play", run="runs/first", branch=opened["branch"]))
    page.get_by_text("Turn 1 of at most").wait_for()
    page.get_by_role("button", name="Ask the expert").click()
    page.get_by_role("button", name="Take it over").wait_for()
    page.locator("details").evaluate_all("all => all.forEach((it) => { it.open = true; })")
    page.evaluate(AXE_SCRIPT)
    for colours, width in (("light", 1280), ("dark", 400)):
        page.emulate_media(color_scheme=colours)
        page.set_viewport_size({"width": width, "height": 800})
        assert violations(page) == []
    viewer.post("branch", do="discard", branch=opened["branch"])


def test_a_task_is_chosen_played_on_a_narrow_screen_and_discarded(
    page: Any, viewer: RunningViewer
) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(viewer.page("/run", run="runs/first"))
    page.get_by_role("link", name="Play a task").click()
    page.get_by_role("button", name="Play").click()
    page.get_by_text("Turn 0 of at most").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.get_by_text("Write the whole reply").click()
    page.get_by_label("Reply, as a policy writes it").fill("Thought: so\n\nAction: move up")
    page.get_by_role("button", name="Play the reply").click()
    page.get_by_text("Turn 1 of at most").wait_for()
    page.get_by_role("button", name="Discard").click()
    page.get_by_role("link", name="Play a task").wait_for()
    page.go_back()
