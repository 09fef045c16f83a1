"""The suite agenteval plays the published items, each list as far as its data is there."""

from __future__ import annotations

import pytest

from env_servers.sdk import EnvironmentConfig
from env_servers.server.instance import LoadedEnvironment
from orchestrator.suites import load_suite
from tests.env_servers.environments.webarena.chromium import needs_chromium
from tests.kit.data import data_dir, needs_data, read_eval_ids

LISTS = {
    "maze": "lmrlgym_maze",
    "wordle": "lmrlgym_wordle",
    "weather": "tool_weather",
    "movie": "tool_movie",
    "todo": "tool_todo",
    "academia": "tool_academia",
    "sheet": "tool_sheet",
    "bird": "sqlgym",
}
"""Names of the published lists where they are not the environment's."""
SUITE = load_suite("agenteval")


@pytest.mark.slow
@needs_data("agenteval")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=needs_chromium if name == "webarena" else ())
        for name in SUITE.environments
    ],
)
def test_its_items_are_those_of_the_published_list(name: str) -> None:
    entry, published = SUITE.environments[name], read_eval_ids(LISTS.get(name, name))
    assert entry.episodes == len(published)
    tasks = LoadedEnvironment(name, EnvironmentConfig(data_dir(), {})).tasks
    size = tasks.splits().get(entry.split, 0)
    if not size:
        assert entry.needs
        pytest.skip(f"needs {entry.needs}")
    items = set(tasks.item_ids(entry.split, 0, size))
    assert items <= set(published)
    assert name == "bird" or items == set(published)
