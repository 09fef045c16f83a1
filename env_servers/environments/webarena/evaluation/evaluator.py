"""The score of an episode: the product of its evaluators, in the order of the task.

A judge is named in the score only where it was asked. Invariant: what keeps an evaluator from
deciding is raised, and never becomes a 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from env_servers.environments.webarena.evaluation.addresses import score_address
from env_servers.environments.webarena.evaluation.answers import score_answer
from env_servers.environments.webarena.evaluation.criteria import Criteria, Evaluator
from env_servers.environments.webarena.evaluation.judge import Judge, Question
from env_servers.environments.webarena.evaluation.lookups import ShopService
from env_servers.environments.webarena.evaluation.page import Page
from env_servers.environments.webarena.evaluation.programs import score_target

__all__ = ["Score", "evaluate"]


@dataclass(frozen=True, slots=True)
class Score:
    """What an episode earned."""

    value: float
    judged_by: str = ""
    """Name of the judge that decided a part of it; empty where rules alone did."""


@dataclass(slots=True)
class _Asked:
    """A judge, and whether it was asked."""

    inner: Judge
    name: str = field(init=False)
    asked: bool = False

    def __post_init__(self) -> None:
        self.name = self.inner.name

    async def judge(self, question: Question) -> float:
        self.asked = True
        return await self.inner.judge(question)


async def evaluate(
    criteria: Criteria, *, intent: str, answer: str, page: Page, judge: Judge, shop: ShopService
) -> Score:
    """Return the score of an answer on the page where it was given.

    Raises:
        EvaluationFailed: There is no score; its subclasses say why.
    """
    asked = _Asked(judge)
    value = 1.0
    for evaluator in criteria.evaluators:
        match evaluator:
            case Evaluator.STRING:
                value *= await score_answer(criteria, intent, answer, asked)
            case Evaluator.URL:
                value *= score_address(criteria, page.url)
            case Evaluator.PROGRAM:
                for target in criteria.targets:
                    value *= await score_target(target, page, shop)
    return Score(value, judge.name if asked.asked else "")
