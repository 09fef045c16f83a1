"""Time travel in a real browser: the slider, the pictures, and pictures that are hostile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("playwright", reason="needs playwright")
pytest.importorskip("starlette", reason="needs the extra viewer")

from orchestrator import sample
from tests.kit.server_process import ServerProcess
from tests.kit.viewer import TOKEN, RunningViewer, open_browser, run_viewer

HOSTILE = "tests.orchestrator.viewer.hostile_views"


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningViewer]:
    """Two runs, and the server that they were played on."""
    folder = tmp_path_factory.mktemp("time_travel")
    with ServerProcess(folder, environments=["maze", HOSTILE]) as server:
        for name, policy in (("maze", "expert"), ("hostile_views", "random")):
            flags = ["--env", name, "--policy", policy, "--episodes", "1"]
            out = ["--servers", server.address, "--out", str(folder / "runs" / name)]
            assert sample.main([*flags, *out]) == 0
        with run_viewer(folder / "runs") as running:
            yield running


@pytest.fixture(scope="module")
def browser(viewer: RunningViewer) -> Iterator[Any]:
    # After the runs were played: playwright keeps a loop in this thread.
    with open_browser() as started:
        yield started


def open_episode(page: Any, viewer: RunningViewer, run: str) -> dict[str, Any]:
    page.set_default_timeout(20_000)
    page.goto(viewer.page("/", token=TOKEN))
    row = viewer.ask("episodes", run=run)["rows"][0]
    page.goto(viewer.page("/episode", run=run, id=row["episode_id"]))
    page.get_by_role("slider", name="Turn").wait_for()
    return row


def test_the_slider_and_the_keys_lead_through_the_states(
    browser: Any, viewer: RunningViewer
) -> None:
    axe = pytest.importorskip("axe_playwright_python.base")
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda it: asked.append(it.url) if it.method == "POST" else None)
        row = open_episode(page, viewer, "runs/maze")
        page.keyboard.press("j")
        assert asked == []
        panel = page.get_by_role("region", name="The environment's state")
        assert not panel.is_visible()
        page.keyboard.press("s")
        panel.get_by_text("Replayed the reset and 1 turn:").wait_for()
        picture = panel.get_by_role("img", name="Map and way")
        first = picture.get_attribute("src")
        assert picture.evaluate("it => it.naturalWidth") > 0
        slider = page.get_by_role("slider", name="Turn")
        slider.focus()
        page.keyboard.press("ArrowRight")
        panel.get_by_text("Replayed the reset and 2 turns:").wait_for()
        assert picture.get_attribute("src") != first
        assert slider.get_attribute("aria-valuetext") == f"turn 2 of {row['rounds']}"
        assert page.locator(".turn.current h2").inner_text() == "Turn 2"
        turn = viewer.ask("episode", run="runs/maze", id=row["episode_id"])["turns"][2]
        panel.get_by_text(turn["step"]["state_hash"], exact=True).wait_for()
        panel.get_by_text("Map as text").click()
        panel.get_by_text(", steps 2").wait_for()
        page.keyboard.press("Home")
        panel.get_by_text("Replayed the reset:").wait_for()
        # What was opened stays open.
        assert "#####" in panel.locator("pre").first.inner_text()
        page.evaluate(axe.AXE_SCRIPT)
        for width in (1280, 400):
            page.set_viewport_size({"width": width, "height": 800})
            found = page.evaluate("axe.run('main', { resultTypes: ['violations'] })")["violations"]
            assert [(it["id"], it["nodes"][0]["target"]) for it in found] == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            panel.get_by_text("Map as text").click()  # nothing lies over it
        page.keyboard.press("s")
        assert not panel.is_visible()


def test_hostile_pictures_run_nothing_and_ask_for_nothing(
    browser: Any, viewer: RunningViewer
) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        asked: list[str] = []
        stopped: list[str] = []
        context.on("request", lambda it: asked.append(it.url))
        context.on(
            "requestfailed", lambda it: stopped.append(it.url) if it.failure == "csp" else None
        )
        row = open_episode(page, viewer, "runs/hostile_views")
        page.get_by_role("button", name="Show the environment's state").click()
        panel = page.get_by_role("region", name="The environment's state")
        for title in ("drawing", "broken", "words", "data"):
            panel.get_by_text(title, exact=True).click()
        panel.get_by_text("this picture cannot be drawn").wait_for()
        assert panel.get_by_role("img", name="drawing").evaluate("it => it.naturalWidth") == 40
        assert "\\x1b[31m\\x202egnp" in panel.locator("pre").first.inner_text()
        frame = page.frame_locator(".state-panel iframe")
        frame.get_by_text("a page").wait_for()
        for name in ("send", "away", "script"):
            frame.locator(f"#{name}").click()
        framed = next(it for it in page.frames if "/api/view" in it.url)
        for place in (page, framed):
            assert place.evaluate("[window.owned, document.title === 'owned']") == [None, False]
        assert framed.evaluate("window.origin") == "null"
        # Opened by itself, outside the page that keeps it in.
        for name in ("page", "drawing"):
            page.goto(
                viewer.page(
                    "/api/view",
                    run="runs/hostile_views",
                    id=row["episode_id"],
                    turn=0,
                    name=name,
                )
            )
            assert page.evaluate("[window.origin, window.owned]") == ["null", None]
        # What a policy stops is counted as asked, and was not sent.
        assert {it for it in asked if not it.startswith(viewer.origin)} <= {*stopped}


FOREIGN = "http://127.0.0.1:9/"
"""Another port of this machine: its pages are sent with the viewer's cookie."""
SEND = """async ([address, body]) => {
    const sent = { method: 'POST', body, credentials: 'include' };
    const json = { 'Content-Type': 'application/json' };
    for (const more of [{}, { mode: 'no-cors' }, { headers: json }]) {
        await fetch(address, { ...sent, ...more }).catch(() => null);
    }
    const form = document.createElement('form');
    Object.assign(form, { action: address, method: 'post', enctype: 'text/plain' });
    const field = document.createElement('input');
    Object.assign(field, { name: body.slice(0, -1) + ', "x": "', value: '"}' });
    form.append(field);
    document.body.append(form);
    form.submit();
}"""


def test_a_page_of_another_origin_starts_nothing(browser: Any, viewer: RunningViewer) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        row = open_episode(page, viewer, "runs/maze")
        body = json.dumps({"run": "runs/maze", "id": row["episode_id"], "turn": 1})
        answers: list[tuple[str, int]] = []
        context.on("response", lambda it: answers.append((it.request.method, it.status)))
        context.route(FOREIGN, lambda it: it.fulfill(body="<body>x", content_type="text/html"))
        page.goto(FOREIGN)
        with page.expect_navigation(url=viewer.origin + "/**"):
            page.evaluate(SEND, [viewer.origin + "/api/state", body])
        assert "pages of others" in page.locator("body").inner_text()
        posted = [status for method, status in answers if method == "POST"]
        assert posted
        assert set(posted) == {403}
