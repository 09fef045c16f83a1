"""One SciWorld episode: reward is the score so far, 0 to 100, or -100 and the end after a failure.

Contains what AgentGym's server and client add to the simulator: the opening `look around`, the
limit of 100 moves, and the scores. The simulator's instances are the pool's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from env_servers.environments.sciworld import picture
from env_servers.environments.sciworld.expert import advise, random_advice
from env_servers.environments.sciworld.facts import BY_NAME, SIMPLIFICATIONS
from env_servers.environments.sciworld.prompt import CONVERSATION_STARTS, GRAMMAR
from env_servers.environments.sciworld.simulator import Assignment, Outcome
from env_servers.environments.sciworld.simulator_pool import Simulation
from env_servers.environments.sciworld.tasks import SciWorldTasks, load_tasks
from env_servers.environments.sciworld.vocabulary import (
    recorded_action,
    recorded_description,
    recorded_text,
)
from env_servers.sdk import (
    Advice,
    EnvironmentConfig,
    EnvironmentSpec,
    EpisodeEnvironment,
    Execution,
    InvalidOption,
    Metric,
    Observation,
    ResetOptions,
    StopReason,
    Task,
    View,
)

__all__ = ["SciWorld"]

OPENING: Final = "look around"
"""The first move of every episode is the server's."""
_OPTIONS: Final = ("simplifications", "as_recorded", "step_limit", "name_task")
_STEP_LIMIT: Final = 100
_MOST_STEPS: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Rules:
    """What a reset chose."""

    step_limit: int = _STEP_LIMIT
    as_recorded: bool = False
    """Speak the words in which AgentTraj-L was recorded."""
    name_task: bool = False
    """The first event's info says which variation of which task it is, and its score."""


@dataclass(slots=True)
class _Episode:
    """The state of one episode beside the simulator's."""

    simulation: Simulation
    rules: _Rules
    opening: str
    """The room of the first observation."""
    last: str
    """The latest observation, as the simulator told it."""


class SciWorld(EpisodeEnvironment[_Episode]):
    """Experiments in a simulated house."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="sciworld",
        version="1.0.0",
        description="Science experiments in a simulated house: measure, mix, grow, find, connect.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=30,
        metric=Metric.MEAN_SCORE,
        success_score=100.0,
        profiles=("agentgym",),
        has_views=True,
        execution=Execution.PROCESS,
        episode_bytes=1024 * 1024,
    )
    option_names = _OPTIONS
    tasks: SciWorldTasks

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> SciWorldTasks:
        return load_tasks(config)

    def start(self, task: Task, options: ResetOptions) -> tuple[_Episode, Observation]:
        assignment, rules = _chosen(task.payload, dict(options.options))
        simulation = self.tasks.pool.open(assignment)
        description, opening = simulation.description(), simulation.step(OPENING)
        first = opening.text
        episode = _Episode(simulation, rules, first, first)
        if rules.as_recorded:
            description, first = recorded_description(description), recorded_text(first)
        info = None
        if rules.name_task:
            loaded = simulation.assignment
            score = round(100 * opening.score)
            info = {"task": loaded.task, "variation": loaded.variation, "score": score}
        return episode, Observation(f"{description}\n{first}", info=info)

    def step(self, action: str) -> Observation:
        episode = self.episode
        if episode.rules.as_recorded:
            action = recorded_action(action)
        outcome = episode.simulation.step(action)
        episode.last = outcome.text
        return _observation(outcome, episode.rules)

    def fork_episode(self, episode: _Episode) -> _Episode:
        return replace(episode, simulation=episode.simulation.copy())

    def close_episode(self, episode: _Episode) -> None:
        episode.simulation.close()

    def render(self) -> Sequence[View]:
        return picture.draw(self.episode.simulation.survey())

    def advise_expert(self, seed: int) -> Advice:
        episode = self.episode
        path = self.tasks.pool.gold_path(episode.simulation.assignment)
        advice = advise(
            path,
            episode.simulation.journal[1:],
            opening=episode.opening,
            last=episode.last,
            look=episode.simulation.look,
            wording=seed,
        )
        return self._spoken(advice)

    def advise_random(self, rng: random.Random) -> Advice:
        return self._spoken(random_advice(self.episode.simulation.valid_actions(), rng))

    def advise_noop(self) -> Advice:
        return Advice("inventory", "I only look at what I carry.")

    def _spoken(self, advice: Advice) -> Advice:
        """Advice in the words of the episode."""
        if self.episode.rules.as_recorded:
            return Advice(recorded_text(advice.action), recorded_text(advice.thought))
        return advice


def _observation(outcome: Outcome, rules: _Rules) -> Observation:
    score = round(100 * outcome.score)
    failed = score < 0
    ended = failed or outcome.completed
    limited = not ended and outcome.moves > rules.step_limit
    reason = StopReason.NONE
    if ended:
        reason = StopReason.GOAL_REACHED if score >= 100 else StopReason.GOAL_FAILED
    elif limited:
        reason = StopReason.STEP_LIMIT
    return Observation(
        recorded_text(outcome.text) if rules.as_recorded else outcome.text,
        reward=float(score),
        terminated=ended,
        truncated=limited,
        stop_reason=reason,
    )


def _chosen(assignment: Assignment, options: dict[str, Any]) -> tuple[Assignment, _Rules]:
    """Return what is loaded and how it is played; raises InvalidOption."""
    as_recorded, name_task = options.get("as_recorded", False), options.get("name_task", False)
    for name, value in (("as_recorded", as_recorded), ("name_task", name_task)):
        if not isinstance(value, bool):
            raise InvalidOption(f"option {name} must be a bool")
    simplifications = options.get("simplifications", "easy" if as_recorded else "")
    _check_simplifications(assignment, simplifications)
    limit = options.get("step_limit", _STEP_LIMIT)
    if isinstance(limit, bool) or not isinstance(limit, int | float) or limit != limit // 1:
        raise InvalidOption("option step_limit must be a whole number")
    if not 1 <= limit <= _MOST_STEPS:
        raise InvalidOption("option step_limit is out of range", valid=f"1..{_MOST_STEPS}")
    selected = assignment._replace(simplifications=simplifications)
    return selected, _Rules(int(limit), as_recorded, name_task)


def _check_simplifications(assignment: Assignment, simplifications: object) -> None:
    if not isinstance(simplifications, str):
        raise InvalidOption("option simplifications must be a string", valid=SIMPLIFICATIONS)
    for name in simplifications.split(",") if simplifications else ():
        if name not in SIMPLIFICATIONS:
            raise InvalidOption(f"unknown simplification {name[:100]!r}", valid=SIMPLIFICATIONS)
        if name == "easy" and simplifications != "easy":
            raise InvalidOption("simplification easy stands alone")
        if name == "noElectricalAction" and BY_NAME[assignment.task].electrical:
            raise InvalidOption(f"task {assignment.task} cannot be solved without electrics")
