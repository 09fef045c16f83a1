"""AgentEval of a checkpoint while it is trained: held-out tasks, played through the orchestrator.

The embedded engine plays, in this process and on its device. Metrics are each environment's own,
from 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.logs import get_logger
from agent_runtime.policies import PolicyConfig, PolicySpec, Sampling
from agent_runtime.scores import metric_value
from orchestrator.client import ClientConfig
from orchestrator.command_line import run_loop
from orchestrator.config import RunConfig
from orchestrator.errors import RunFolderError
from orchestrator.fleet import FleetConfig
from orchestrator.run import run
from orchestrator.statistics import summarise_run
from orchestrator.store import RunReader

__all__ = ["AgentEvalConfig", "evaluate_agent"]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvalConfig:
    """Which tasks are played after a checkpoint."""

    environments: tuple[str, ...] = ()
    """Empty = those of `suite`."""
    suite: str = "games"
    split: str = "eval"
    episodes: int = 50
    """Tasks per environment; 0 = the whole split."""
    temperature: float = 0.0
    max_new_tokens: int = 256
    concurrency: int = 64
    embedded: EmbeddedOptions = field(default_factory=EmbeddedOptions)
    fleet: FleetConfig = field(default_factory=FleetConfig)
    """Where the environments are served; default: on this machine."""
    client: ClientConfig = field(default_factory=ClientConfig)
    """How to reach them."""


def evaluate_agent(
    config: AgentEvalConfig, checkpoint: Path, folder: Path, console: Console
) -> dict[str, float]:
    """Play the tasks, going on where an earlier process was cut off.

    Args:
        config: Which tasks, and how.
        checkpoint: The Hugging Face folder to evaluate.
        folder: The run's folder.
        console: Gets progress.

    Returns:
        `agent_eval/ENVIRONMENT` and `agent_eval/mean` -> metric; episodes without a result count
        as failures.

    Raises:
        OrchestratorError: The tasks could not be played.
        AgentRuntimeError: The checkpoint could not be loaded.
    """
    run_config = RunConfig(
        environments=config.environments,
        suite="" if config.environments else config.suite,
        split=config.split,
        episodes=config.episodes,
        policies=(PolicySpec("embedded", str(checkpoint)),),
        concurrency=config.concurrency,
        fleet=config.fleet,
        client=config.client,
        agent=PolicyConfig(
            sampling=Sampling(temperature=config.temperature, max_new_tokens=config.max_new_tokens),
            embedded=config.embedded,
        ),
    )
    outcome = run_loop(run(run_config, folder, resume=_is_begun(folder), console=console))
    with RunReader.open(folder) as reader:
        # One figure is needed to compare checkpoints, and leaving out what failed would flatter.
        statistics = summarise_run(reader.summaries(), plan=reader.plan(), missing="fail")
    metrics: dict[str, float] = {}
    for environment in statistics:
        value = metric_value(
            outcome.described[environment.environment],
            mean_score=environment.mean_score,
            success_rate=environment.success_rate,
        )
        if value is not None:
            metrics[f"agent_eval/{environment.environment}"] = value
    if metrics:
        metrics["agent_eval/mean"] = sum(metrics.values()) / len(metrics)
    log.info("checkpoint evaluated", checkpoint=str(checkpoint), **metrics)
    return metrics


def _is_begun(folder: Path) -> bool:
    try:
        RunReader.open(folder).close()
    except RunFolderError:
        return False
    return True
