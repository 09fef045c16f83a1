"""Pages that overlook several runs, in a real browser: the list, comparisons, trainings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="needs playwright")
pytest.importorskip("starlette", reason="needs the extra viewer")

from orchestrator.import_run import import_run
from tests.kit.viewer import TOKEN, RunningViewer, open_browser, run_viewer
from tests.orchestrator.trainings import (
    append_log,
    finish_stages,
    judged,
    write_agentevol,
    write_grpo,
)
from tests.orchestrator.viewer.test_comparisons import record_policies


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("overview") / "runs"
    record_policies(runs / "weak", {"agent": 2})
    record_policies(runs / "strong", {"agent": 7}, suite="games")
    record_policies(runs / "deeper" / "two", {"agent": 4, "<b>other": 1})
    write_agentevol(runs / "trainings" / "evol")
    write_grpo(runs / "trainings" / "grpo")
    return runs


@pytest.fixture(scope="module")
def viewer(runs: Path) -> Iterator[RunningViewer]:
    with run_viewer(runs) as running:
        yield running


@pytest.fixture(scope="module")
def page(viewer: RunningViewer) -> Iterator[Any]:
    """A page that has shown the token; whatever goes wrong in its scripts is an error here."""
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(20_000)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: said.type == "error" and problems.append(said.text))
        page.goto(viewer.page("/", token=TOKEN))
        yield page
        assert problems == []


def test_a_run_of_others_episodes_says_where_they_are_from(
    page: Any, viewer: RunningViewer, runs: Path
) -> None:
    turns = [("human", None, "Go."), ("gpt", True, "up"), ("human", None, "Ok.")]
    told = [{"from": who, "loss": loss, "value": text} for who, loss, text in turns]
    path = runs.parent / "<b>theirs.json"
    path.write_text(json.dumps([{"conversations": told, "item_id": "maze_1"}]))
    import_run([path], runs / "imports" / "theirs")
    page.goto(viewer.page("/"))
    page.get_by_label("Filter").fill("imported")
    row = page.get_by_role("row", name="runs/imports/theirs")
    row.get_by_text("imported from <b>theirs.json", exact=True).wait_for()
    row.get_by_role("link").click()
    page.get_by_text("imported from <b>theirs.json", exact=True).wait_for()


def test_runs_are_grouped_and_chosen_ones_compared_with_the_first(
    page: Any, viewer: RunningViewer
) -> None:
    page.goto(viewer.page("/"))
    page.get_by_label("Group by").select_option("suite")
    group = page.locator("tbody").filter(has=page.get_by_role("rowheader", name="games"))
    group.get_by_role("link", name="runs/strong").wait_for()
    assert group.get_by_role("link").count() == 1
    page.get_by_label("Group by").select_option("policy")
    group = page.locator("tbody").filter(has=page.get_by_role("rowheader", name="<b>other"))
    group.get_by_role("link", name="runs/deeper/two").wait_for()
    assert group.get_by_role("link").count() == 1
    assert page.get_by_role("button", name="Compare").is_disabled()
    page.get_by_label("Compare runs/weak").check()
    page.get_by_label("Compare runs/strong").press("Space")
    page.get_by_label("Compare runs/deeper/two@agent").check()
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("heading", name="runs/weak → runs/deeper/two").wait_for()
    section = page.get_by_role("region", name="runs/weak and runs/strong")
    row = section.get_by_role("row", name="maze success")
    row.wait_for()
    cells = row.get_by_role("cell").all_inner_texts()
    assert [cell.split()[0] for cell in cells] == [
        *("success", "8", "25.0", "87.5", "+62.5", "5", "0", "0.063")
    ]
    section.get_by_text("Won by the second: 5 items").wait_for()
    section.get_by_role("row", name="maze_3").get_by_role("link", name="second").click()
    page.get_by_role("heading", name="maze maze_3").wait_for()
    page.go_back()
    section.get_by_role("row", name="maze_3").get_by_role("link", name="side by side").click()
    page.get_by_role("heading", name="Side by side").wait_for()
    page.go_back()
    page.set_viewport_size({"width": 400, "height": 800})
    section.get_by_role("row", name="maze_3").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.set_viewport_size({"width": 1280, "height": 800})


def test_a_training_leads_to_its_iterations_and_their_episodes_and_is_followed(
    page: Any, viewer: RunningViewer, runs: Path
) -> None:
    page.goto(viewer.page("/"))
    row = page.get_by_role("row").filter(has=page.get_by_text("2 of 4 iterations"))
    row.get_by_role("link").click()
    page.get_by_role("heading", name="Scores from iteration to iteration").wait_for()
    agent = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="iteration 1"))
    assert "6 of 17 (10)" in agent.first.inner_text()
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.set_viewport_size({"width": 1280, "height": 800})
    agent.nth(1).get_by_role("link", name="maze").click()
    page.get_by_role("heading", name="runs/trainings/evol/seed-0/explore-1/maze").wait_for()
    page.get_by_role("link", name="runs/trainings/evol", exact=True).click()
    agent.nth(1).get_by_role("link", name="iteration 1").click()
    page.get_by_role("img", name="loss: 0.25 to 2, last 0.25 at step 2").wait_for()
    page.get_by_role("link", name="runs/trainings/evol").click()
    page.get_by_role("heading", name="Agents").wait_for()

    page.goto(viewer.page("/training", training="runs/trainings/grpo"))
    page.get_by_role("img", name="reward: 0.25 to 0.5").wait_for()
    append_log(runs / "trainings" / "grpo", {"step": 3, "reward": 0.75, "<b>": 1})
    page.get_by_role("img", name="reward: 0.25 to 0.75, last 0.75 at step 3").wait_for()
    finish_stages(runs / "trainings" / "grpo", {"judge-final": judged(1, 1)})
    page.locator(".state.finished").wait_for()
    page.get_by_role("row", name="final weights").wait_for()


def test_a_run_and_an_episode_are_saved_from_their_pages(
    page: Any, viewer: RunningViewer, runs: Path
) -> None:
    page.goto(viewer.page("/run", run="runs/weak"))
    page.get_by_label("Format").select_option("messages")
    page.get_by_label("successes only").check()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save as").click()
    assert saved.value.suggested_filename == "runs-weak-messages.jsonl"
    assert len(saved.value.path().read_text().splitlines()) == 2
    page.get_by_text("Runs in the same folder: 1").click()
    page.get_by_role("link", name="compare runs/strong with this run").click()
    page.get_by_role("row", name="maze success").wait_for()
    episode = viewer.ask("episodes", run="runs/weak")["rows"][3]["episode_id"]
    page.goto(viewer.page("/episode", run="runs/weak", id=episode))
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save as").click()
    assert saved.value.suggested_filename == f"runs-weak-{episode[:12]}-html.html"
    assert "maze_3" in saved.value.path().read_text()
