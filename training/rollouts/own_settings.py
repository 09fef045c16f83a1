"""What an agent is worth where nothing is made easier for it: the environments' own settings.

Plays tasks of a split under each environment's own prompts, options and rounds, beside the expert
and a random player, and leaves out every task whose content the agent learned from.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console

from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.policies import PolicyConfig, PolicySpec, Sampling
from orchestrator.command_line import run_loop
from orchestrator.config import RunConfig
from orchestrator.fleet import FleetConfig
from orchestrator.records import EpisodeSummary
from orchestrator.run import RunOutcome, run
from orchestrator.store import RunReader
from training.data.contents import record_content
from training.errors import TrainingError
from training.rollouts.jobs import EvalRun
from training.rollouts.results import Metric, measure

__all__ = ["EXPERT", "RANDOM", "JudgedAgent", "OwnSettings", "judge_in_own_settings"]

EXPERT: Final = "expert"
RANDOM: Final = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSettings:
    """What is played, and how; prompts, options and rounds are each environment's own."""

    environments: tuple[str, ...]
    split: str = "eval"
    episodes: int = 200
    """Tasks per environment at most, chosen by a hash of their ids: those of a suite that takes
    fewer are among them. 0 = all of the split."""
    max_new_tokens: int = 128
    """Longest reply, in tokens."""
    concurrency: int = 64
    embedded: EmbeddedOptions = field(default_factory=EmbeddedOptions)
    fleet: FleetConfig = field(default_factory=FleetConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAgent:
    """An agent's figures beside those of scripted players, on the same tasks."""

    metrics: Mapping[str, Metric]
    """Of the agent, by environment."""
    beside: Mapping[str, Mapping[str, Metric]]
    """Of expert and random, by player and environment."""
    left_out: Mapping[str, int]
    """Environment -> tasks of which the agent learned the content: they count for nobody."""

    def items(self, environment: str) -> tuple[str, ...]:
        """Return the ids of the tasks that count, sorted."""
        return tuple(dict.fromkeys(item for item, _ in self.metrics[environment].values))


def judge_in_own_settings(
    settings: OwnSettings,
    checkpoint: Path,
    folder: Path,
    learned: Mapping[str, AbstractSet[str]],
    *,
    console: Console,
) -> JudgedAgent:
    """Play an agent greedily, and expert and random beside it.

    Args:
        settings: What is played.
        checkpoint: The agent's folder.
        folder: Gets the run's folder.
        learned: Environment -> contents (`data.contents`) that the agent learned from.
        console: Gets progress.

    Raises:
        TrainingError: An episode was lost, or no task is left that the agent did not learn from.
        OrchestratorError: The tasks could not be played.
        AgentRuntimeError: The agent could not be started.
    """
    agent = PolicySpec("embedded", str(checkpoint))
    outcome = _play(settings, agent, folder, console)
    with RunReader.open(folder) as reader:
        met = _learned_items(reader, learned)
        summaries = [it for it in reader.summaries() if it.item_id not in met[it.environment]]

    def metrics(player: str) -> dict[str, Metric]:
        return {
            name: _metric(name, outcome, [it for it in summaries if it.policy == player])
            for name in settings.environments
        }

    judged = JudgedAgent(
        metrics=metrics(str(agent)),
        beside={name: metrics(name) for name in (EXPERT, RANDOM)},
        left_out={name: len(items) for name, items in met.items()},
    )
    for name, metric in judged.metrics.items():
        if not metric.values:
            raise TrainingError(
                f"{name}: the agent learned the content of all {len(met[name])} tasks of "
                f"{settings.split}",
                field="split",
            )
    return judged


def _play(settings: OwnSettings, agent: PolicySpec, folder: Path, console: Console) -> RunOutcome:
    config = RunConfig(
        environments=settings.environments,
        split=settings.split,
        episodes=settings.episodes,
        policies=(agent, PolicySpec(EXPERT), PolicySpec(RANDOM)),
        concurrency=settings.concurrency,
        fleet=settings.fleet,
        agent=PolicyConfig(
            sampling=Sampling(temperature=0, max_new_tokens=settings.max_new_tokens),
            embedded=settings.embedded,
        ),
    )
    outcome = run_loop(run(config, folder, resume=False, console=console))
    if outcome.interrupted:
        raise KeyboardInterrupt
    if not outcome.complete:
        raise TrainingError(
            f"{outcome.planned - outcome.finished} of {outcome.planned} episodes were lost: an "
            "agent is judged on all of its tasks or not at all"
        )
    return outcome


def _learned_items(
    reader: RunReader, learned: Mapping[str, AbstractSet[str]]
) -> dict[str, set[str]]:
    """Return the items of a run that begin in a state that was learned from, by environment."""
    met: dict[str, set[str]] = {name: set() for name in learned}
    for episode in reader.episodes(lambda summary: summary.policy == RANDOM):
        if record_content(episode) in learned[episode.environment]:
            met[episode.environment].add(episode.item_id)
    return met


def _metric(name: str, outcome: RunOutcome, summaries: list[EpisodeSummary]) -> Metric:
    run_of_it = EvalRun.of(outcome.folder, outcome.described[name])
    return measure(run_of_it, (it for it in summaries if it.environment == name))
