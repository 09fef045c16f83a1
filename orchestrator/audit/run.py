"""The walk of an audit over a run, and the certificate of what it found.

`audit_run` reads every record once; `score_run` asks an engine for the logprobs of sampled tokens
again. What is wrong with a single record is decided by `episodes` and `tokens`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from agent_runtime.ledger import TokenLedger
from agent_runtime.policies import PolicyConfig
from agent_runtime.policies.sglang import SGLangPolicy
from agent_runtime.rendering import ChatRenderer
from agentgym.episode.v1 import episode_pb2
from orchestrator.audit.episodes import CHECKS, audit_episode
from orchestrator.audit.tokens import rendering_problems, scored_tokens, scoring_problems
from orchestrator.errors import UsageError
from orchestrator.manifest import MANIFEST_FILE, utc_now
from orchestrator.store import RunReader

__all__ = ["AuditResult", "audit_run", "certificate", "score_run"]

CERTIFICATE_SCHEMA: Final = 1
_LISTED: Final = 1000
"""Findings that a certificate lists; it counts all."""


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
    """How often each check found something; `store` is the store's own integrity check."""
    listed: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """The first findings: check, episode_id, problem."""
    rendered: int | None = None
    """Episodes that were rendered again; None = there was no tokenizer."""
    scored: int | None = None
    """Tokens that were scored again; None = there was no engine."""
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
    stop = cast("Sequence[str]", run.manifest.sampling.get("stop") or ())
    for problem in run.verify():
        result.add("store", "", problem)
    if not result.passed:
        # What cannot be read cannot be audited; the certificate says so by counting no episodes.
        return result
    total = run.count()
    digests: list[tuple[Any, bytes]] = []
    for superseded in (False, True):
        for episode in run.episodes(superseded=superseded):
            for check, problem in audit_episode(episode, run.manifest):
                result.add(check, episode.episode_id, problem)
            if renderer is not None and episode.token_segments:
                result.rendered = (result.rendered or 0) + 1
                for problem in rendering_problems(episode, renderer, stop):
                    result.add("rendering", episode.episode_id, problem)
            if superseded:
                result.attempts += 1
                continue
            result.episodes += 1
            result.failed_episodes += episode.HasField("error")
            key = (episode.environment, episode.item_id, episode.sample, episode.policy)
            stored = episode.SerializeToString(deterministic=True)
            digests.append((key, hashlib.sha256(stored).digest()))
            if on_progress is not None:
                on_progress(result.episodes, total)
    joined = b"".join(digest for _, digest in sorted(digests))
    result.records_digest = hashlib.sha256(joined).hexdigest()
    return result


def certificate(run: RunReader, result: AuditResult) -> dict[str, Any]:
    """Return the certificate of an audit as JSON data."""
    manifest = (run.folder / MANIFEST_FILE).read_bytes()
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
        "checks": {name: result.findings[name] for name in ("store", *CHECKS)},
        "rendering": _extra_check(result.rendered, "episodes", result.findings["rendering"]),
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
