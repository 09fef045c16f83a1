"""The game of Wordle: six guesses at one hidden word.

Owns what has been guessed and what was answered, under each profile; knows neither word lists
nor how a reply becomes an action. Invariant: `_turns` holds the valid guesses in order, and their
feedback is what `rules` gives for the words that were compared.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Self

from env_servers.environments.wordle import expert
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
    Environment,
    EnvironmentConfig,
    EnvironmentSpec,
    InvalidOption,
    Observation,
    ResetOptions,
    StopReason,
    Task,
)

__all__ = ["MOST_MISSES", "WordleEnvironment"]

INVALID_WORD: Final = "invalid word"
MOST_MISSES: Final = 12
"""Invalid guesses that profile `fixed` allows, where they cost no attempt."""

_OPTIONS: Final = ("hidden_word", "vocabulary", "instructions")
_NOT_LETTERS: Final = re.compile(r"[^a-z]+")
_LONGEST_READ: Final = 200
"""Characters of an action that the tolerant reader looks at."""


class WordleEnvironment(Environment):
    """LMRL-Gym's Wordle as AgentGym serves it, with games over further vocabularies."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="wordle",
        version="1",
        description="Find a hidden word of five letters in six guesses.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=8,
        profiles=("agentgym", "fixed"),
        episode_bytes=32 * 1024,
        item_prefixes=(OFFICIAL_PREFIX,),
    )

    _puzzle: Puzzle
    _fixed: bool
    _turns: tuple[Turn, ...]
    _attempts: int
    _misses: int
    _knowledge: Knowledge
    _drawing: random.Random | None
    """Draws targets in the official game; None where the hidden word is fixed."""
    _candidates: tuple[str, ...]
    """Words that a target may be drawn from; empty where the hidden word is fixed."""

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> WordleTasks:
        return WordleTasks(config.data_dir)

    def reset(self, task: Task, options: ResetOptions) -> Observation:
        """Options: hidden_word, vocabulary (name or words), instructions; see README."""
        if options.profile not in self.spec.profiles:
            raise InvalidOption(f"unknown profile {options.profile!r}", valid=self.spec.profiles)
        unknown = sorted(set(options.options) - set(_OPTIONS))
        if unknown:
            raise InvalidOption(f"unknown option {unknown[0]!r}", valid=_OPTIONS)
        self._fixed = options.profile == "fixed"
        puzzle = self._chosen_puzzle(task.payload, options.options)
        drawing = random.Random(puzzle.seed) if puzzle.hidden is None else None
        if drawing is not None and self._fixed:
            puzzle = replace(puzzle, hidden=drawing.choice(puzzle.vocabulary.words))
            drawing = None
        self._puzzle, self._drawing = puzzle, drawing
        self._candidates = puzzle.vocabulary.words if drawing is not None else ()
        self._turns, self._knowledge = (), {}
        self._attempts = self._misses = 0
        text = options.options.get("instructions")
        if text is None:
            text = instructions(puzzle, fixed=self._fixed)
        if not isinstance(text, str):
            raise InvalidOption("option instructions is a text")
        return Observation(text, reward=0.0)

    def step(self, action: str) -> Observation:
        return self._step_fixed(action) if self._fixed else self._step_as_original(action)

    def fork(self) -> Self:
        """Everything but the generator is an immutable value or never changed in place."""
        twin = copy.copy(self)
        twin._drawing = copy.deepcopy(self._drawing)
        return twin

    def fingerprint(self) -> bytes:
        puzzle = self._puzzle
        drawn = None if self._drawing is None else puzzle.seed
        words = (puzzle.vocabulary.digest, puzzle.answers.digest, puzzle.hidden, drawn)
        state = (words, self._turns, self._attempts, self._misses, self._fixed)
        return repr(state).encode()

    def advise_expert(self, seed: int) -> Advice:
        position = expert.Position(
            vocabulary=self._puzzle.vocabulary,
            answers=self._puzzle.answers,
            turns=self._turns,
            attempts_left=ATTEMPTS - self._attempts,
            rule=counted_feedback if self._fixed else simple_feedback,
        )
        return expert.advise(position, seed)

    def advise_random(self, rng: random.Random) -> Advice:
        return expert.advise_random(self._puzzle.vocabulary, rng)

    def advise_noop(self) -> Advice:
        return Advice("", "I say nothing.")

    def _step_as_original(self, action: str) -> Observation:
        """Only exact lower-case words of the vocabulary count; every reply uses an attempt."""
        self._attempts += 1
        guess = action.strip().replace(" ", "")
        if guess not in self._puzzle.vocabulary:
            return self._outcome(INVALID_WORD, solved=False)
        target = self._target()
        self._knowledge = absorb(self._knowledge, guess, target)
        if self._drawing is not None:
            self._candidates = tuple(w for w in self._candidates if fits(self._knowledge, w))
        feedback = rendered_feedback(self._knowledge, guess)
        self._turns += ((guess, feedback),)
        return self._outcome(f"{spaced(feedback)}\n", solved=feedback == SOLVED)

    def _step_fixed(self, action: str) -> Observation:
        """Case and punctuation do not matter; an invalid guess is explained and costs nothing."""
        guess = _NOT_LETTERS.sub("", action[:_LONGEST_READ].lower())
        if guess not in self._puzzle.vocabulary:
            return self._miss()
        self._attempts += 1
        feedback = counted_feedback(guess, self._target())
        self._turns += ((guess, feedback),)
        solved = feedback == SOLVED
        text = f"{spaced(feedback)}\n"
        if not solved and self._attempts >= ATTEMPTS:
            text += f"No guess is left. The word was {self._target()}.\n"
        return self._outcome(text, solved=solved)

    def _miss(self) -> Observation:
        self._misses += 1
        left = ATTEMPTS - self._attempts
        text = (
            f"{INVALID_WORD}: it has to be one accepted word of five letters ({left} guesses left)"
        )
        if self._misses < MOST_MISSES:
            return Observation(text, reward=0.0)
        return Observation(text, reward=0.0, truncated=True, stop_reason=StopReason.STEP_LIMIT)

    def _outcome(self, text: str, *, solved: bool) -> Observation:
        if solved:
            return Observation(
                text, reward=1.0, terminated=True, stop_reason=StopReason.GOAL_REACHED
            )
        if self._attempts >= ATTEMPTS:
            return Observation(
                text, reward=0.0, terminated=True, stop_reason=StopReason.GOAL_FAILED
            )
        return Observation(text, reward=0.0)

    def _target(self) -> str:
        """The hidden word; in the official game one that still fits, drawn anew."""
        if self._drawing is not None:
            return self._drawing.choice(self._candidates)
        assert self._puzzle.hidden is not None
        return self._puzzle.hidden

    def _chosen_puzzle(self, puzzle: Puzzle, options: Mapping[str, Any]) -> Puzzle:
        """The task's puzzle, or what the options make of it; raises InvalidOption."""
        if "vocabulary" in options:
            vocabulary = self._chosen_vocabulary(options["vocabulary"])
            puzzle = replace(puzzle, vocabulary=vocabulary, answers=vocabulary, listed=True)
        hidden = options.get("hidden_word", puzzle.hidden)
        if hidden is None:
            return puzzle
        if not isinstance(hidden, str) or hidden not in puzzle.vocabulary:
            raise InvalidOption(f"hidden word {hidden!r} is not in the vocabulary")
        return replace(puzzle, hidden=hidden)

    def _chosen_vocabulary(self, value: object) -> Vocabulary:
        tasks = self.tasks
        if isinstance(value, str) and isinstance(tasks, WordleTasks):
            return tasks.vocabularies.named(value)
        if isinstance(value, list | tuple):
            return Vocabulary.checked("given", value)
        raise InvalidOption("option vocabulary is a name or a list of words")
