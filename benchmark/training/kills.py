"""Does GRPO without a barrier bear kill -9, of every process, at any moment?

    python -m benchmark.training.kills

A tiny model learns on echo beside a fake engine, while the training's process (which plays, and
learns), the model server and the environment server are killed at random moments. Then the folder
is read: nothing may have been learned from twice, versions may never have gone back, what was
finished must have been used, and learning once more, in one go, what the ledger says must make the
very weights that the run made.

Owns the kills and the judgement; prints one table and writes JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
import tyro
from rich.console import Console
from rich.table import Table

from agent_runtime.serving.machine import free_port
from benchmark.manifest import read_manifest
from benchmark.training.asynchronous import TEXTS
from orchestrator.command_line import run_loop
from orchestrator.store import RunReader
from orchestrator.training_folder import iterate_log
from training.data.tokenizer_training import TokenizerConfig, train_tokenizer
from training.data.trajectories import WeightVersions
from training.rollouts.groups import TakenGroups
from training.trainer.models import InitConfig, create_base

__all__ = ["Kills", "Verdict", "main", "measure"]

RESULT: Final = Path(__file__).parent.parent / "results" / "training" / "kills.json"
_VICTIMS: Final = ("training", "model server", "environment server")
_SAMPLES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Kills:
    """Train, kill, resume; then look at what was learned."""

    kills: int = 10
    """Of each of the three processes."""
    steps: int = 200
    """Of the training; it must outlast the kills."""
    most_seconds: float = 12.0
    """A kill comes at a random moment within this time after the one before."""
    step_ms: float = 20.0
    """Time of a token of the fake engine."""
    limit: float = 1800.0
    """Seconds after which the run counts as stuck."""
    seed: int = 1
    """Of the moments and the victims."""
    folder: Path | None = None
    """Keeps what this writes, logs included; None = a temporary one."""
    out: Path | None = RESULT
    """Where the result is written; None = nowhere."""


@dataclass(slots=True)
class Verdict:
    """What came out of it."""

    killed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_VICTIMS, 0))
    sessions: int = 0
    """Starts of the training."""
    ended: int = 0
    """Of these, such as ended by themselves, because a server was killed when they began."""
    steps: int = 0
    episodes: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list[str])
    """What must not be, as sentences; empty = it passed."""


@dataclass(slots=True)
class _Processes:
    """The training and the model server, started again whenever they end."""

    folder: Path
    options: Kills
    port: int
    training: asyncio.subprocess.Process | None = None
    engine: asyncio.subprocess.Process | None = None
    sessions: int = 0
    ended: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def keep_engine(self) -> None:
        """Run model servers, one after the other, until cancelled."""
        command = [sys.executable, "-m", "benchmark.training.spread_engine"]
        command += ["--model", str(self.folder / "model"), "--port", str(self.port)]
        command += ["--step-ms", str(self.options.step_ms), "--silent-share", "0.5"]
        while True:
            self.engine = await asyncio.create_subprocess_exec(*command)
            try:
                await self.engine.wait()
            finally:
                with contextlib.suppress(ProcessLookupError):
                    self.engine.kill()

    async def train(self, recipe: Path) -> None:
        """Train to the end, whatever ends the process in between."""
        command = [sys.executable, "-m", "training.grpo", str(recipe), "--resume"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with Path(self.folder, "training.log").open("ab") as log:
            while True:
                self.sessions += 1
                self.training = await asyncio.create_subprocess_exec(
                    *command, stdout=log, stderr=log, env=environment
                )
                try:
                    status = await self.training.wait()
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        self.training.kill()
                if status == 0:
                    return
                self.ended += status > 0
                # Each kill of a server may meet a training that is just beginning.
                if self.ended > len(_VICTIMS) * self.options.kills:
                    tail = Path(log.name).read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"the training ended with {status}: {tail}")

    def kill(self, victim: str) -> bool:
        """Kill a process; False = there is none now."""
        process = self.engine if victim == "model server" else self.training
        if process is None or process.returncode is not None:
            return False
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if victim != "environment server":
                process.kill()
                return True
            for child in psutil.Process(process.pid).children():
                if "env_servers" in child.cmdline():
                    child.kill()
                    return True
        return False


async def measure(options: Kills, folder: Path) -> Verdict:
    """Train through all kills, then judge; `folder` is for everything that this writes."""
    train_tokenizer(TEXTS, folder / "tokenizer", TokenizerConfig(vocab_size=300))
    init = InitConfig(hidden_size=32, layers=2, heads=2, context=512)
    create_base(init, folder / "tokenizer", folder / "model", seed=1)
    processes = _Processes(folder, options, free_port("127.0.0.1"))
    verdict, began = Verdict(), time.monotonic()
    async with _kept(processes), asyncio.timeout(options.limit):
        training = asyncio.create_task(processes.train(_recipe(processes, "run")))
        killing = asyncio.create_task(_kill(processes, verdict))
        done, _ = await asyncio.wait([training, killing], return_when=asyncio.FIRST_COMPLETED)
        if training in done:
            killing.cancel()
            verdict.problems.append("it ended before all processes were killed: raise --steps")
        await training
        verdict.sessions, verdict.ended = processes.sessions, processes.ended
        verdict.seconds = time.monotonic() - began
        _judge(folder / "run", options, verdict)
        await _learn_again(processes, verdict)
    return verdict


@asynccontextmanager
async def _kept(processes: _Processes) -> AsyncGenerator[None]:
    """Keep a model server running, and leave no process behind."""
    keeping = asyncio.create_task(processes.keep_engine())
    try:
        yield
    finally:
        keeping.cancel()
        for process in (processes.training, processes.engine):
            if process is not None and process.returncode is None:
                process.kill()
                await process.wait()


def _recipe(processes: _Processes, name: str) -> Path:
    """Write the recipe of a run in a folder of this name."""
    path = processes.folder / f"{name}.toml"
    path.write_text(
        f"""
