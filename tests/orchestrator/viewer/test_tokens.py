"""Tokens of an episode that a model really played: their texts, likelihood, and where time went."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra viewer")
pytest.importorskip("safetensors", reason="needs the extra agent")

from agentgym.episode.v1 import episode_pb2
from orchestrator import sample
from orchestrator.manifest import Manifest
from orchestrator.store import RunReader
from orchestrator.viewer import transcript
from orchestrator.viewer.token_texts import TokenTexts
from tests.agent_runtime import tiny_tokenizers
from tests.kit.viewer import TOKEN, RunningViewer, open_browser, run_viewer
from tests.orchestrator.records import build_episode, build_manifest


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One episode of maze, by the agent that the package has."""
    folder = tmp_path_factory.mktemp("tokens") / "played"
    flags = ["--policy", "agent", "--env", "maze", "--episodes", "1", "--spawn", "1"]
    assert sample.main([*flags, "--embedded.backend", "numpy", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def played(run: Path) -> tuple[Manifest, episode_pb2.Episode]:
    with RunReader.open(run) as reader:
        (episode,) = reader.episodes()
        return reader.manifest, episode


@pytest.fixture(scope="module")
def viewer(run: Path) -> Iterator[RunningViewer]:
    with run_viewer(run) as running:
        yield running


def test_tokens_are_spelled_by_the_agent_that_played(
    played: tuple[Manifest, episode_pb2.Episode],
) -> None:
    manifest, episode = played
    texts, problem = TokenTexts().spell(manifest, episode, 0)
    assert texts is not None and not problem
    assert len(texts) == len(episode.token_segments[0].ids)
    for message in episode.messages[:-1]:  # nobody read the last one
        assert message.text.strip() in "".join(texts)


def test_ids_stay_ids_where_the_tokenizer_is_not_the_one_that_played(
    played: tuple[Manifest, episode_pb2.Episode], tmp_path: Path
) -> None:
    manifest, episode = played
    other = TokenTexts(tiny_tokenizers.chatml(tmp_path / "other"))
    assert other.spell(manifest, episode, 0).texts is None
    assert "spells other replies" in other.spell(manifest, episode, 0).problem
    elsewhere = dataclasses.replace(manifest, run_id="elsewhere", policies={})
    assert "--tokenizer" in TokenTexts().spell(elsewhere, episode, 0).problem
    by_hand = TokenTexts().spell(build_manifest(), build_episode(), 0)
    assert by_hand.texts is None and "names no model folder" in by_hand.problem


def test_every_step_has_its_seconds(played: tuple[Manifest, episode_pb2.Episode]) -> None:
    _, episode = played
    seconds = [step.seconds for step in episode.steps]
    assert min(seconds) > 0
    assert sum(seconds) == pytest.approx(episode.environment_seconds)


def test_a_rewritten_history_shows_from_where() -> None:
    episode = build_episode()
    again = episode.token_segments.add()
    again.CopyFrom(episode.token_segments[0])
    again.fork_reason = "the template removed reasoning"
    again.ids[3] += 1
    assert transcript.token_data(episode, 1)["kept"] == 3
    assert transcript.token_data(episode, 0)["kept"] == 0


def test_a_person_reads_tokens_as_text_with_their_likelihood(viewer: RunningViewer) -> None:
    pytest.importorskip("playwright", reason="needs playwright")
    row = viewer.ask("episodes", run="played")["rows"][0]
    with open_browser() as browser, browser.new_context() as context:
        page: Any = context.new_page()
        page.goto(viewer.page("/", token=TOKEN))
        page.goto(viewer.page("/episode", run="played", id=row["episode_id"], tokens=1))
        page.locator(".token-run.text").first.wait_for()
        said = "".join(page.locator(".token-run.text .sampled").all_text_contents())
        assert "Thought:↵\n" in said and "Action:↵\n" in said
        page.get_by_label("Colour", exact=True).select_option("entropy")
        page.get_by_text("entropy in nats").wait_for()
        title = page.locator(".token-run .sampled").first.get_attribute("title")
        assert all(it in title for it in ("id ", "logprob", "probability", "entropy"))
        page.get_by_label("Show", exact=True).select_option("table")
        rows = page.locator(".token-table tbody tr")
        assert rows.count() == len(viewer.ask("tokens", run="played", id=row["episode_id"])["ids"])
        labels = [it.get_attribute("aria-label") for it in page.locator(".turn-bar").all()]
        assert labels[0].startswith("turn 0: environment ")
        assert "policy" in labels[1] and "environment" in labels[1]
