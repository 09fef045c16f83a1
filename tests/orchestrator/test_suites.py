"""What suites and agents stand for in a run's configuration, and how suite files are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_runtime.agents import (
    BUNDLED_AGENT,
    LEARNER_AGENT,
    AgentManifest,
    PlaySettings,
    read_agent_manifest,
    write_agent_manifest,
)
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.redaction import redact
from orchestrator.client import ClientConfig
from orchestrator.config import RunConfig, parse_policies
from orchestrator.configuration import parse_names
from orchestrator.errors import ConfigurationError, UsageError
from orchestrator.suites import load_suite, suite_names
from tests.orchestrator.records import build_manifest, build_session

AGENT = read_agent_manifest(BUNDLED_AGENT)
OWN_PROMPTS = f"agent:{LEARNER_AGENT}"
"""An agent with prompts of its own."""


def recorded(config: RunConfig) -> RunConfig:
    """As a manifest gives it back."""
    what, how = json.loads(json.dumps([config.resume_key(), config.runtime_fields()]))
    session = build_session(settings=how)
    return RunConfig.from_manifest(build_manifest(config=what, sessions=(session,)))


def agent_at(folder: Path, **environments: PlaySettings) -> str:
    folder.mkdir()
    write_agent_manifest(
        folder,
        AgentManifest(name="other", temperature=0.5, max_new_tokens=3, environments=environments),
    )
    return f"agent:{folder}"


def test_without_arguments_the_agent_plays_its_own_tasks_beside_expert_and_random() -> None:
    config = RunConfig().resolve()
    assert config.policies == parse_policies("expert,random,agent")
    assert config.environments == AGENT.demonstrated
    for name in AGENT.demonstrated:
        assert config.environment_settings(name) == AGENT.environments[name]
        assert config.environment_split(name) == ""


def test_a_named_environment_is_played_as_ever() -> None:
    config = RunConfig(environments=("maze",)).resolve()
    assert config.policies == parse_policies("expert,random")
    assert config.environment_settings("maze") == PlaySettings()
    assert config.environment_split("maze") == "eval"
    assert config.agent_sampling() is None


def test_the_demo_is_the_agents_whoever_plays() -> None:
    config = RunConfig(policies=parse_policies("expert")).resolve()
    name = AGENT.demonstrated[0]
    assert config.environment_settings(name) == AGENT.environments[name]


def test_other_suites_have_each_environments_own_settings() -> None:
    config = RunConfig(suite="games").resolve()
    assert config.policies == parse_policies("expert,random")
    assert config.environments == ("maze", "wordle", "textcraft", "babyai")
    assert config.environment_settings("wordle") == PlaySettings()


def test_an_agent_brings_its_settings_for_all_who_play_beside_it() -> None:
    name = AGENT.demonstrated[-1]
    config = RunConfig(environments=(name,), policies=parse_policies("expert,agent")).resolve()
    assert config.environment_settings(name) == AGENT.environments[name]


def test_settings_that_an_agent_changes_are_told_and_own_ones_are_not(tmp_path: Path) -> None:
    settings = {
        "maze": PlaySettings(options={"rows": 7}, conversation_start=("maze", "OK"), max_rounds=13),
        "wordle": PlaySettings(items=("wordle_1",)),
    }
    write_agent_manifest(
        tmp_path,
        AgentManifest(name="a", temperature=0, max_new_tokens=3, environments=settings),
    )
    config = RunConfig(policies=parse_policies(f"agent:{tmp_path}"))
    (told,) = config.resolve().agents_own_settings()
    assert told.startswith("maze in the agent's settings")
    assert all(part in told for part in ('{"rows": 7}', "prompts of its own", "13 replies"))
    assert RunConfig(suite="games").resolve().agents_own_settings() == []


def test_flags_go_before_an_agents_settings() -> None:
    flags = {"options": {"rows": 9}, "max_rounds": 3, "items": ("maze_5",), "profile": "fixed"}
    policies = parse_policies(OWN_PROMPTS)
    config = RunConfig(environments=("maze",), policies=policies, **flags).resolve()
    settings = config.environment_settings("maze")
    assert settings.options == {"rows": 9}
    assert (settings.max_rounds, settings.items, settings.profile) == (3, ("maze_5",), "fixed")
    assert settings.conversation_start == ("maze", "OK")


def test_a_named_split_is_played_instead_of_an_agents_tasks() -> None:
    config = RunConfig(
        environments=("maze",), policies=parse_policies("agent"), split="train"
    ).resolve()
    assert config.environment_settings("maze").items == ()
    assert config.environment_split("maze") == "train"


def test_a_manifest_holds_what_was_settled_and_a_resume_needs_no_card(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = RunConfig().resolve()

    def no_card(_: Path) -> AgentManifest:
        raise AssertionError("the manifest was read again")

    monkeypatch.setattr("orchestrator.config.read_agent_manifest", no_card)
    again = recorded(config)
    assert again == config
    assert again.resolve() == config


def test_where_a_key_lies_is_no_secret() -> None:
    config = RunConfig(client=ClientConfig(key=Path("key.pem"), connect_deadline=3.0)).resolve()
    settings = redact(config.runtime_fields())
    manifest = build_manifest(
        config=config.resume_key(), sessions=(build_session(settings=settings),)
    )
    assert RunConfig.from_manifest(manifest).client == config.client


def test_the_backend_may_differ_between_sessions_and_the_settings_may_not() -> None:
    policies = parse_policies(OWN_PROMPTS)
    config = RunConfig(environments=("maze",), policies=policies).resolve()
    assert "backend" in config.runtime_fields()["agent"]["embedded"]
    assert config.resume_key()["per_environment"]["maze"]["conversation_start"] == ["maze", "OK"]


def test_an_agent_samples_as_it_was_judged_unless_another_model_plays_too() -> None:
    sampling = RunConfig(policies=parse_policies("expert,agent")).agent_sampling()
    assert sampling == AGENT.sampling()
    assert (
        RunConfig(
            policies=parse_policies("agent,openai:m"), environments=("maze",)
        ).agent_sampling()
        is None
    )


def test_an_agent_of_ones_own_brings_its_environments(tmp_path: Path) -> None:
    name = agent_at(tmp_path / "own", echo=PlaySettings(max_rounds=2, items=("echo_1000000",)))
    config = RunConfig(policies=parse_policies(name)).resolve()
    assert config.environments == ("echo",)
    assert config.environment_settings("echo").max_rounds == 2
    sampling = config.agent_sampling()
    assert sampling is not None
    assert (sampling.temperature, sampling.max_new_tokens) == (0.5, 3)


def test_an_environment_that_the_agent_did_not_learn_names_those_that_it_did() -> None:
    with pytest.raises(UsageError, match="sheet") as caught:
        RunConfig(
            environments=parse_names("maze,sheet"), policies=parse_policies("agent")
        ).resolve()
    assert caught.value.valid == tuple(AGENT.environments)


def test_two_agents_have_two_settings_and_are_refused(tmp_path: Path) -> None:
    name = agent_at(tmp_path / "own", maze=PlaySettings())
    with pytest.raises(UsageError, match="play one"):
        RunConfig(environments=("maze",), policies=parse_policies(f"agent,{name}")).resolve()


def test_what_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="demo, games"):
        RunConfig(suite="nope").resolve()
    with pytest.raises(PolicyMisconfigured, match=r"agent\.json"):
        RunConfig(environments=("maze",), policies=parse_policies(f"agent:{tmp_path}")).resolve()


# ---------------------------------------------------------------- suite files

MINE = """
title = "Mine"
metric = "mean score"

