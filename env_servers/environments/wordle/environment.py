"""The game of Wordle: six guesses at one hidden word.

Contains what has been guessed and what was answered, under each profile. `turns` holds the valid
guesses in order, and their feedback is what `rules` gives for the words that were compared.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from env_servers.environments.wordle import expert, picture
from env_servers.environments.wordle.prompt import CONVERSATION_STARTS, GRAMMAR, instructions
from env_servers.environments.wordle.rules import (
    ATTEMPTS,
    SOLVED,
    Knowledge,
    Turn,
    absorb,
    counted_feedback,
    fits,
    rendered_feedback,
    simple_feedback,
    spaced,
)
from env_servers.environments.wordle.tasks import OFFICIAL_PREFIX, Puzzle, WordleTasks
from env_servers.environments.wordle.words import Vocabulary
from env_servers.sdk import (
    Advice,
    EnvironmentConfig,
    EnvironmentSpec,
    EpisodeEnvironment,
    InvalidOption,
    Observation,
    ResetOptions,
    StopReason,
    Task,
    View,
)

__all__ = ["MOST_MISSES", "WordleEnvironment"]

INVALID_WORD: Final = "invalid word"
MOST_MISSES: Final = 12
"""Invalid guesses that profile `fixed` allows, where they cost no attempt."""

_OPTIONS: Final = ("hidden_word", "vocabulary", "instructions")
_NOT_LETTERS: Final = re.compile(r"[^a-z]+")
_LONGEST_READ: Final = 200
"""Characters of an action that the tolerant reader looks at."""


@dataclass(slots=True)
class _Episode:
    """The state of one game. What it refers to is never changed in place, but for `drawing`."""

    puzzle: Puzzle
    fixed: bool
    drawing: random.Random | None
    """Draws targets in the official game; None where the hidden word is fixed."""
    candidates: tuple[str, ...]
    """Words that a target may be drawn from; empty where the hidden word is fixed."""
    turns: tuple[Turn, ...] = ()
    """The valid guesses in order, with their feedback."""
    knowledge: Knowledge = field(default_factory=dict)
    attempts: int = 0
    misses: int = 0

    def step_as_original(self, action: str) -> Observation:
        """Count only exact lower-case words of the vocabulary; every reply uses an attempt."""
        self.attempts += 1
        guess = action.strip().replace(" ", "")
        if guess not in self.puzzle.vocabulary:
            return self._outcome(INVALID_WORD, solved=False)
        target = self._target()
        self.knowledge = absorb(self.knowledge, guess, target)
        if self.drawing is not None:
            self.candidates = tuple(w for w in self.candidates if fits(self.knowledge, w))
        feedback = rendered_feedback(self.knowledge, guess)
        self.turns += ((guess, feedback),)
        return self._outcome(f"{spaced(feedback)}\n", solved=feedback == SOLVED)

    def step_fixed(self, action: str) -> Observation:
        """Ignore case and punctuation; an invalid guess is explained and costs nothing."""
        guess = _NOT_LETTERS.sub("", action[:_LONGEST_READ].lower())
        if guess not in self.puzzle.vocabulary:
            return self._miss()
        self.attempts += 1
        feedback = counted_feedback(guess, self._target())
        self.turns += ((guess, feedback),)
        solved = feedback == SOLVED
        text = f"{spaced(feedback)}\n"
        if not solved and self.attempts >= ATTEMPTS:
            text += f"No guess is left. The word was {self._target()}.\n"
        return self._outcome(text, solved=solved)

    def _miss(self) -> Observation:
        self.misses += 1
        left = ATTEMPTS - self.attempts
        text = (
            f"{INVALID_WORD}: it has to be one accepted word of five letters ({left} guesses left)"
        )
        if self.misses < MOST_MISSES:
            return Observation(text, reward=0.0)
        return Observation(text, reward=0.0, truncated=True, stop_reason=StopReason.STEP_LIMIT)

    def _outcome(self, text: str, *, solved: bool) -> Observation:
        if solved:
            return Observation(
                text, reward=1.0, terminated=True, stop_reason=StopReason.GOAL_REACHED
            )
        if self.attempts >= ATTEMPTS:
            return Observation(
                text, reward=0.0, terminated=True, stop_reason=StopReason.GOAL_FAILED
            )
        return Observation(text, reward=0.0)

    def _target(self) -> str:
        """Return the hidden word; in the official game one that still fits, drawn anew."""
        if self.drawing is not None:
            return self.drawing.choice(self.candidates)
        assert self.puzzle.hidden is not None
        return self.puzzle.hidden


class WordleEnvironment(EpisodeEnvironment[_Episode]):
    """LMRL-Gym's Wordle as AgentGym serves it, with games over further vocabularies."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="wordle",
        version="1",
        description="Find a hidden word of five letters in six guesses.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=8,
        has_views=True,
        profiles=("agentgym", "fixed"),
        episode_bytes=32 * 1024,
        item_prefixes=(OFFICIAL_PREFIX,),
    )

    option_names = _OPTIONS

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> WordleTasks:
        return WordleTasks(config.data_dir)

    def start(self, task: Task, options: ResetOptions) -> tuple[_Episode, Observation]:
        fixed = options.profile == "fixed"
        puzzle = self._selected_puzzle(task.payload, options.options)
        drawing = random.Random(puzzle.seed) if puzzle.hidden is None else None
        if drawing is not None and fixed:
            puzzle = replace(puzzle, hidden=drawing.choice(puzzle.vocabulary.words))
            drawing = None
        text = options.options.get("instructions")
        if text is None:
            text = instructions(puzzle, fixed=fixed)
        if not isinstance(text, str):
            raise InvalidOption("option instructions is a text")
        candidates = puzzle.vocabulary.words if drawing is not None else ()
        # The seed of an official game decides draws to come: its games begin as one and the same.
        info = None if drawing is None else {"content": f"drawn {puzzle.vocabulary.digest.hex()}"}
        return _Episode(puzzle, fixed, drawing, candidates), Observation(text, 0.0, info=info)

    def step(self, action: str) -> Observation:
        episode = self.episode
        return episode.step_fixed(action) if episode.fixed else episode.step_as_original(action)

    def fork_episode(self, episode: _Episode) -> _Episode:
        return replace(episode, drawing=copy.deepcopy(episode.drawing))

    def fingerprint(self) -> bytes:
        episode = self.episode
        puzzle = episode.puzzle
        drawn = None if episode.drawing is None else puzzle.seed
        words = (puzzle.vocabulary.digest, puzzle.answers.digest, puzzle.hidden, drawn)
        state = (words, episode.turns, episode.attempts, episode.misses, episode.fixed)
        return repr(state).encode()

    def render(self) -> Sequence[View]:
        episode = self.episode
        if episode.drawing is None:
            hidden = f"hidden word: {episode.puzzle.hidden}"
        else:
            hidden = f"hidden word: any of {len(episode.candidates):,} that still fit"
        return picture.draw(episode.turns, episode.attempts, hidden)

    def advise_expert(self, seed: int) -> Advice:
        episode = self.episode
        position = expert.Position(
            vocabulary=episode.puzzle.vocabulary,
            answers=episode.puzzle.answers,
            turns=episode.turns,
            attempts_left=ATTEMPTS - episode.attempts,
            rule=counted_feedback if episode.fixed else simple_feedback,
        )
        return expert.advise(position, seed)

    def advise_random(self, rng: random.Random) -> Advice:
        return expert.advise_random(self.episode.puzzle.vocabulary, rng)

    def advise_noop(self) -> Advice:
        return Advice("", "I say nothing.")

    def _selected_puzzle(self, puzzle: Puzzle, options: Mapping[str, Any]) -> Puzzle:
        """Return the task's puzzle, or what the options make of it; raises InvalidOption."""
        if "vocabulary" in options:
            vocabulary = self._selected_vocabulary(options["vocabulary"])
            puzzle = replace(puzzle, vocabulary=vocabulary, answers=vocabulary, listed=True)
        hidden = options.get("hidden_word", puzzle.hidden)
        if hidden is None:
            return puzzle
        if not isinstance(hidden, str) or hidden not in puzzle.vocabulary:
            raise InvalidOption(f"hidden word {hidden!r} is not in the vocabulary")
        return replace(puzzle, hidden=hidden)

    def _selected_vocabulary(self, value: object) -> Vocabulary:
        tasks = self.tasks
        if isinstance(value, str) and isinstance(tasks, WordleTasks):
            return tasks.vocabularies.named(value)
        if isinstance(value, list | tuple):
            return Vocabulary.checked("given", value)
        raise InvalidOption("option vocabulary is a name or a list of words")
