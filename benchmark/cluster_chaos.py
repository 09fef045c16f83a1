"""`python -m benchmark.cluster_chaos`: does a run on a cluster survive all that can die in one?

Plays the same run twice through the command that users type: in one process, then on raylets of
this machine, each of which stands for a node. There workers, servers, a whole raylet and the driver
are killed with SIGKILL; the run is resumed, and a new node joins where one died. Then every
episode's transcript is compared: observations, rewards and state hashes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import tyro
from rich.console import Console

from agent_runtime.conversation import Message
from agent_runtime.policies.base import Completion, EpisodeContext, Policy, PolicySession
from agent_runtime.policies.config import PolicyConfig
from agent_runtime.policies.scripted import ScriptedPolicy
from benchmark.chaos import compare
from benchmark.manifest import read_manifest, write_result
from benchmark.scale.real_runs import raylets
from orchestrator.run_folder import shard_names

__all__ = ["ClusterChaos", "main", "player"]

RESULT = Path(__file__).parent / "results" / "cluster_chaos.json"
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChaos:
    """Play a run in one process, and on a cluster where everything dies; compare transcripts."""

    env: str = "maze,wordle,textcraft,babyai,echo"
    """Environments."""
    episodes: int = 400
    """Tasks per environment."""
    samples: int = 3
    """Episodes per task."""
    concurrency: int = 2000
    """Live episodes."""
    nodes: int = 4
    """Raylets, each with a worker and a server."""
    reply_seconds: float = 1.0
    """How long the random player takes for a reply."""
    kill_every: float = 5.0
    """Seconds between two kills, from when every worker is there."""
    kills: tuple[str, ...] = ("worker", "server", "node", "driver", "worker", "server", "driver")
    """What is killed, one after the other."""
    lease: float = 10.0
    """`--ray-lease`."""
    limit: float = 900.0
    """Seconds after which the run on the cluster counts as stuck."""
    seed: int = 1
    """Of who of several is killed."""
    out: str = str(RESULT)
    """File for the result; - = standard output."""


def player(target: str, config: PolicyConfig) -> Policy:
    """Return the random player whose replies take `target` seconds, as a model server's do."""
    return _SlowPlayer(float(target))


class _SlowPlayer(ScriptedPolicy):
    def __init__(self, seconds: float) -> None:
        super().__init__("random")
        self._seconds = seconds

    def open(self, context: EpisodeContext) -> PolicySession:
        return _SlowSession(super().open(context), self._seconds)


class _SlowSession(PolicySession):
    def __init__(self, fast: PolicySession, seconds: float) -> None:
        self._fast = fast
        self._seconds = seconds

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        """Give the random player's reply after a while."""
        await asyncio.sleep(self._seconds)
        return await self._fast.reply(messages, turn=turn, seed=seed)


class ClusterRun:
    """A run on a cluster, whose parts are killed while it plays."""

    def __init__(self, config: ClusterChaos, cluster: Any, folder: Path) -> None:
        self._config = config
        self._cluster = cluster
        self._folder = folder
        self._rng = random.Random(config.seed)
        self.killed: list[str] = []

    async def play(self) -> None:
        """Play to the end; raises RuntimeError where the command fails by itself."""
        left = list(self._config.kills)
        while True:
            process = await asyncio.create_subprocess_exec(*self._command())
            killing = asyncio.create_task(self._kill(left, process))
            status = await process.wait()
            killing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await killing
            if status == 0:
                return
            if status != -signal.SIGKILL:
                raise RuntimeError(f"the run on the cluster ended with status {status}")

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "orchestrator.sample"]
        if Path(self._folder, "manifest.json").exists():
            return [*command, "--resume", str(self._folder)]
        cluster = ("--ray", self._cluster.address, "--ray-lease", f"{self._config.lease}")
        per_node = ("--ray-workers", "1", "--ray-servers", "1")
        return [*command, *run_arguments(self._config, self._folder), *cluster, *per_node]

    async def _kill(self, left: list[str], driver: asyncio.subprocess.Process) -> None:
        before = self._shards()
        while self._shards() < before + self._config.nodes:
            await asyncio.sleep(_LOOK_SECONDS)
        while left:
            await asyncio.sleep(self._config.kill_every)
            victim = left.pop(0)
            self.killed.append(victim)
            match victim:
                case "driver":
                    driver.kill()
                    return
                case "node":
                    node = self._rng.choice(list(self._cluster.worker_nodes))
                    self._cluster.remove_node(node, allow_graceful=False)
                    self._cluster.add_node(num_cpus=2)
                case _:
                    os.kill(self._rng.choice(self._pids(victim)), signal.SIGKILL)

    def _shards(self) -> int:
        return len(shard_names(self._folder))

    def _pids(self, victim: str) -> list[int]:
        piece = {"worker": "ray::WorkerProcess", "server": "env_servers serve"}[victim]
        found: list[int] = []
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if piece in " ".join(process.cmdline()):
                    found.append(process.pid)
        return found


def run_arguments(config: ClusterChaos, folder: Path) -> list[str]:
    """Return what `orchestrator.sample` is told, wherever it plays."""
    policy = f"benchmark.cluster_chaos:player:{config.reply_seconds}"
    return [
        *("--env", config.env, "--policy", policy, "--split", "train", "--out", str(folder)),
        *("--episodes", f"{config.episodes}", "--samples", f"{config.samples}"),
        *("--concurrency", f"{config.concurrency}"),
    ]


async def play_calmly(config: ClusterChaos, folder: Path) -> None:
    """Play the run in one process; raises RuntimeError where it fails."""
    arguments = (*run_arguments(config, folder), "--spawn", "1")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "orchestrator.sample", *arguments
    )
    if status := await process.wait():
        raise RuntimeError(f"the calm run ended with status {status}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns 0 when nothing was lost, doubled or changed."""
    config = tyro.cli(ClusterChaos, prog="python -m benchmark.cluster_chaos", args=argv)
    with tempfile.TemporaryDirectory(prefix="agentgym-chaos-") as name:
        calm, chaotic = Path(name, "calm"), Path(name, "chaotic")
        started = time.monotonic()
        asyncio.run(play_calmly(config, calm))
        calm_seconds = time.monotonic() - started
        with raylets(config.nodes) as cluster:
            run = ClusterRun(config, cluster, chaotic)
            started = time.monotonic()
            asyncio.run(asyncio.wait_for(run.play(), config.limit))
        chaotic_seconds = time.monotonic() - started
        verdict = compare(calm, chaotic)
    result = {
        "manifest": read_manifest().as_json(),
        "config": {name: it for name, it in asdict(config).items() if name != "out"},
        "calm_seconds": round(calm_seconds, 1),
        "chaotic_seconds": round(chaotic_seconds, 1),
        "killed": run.killed,
        "verdict": {**asdict(verdict), "passed": verdict.passed},
    }
    Console().print_json(data=result["verdict"] | {"killed": run.killed})
    write_result(config.out, result)
    return 0 if verdict.passed else 1


if __name__ == "__main__":
    sys.exit(main())
