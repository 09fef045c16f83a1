"""Command: check every record of a run and write a certificate.

    python -m orchestrator.audit RUN

Owns the walk over a run and the certificate `audit.json`: which checks were made on how many
episodes, what each found, and digests of what was audited. `orchestrator.auditing` owns the checks.
Exit code 1 where anything is wrong.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import tyro
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from orchestrator.atomic_file import write_atomically
from orchestrator.auditing import CHECKS, audit_episode
from orchestrator.command_line import run_command
from orchestrator.manifest import MANIFEST_FILE, utc_now
from orchestrator.rendering import visible
from orchestrator.run_folder import find_run
from orchestrator.store import RunReader

__all__ = ["CERTIFICATE_FILE", "AuditOptions", "AuditResult", "audit_run", "main"]

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


def audit_run(run: RunReader, on_progress: Callable[[int, int], None] | None = None) -> AuditResult:
    """Check the store and every record of it; `on_progress(checked, total)` after each."""
    result = AuditResult()
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
        "findings_listed": len(result.listed),
        "findings": result.listed,
    }


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
            run, lambda done, total: progress.update(task, completed=done, total=total)
        )
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
            f"{result.attempts} superseded attempts, {len(CHECKS)} checks each; {out}"
        )
    )


if __name__ == "__main__":
    sys.exit(main())
