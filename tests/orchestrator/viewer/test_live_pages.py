"""A live run in a real browser: its list, an episode that is being written, its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="needs playwright")
pytest.importorskip("starlette", reason="needs the extra viewer")

from agent_runtime.conversation import Message, Role
from agent_runtime.live_record import Waiting
from orchestrator.broadcast import Broadcast
from orchestrator.store import RunStore
from tests.kit.viewer import TOKEN, open_browser, run_viewer
from tests.orchestrator.records import build_episode, build_manifest, build_session
from tests.orchestrator.viewer.hostile_run import HOSTILE
from tests.orchestrator.viewer.live_run import play_live
from tests.orchestrator.viewer.test_hostile_runs import MADE


def test_a_live_episode_is_watched_paused_and_followed_into_its_record(tmp_path: Path) -> None:
    flags = ("--env", "echo", "--episodes", "2", "--concurrency", "1")
    with (
        play_live(tmp_path / "runs" / "live", *flags) as run,
        run_viewer(tmp_path / "runs") as viewer,
        open_browser() as browser,
        browser.new_context(viewport={"width": 1280, "height": 800}) as context,
    ):
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(viewer.page("/", token=TOKEN))
        page.goto(viewer.page("/run", run="runs/live"))
        page.get_by_role("link", name="playing now: 1 episode").click()
        page.get_by_text("1 episode is being played.").wait_for()
        page.get_by_role("link", name="echo echo_").press("Enter")
        page.get_by_text("waits for the policy").wait_for()
        assert page.locator(".turn h2").first.text_content() == "Start"
        watched = page.url

        run.allow_words(1)
        draft = page.get_by_role("region", name="Reply being written")
        draft.get_by_text("Thought:").wait_for()
        # Said once a turn, and not for each word.
        assert page.locator(".live-news").inner_text() == "Turn 0: the episode has begun"

        page.keyboard.press(" ")
        page.get_by_text("Paused here, not the run").wait_for()
        page.get_by_role("button", name="Go on").wait_for()
        while not (ended := page.get_by_text("The episode has ended.")).count():
            run.allow_words(2)
            page.wait_for_timeout(20)
        assert ended.count() == 2  # to see and to hear
        assert page.locator("li.turn").count() == 1
        page.keyboard.press(" ")
        page.get_by_role("heading", name="Turn 1", exact=True).wait_for()
        assert draft.count() == 0
        page.get_by_role("link", name="Its record").click()
        page.get_by_role("heading", name="echo echo_").wait_for()
        page.get_by_text("sample 0, attempt 1").wait_for()

        page.goto(viewer.page("/run", run="runs/live"))
        page.get_by_text("1 of 2 episodes finished").wait_for()
        assert run.wait() == 0
        page.get_by_text("2 of 2 episodes finished").wait_for()
        page.locator(".state.finished").wait_for()
        page.get_by_text("playing now").wait_for(state="detached")
        page.goto(watched)
        page.get_by_role("link", name="Its record").wait_for()
        assert problems == []


@pytest.mark.slow
def test_live_pages_pass_axe_fit_small_screens_and_say_that_a_run_was_killed(
    tmp_path: Path,
) -> None:
    axe = pytest.importorskip("axe_playwright_python.base", reason="needs axe-playwright-python")
    width = 400
    with (
        play_live(tmp_path / "runs" / "live", "--env", "maze", "--episodes", "2") as run,
        run_viewer(tmp_path / "runs") as viewer,
        open_browser() as browser,
        browser.new_context(viewport={"width": width, "height": 800}) as context,
    ):
        page: Any = context.new_page()

        def check() -> None:
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.evaluate(axe.AXE_SCRIPT)
            assert page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"] == []

        page.goto(viewer.page("/", token=TOKEN))
        page.goto(viewer.page("/live", run="runs/live"))
        page.get_by_text("2 episodes are being played.").wait_for()
        check()
        page.get_by_role("link", name="maze maze_").first.click()
        page.get_by_text("waits for the policy").wait_for()
        run.allow_words(8)
        page.get_by_role("region", name="Reply being written").get_by_text("Thought:").wait_for()
        check()
        hide(page, True)
        while not all(it["turn"] for it in viewer.ask("live", run="runs/live")["episodes"]):
            run.allow_words(10)
            page.wait_for_timeout(20)
        assert page.locator("li.turn").count() == 1  # a page that nobody sees asks for nothing
        hide(page, False)
        page.get_by_role("heading", name="Turn 1", exact=True).wait_for()
        run.process.kill()
        run.process.wait()
        page.get_by_text("has ended, or was killed, before the episode did").first.wait_for()
        page.get_by_role("link", name="What else is played").click()
        page.get_by_text("(what it left does not answer)").wait_for()


def hide(page: Any, hidden: bool) -> None:
    """Tell the page that its tab is behind another, or in front."""
    page.evaluate(
        """(hidden) => {
            Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
            document.dispatchEvent(new Event('visibilitychange'));
        }""",
        hidden,
    )


@contextmanager
def show_hostile_episode(folder: Path) -> Iterator[None]:
    """Play an episode in which everything is hostile, and stays at its second turn."""
    over = asyncio.Event()
    begun = threading.Event()

    async def play() -> None:
        broadcast = Broadcast(folder)
        async with broadcast.open():
            with broadcast.episode("e1") as shown:
                record = build_episode(HOSTILE, environment=HOSTILE, policy=HOSTILE)
                record.episode_id = record.steps[-1].observation = HOSTILE
                record.generations[0].reasoning = record.category = HOSTILE
                shown.begin(record, [Message(Role.USER, HOSTILE)])
                shown.wait_for(Waiting.POLICY)
                begun.set()
                while not over.is_set():
                    shown.draft.write(lambda: HOSTILE + "x" * 1_000_000)
                    await asyncio.sleep(0.05)

    playing = threading.Thread(target=asyncio.run, args=(play(),))
    playing.start()
    begun.wait()
    try:
        yield
    finally:
        over.set()
        playing.join()


@pytest.mark.slow
def test_what_a_hostile_live_episode_says_is_text(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "live"
    with (
        RunStore.create(folder, build_manifest(), build_session()),
        show_hostile_episode(folder),
        run_viewer(tmp_path / "runs") as viewer,
        open_browser() as browser,
        browser.new_context(viewport={"width": 400, "height": 800}) as context,
    ):
        page: Any = context.new_page()
        page.goto(viewer.page("/", token=TOKEN))
        page.goto(viewer.page("/live", run="runs/live"))
        page.get_by_role("link", name="<script>").wait_for()
        pages = [page.evaluate(MADE)]
        page.goto(viewer.page("/watch", run="runs/live", id="e1"))
        page.locator(".draft pre").get_by_text("xxx").wait_for()
        pages.append(page.evaluate(MADE))
        assert pages == [[], []]
        assert page.evaluate("window.owned") is None
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert not {"\x1b", "\u202e"} & set(page.locator("body").text_content())
        assert len(page.locator(".draft pre").text_content()) <= 21_000
