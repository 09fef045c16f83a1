"""One BIRD episode: a question about a database, answered by a SQL statement.

Contains the episode's life: what is shown, and what a statement earns. The reward is 1 for a
statement whose set of rows is the gold statement's, else 0. In one round, the first statement is
the answer; in several (`multi_turn`), what is submitted. Databases are shared by all episodes of a
process.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from env_servers.environments.bird import picture
from env_servers.environments.bird.database import Outcome, step_deadline
from env_servers.environments.bird.expert import answer, explore, random_advice
from env_servers.environments.bird.prompt import (
    CONVERSATION_STARTS,
    DESCRIBE,
    GRAMMAR,
    ROUNDS_RULES,
    SUBMIT,
)
from env_servers.environments.bird.puzzle import Puzzle
from env_servers.environments.bird.result import as_table, described, shortened
from env_servers.environments.bird.tasks import BirdTasks, load_tasks
from env_servers.sdk import (
    Advice,
    EnvironmentConfig,
    EnvironmentSpec,
    EnvironmentUnavailable,
    EpisodeEnvironment,
    Execution,
    InvalidOption,
    Observation,
    ResetOptions,
    StopReason,
    Task,
    View,
)

__all__ = ["Bird"]

_OPTIONS: Final = ("rounds",)
_ROUNDS: Final = 10
_MOST_ROUNDS: Final = 100
_LONGEST_ACTION: Final = 1 << 20
"""Characters of an action that are looked at for a command."""


@dataclass(frozen=True, slots=True)
class _Episode:
    """The state of one episode."""

    puzzle: Puzzle
    profile: str
    rounds: int
    """Statements and look-ups that are allowed; 1 = the first one is the answer."""
    used: int = 0
    described: tuple[str, ...] = ()
    """Tables that were looked at."""
    tried: str = ""
    """The last statement that gave a result."""
    results: tuple[picture.Result, ...] = field(default=(), repr=False)
    """For the picture; state hashes are made of `repr`, and what is shown decides nothing."""


class Bird(EpisodeEnvironment[_Episode]):
    """Answer a question about a database with SQL."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="bird",
        version="1.0.0",
        description="Answer questions about SQLite databases with SQL statements.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=_ROUNDS,
        has_views=True,
        profiles=("agentgym", "fixed", "multi_turn"),
        execution=Execution.THREAD,
        episode_bytes=48 * 1024,
        item_prefixes=("sqlgym", "minidev", "spider", "spidertrain"),
    )
    option_names = _OPTIONS
    tasks: BirdTasks

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> BirdTasks:
        return load_tasks(config)

    def start(self, task: Task, options: ResetOptions) -> tuple[_Episode, Observation]:
        puzzle: Puzzle = task.payload
        rounds = 1
        if options.profile == "multi_turn":
            rounds = _given_rounds(options.options.get("rounds", _ROUNDS))
        elif "rounds" in options.options:
            raise InvalidOption("option rounds needs the profile multi_turn")
        # Embedded databases are made now and not in the first step.
        puzzle.base.database.path()
        episode = _Episode(puzzle, options.profile, rounds)
        return episode, Observation(_introduction(episode))

    def step(self, action: str) -> Observation:
        episode = self.episode
        if episode.profile == "multi_turn":
            return self._take_round(episode, action)
        deadline = step_deadline()
        outcome = episode.puzzle.base.database.ask(action, deadline)
        return self._score(action, shortened(outcome), outcome, deadline)

    def fork_episode(self, episode: _Episode) -> _Episode:
        return episode

    def fingerprint(self) -> bytes:
        return repr(self.episode).encode("utf-8", "backslashreplace")

    def render(self) -> Sequence[View]:
        return picture.draw(self.episode.puzzle, self.episode.results)

    def advise_expert(self, seed: int) -> Advice:
        episode = self.episode
        if episode.profile != "multi_turn":
            return answer(episode.puzzle, seed)
        left = episode.rounds - episode.used
        return explore(episode.puzzle, episode.described, episode.tried, left, seed)

    def advise_random(self, rng: random.Random) -> Advice:
        episode = self.episode
        return random_advice(episode.puzzle, rng, rounds=episode.profile == "multi_turn")

    def advise_noop(self) -> Advice:
        return Advice("-", "I give no answer.")

    def _take_round(self, episode: _Episode, action: str) -> Observation:
        """Return a look-up, a statement, or the answer."""
        text = action[:_LONGEST_ACTION].rpartition("Action:")[2].strip()
        verb, _, rest = text.partition(" ") if " " in text[:20] else (text, "", "")
        database = episode.puzzle.base.database
        if verb.lower() == SUBMIT:
            deadline = step_deadline()
            statement = rest.strip() or episode.tried
            outcome = database.ask(statement, deadline)
            return self._score(statement, as_table(outcome), outcome, deadline)
        used = episode.used + 1
        if verb.lower() == DESCRIBE:
            table = rest.strip().strip('"`;')
            shown = described(episode.puzzle.base, table)
            seen = (*episode.described, table)
            if shown is not None and table not in episode.described:
                episode = replace(episode, described=seen)
            shown = shown or _no_table(episode.puzzle, table)
        else:
            outcome = database.ask(text)
            shown = as_table(outcome)
            episode = replace(episode, results=(picture.keep("Last statement", text, outcome),))
            if outcome.error is None and outcome.columns:
                episode = replace(episode, tried=text)
        self.episode = replace(episode, used=used)
        left = episode.rounds - used
        note = f"Rounds left: {left}" if left > 0 else "No round is left: nothing was handed in."
        return Observation(
            f"{shown}\n\n{note}",
            reward=0.0,
            truncated=left <= 0,
            stop_reason=StopReason.NONE if left > 0 else StopReason.STEP_LIMIT,
        )

    def _score(self, statement: str, text: str, outcome: Outcome, deadline: float) -> Observation:
        """End the episode: 1 where the rows are the gold statement's, else 0."""
        episode = self.episode
        gold = episode.puzzle.base.database.ask(episode.puzzle.sql, deadline)
        if gold.by_chance:
            # This machine's failure, and not an answer's: it must not become a reward.
            raise EnvironmentUnavailable(f"the gold statement could not be run: {gold.error}")
        results = (
            picture.keep("Answer", statement, outcome),
            picture.keep(picture.GOLD, episode.puzzle.sql, gold),
        )
        self.episode = replace(episode, results=results)
        right = outcome.matches(gold)
        if episode.profile != "agentgym" and not outcome.columns:
            # What is no query has no rows, which the original takes for an empty result.
            right = False
        return Observation(
            text,
            reward=float(right),
            terminated=True,
            stop_reason=StopReason.GOAL_REACHED if right else StopReason.ANSWERED,
        )


