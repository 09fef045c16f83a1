"""What an idle episode costs a server, beside the state of its environment.

A server holds many echo episodes that were reset and wait; the same environments are held by a
plain process without any server. The difference per episode is the runtime's own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from agent_runtime.connection import Connection
from benchmark.drive import Target
from benchmark.system import SystemClient
from orchestrator.command_line import run_loop

__all__ = ["IdleMemory", "measure_idle_memory"]

_PLAIN = """
import json, psutil
from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import EnvironmentConfig, ResetOptions
tasks = EchoEnvironment.load_tasks(EnvironmentConfig())
task = tasks.get("echo_1000000")
def rss(): return psutil.Process().memory_info().rss
kept = [EchoEnvironment(tasks)]
kept[0].reset(task, ResetOptions(options={"length": 0}))
before = rss()
for seed in range({count}):
    kept.append(EchoEnvironment(tasks))
    kept[-1].reset(task, ResetOptions(seed=seed, options={"length": 0}))
print(json.dumps(rss() - before))
"""


@dataclass(frozen=True, slots=True)
class IdleMemory:
    """Bytes per idle episode."""

    episodes: int
    server_bytes: float
    environment_bytes: float

    @property
    def runtime_bytes(self) -> float:
        """What the runtime adds to the environment's own state."""
        return self.server_bytes - self.environment_bytes


def measure_idle_memory(episodes: int = 10_000) -> IdleMemory:
    """Measure with that many idle echo episodes."""
    code = _PLAIN.replace("{count}", str(episodes))
    plain = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    with TemporaryDirectory() as folder:
        grown = run_loop(_server_growth(episodes, Path(folder)))
    return IdleMemory(episodes, grown / episodes, json.loads(plain.stdout) / episodes)


async def _server_growth(episodes: int, folder: Path) -> int:
    """Bytes by which a server grows with the episodes; a first thousand warms it up."""
    address_file = folder / "address"
    command = [sys.executable, "-m", "env_servers", "serve", "echo", "--bind", "127.0.0.1:0"]
    command += ["--address-file", str(address_file), "--log-level", "error", "--drain", "0"]
    process = await asyncio.create_subprocess_exec(*command)
    try:
        while not address_file.exists():
            await asyncio.sleep(0.02)
        address = address_file.read_text().strip()
        server = psutil.Process(process.pid)
        async with Connection(address) as connection:
            await connection.get_environment("echo")
            clients = [_client(address) for _ in range(2)]
            await clients[0].open(1_000, "warm")
            before = server.memory_info().rss
            await clients[1].open(episodes, "idle")
            after = server.memory_info().rss
            for client in clients:
                await client.close()
        return after - before
    finally:
        process.terminate()
        await process.wait()


def _client(address: str) -> SystemClient:
    return SystemClient(Target(address, "echo", 30.0))
