"""Task sets shared by the weather tests, and where recorded data is found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from env_servers.environments.weather import Weather
from env_servers.sdk import EnvironmentConfig, Observation, ResetOptions
from env_servers.toolkit.tool_calls import ToolTaskSet, write_call

REPOSITORY = Path(__file__).parents[4]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    found = Path(os.environ.get("AGENTGYM_DATA") or REPOSITORY.parent / "shared" / "data")
    if not (found / "tools" / "weather.jsonl").is_file():
        pytest.skip("needs the official task files: set AGENTGYM_DATA")
    return found


@pytest.fixture(scope="session")
def embedded() -> ToolTaskSet:
    return Weather.load_tasks(EnvironmentConfig())


@pytest.fixture(scope="session")
def official(data_dir: Path) -> ToolTaskSet:
    return Weather.load_tasks(EnvironmentConfig(data_dir))


def begin(tasks: ToolTaskSet, item: str, profile: str = "agentgym", **options: object) -> Weather:
    """An episode just begun."""
    episode = Weather(tasks)
    episode.reset(tasks.get(item), ResetOptions(profile=profile, options=options))
    return episode


def shown(seen: Observation) -> str:
    """What a tool returned, as text."""
    return seen.text.removeprefix("Observation: ").removesuffix("\nGive me one action.")


def ask(episode: Weather, tool: str, **arguments: object) -> str:
    """What a call returns, as text."""
    return shown(episode.step(write_call(tool, arguments)))


def play_expert(episode: Weather, wording: int = 0) -> tuple[Observation, int]:
    """(last observation, steps) of the expert's episode."""
    seen = Observation("")
    for step in range(1, episode.spec.max_rounds + 1):
        seen = episode.step(episode.advise_expert(wording).action)
        if seen.terminated:
            return seen, step
    return seen, episode.spec.max_rounds
