"""What a scoring says of one episode: laid over its columns and its record, and told to people."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from agentgym.episode.v1 import episode_pb2
from orchestrator.records import SCORING_FAULT, EpisodeSummary
from orchestrator.scorings.table import EpisodeScore

__all__ = ["NOT_SCORED", "describe_judgement", "judgement_data", "rescored", "set_score"]

NOT_SCORED: Final = "NOT_SCORED"
"""Reason of a finished episode that the scoring has not come to."""


def rescored(summary: EpisodeSummary, score: EpisodeScore | None) -> EpisodeSummary:
    """Return the columns of a record with the outcome that a scoring gives it.

    An episode that failed stays as it is; one without a new score counts as failed, too, so that
    nothing takes it for a loss.
    """
    if summary.failed:
        return summary
    if score is not None and score.scored:
        return summary._replace(score=score.score, success=score.success)
    return summary._replace(
        reward=None,
        score=None,
        success=None,
        fault=SCORING_FAULT,
        reason=NOT_SCORED if score is None else score.reason,
        retriable=score is None or not score.final,
    )


def set_score(record: episode_pb2.Episode, score: EpisodeScore | None) -> None:
    """Replace the outcome of a record that was read by that of a scoring; absent where it has none.

    A failed episode stays as it is.
    """
    if record.HasField("error"):
        return
    record.ClearField("score")
    record.ClearField("success")
    if score is not None and score.score is not None:
        record.score = score.score
    if score is not None and score.success is not None:
        record.success = score.success


def judgement_data(
    name: str, score: EpisodeScore | None, detail: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a judgement as JSON data."""
    values: dict[str, Any] = {"reason": NOT_SCORED}
    if score is not None:
        values = dataclasses.asdict(score)
        del values["record_digest"]
    return {"scores": name, **values, "detail": dict(detail)}


def describe_judgement(
    name: str, score: EpisodeScore | None, detail: Mapping[str, Any]
) -> Iterator[str]:
    """Say in lines what a scoring made of an episode."""
    if score is None:
        yield f"{name}: {NOT_SCORED}"
        return
    if score.scored:
        verdict = {True: ", a success", False: ", no success", None: ""}[score.success]
        shown = "no score" if score.score is None else f"score {score.score:g}"
        yield f"{name}: {shown}{verdict}"
    else:
        yield f"{name}: no score, {score.reason} (try {score.attempt})"
    if score.message:
        yield score.message
    for key, value in detail.items():
        if key == "votes":
            yield from _describe_votes(value)
        else:
            yield f"{key}: {value}"


def _describe_votes(votes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for number, vote in enumerate(votes, start=1):
        facts = [
            f"vote {number}: {vote['problem'] or vote['grades']}",
            f"seed {vote['seed']}",
            f"version {vote['policy_version']}" if vote["policy_version"] else "",
            f"{vote['prompt_tokens']} + {vote['completion_tokens']} tokens",
            "" if vote["cost_usd"] is None else f"{vote['cost_usd']:.6f} US dollars",
            "from the cache" if vote["from_cache"] else "",
        ]
        yield ", ".join(filter(None, facts))
        for text in (vote["reasoning"], vote["answer"], vote["message"]):
            if text:
                yield text
