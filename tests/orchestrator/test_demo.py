"""The demonstration, end to end: the shipped agent beside expert and random, without torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_runtime.agents import BUNDLED_AGENT, read_agent_manifest
from orchestrator import audit, evaluate, replay, sample
from orchestrator.store import RunReader

pytest.importorskip("minigrid", reason="the extra `babyai` is not installed")
AGENT = read_agent_manifest(BUNDLED_AGENT)
QUICK = ["--spawn", "1", "--embedded.backend", "numpy"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "run"
    assert sample.main([*QUICK, "--episodes", "3", "--out", str(out)]) == 0
    return out


def test_all_three_play_the_agents_held_out_tasks_in_its_settings(demo: Path) -> None:
    played: dict[tuple[str, str], set[str]] = {}
    with RunReader.open(demo) as reader:
        for record in reader.episodes():
            settings = AGENT.environments[record.environment]
            played.setdefault((record.environment, record.policy), set()).add(record.item_id)
            assert record.item_id in settings.items
            assert dict(record.options) == dict(settings.options)
            if settings.conversation_start:
                start = tuple(it.text for it in record.messages[:2])
                assert start == settings.conversation_start
            assert record.split == ""
            if settings.max_rounds:
                assert len(record.steps) <= settings.max_rounds + 1
    assert {name for name, _ in played} == set(AGENT.demonstrated)
    for name in AGENT.demonstrated:
        items = played[name, "agent"]
        assert len(items) == 3
        assert played[name, "expert"] == played[name, "random"] == items


def test_the_manifest_says_what_computed_and_with_which_weights(demo: Path) -> None:
    with RunReader.open(demo) as reader:
        manifest = reader.manifest
        versions = {
            call.policy_version
            for record in reader.episodes()
            if record.policy == "agent"
            for call in record.generations
        }
    assert manifest.policy == "expert,random,agent"
    assert manifest.sampling["temperature"] == 0
    assert (manifest.policies or {})["agent"] == {
        "backend": "numpy",
        "weights": AGENT.provenance["weights"],
    }
    assert versions == {AGENT.provenance["weights"]}


def test_it_resumes_replays_and_passes_the_audit(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sample.main(["--resume", str(demo), "--spawn", "1"]) == 0
    assert replay.main([str(demo), "--spawn", "1"]) == 0
    assert audit.main([str(demo)]) == 0
    rendered = 3 * len(AGENT.demonstrated)
    assert f"{rendered} rendered again" in capsys.readouterr().out


def test_a_resume_with_other_weights_is_refused(
    demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--resume", str(demo), "--spawn", "1", "--embedded.version", "others"]
    assert sample.main(flags) == 2
    assert "weights" in capsys.readouterr().err


def test_flags_change_how_the_agent_samples(tmp_path: Path) -> None:
    out = tmp_path / "run"
    flags = ["--policy", "agent", "--env", AGENT.demonstrated[0], "--episodes", "2"]
    flags += ["--temperature", "0.7"]
    assert sample.main([*QUICK, *flags, "--out", str(out)]) == 0
    with RunReader.open(out) as reader:
        sampling = reader.manifest.sampling
        assert reader.count() == 2
    assert sampling["temperature"] == 0.7
    assert sampling["max_new_tokens"] == AGENT.max_new_tokens


def test_an_evaluation_of_the_agent_is_of_its_tasks(tmp_path: Path) -> None:
    out = tmp_path / "run"
    name = AGENT.demonstrated[-1]
    flags = ["--policy", "agent", "--env", name, "--episodes", "4"]
    assert evaluate.main([*QUICK, *flags, "--out", str(out)]) == 0
    with RunReader.open(out) as reader:
        items = {record.item_id for record in reader.episodes()}
    assert items <= set(AGENT.environments[name].items)


def test_an_environment_that_it_did_not_learn_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--policy", "agent", "--env", "maze,sheet", "--out", str(tmp_path / "run")]
    assert sample.main(flags) == 2
    message = capsys.readouterr().err
    assert "sheet" in message
    assert all(name in message for name in AGENT.environments)
