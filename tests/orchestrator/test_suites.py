"""What suites and agents stand for in a run's configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_runtime.agents import AgentCard, PlaySettings, read_card, write_card
from agent_runtime.agents.card import SHIPPED
from agent_runtime.errors import PolicyMisconfigured
from orchestrator.config import RunConfig, merge
from orchestrator.errors import UsageError

CARD = read_card(SHIPPED)


def recorded(config: RunConfig) -> RunConfig:
    """As a manifest gives it back."""
    what, how = json.loads(json.dumps([config.binding(), config.settings()]))
    return RunConfig.from_plain(merge(what, how))


def agent_at(folder: Path, **environments: PlaySettings) -> str:
    folder.mkdir()
    write_card(
        folder,
        AgentCard(name="other", temperature=0.5, max_new_tokens=3, environments=environments),
    )
    return f"agent:{folder}"


def test_without_arguments_the_agent_plays_its_own_tasks_beside_expert_and_random() -> None:
    config = RunConfig().settled()
    assert config.policies() == ["expert", "random", "agent"]
    assert config.environments() == list(CARD.environments)
    for name, settings in CARD.environments.items():
        assert config.settings_of(name) == settings
        assert config.split_of(name) == ""


def test_a_named_environment_is_played_as_ever() -> None:
    config = RunConfig(env="maze").settled()
    assert config.policies() == ["expert", "random"]
    assert config.settings_of("maze") == PlaySettings()
    assert config.split_of("maze") == "eval"
    assert config.agent_sampling() is None


def test_the_demo_is_the_agents_whoever_plays() -> None:
    config = RunConfig(policy="expert").settled()
    assert config.settings_of("maze") == CARD.environments["maze"]


def test_other_suites_have_each_environments_own_settings() -> None:
    config = RunConfig(suite="games").settled()
    assert config.policies() == ["expert", "random"]
    assert config.environments() == ["maze", "wordle", "textcraft", "babyai"]
    assert config.settings_of("wordle") == PlaySettings()


def test_an_agent_brings_its_settings_for_all_who_play_beside_it() -> None:
    config = RunConfig(env="wordle", policy="expert,agent").settled()
    assert config.settings_of("wordle") == CARD.environments["wordle"]


def test_flags_go_before_an_agents_settings() -> None:
    flags = {"options": '{"rows": 9}', "max_rounds": 3, "items": "maze_5", "profile": "fixed"}
    config = RunConfig(env="maze", policy="agent", **flags).settled()
    settings = config.settings_of("maze")
    assert settings.options == {"rows": 9}
    assert (settings.max_rounds, settings.items, settings.profile) == (3, ("maze_5",), "fixed")
    assert settings.opening == CARD.environments["maze"].opening


def test_a_named_split_is_played_instead_of_an_agents_tasks() -> None:
    config = RunConfig(env="maze", policy="agent", split="train").settled()
    assert config.settings_of("maze").items == ()
    assert config.split_of("maze") == "train"


def test_a_manifest_holds_what_was_settled_and_a_resume_needs_no_card(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = RunConfig().settled()

    def no_card(_: Path) -> AgentCard:
        raise AssertionError("the card was read again")

    monkeypatch.setattr("orchestrator.config.read_card", no_card)
    again = recorded(config)
    assert again == config
    assert again.settled() == config


def test_the_backend_may_differ_between_sessions_and_the_settings_may_not() -> None:
    config = RunConfig().settled()
    assert "backend" in config.settings()["agent"]["embedded"]
    assert config.binding()["play"]["maze"]["opening"] == ["maze", "OK"]


def test_an_agent_samples_as_it_was_judged_unless_another_model_plays_too() -> None:
    sampling = RunConfig(policy="expert,agent").agent_sampling()
    assert sampling == CARD.sampling()
    assert RunConfig(policy="agent,openai:m", env="maze").agent_sampling() is None


def test_an_agent_of_ones_own_brings_its_environments(tmp_path: Path) -> None:
    name = agent_at(tmp_path / "own", echo=PlaySettings(max_rounds=2, items=("echo_1000000",)))
    config = RunConfig(policy=name).settled()
    assert config.environments() == ["echo"]
    assert config.settings_of("echo").max_rounds == 2
    sampling = config.agent_sampling()
    assert sampling is not None
    assert (sampling.temperature, sampling.max_new_tokens) == (0.5, 3)


def test_an_environment_that_the_agent_did_not_learn_names_those_that_it_did() -> None:
    with pytest.raises(UsageError, match="sheet") as caught:
        RunConfig(env="maze,sheet", policy="agent").settled()
    assert caught.value.valid == tuple(CARD.environments)


def test_two_agents_have_two_settings_and_are_refused(tmp_path: Path) -> None:
    name = agent_at(tmp_path / "own", maze=PlaySettings())
    with pytest.raises(UsageError, match="play one"):
        RunConfig(env="maze", policy=f"agent,{name}").settled()


def test_what_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="demo, games"):
        RunConfig(suite="nope").settled()
    with pytest.raises(PolicyMisconfigured, match=r"agent\.json"):
        RunConfig(env="maze", policy=f"agent:{tmp_path}").settled()