[environments.maze]
split = "train"
episodes = 5
samples = 3
options = { rows = 9 }

[environments.sheet]
items = ["sheet_1000000"]
profile = "fixed"
max_rounds = 2
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    return str(path)


def test_a_suite_file_becomes_the_settings_of_each_environment(mine: str) -> None:
    config = RunConfig(suite=mine).resolve()
    assert config.environments == ("maze", "sheet")
    assert config.environment_settings("maze") == PlaySettings(options={"rows": 9})
    assert config.environment_split("maze") == "train"
    assert (config.environment_episodes("maze"), config.environment_samples("maze")) == (5, 3)
    sheet = config.environment_settings("sheet")
    assert (sheet.items, sheet.profile, sheet.max_rounds) == (("sheet_1000000",), "fixed", 2)
    assert config.environment_split("sheet") == ""
    assert (config.environment_episodes("sheet"), config.environment_samples("sheet")) == (40, 1)


def test_a_resume_needs_no_suite_file(mine: str) -> None:
    config = RunConfig(suite=mine).resolve()
    Path(mine).unlink()
    again = recorded(config)
    assert again == config
    assert again.resolve() == config


def test_flags_go_before_a_suite_and_never_beyond_its_number_of_tasks(mine: str) -> None:
    flags = {"samples": 2, "split": "eval", "max_rounds": 4}
    config = RunConfig(suite=mine, episodes=9, **flags).resolve()
    assert (config.environment_episodes("maze"), config.environment_samples("maze")) == (5, 2)
    assert config.environment_split("sheet") == "eval"
    assert config.environment_settings("sheet").max_rounds == 4
    assert RunConfig(suite=mine, episodes=3).resolve().environment_episodes("maze") == 3
    assert config.suite_changes() == ["episodes", "split", "max-rounds"]


