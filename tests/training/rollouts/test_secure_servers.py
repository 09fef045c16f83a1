"""Training lists and plays tasks on servers with TLS, client certificates and a token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from agent_runtime.errors import AgentRuntimeError
from orchestrator.errors import OrchestratorError
from orchestrator.store import RunReader
from tests.kit.secure_server import TOKEN, serve_secure_echo, write_certificates
from training.config.recipe import build
from training.rollouts.jobs import RolloutConfig, RolloutJob, RolloutPolicy, list_tasks, play
from training.rollouts.on_policy import Rollouts
from training.rollouts.tasks import EnvironmentTasks

ECHO = EnvironmentTasks(name="echo", train="eval", evaluation="eval")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def rollout(certificates: Path, tmp_path: Path) -> Iterator[RolloutConfig]:
    with serve_secure_echo(certificates, tmp_path) as address:
        client = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}
        values = {
            "fleet": {"servers": [address]},
            "client": {
                "connect_deadline": 5.0,
                **{name: str(certificates / file) for name, file in client.items()},
            },
        }
        yield build(RolloutConfig, values)


def test_tasks_are_listed_and_played(
    rollout: RolloutConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTGYM_TOKEN", TOKEN)
    ids, _ = list_tasks(rollout, [ECHO])["echo"]
    job = RolloutJob(ECHO, ids[:2], tmp_path / "run")
    (run,) = play(rollout, RolloutPolicy(policy="expert"), [job], console=Console(quiet=True))
    with RunReader.open(run.folder) as reader:
        assert len(reader.finished_keys()) == 2


async def test_rollouts_of_a_learning_policy_reach_the_server(
    rollout: RolloutConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTGYM_TOKEN", TOKEN)
    async with Rollouts(rollout, [ECHO], tmp_path, temperature=1.0, seed=0) as rollouts:
        assert rollouts.fleet.described["echo"].name == "echo"


def test_a_wrong_token_is_refused(rollout: RolloutConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_TOKEN", "wrong")
    with pytest.raises((AgentRuntimeError, OrchestratorError), match="token"):
        list_tasks(rollout, [ECHO])
