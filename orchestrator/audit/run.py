"""The walk of an audit over a run, and the certificate of what it found.

`audit_run` reads every record once; `score_run` asks an engine for the logprobs of sampled tokens
again. What is wrong with a single record is decided by `episodes` and `tokens`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from agent_runtime.ledger import TokenLedger
from agent_runtime.policies import PolicyConfig
from agent_runtime.policies.sglang import SGLangPolicy
from agent_runtime.rendering import ChatRenderer
from agentgym.episode.v1 import episode_pb2
from orchestrator.audit.episodes import CHECKS, audit_episode, checks_of
from orchestrator.audit.tokens import rendering_problems, scored_tokens, scoring_problems
from orchestrator.errors import RunFolderError, UsageError
from orchestrator.manifest import MANIFEST_FILE, Manifest, utc_now
from orchestrator.records import record_digest
from orchestrator.scorings.table import ScoresReader, scoring_names
from orchestrator.store import RunReader

__all__ = ["AuditResult", "audit_run", "certificate", "score_run"]

CERTIFICATE_SCHEMA: Final = 1
_LISTED: Final = 1000
"""Findings that a certificate lists; it counts all."""


@dataclass(frozen=True, slots=True)
class ScoringAudit:
    """A scoring beside the records that it judges."""

    scored: int
    """Finished episodes that have a score."""
    lacking: tuple[str, ...]
    """Ids of those that have none: not judged yet, or without a verdict."""


@dataclass(slots=True)
class AuditResult:
    """What an audit found."""

    episodes: int = 0
    """Records that were checked."""
    attempts: int = 0
    """Superseded attempts that were checked."""
    failed_episodes: int = 0
    """Records that ended by an error: sound as records, without a result."""
    findings: Counter[str] = field(default_factory=Counter[str])
    """How often each check found something; `store` is the store's own integrity check,
    `scores` that of scorings."""
    listed: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """The first findings: check, episode_id, problem."""
    rendered: int | None = None
    """Episodes that were rendered again; None = there was no tokenizer."""
    scored: int | None = None
    """Tokens that were scored again; None = there was no engine."""
    scorings: dict[str, ScoringAudit] = field(default_factory=dict[str, "ScoringAudit"])
    """What was found of each scoring of the run."""
    records_digest: str = ""
    """SHA-256 over all records in the order of their keys, whatever order they were stored in."""

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.findings.total()

    def add(self, check: str, episode_id: str, problem: str) -> None:
        """Note one finding."""
        self.findings[check] += 1
        if len(self.listed) < _LISTED:
            self.listed.append({"check": check, "episode_id": episode_id, "problem": problem})


def audit_run(
    run: RunReader,
    on_progress: Callable[[int, int], None] | None = None,
    *,
    renderer: ChatRenderer | None = None,
) -> AuditResult:
    """Check the store and every record of it; `on_progress(checked, total)` after each.

    With a `renderer`, conversations are rendered again.
    """
    result = AuditResult(rendered=None if renderer is None else 0)
    for problem in run.verify():
        result.add("store", "", problem)
    if not result.passed:
        # What cannot be read cannot be audited; the certificate says so by counting no episodes.
        return result
    total = run.count()
    digests: list[tuple[Any, bytes]] = []
    finished: dict[str, tuple[str, bytes]] = {}
    for superseded in (False, True):
        for episode in run.episodes(superseded=superseded):
            _audit_record(episode, run.manifest, renderer, result)
            if superseded:
                result.attempts += 1
                continue
            result.episodes += 1
            result.failed_episodes += episode.HasField("error")
            key = (episode.environment, episode.item_id, episode.sample, episode.policy)
            digests.append((key, record_digest(episode)))
            if not episode.HasField("error"):
                finished[episode.episode_id] = (episode.environment, digests[-1][1])
            if on_progress is not None:
                on_progress(result.episodes, total)
    joined = b"".join(digest for _, digest in sorted(digests))
    result.records_digest = hashlib.sha256(joined).hexdigest()
    for name in scoring_names(run.folder):
        _audit_scoring(run, name, finished, result)
    return result


def _audit_record(
    episode: episode_pb2.Episode,
    manifest: Manifest,
    renderer: ChatRenderer | None,
    result: AuditResult,
) -> None:
    for check, problem in audit_episode(episode, manifest):
        result.add(check, episode.episode_id, problem)
    if renderer is None or not episode.token_segments:
        return
    result.rendered = (result.rendered or 0) + 1
    stop = cast("Sequence[str]", manifest.sampling.get("stop") or ())
    for problem in rendering_problems(episode, renderer, stop):
        result.add("rendering", episode.episode_id, problem)


def _audit_scoring(
    run: RunReader, name: str, finished: Mapping[str, tuple[str, bytes]], result: AuditResult
) -> None:
    """Check that a scoring is sound and judged these records; note which ones it lacks."""
    try:
        with ScoresReader.open(run, name) as scores:
            problems = scores.verify()
            rows = {} if problems else scores.latest()
            environments = scores.environments
    except RunFolderError as error:
        problems, rows, environments = [error.problem], {}, frozenset[str]()
    for problem in problems:
        result.add("scores", "", f"{name}: {problem}")
    for row in rows.values():
        _, digest = finished.get(row.episode_id, ("", b""))
        if not digest:
            result.add("scores", row.episode_id, f"{name} judged it, and it is no finished record")
        elif digest != row.record_digest:
            result.add("scores", row.episode_id, f"{name} judged another record than this one")
    scored = {row.episode_id for row in rows.values() if row.scored}
    wanted = {ident for ident, (environment, _) in finished.items() if environment in environments}
    result.scorings[name] = ScoringAudit(len(wanted & scored), tuple(sorted(wanted - scored)))


def certificate(run: RunReader, result: AuditResult) -> dict[str, Any]:
    """Return the certificate of an audit as JSON data."""
    manifest = (run.folder / MANIFEST_FILE).read_bytes()
    made = {"store", "scores", *checks_of(run.manifest)}
    return {
        "schema_version": CERTIFICATE_SCHEMA,
        "passed": result.passed,
        "run_id": run.manifest.run_id,
        "audited": utc_now(),
        "manifest_sha256": hashlib.sha256(manifest).hexdigest(),
        "records_sha256": result.records_digest,
        "episodes": result.episodes,
        "failed_episodes": result.failed_episodes,
        "superseded_attempts": result.attempts,
        # None = it was not made: an import lacks what it is about.
        "checks": {
            name: result.findings[name] if name in made else None
            for name in ("store", *CHECKS, "scores")
        },
        "rendering": _extra_check(result.rendered, "episodes", result.findings["rendering"]),
        "scorings": {
            name: {"scored": found.scored, "lacking": found.lacking[:_LISTED]}
            for name, found in result.scorings.items()
        },
        "scoring": _extra_check(result.scored, "tokens", result.findings["scoring"]),
        "findings_listed": len(result.listed),
        "findings": result.listed,
    }


def _extra_check(count: int | None, unit: str, findings: int) -> dict[str, int] | None:
    """Return an optional check as a certificate states it; None = it was not made."""
    return None if count is None else {unit: count, "findings": findings}


async def score_run(
    run: RunReader, result: AuditResult, url: str, *, episodes: int, tolerance: float
) -> None:
    """Score sampled tokens again with the engine at `url`, those of its current weights.

    Raises PolicyError, or UsageError where the run's logprobs cannot be compared.
    """
    if float(cast("float", run.manifest.sampling.get("temperature", 1.0))) != 1.0:
        raise UsageError("scores compare at temperature 1 only, and the run was sampled at another")
    policy = SGLangPolicy(url, PolicyConfig(), renderer=None)
    await policy.start()
    result.scored = 0
    try:
        versions = policy.engines.health.versions
        total = run.count()
        stride = max(1, total // episodes) if episodes else 1
        for number, episode in enumerate(run.episodes()):
            if number % stride or not episode.token_segments:
                continue
            for problem in await _score_episode(policy, episode, versions, tolerance, result):
                result.add("scoring", episode.episode_id, problem)
    finally:
        await policy.close()


async def _score_episode(
    policy: SGLangPolicy,
    episode: episode_pb2.Episode,
    versions: Iterable[str],
    tolerance: float,
    result: AuditResult,
) -> list[str]:
    problems: list[str] = []
    try:
        ledger = TokenLedger.from_protos(episode.token_segments)
    except ValueError as error:
        return [f"it cannot be scored: {error}"]
    for segment in ledger.segments:
        positions: list[int] = []
        for version in versions:
            positions += scored_tokens(segment, version)
        if positions:
            scores = await policy.score(segment.ids[: max(positions) + 1])
            problems += scoring_problems(segment, scores, positions, tolerance)
            result.scored = (result.scored or 0) + len(positions)
    return problems