def test_a_suite_is_narrowed_to_named_environments_of_it(mine: str) -> None:
    config = RunConfig(suite=mine, environments=("sheet",)).resolve()
    assert config.environments == ("sheet",)
    assert config.environment_settings("sheet").max_rounds == 2
    assert "env" in config.suite_changes()
    with pytest.raises(UsageError, match=r"no 'wordle' \(valid: maze, sheet\)"):
        RunConfig(suite=mine, environments=("wordle",)).resolve()


def test_an_agent_plays_a_suite_as_the_suite_says_also_what_it_did_not_learn() -> None:
    config = RunConfig(suite="agenteval-embedded", policies=parse_policies("agent")).resolve()
    assert "sciworld" in config.environments
    assert all(config.environment_settings(it) == PlaySettings() for it in config.environments)
    assert config.agent_sampling() == AGENT.sampling()


def test_the_shipped_suites_can_be_read_and_resolved() -> None:
    assert suite_names() == ["agenteval", "agenteval-embedded", "demo", "games", "tools", "web"]
    for name in suite_names():
        assert RunConfig(suite=name).resolve().environments


def test_the_embedded_counterpart_has_the_sizes_of_agenteval() -> None:
    official, embedded = load_suite("agenteval"), load_suite("agenteval-embedded")
    sizes = {name: entry.episodes for name, entry in official.environments.items()}
    assert sizes == {name: entry.episodes for name, entry in embedded.environments.items()}
    later = ("searchqa", "webarena")
    assert sum(size for name, size in sizes.items() if name not in later) == 1140
    assert not any(entry.needs or entry.split for entry in embedded.environments.values())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[environments.maze]\nspilt = 'eval'", "environments.maze.spilt: "),
        ("[environments.maze]\nepisodes = 'all'", "environments.maze.episodes: "),
        ("[environments.maze]\nepisodes = -1", "environments.maze.episodes: is at least 0"),
        ("[environments.maze]\nsplit = 'a'\nitems = ['b']", "not both"),
        ("metric = 'speed'\n[environments.maze]", "success rate, mean score"),
        ("agent_settings = true\n[environments.maze]", "remove the sections"),
        ("title = 'nothing'", "it names no environment"),
        ("", "it names no environment"),
        ("environments =", "is no TOML"),
    ],
)
def test_what_no_suite_can_say_is_told_with_its_file(
    text: str, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        RunConfig(suite=str(path)).resolve()
    assert str(path) in str(caught.value)
    assert problem in str(caught.value)


def test_a_secret_in_a_suites_options_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret.toml"
    path.write_text("[environments.echo.options]\napi_key = 'sk-1234567890abcdef'")
    with pytest.raises(UsageError, match="must not hold a secret"):
        RunConfig(suite=str(path)).resolve()
