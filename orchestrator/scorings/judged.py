"""A scorer that asks a judge: a rubric filled in from a record, graded by any policy."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Final

from agent_runtime.errors import PolicyUnavailable
from agent_runtime.judge import Judge, Judgement, NoVote
from agentgym.episode.v1 import episode_pb2
from agentgym.rubric import Rubric
from orchestrator import configuration, seeds
from orchestrator.errors import ConfigurationError
from orchestrator.records import stop_reason_name, summarise
from orchestrator.scorings.scoring import Scorer
from orchestrator.scorings.table import Verdict
from orchestrator.turns import reply_places

__all__ = ["PLACEHOLDERS", "JudgeScorer", "load_rubric"]

_NONE: Final = "(none)"


def _quoted(record: episode_pb2.Episode) -> dict[str, str]:
    """Return what agents and environments wrote, by the name of its place in a template."""
    replies = [record.messages[at].text for at in reply_places(record)]
    return {
        "instruction": record.messages[0].text if record.messages else _NONE,
        "task": _shown(record.steps[0].observation, record.steps[0]) if record.steps else _NONE,
        "transcript": _transcript(record),
        "answer": replies[-1] if replies else _NONE,
    }


def _shown(text: str, part: episode_pb2.Message | episode_pb2.Step) -> str:
    """Return a text, and how many images the judge is not shown with it."""
    count = len(part.images)
    return f"{text}\n[{count} images, which are not shown here]" if count else text


def _transcript(record: episode_pb2.Episode) -> str:
    """Return replies and observations in their order, after the first observation."""
    texts = [_shown(message.text, message) for message in record.messages]
    replies = reply_places(record)
    lines: list[str] = []
    for at in range(replies[0] if replies else len(texts), len(texts)):
        speaker = "agent" if at in replies else "environment"
        lines.append(f"[{speaker}]\n{texts[at]}")
    return "\n\n".join(lines) or "(the agent said nothing)"


def _plain(record: episode_pb2.Episode) -> dict[str, str]:
    """Return what this program knows of an episode, by the name of its place in a template."""
    summary = summarise(record)
    return {
        "environment": record.environment,
        "score": _NONE if summary.score is None else f"{summary.score:g}",
        "success": {None: _NONE, True: "yes", False: "no"}[summary.success],
        "stop_reason": stop_reason_name(record.stop_reason),
        "rounds": str(summary.rounds),
    }


PLACEHOLDERS: Final = (*_quoted(episode_pb2.Episode()), *_plain(episode_pb2.Episode()))
"""What a template has places for."""
_TEXTS: Final = frozenset({"transcript", "answer"})
"""A rubric that looks at none of these judges nothing."""


def load_rubric(path: Path) -> Rubric:
    """Read a rubric from a TOML file; raises ConfigurationError, which names the wrong field."""
    rubric = configuration.load(Rubric, path)
    unknown = sorted(rubric.placeholders - set(PLACEHOLDERS))
    if unknown:
        raise ConfigurationError(
            f"there is nothing for {{{{{unknown[0]}}}}}", field="template", valid=PLACEHOLDERS
        )
    if not rubric.placeholders & _TEXTS:
        raise ConfigurationError(
            "it has no place for what the agent did: {{transcript}}, or {{answer}} for its last "
            "reply",
            field="template",
        )
    return rubric


class JudgeScorer(Scorer):
    """Grades by a judge; everything that was asked and said becomes the verdict's detail."""

    def __init__(self, judge: Judge, *, seed: int) -> None:
        self.name = judge.policy.name
        self._judge = judge
        self._seed = seed

    async def score(self, record: episode_pb2.Episode, attempt: int) -> Verdict:
        """Ask the judge; raises PolicyUnavailable where its server is gone for good."""
        judgement = await self._judge.judge(
            self._judge.rubric.prompt(_quoted(record), _plain(record)),
            subject=record.episode_id,
            seed=lambda vote: seeds.derive("judge", self._seed, record.episode_id, attempt, vote),
            environment=record.environment,
        )
        outage = self._judge.policy.outage()
        if judgement.problem is NoVote.SILENT and outage is not None and outage.over:
            # Every other episode would fail like this one; nothing of it is the episode's.
            raise PolicyUnavailable(
                f"{outage.describe()}; the verdicts so far are kept, the same command goes on"
            )
        return _verdict(judgement)


def _verdict(judgement: Judgement) -> Verdict:
    votes = judgement.votes
    return Verdict(
        score=judgement.score,
        success=judgement.success,
        reason=None if judgement.problem is None else judgement.problem.value,
        final=judgement.problem is None,
        message=judgement.message,
        calls=len(votes),
        prompt_tokens=sum(vote.prompt_tokens for vote in votes),
        completion_tokens=sum(vote.completion_tokens for vote in votes),
        cost_usd=judgement.cost_usd,
        detail={
            "judge": judgement.judge,
            "grades": dict(judgement.grades),
            "votes": [dataclasses.asdict(vote) for vote in votes],
            "prompt": judgement.prompt,
        },
    )
