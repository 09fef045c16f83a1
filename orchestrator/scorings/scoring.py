"""A scoring under way: a scorer is asked about each episode that lacks a score, many at once.

Judged are finished episodes; those that failed have no end to judge. What has a row already is
judged again only where that row says that another try may succeed.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from agent_runtime.errors import AgentRuntimeError
from agent_runtime.redaction import Json
from agent_runtime.spending import Spent
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import OrchestratorError
from orchestrator.records import EpisodeSummary, episode_key, record_digest
from orchestrator.run_limits import RunAccount, RunLimits
from orchestrator.scorings.table import EpisodeScore, ScoresReader, ScoresWriter, Verdict
from orchestrator.store import RunReader

__all__ = ["Scorer", "lacking", "score_run"]


class Scorer(ABC):
    """What judges episodes."""

    name: str = ""
    """Who gives the replies that judge; empty = nobody."""

    @abstractmethod
    async def score(self, record: episode_pb2.Episode, attempt: int) -> Verdict:
        """Judge a finished episode; `attempt` counts the tries at it, from 1.

        What concerns this episode alone is a reason in the verdict. Raises OrchestratorError or
        AgentRuntimeError for what ends the scoring.
        """


def lacking(
    run: RunReader, scores: ScoresReader, environments: Collection[str]
) -> list[EpisodeSummary]:
    """Return the finished episodes that have no score, or none that is final."""
    latest = scores.latest()
    return [
        summary
        for summary in run.summaries()
        if not summary.failed
        and summary.environment in environments
        and not ((row := latest.get(summary.episode_id)) is not None and row.final)
    ]


async def score_run(
    run: RunReader,
    scores: ScoresWriter,
    scorer: Scorer,
    *,
    environments: Collection[str],
    concurrency: int,
    limits: RunLimits,
    on_score: Callable[[EpisodeScore], None],
) -> str:
    """Judge what lacks a score; each verdict is durable before `on_score` is told.

    Returns which limit ended it, in words; empty = none did. Then no episode is begun any more, and
    what is being judged is judged to its end.

    Raises what the scorer raises, StoreCorrupt and StoreWriteFailed; verdicts so far are kept.
    """
    attempts = {row.episode_id: row.attempt for row in scores.latest().values()}
    wanted = {summary.episode_id for summary in lacking(run, scores, environments)}
    records = run.episodes(lambda summary: summary.episode_id in wanted)
    sink, started = _Sink(scores), time.monotonic()
    account = RunAccount(limits, recorded=_spent(scores.rows()))

    async def work() -> None:
        for record in records:
            attempt = attempts.get(record.episode_id, 0) + 1
            verdict = await scorer.score(record, attempt)
            row = _row(record, verdict, attempt)
            await sink.put(row, verdict.detail)
            key = episode_key(record)._replace(policy=scorer.name)
            account.add(key, _spent([row]), priced=not row.calls or row.cost_usd is not None)
            on_score(row)
            if account.reached(time.monotonic() - started):
                return

    if limit := account.reached(0.0):
        return limit
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(wanted))):
                group.create_task(work())
    except* (OrchestratorError, AgentRuntimeError) as group:
        raise group.exceptions[0] from None
    return account.reached(time.monotonic() - started)


def _spent(rows: Iterable[EpisodeScore]) -> Spent:
    tokens, costs = 0, list[float]()
    for row in rows:
        tokens += row.prompt_tokens + row.completion_tokens
        costs.append(row.cost_usd or 0.0)
    return Spent(cost=math.fsum(costs), tokens=tokens)


class _Sink:
    """Commits rows: what waits while a transaction is under way shares the next one."""

    def __init__(self, scores: ScoresWriter) -> None:
        self._scores = scores
        self._waiting: list[tuple[EpisodeScore, Mapping[str, Json]]] = []
        self._lock = asyncio.Lock()

    async def put(self, row: EpisodeScore, detail: Mapping[str, Json]) -> None:
        """Store a row; durable on return."""
        self._waiting.append((row, detail))
        async with self._lock:
            rows, self._waiting = self._waiting, []
            if rows:
                await asyncio.to_thread(self._scores.add, rows)


def _row(record: episode_pb2.Episode, verdict: Verdict, attempt: int) -> EpisodeScore:
    values: dict[str, Any] = {
        name: getattr(record, name)
        for name in ("episode_id", "environment", "item_id", "sample", "policy")
    }
    values |= {
        name: getattr(verdict, name) for name in EpisodeScore.__slots__ if hasattr(verdict, name)
    }
    return EpisodeScore(attempt=attempt, record_digest=record_digest(record), **values)
