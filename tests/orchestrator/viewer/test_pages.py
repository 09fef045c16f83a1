"""The viewer's pages in a real browser: what a person does, by mouse and by keyboard."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="needs playwright")
pytest.importorskip("starlette", reason="needs the extra viewer")

from orchestrator.run_plan import RunPlan, SessionEnd
from orchestrator.store import RunStore
from tests.kit.viewer import TOKEN, RunningViewer, open_browser, run_viewer
from tests.orchestrator.records import (
    build_episode,
    build_manifest,
    build_seeing,
    build_session,
)
from tests.orchestrator.viewer.hostile_run import record_hostile_run
from tests.orchestrator.viewer.test_server import record_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("pages") / "runs"
    record_run(runs / "first")
    record_hostile_run(runs / "<b>hostile")
    with RunStore.create(runs / "seeing", build_manifest(), build_session()) as store:
        store.append_all([build_seeing()])
    return runs


@pytest.fixture(scope="module")
def viewer(runs: Path) -> Iterator[RunningViewer]:
    with run_viewer(runs) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as started:
        yield started


@pytest.fixture
def page(browser: Any, viewer: RunningViewer) -> Iterator[Any]:
    """A page that has shown the token; whatever goes wrong in its scripts is an error here."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(20_000)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: said.type == "error" and problems.append(said.text))
    page.goto(viewer.page("/", token=TOKEN))
    yield page
    context.close()
    assert problems == []


def current_turn(page: Any) -> str:
    # Not its inner text: what a browser has not drawn yet has none.
    return page.locator(".turn.current h2").text_content()


def test_a_run_is_opened_filtered_and_an_episode_stepped_through_by_keyboard(
    page: Any, viewer: RunningViewer
) -> None:
    page.get_by_role("link", name="runs/first").click()
    page.get_by_role("heading", name="Results").wait_for()
    page.get_by_role("link", name="All episodes").click()
    page.get_by_label("Outcome").select_option("loss")
    page.get_by_text("8 of 12 episodes").wait_for()
    page.get_by_label("Rounds from").fill("3")
    page.get_by_label("Rounds from").press("Enter")
    page.get_by_text("4 of 12 episodes").wait_for()
    assert "outcome=loss" in page.url and "min_rounds=3" in page.url
    page.get_by_role("rowgroup").press("ArrowDown")
    page.get_by_role("rowgroup").press("Enter")
    page.get_by_text("2 of 4", exact=True).wait_for()
    assert current_turn(page) == "Start"
    for key, turn in (("j", "Turn 1"), ("ArrowDown", "Turn 2"), ("k", "Turn 1"), ("End", "Turn 4")):
        page.keyboard.press(key)
        assert current_turn(page) == turn
    page.wait_for_url("**turn=4")
    page.reload()
    page.locator(".turn.current").wait_for()
    assert current_turn(page) == "Turn 4"
    page.keyboard.press("n")
    page.get_by_text("3 of 4", exact=True).wait_for()
    page.keyboard.press("l")
    page.get_by_text("4 of 12 episodes").wait_for()
    page.go_back()
    page.get_by_text("3 of 4", exact=True).wait_for()


def test_an_episode_shows_what_the_agent_saw(page: Any, viewer: RunningViewer) -> None:
    (row,) = viewer.ask("episodes", run="runs/seeing")["rows"]
    page.goto(viewer.page("/episode", run="runs/seeing", id=row["episode_id"]))
    images = page.locator(".turn .images img")
    images.first.wait_for()
    assert images.count() == 3
    for number in range(3):
        images.nth(number).scroll_into_view_if_needed()
        handle = images.nth(number).element_handle()
        page.wait_for_function("image => image.complete && image.naturalWidth === 8", arg=handle)
    assert images.first.get_attribute("alt") == "Image 1 of 1 of the observation"


def test_an_episode_shows_thought_action_changes_tokens_and_its_failed_attempt(
    page: Any, viewer: RunningViewer
) -> None:
    row = viewer.ask("episodes", run="runs/first", item="maze_0")["rows"][0]
    page.goto(viewer.page("/episode", run="runs/first", id=row["episode_id"]))
    turn = page.locator(".turn").nth(2)
    assert turn.locator(".action .text").text_content() == "move left"
    assert page.locator(".turn").nth(1).locator(".thought .text").text_content() == "up it is."
    assert turn.locator("mark").all_text_contents() == ["(2)."]
    page.keyboard.press("t")
    page.locator(".token.sampled.s2").first.wait_for()
    page.get_by_label("Colour").select_option("version")
    assert page.locator(".token-run .token.sampled.v0").count() == 6
    page.get_by_role("link", name="attempt 1").click()
    page.get_by_text("the model's server went away").wait_for()


