"""Command: check every record of a run and write a certificate.

    python -m orchestrator.audit RUN

Owns the walk over a run and the certificate `audit.json`: which checks were made on how many
episodes, what each found, and digests of what was audited. `orchestrator.auditing` owns the checks
that need the record alone, `orchestrator.token_auditing` those that need the model's tokenizer
(`--tokenizer`) or its engine (`--engine`). Exit code 1 where anything is wrong.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final, cast

import tyro
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from agent_runtime.agents import agent_folder
from agent_runtime.engine.checkpoint import weights_digest
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.huggingface import HuggingFaceRenderer
from agent_runtime.ledger import TokenLedger
from agent_runtime.policies import PolicyConfig, PolicySpec
from agent_runtime.policies.sglang import SGLangPolicy
from agent_runtime.rendering import ChatRenderer
from agentgym.episode.v1 import episode_pb2
from orchestrator.atomic_file import write_atomically
from orchestrator.auditing import CHECKS, audit_episode
from orchestrator.command_line import run_command, run_loop
from orchestrator.config import AGENT_POLICY, EMBEDDED_POLICY, SERVED_POLICY, RunConfig
from orchestrator.errors import ConfigurationError, UsageError
from orchestrator.manifest import MANIFEST_FILE, Manifest, utc_now
from orchestrator.rendering import visible
from orchestrator.run_folder import find_run
from orchestrator.store import RunReader
from orchestrator.token_auditing import rendering_problems, scored_tokens, scoring_problems

__all__ = ["CERTIFICATE_FILE", "AuditOptions", "AuditResult", "audit_run", "main", "score_run"]

CERTIFICATE_FILE: Final = "audit.json"
CERTIFICATE_SCHEMA: Final = 1
_LISTED: Final = 1000
"""Findings that a certificate lists; it counts all."""
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Check every record of a run and write a certificate."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run, or its name within `--runs`."""
    runs: Path = Path("runs")
    """Where runs are looked up by name."""
    out: Path | None = None
    """Where to write the certificate; by default `audit.json` in the run's folder."""
    tokenizer: Path | None = None
    """Model folder: render every conversation again and compare all ids and masks. Default: the
    folder that the run's configuration names, where it is still there."""
    engine: str = ""
    """Address of an SGLang server: score sampled tokens again and compare their logprobs."""
    engine_episodes: int = 32
    """Episodes that are scored again, spread evenly over the run; 0 = all."""
    tolerance: float = 0.02
    """Nats by which a score may differ from the recorded logprob."""


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
    """The certificate of an audit as JSON data."""
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
        "rendering": _made(result.rendered, "episodes", result.findings["rendering"]),
        "scoring": _made(result.scored, "tokens", result.findings["scoring"]),
        "findings_listed": len(result.listed),
        "findings": result.listed,
    }


def _made(count: int | None, unit: str, findings: int) -> dict[str, int] | None:
    """An optional check as a certificate states it; None = it was not made."""
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
        positions = [at for version in versions for at in scored_tokens(segment, version)]
        if positions:
            scores = await policy.score(segment.ids[: max(positions) + 1])
            problems += scoring_problems(segment, scores, positions, tolerance)
            result.scored = (result.scored or 0) + len(positions)
    return problems


def _renderer(options: AuditOptions, manifest: Manifest) -> ChatRenderer | None:
    """Return the chat template with which the run was played; None = it is not here."""
    try:
        config = RunConfig.from_manifest(manifest)
    except ConfigurationError:
        config = RunConfig()  # another program's run, for example a training step
    models = [
        policy for policy in config.policies if policy.kind in (EMBEDDED_POLICY, SERVED_POLICY)
    ]
    targets = [Path(it.target) for it in models if it.kind == EMBEDDED_POLICY and it.target]
    if not models:
        targets = _agent_folders(manifest)
    if targets or any(policy.kind == EMBEDDED_POLICY for policy in models):
        settings, tokenizer = config.agent.embedded, None
    else:
        settings, tokenizer = config.agent.sglang, config.agent.sglang.tokenizer
    named = tokenizer or config.model or next(map(str, targets), "")
    source = options.tokenizer or (Path(named) if named else None)
    if source is None or (options.tokenizer is None and not (source / "tokenizer.json").is_file()):
        return None
    template = settings.chat_template
    return HuggingFaceRenderer(
        source,
        chat_template=template.read_text(encoding="utf-8") if template else None,
        today=date.fromisoformat(settings.template_date or manifest.created[:10]),
    )


def _agent_folders(manifest: Manifest) -> list[Path]:
    """Return the folders of agents that played, as far as they still hold the same weights."""
    folders: list[Path] = []
    for name, identity in (manifest.policies or {}).items():
        policy = PolicySpec.parse(name)
        if policy.kind != AGENT_POLICY:
            continue
        with contextlib.suppress(PolicyMisconfigured):
            folder = agent_folder(policy.target)
            if weights_digest(folder) == identity.get("weights"):
                folders.append(folder)
    return folders


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    return run_command(AuditOptions, _audit, argv, program="agentgym-audit")


def _audit(options: AuditOptions) -> int:
    errors = Console(file=sys.stderr, soft_wrap=True)
    with (
        RunReader.open(find_run(options.run, options.runs)) as run,
        Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress,
    ):
        task = progress.add_task("auditing", total=None)
        result = audit_run(
            run,
            lambda done, total: progress.update(task, completed=done, total=total),
            renderer=_renderer(options, run.manifest),
        )
        if options.engine and result.passed:
            count, tolerance = options.engine_episodes, options.tolerance
            run_loop(score_run(run, result, options.engine, episodes=count, tolerance=tolerance))
        out = options.out or run.folder / CERTIFICATE_FILE
        document = json.dumps(certificate(run, result), indent=2, ensure_ascii=False)
        write_atomically(out, document + "\n")
    _print_result(Console(highlight=False, soft_wrap=True), result, out)
    return 0 if result.passed else 1


def _print_result(console: Console, result: AuditResult, out: Path) -> None:
    for found in result.listed[:_SHOWN]:
        where = found["episode_id"][:12] or "store"
        console.print(Text(visible(f"{found['check']}: {where}: {found['problem']}"), style="red"))
    if result.findings.total() > _SHOWN:
        console.print(Text(f"... {result.findings.total() - _SHOWN} more, see the certificate"))
    verdict = "passed" if result.passed else f"FAILED with {result.findings.total()} findings"
    console.print(
        Text(
            f"audit {verdict}: {result.episodes} episodes ({result.failed_episodes} failed ones), "
            f"{result.attempts} superseded attempts, {len(CHECKS)} checks each; "
            f"{_extent(result)}; {out}"
        )
    )


def _extent(result: AuditResult) -> str:
    """What the optional checks covered."""
    rendered = "not rendered again (no --tokenizer)"
    if result.rendered is not None:
        rendered = f"{result.rendered} rendered again"
    scored = "not scored again (no --engine)"
    if result.scored is not None:
        scored = f"{result.scored} tokens scored again"
    return f"{rendered}, {scored}"


if __name__ == "__main__":
    sys.exit(main())
