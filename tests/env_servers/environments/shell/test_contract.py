"""The shell keeps the contract of all environments."""

from __future__ import annotations

import pytest

from env_servers.environments.shell.tasks import JUDGED_BASE
from env_servers.sdk import EnvironmentConfig
from env_servers.sdk.contract import EnvironmentContract, Terms


@pytest.mark.slow
class TestShell(EnvironmentContract):
    environment_name = "shell"
    terms = Terms(items_per_split=1, expert_items_per_split=3, steps=6)


@pytest.mark.slow
class TestShellWithJudge(EnvironmentContract):
    environment_name = "shell"
    config = EnvironmentConfig(settings={"judge.model": "scripted"})
    terms = Terms(items=(f"shell_{JUDGED_BASE}",), steps=4)
