"""The command of an audit: its flags, what it shows, and where the certificate goes."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import tyro
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from agent_runtime.huggingface import HuggingFaceRenderer
from agent_runtime.rendering import ChatRenderer
from orchestrator.atomic_file import write_atomically
from orchestrator.audit.episodes import CHECKS, checks_of
from orchestrator.audit.run import AuditResult, audit_run, certificate, score_run
from orchestrator.command_line import run_command, run_loop
from orchestrator.errors import UsageError
from orchestrator.manifest import Manifest
from orchestrator.object_storage import locate_run
from orchestrator.run_folder import is_url
from orchestrator.run_tokenizer import find_tokenizer
from orchestrator.store import RunReader
from orchestrator.terminal import TerminalConsole, visible

__all__ = ["CERTIFICATE_FILE", "AuditOptions", "main"]

CERTIFICATE_FILE: Final = "audit.json"
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Check every record of a run and write a certificate."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run, its name within `--runs`, or a URL such as s3://BUCKET/RUN."""
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


def _renderer(options: AuditOptions, manifest: Manifest) -> ChatRenderer | None:
    """Return the chat template with which the run was played; None = it is not here."""
    found = find_tokenizer(manifest, options.tokenizer)
    if found is None:
        return None
    template = found.chat_template
    return HuggingFaceRenderer(
        found.folder,
        chat_template=template.read_text(encoding="utf-8") if template else None,
        today=found.today,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    return run_command(AuditOptions, _audit, argv, program="agentgym-audit")


def _audit(options: AuditOptions) -> int:
    if is_url(options.run) and options.out is None:
        raise UsageError("of a run on object storage the certificate is written to --out FILE")
    errors = TerminalConsole(file=sys.stderr, soft_wrap=True)
    with (
        RunReader.open(locate_run(options.run, options.runs)) as run,
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
        write_atomically(out, document + "\n", private=options.out is None)
        checks = checks_of(run.manifest)
    _print_result(TerminalConsole(highlight=False, soft_wrap=True), result, out, checks)
    return 0 if result.passed else 1


def _print_result(
    console: Console, result: AuditResult, out: Path, checks: Collection[str]
) -> None:
    for finding in result.listed[:_SHOWN]:
        where = finding["episode_id"][:12] or "store"
        line = f"{finding['check']}: {where}: {finding['problem']}"
        console.print(Text(visible(line), style="red"))
    if result.findings.total() > _SHOWN:
        console.print(Text(f"... {result.findings.total() - _SHOWN} more, see the certificate"))
    for name, found in result.scorings.items():
        lacking = [ident[:12] for ident in found.lacking[:_SHOWN]]
        more = ", ..." if len(found.lacking) > _SHOWN else ""
        line = f"scoring {name}: {found.scored} of {found.scored + len(found.lacking)} finished "
        line += "episodes have a score"
        line += f"; without: {', '.join(lacking)}{more}" if lacking else ""
        console.print(Text(visible(line)))
    lacking = ", ".join(CHECKS.keys() - set(checks))
    unmade = f" (not made of an import: {lacking})" if lacking else ""
    verdict = "passed" if result.passed else f"FAILED with {result.findings.total()} findings"
    console.print(
        Text(
            f"audit {verdict}: {result.episodes} episodes ({result.failed_episodes} failed ones), "
            f"{result.attempts} superseded attempts, {len(checks)} checks each{unmade}; "
            f"{_extent(result)}; {out}"
        )
    )


def _extent(result: AuditResult) -> str:
    """Say what the optional checks covered."""
    rendered = "not rendered again (no --tokenizer)"
    if result.rendered is not None:
        rendered = f"{result.rendered} rendered again"
    scored = "not scored again (no --engine)"
    if result.scored is not None:
        scored = f"{result.scored} tokens scored again"
    return f"{rendered}, {scored}"
