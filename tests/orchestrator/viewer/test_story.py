"""What the viewer is for, in one go: from the list of runs to a branch and a live run."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="needs playwright")
pytest.importorskip("starlette", reason="needs the extra viewer")

from orchestrator import sample
from orchestrator.store import RunReader
from tests.kit.server_process import ServerProcess
from tests.kit.viewer import open_browser
from tests.orchestrator.viewer.live_run import play_live
from tests.orchestrator.viewer.test_server import files_of

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def view(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start the command as a person does; gives the address that it prints, and its process."""
    command = [sys.executable, "-m", "orchestrator.view", *arguments, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def test_a_person_looks_travels_plays_on_compares_follows_and_leaves(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(ServerProcess(tmp_path, environments=["maze"]))
        for policy in ("expert", "random"):
            flags = ["--policy", policy, "--env", "maze", "--episodes", "6"]
            where = ["--servers", server.address, "--out", str(runs / policy)]
            assert sample.main([*flags, *where]) == 0
        before = files_of(runs)
        # One after the other: the next word is of the episode that is looked at.
        live = ("--env", "echo", "--episodes", "2", "--concurrency", "1")
        first = opened.enter_context(play_live(runs / "live", *live))
        address, viewer = opened.enter_context(view(str(runs), "--servers", server.address))
        page: Any = opened.enter_context(open_browser()).new_page()
        page.set_default_timeout(30_000)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(address)

        find_an_episode(page)
        travel_to_turn_2(page)
        play_another_action_and_find_the_branch(page)
        compare_both_runs(page, address)
        follow_to_its_end(page, address, first)
        assert (first.process.returncode, problems) == (0, [])

        # Nothing that was recorded changed, and whoever leaves harms no run that is being played.
        after = files_of(runs)
        assert {name: after[name] for name in before} == before
        second = opened.enter_context(play_live(runs / "later", *live))
        page.goto(address.partition("/?")[0] + "/")
        page.get_by_role("link", name="runs/later").click()
        page.get_by_role("link", name="playing now: 1 episode").wait_for()
        viewer.send_signal(signal.SIGINT)
        assert (viewer.wait(timeout=60), viewer.stderr.read()) == (0, "")
        assert second.wait() == 0
        with RunReader.open(runs / "later") as reader:
            assert [it.failed for it in reader.summaries()] == [False, False]


def find_an_episode(page: Any) -> None:
    page.get_by_role("link", name="runs/expert").click()
    page.get_by_role("link", name="All episodes").click()
    page.get_by_label("Rounds from").fill("3")
    page.get_by_label("Rounds from").press("Enter")
    page.get_by_text("of 6 episodes").wait_for()
    page.get_by_role("rowgroup").press("Enter")
    page.get_by_role("slider", name="Turn").wait_for()


def travel_to_turn_2(page: Any) -> None:
    """The picture changes from turn to turn."""
    page.keyboard.press("s")
    panel = page.get_by_role("region", name="The environment's state")
    panel.get_by_text("Replayed the reset:").wait_for()
    seen = set()
    for turn in ("1 turn", "2 turns"):
        seen.add(panel.get_by_role("img", name="Map and way").get_attribute("src"))
        page.keyboard.press("j")
        panel.get_by_text(f"Replayed the reset and {turn}:").wait_for()
    seen.add(panel.get_by_role("img", name="Map and way").get_attribute("src"))
    assert len(seen) == 3


def play_another_action_and_find_the_branch(page: Any) -> None:
    parent = page.url
    taken = page.locator(".turn").nth(3).locator(".action .text").text_content()
    other = "move up" if taken != "move up" else "move down"
    page.get_by_role("button", name="Play on from here").click()
    page.get_by_text("Turn 2 of at most").wait_for()
    page.get_by_label("Action", exact=True).fill(other)
    page.keyboard.press("Enter")
    page.get_by_text("Turn 3 of at most").wait_for()
    page.get_by_role("button", name="Keep").click()
    page.get_by_text("A branch of this episode").wait_for()
    page.goto(parent)
    page.get_by_text("1 branch").wait_for()
    page.get_by_role("link", name="Side by side").click()
    page.get_by_text("The same up to turn 2").wait_for()
    said = page.locator("tr.parts").first.locator(".action .text").all_text_contents()
    assert said == [taken, other]


def compare_both_runs(page: Any, address: str) -> None:
    page.goto(address.partition("/?")[0] + "/")
    for run in ("runs/random", "runs/expert"):
        page.get_by_label(f"Compare {run}", exact=True).check()
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("heading", name="runs/random → runs/expert", exact=True).wait_for()
    page.get_by_text("Won by the second: 6 items").wait_for()


def follow_to_its_end(page: Any, address: str, run: Any) -> None:
    page.goto(address.partition("/?")[0] + "/run?run=runs%2Flive")
    page.get_by_role("link", name="playing now: 1 episode").click()
    page.get_by_role("link", name="echo echo_").click()
    run.allow_words(1)
    page.get_by_role("region", name="Reply being written").get_by_text("Thought:").wait_for()
    run.open_gate()
    page.get_by_role("link", name="Its record").click()
    page.get_by_role("heading", name="echo echo_").wait_for()
    page.goto(address.partition("/?")[0] + "/run?run=runs%2Flive")
    page.get_by_text("2 of 2 episodes finished").wait_for()
    page.locator(".state.finished").wait_for()
    assert run.wait() == 0