out = "{processes.folder / name}"
asynchronous = true
max_off_policy_steps = 2
steps = {processes.options.steps}
tasks = 2
group = {_SAMPLES}
save_every = 7
evaluate = false
device = "cpu"
model = {{ path = "{processes.folder / "model"}", precision = "float32" }}
clip = {{ importance_cap = 2.0 }}
optimizer = {{ lr = 1e-3, schedule = "constant", warmup = 0.0 }}
tracking = {{ tensorboard = false, print_every = 0 }}

[rollout]
engine = "sglang"
url = "{processes.url}"
max_new_tokens = 64
concurrency = 12
fleet = {{ spawn = 1 }}

[[environments]]
name = "echo"
explore = 64
evaluate = 8
conversation_start = ["say", "yes"]
options = {{ observation_bytes = 90, length = 3 }}
"""
    )
    return path


async def _kill(processes: _Processes, verdict: Verdict) -> None:
    """Kill every process so often as was asked for, in a drawn order at drawn moments."""
    options = processes.options
    rng = random.Random(options.seed)
    victims = [victim for victim in _VICTIMS for _ in range(options.kills)]
    rng.shuffle(victims)
    for victim in victims:
        await asyncio.sleep(rng.uniform(0, options.most_seconds))
        while not processes.kill(victim):
            await asyncio.sleep(0.05)
        verdict.killed[victim] += 1


def _judge(run: Path, options: Kills, verdict: Verdict) -> None:
    """Add what is wrong with a finished run."""
    ledger = TakenGroups(run / "rollouts" / "taken.jsonl")
    verdict.steps = len(ledger.steps)
    numbers = [number for step in ledger.steps for number in step]
    if verdict.steps != options.steps:
        verdict.problems.append(f"{verdict.steps} steps were learned, not {options.steps}")
    if len(set(numbers)) != len(numbers):
        verdict.problems.append("a group was learned from twice")
    if ledger.dropped & set(numbers):
        verdict.problems.append("a group was learned from that had been dropped")
    steps = [row["step"] for row in iterate_log(run / "log.jsonl")]
    if steps != list(range(1, options.steps + 1)):
        verdict.problems.append("the log does not have every step once")
    versions = _pushed(run)
    if versions != sorted(versions):
        verdict.problems.append("versions went back")
    with RunReader.open(run / "rollouts" / "stream") as reader:
        verdict.problems += reader.verify()
        finished = reader.finished_keys()
    verdict.episodes = len(finished)
    unused = verdict.episodes - _SAMPLES * (len(numbers) + len(ledger.dropped))
    if unused > 0:
        verdict.problems.append(f"{unused} finished episodes were never used")


def _pushed(run: Path) -> list[int]:
    """Return the steps of the weights that the engine got, in their order."""
    names = WeightVersions(json.loads((run / "recipe.json").read_text())["run_id"])
    pushed = [
        names.step(row["version"])
        for row in iterate_log(run / "logs" / "train.jsonl")
        if row.get("event") == "weights updated"
    ]
    return [step for step in pushed if step is not None]


async def _learn_again(processes: _Processes, verdict: Verdict) -> None:
    """Learn what the ledger says in one go, from the first weights, and compare."""
    run, again = processes.folder / "run", processes.folder / "again"
    shutil.copytree(run, again)
    for name in ("states", "final", "weights"):
        shutil.rmtree(again / name, ignore_errors=True)
    state = json.loads((again / "state.json").read_text())
    del state["finished"]["learn"]
    (again / "state.json").write_text(json.dumps(state))
    recorded = json.loads((again / "recipe.json").read_text())
    recorded["recipe"]["out"] = str(again)
    (again / "recipe.json").write_text(json.dumps(recorded))
    await processes.train(_recipe(processes, "again"))
    first, second = (it / "final" / "model.safetensors" for it in (run, again))
    if first.read_bytes() != second.read_bytes():
        verdict.problems.append("learning the same groups in one go makes other weights")


def main() -> int:
    """Measure, print, write; 1 where something is wrong."""
    options = tyro.cli(Kills, prog="python -m benchmark.training.kills")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        verdict = run_loop(measure(options, folder))
    table = Table("", "", title="GRPO without a barrier, killed")
    for name, value in asdict(verdict).items():
        table.add_row(name, str(value))
    Console().print(table)
    if options.out is not None:
        plain: dict[str, Any] = {
            "options": {
                name: it for name, it in asdict(options).items() if name not in ("out", "folder")
            },
            "verdict": asdict(verdict),
            "manifest": asdict(read_manifest()),
        }
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(plain, indent=2) + "\n")
    return 1 if verdict.problems else 0


if __name__ == "__main__":
    sys.exit(main())
