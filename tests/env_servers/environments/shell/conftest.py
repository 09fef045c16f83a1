"""What tests of the shell share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from env_servers.environments.shell import ShellEnvironment
from env_servers.environments.shell.sandbox import Sandbox
from env_servers.environments.shell.tasks import ShellTasks
from env_servers.sdk import EnvironmentConfig, EnvironmentUnavailable, ResetOptions


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    """The sandbox of this machine; without one the test is skipped, and says why."""
    sandbox = Sandbox()
    try:
        sandbox.require()
    except EnvironmentUnavailable as error:
        pytest.skip(str(error))
    return sandbox


@pytest.fixture(scope="module")
def tasks(sandbox: Sandbox) -> Iterator[ShellTasks]:
    tasks = ShellEnvironment.load_tasks(EnvironmentConfig())
    yield tasks
    tasks.close()


@pytest.fixture
def begin(tasks: ShellTasks) -> Callable[[str], ShellEnvironment]:
    """Opens an episode."""

    def start(item_id: str) -> ShellEnvironment:
        episode = ShellEnvironment(tasks)
        episode.reset(tasks.get(item_id), ResetOptions())
        return episode

    return start