def test_a_runs_configuration_is_compared_with_another_runs(
    page: Any, viewer: RunningViewer
) -> None:
    page.goto(viewer.page("/run", run="runs/first"))
    page.get_by_text("Configuration").click()
    page.get_by_label("Compare with").select_option("runs/<b>hostile")
    row = page.get_by_role("row").filter(
        has=page.get_by_role("rowheader", name="policy", exact=True)
    )
    row.get_by_text("scripted").first.wait_for()
    assert "<script>" in row.first.inner_text()
    assert "other=" in page.url


def test_words_are_looked_up_from_the_page(page: Any, viewer: RunningViewer) -> None:
    page.goto(viewer.page("/episodes", run="runs/first"))
    page.get_by_label("Words").fill("cellar")
    page.get_by_label("Words").press("Enter")
    page.get_by_text("11 of 12 episodes", exact=True).wait_for()


def test_a_list_of_any_length_has_few_rows_in_the_page(page: Any, viewer: RunningViewer) -> None:
    page.goto(viewer.page("/episodes", run="runs/first"))
    rows = page.get_by_role("rowgroup")
    page.get_by_text("12 of 12 episodes").wait_for()
    # The list itself, as long as a hundred thousand: what is not seen is not there.
    page.evaluate(
        """async () => {
            const { VirtualList } = await import('/assets/virtual_list.js');
            const { make } = await import('/assets/elements.js');
            const list = new VirtualList({
                row: (it) => make('span', {}, it), failed: (error) => { throw error; },
                load: async (offset, limit) => Array.from({ length: limit }, (_, n) => offset + n),
                open: () => {},
            });
            document.getElementById('page').replaceChildren(list.element);
            list.show(100000, Array.from({ length: 100 }, (_, n) => n));
        }"""
    )
    rows.press("End")
    page.get_by_text("99999", exact=True).wait_for()
    assert rows.get_by_role("row").count() < 80


def test_a_page_of_another_origin_reads_nothing(
    page: Any, browser: Any, viewer: RunningViewer
) -> None:
    class Foreign(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<p>another page</p>")

        def log_message(self, *about: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Foreign) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # The browser that has the cookie; cookies know no ports, so this page is in its reach.
        foreign = page.context.new_page()
        foreign.goto(f"http://127.0.0.1:{server.server_port}/")
        read = """async (address) => {
            try { return await (await fetch(address, %s)).text(); } catch { return null; }
        }"""
        told = viewer.origin + "/api/runs"
        for options in ("{credentials: 'include'}", "{credentials: 'include', mode: 'no-cors'}"):
            assert not foreign.evaluate(read % options, told)
        framed = """(address) => {
            const it = document.createElement('iframe');
            it.src = address;
            document.body.append(it);
        }"""
        foreign.evaluate(framed, viewer.origin + "/")
        foreign.wait_for_timeout(200)
        assert not any("Runs" in (frame.title() or "") for frame in foreign.frames)
        server.shutdown()


def test_a_live_run_is_followed_to_its_end(browser: Any, tmp_path: Path) -> None:
    folder = tmp_path / "live"
    with (
        RunStore.create(folder, build_manifest(), build_session()) as store,
        run_viewer(folder) as viewer,
        browser.new_context() as context,
    ):
        store.begin_playing(RunPlan(items={"maze": ("a", "b")}, samples=1, policies=("scripted",)))
        store.append_all([build_episode("a")])
        page = context.new_page()
        page.goto(viewer.page("/", token=TOKEN))
        page.goto(viewer.page("/run", run="live"))
        page.get_by_text("1 of 2 episodes finished").wait_for()
        store.append_all([build_episode("b")])
        store.end_playing(SessionEnd(interrupted=False))
        store.close()
        page.get_by_text("2 of 2 episodes finished").wait_for()
        page.locator(".state.finished").wait_for()


@pytest.mark.parametrize("width", [1280, 400])
def test_pages_fit_the_screen(page: Any, viewer: RunningViewer, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    row = viewer.ask("episodes", run="runs/first")["rows"][0]
    for path, asked in (
        ("/", {}),
        ("/run", {"run": "runs/first"}),
        ("/episodes", {"run": "runs/first"}),
        ("/episode", {"run": "runs/first", "id": row["episode_id"]}),
    ):
        page.goto(viewer.page(path, **asked))
        page.get_by_text("maze").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
