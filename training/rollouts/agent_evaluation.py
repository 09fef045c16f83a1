"""AgentEval of a checkpoint while it is trained: held-out tasks, played through the orchestrator.

Owns the run's settings; the orchestrator plays it with the embedded engine, in this process and on
its device. Figures are each environment's own metric from 0 to 1. Knows no training.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.policies import PolicyConfig, PolicySpec, Sampling
from agent_runtime.scores import metric_value
from agentgym.env.v1 import environment_pb2 as pb
from orchestrator.command_line import run_loop
from orchestrator.config import RunConfig
from orchestrator.configuration import parse_names
from orchestrator.errors import RunFolderError
from orchestrator.run import run
from orchestrator.statistics import EnvironmentStatistics, summarise_run
from orchestrator.store import RunReader

__all__ = ["AgentEvalConfig", "evaluate_agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvalConfig:
    """Which tasks are played after a checkpoint."""

    env: str = ""
    """Environments, separated by commas; empty = those of `suite`."""
    suite: str = "games"
    split: str = "eval"
    episodes: int = 50
    """Tasks per environment; 0 = the whole split."""
    temperature: float = 0.0
    max_new_tokens: int = 256
    concurrency: int = 64
    embedded: EmbeddedOptions = field(default_factory=EmbeddedOptions)


def evaluate_agent(
    config: AgentEvalConfig, checkpoint: Path, folder: Path, console: Console
) -> dict[str, float]:
    """Play the tasks, resuming a run that was cut off; `agent_eval/ENV` and their mean -> figure.

    Raises OrchestratorError, AgentRuntimeError.
    """
    played = RunConfig(
        environments=parse_names(config.env),
        suite=config.suite,
        split=config.split,
        episodes=config.episodes,
        policies=(PolicySpec("embedded", str(checkpoint)),),
        concurrency=config.concurrency,
        agent=PolicyConfig(
            sampling=Sampling(temperature=config.temperature, max_new_tokens=config.max_new_tokens),
            embedded=config.embedded,
        ),
    )
    outcome = run_loop(run(played, folder, resume=_begun(folder), console=console))
    with RunReader.open(folder) as reader:
        statistics = summarise_run(reader.summaries())
    figures = {
        f"agent_eval/{it.environment}": value
        for it in statistics
        if (value := _value(it, outcome.described[it.environment])) is not None
    }
    if figures:
        figures["agent_eval/mean"] = sum(figures.values()) / len(figures)
    return figures


def _begun(folder: Path) -> bool:
    try:
        RunReader.open(folder).close()
    except RunFolderError:
        return False
    return True


def _value(it: EnvironmentStatistics, environment: pb.GetEnvironmentResponse) -> float | None:
    return metric_value(environment, mean_score=it.mean_score, success_rate=it.success_rate)