def _introduction(episode: _Episode) -> str:
    """Return the first observation."""
    puzzle = episode.puzzle
    hint = f"\nHint: {puzzle.evidence}" if puzzle.evidence else ""
    if episode.profile == "agentgym":
        if puzzle.prompt is not None:
            return puzzle.prompt
        return f"{puzzle.base.sentences}\n\n{puzzle.question}{hint if puzzle.hinted else ''}"
    name = puzzle.base.database.name
    if episode.profile == "fixed":
        return f"Database {name}:\n{puzzle.base.lines}\n\n{puzzle.question}{hint}"
    tables = ", ".join(puzzle.base.declared.tables)
    rules = ROUNDS_RULES.format(rounds=episode.rounds)
    return f"Database {name} with the tables {tables}\n\n{puzzle.question}{hint}\n\n{rules}"


def _no_table(puzzle: Puzzle, table: str) -> str:
    tables = ", ".join(puzzle.base.declared.tables)
    return f"no such table: {table[:100]}. The tables are {tables}"


def _given_rounds(value: Any) -> int:
    """Return the option `rounds`."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 1 <= value <= _MOST_ROUNDS or value != int(value):
        raise InvalidOption("option rounds", valid=f"a whole number from 1 to {_MOST_ROUNDS}")
    return int(value)
