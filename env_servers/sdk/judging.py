"""Rewards that a model judges: what a judge is, and how an environment asks one.

A verdict is part of the episode: the observation that it decided carries it in its info, under
`judgements`, with all that was asked and answered. Whoever plays the same actions again gives what
was recorded back, as the reset option of that name, and the judge is not asked again: otherwise
another opinion would be another state. A judge that does not answer, or not in the form that the
rubric asks for, is a fault of the episode and never a reward.
"""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

from agentgym.rubric import AnswerOffFormat, Rubric
from env_servers.sdk.errors import EnvironmentUnavailable, InvalidOption

__all__ = [
    "JUDGEMENTS",
    "Answer",
    "Examiner",
    "Judge",
    "JudgeFailed",
    "JudgeFailure",
    "Judgement",
    "Recorded",
    "recorded_judgements",
]

JUDGEMENTS: Final = "judgements"
"""Where verdicts stand in an observation's info, and the reset option that gives them back."""
MAX_PROMPT_CHARS: Final = 200_000
MAX_ANSWER_CHARS: Final = 50_000
_REMEMBERED: Final = 4_096
"""Answers that a process keeps for episodes which it plays again: forks of the past, rebuilds."""
_SHOWN: Final = 300


class JudgeFailure(StrEnum):
    """Why a judge was asked and there is no verdict; the words of `orchestrator.rescore`."""

    SILENT = "JUDGE_SILENT"
    """No answer in time, or its server is down, refused, or failed."""
    OFF_FORMAT = "JUDGE_OFF_FORMAT"
    """The answer does not end with the grades that were asked for."""
    CUT_OFF = "JUDGE_CUT_OFF"
    """The answer reached its length limit before it came to the grades."""
    PROMPT_TOO_LONG = "JUDGE_PROMPT_TOO_LONG"
    """What is to be judged is longer than a judge is asked to read."""


class JudgeFailed(EnvironmentUnavailable):
    """Raised where a judge gives no verdict: the episode fails, and may be played again."""

    def __init__(self, failure: JudgeFailure, message: str) -> None:
        self.failure = failure
        super().__init__(f"{failure}: {message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a judge said."""

    text: str
    model: str = ""
    """As its server names what answered."""
    cut_off: bool = False
    """It reached its length limit."""
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Judge(ABC):
    """Answers questions; used from one event loop."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """What decides the answers, for digests: the kind of judge, and its model."""

    @abstractmethod
    async def ask(self, prompt: str, seed: int) -> Answer:
        """Return the answer to a question, within a time of its own; raises JudgeFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict, and how it came about."""

    asked: str
    """Identifies the question: digest of prompt and seed."""
    judge: str
    prompt: str
    answer: Answer
    grades: Mapping[str, float]
    score: float
    """From 0 to 1, by the rubric's weights."""
    success: bool
    """Whether the score reaches the rubric's."""

    def as_info(self) -> dict[str, Any]:
        """Return it as JSON values, for an observation's info."""
        return {
            "asked": self.asked,
            "judge": self.judge,
            "model": self.answer.model,
            "prompt": self.prompt,
            "answer": self.answer.text,
            "prompt_tokens": self.answer.prompt_tokens,
            "completion_tokens": self.answer.completion_tokens,
            "grades": dict(self.grades),
            "score": self.score,
            "success": self.success,
        }


Recorded = Mapping[str, Answer]
"""Answers of an earlier play of the same episode, by what was asked."""


class Examiner:
    """Asks a judge by rubrics, and nothing twice; one per process."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self._lock = threading.Lock()
        self._remembered: OrderedDict[str, Answer] = OrderedDict()

    async def examine(
        self, rubric: Rubric, prompt: str, *, seed: int, recorded: Recorded
    ) -> Judgement:
        """Return the verdict on a prompt of the rubric.

        Args:
            rubric: How the answer is read.
            prompt: From `Rubric.prompt`.
            seed: The episode's: two plays of an item ask afresh.
            recorded: Of `recorded_judgements`; what is there is not asked.

        Raises:
            JudgeFailed: There is none.
            InvalidOption: What was recorded is no verdict by this rubric.
        """
        if len(prompt) > MAX_PROMPT_CHARS:
            raise JudgeFailed(
                JudgeFailure.PROMPT_TOO_LONG,
                f"{len(prompt):,} characters; at most {MAX_PROMPT_CHARS:,}",
            )
        asked = hashlib.blake2b(f"{seed}\n{prompt}".encode(), digest_size=16).hexdigest()
        answer = recorded.get(asked)
        if answer is not None:
            grades = _given_back(rubric, answer)
        else:
            answer = self._recall(asked) or await self.judge.ask(prompt, seed)
            grades = _read(rubric, answer)
            self._remember(asked, answer)
        score = rubric.score(grades)
        return Judgement(
            asked=asked,
            judge=self.judge.identity,
            prompt=prompt,
            answer=answer,
            grades=grades,
            score=score,
            success=score >= rubric.success_score,
        )

    def _recall(self, asked: str) -> Answer | None:
        with self._lock:
            return self._remembered.get(asked)

    def _remember(self, asked: str, answer: Answer) -> None:
        with self._lock:
            self._remembered[asked] = answer
            if len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)


def recorded_judgements(options: Mapping[str, Any]) -> Recorded:
    """Return the answers that the reset option `judgements` gives back.

    Raises:
        InvalidOption: It is no list of what observations had there.
    """
    given: object = options.get(JUDGEMENTS, ())
    if not isinstance(given, list | tuple):
        raise InvalidOption(f"option {JUDGEMENTS} is no list")
    answers: dict[str, Answer] = {}
    for entry in cast("list[object]", given):
        fields: Mapping[str, object] = {}
        if isinstance(entry, Mapping):
            fields = cast("Mapping[str, object]", entry)
        asked, text = fields.get("asked"), fields.get("answer")
        if not isinstance(asked, str) or not isinstance(text, str) or len(text) > MAX_ANSWER_CHARS:
            raise InvalidOption(
                f"option {JUDGEMENTS} has an entry without `asked` and `answer`",
                valid="what the info of a recorded observation has under that name",
            )
        answers[asked] = Answer(
            text=text,
            model=str(fields.get("model", ""))[:_SHOWN],
            prompt_tokens=_count(fields.get("prompt_tokens")),
            completion_tokens=_count(fields.get("completion_tokens")),
        )
    return answers


def _count(value: object) -> int:
    """Return a number of tokens; JSON has it as a float."""
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**53 else 0


def _read(rubric: Rubric, answer: Answer) -> dict[str, float]:
    if len(answer.text) > MAX_ANSWER_CHARS:
        raise JudgeFailed(JudgeFailure.OFF_FORMAT, f"an answer of {len(answer.text):,} characters")
    try:
        return rubric.read(answer.text)
    except AnswerOffFormat as error:
        failure = JudgeFailure.CUT_OFF if answer.cut_off else JudgeFailure.OFF_FORMAT
        raise JudgeFailed(failure, str(error)[:_SHOWN]) from error


def _given_back(rubric: Rubric, answer: Answer) -> dict[str, float]:
    try:
        return rubric.read(answer.text)
    except AnswerOffFormat as error:
        raise InvalidOption(f"option {JUDGEMENTS}: {str(error)[:_SHOWN]}") from error
