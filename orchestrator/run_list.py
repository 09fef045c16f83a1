"""The runs below some folders, one entry each: what state they are in, and what they come to.

A folder that looks like a run and cannot be read has an entry, too, which says why. Looking changes
nothing.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from orchestrator.errors import ForeignFolder, OrchestratorError, RecordCorrupt, RunNotFound
from orchestrator.manifest import (
    IMPORTED_FROM,
    MANIFEST_FILE,
    PLAYED_FROM,
    Manifest,
    read_manifest,
)
from orchestrator.records import EpisodeKey, EpisodeSummary
from orchestrator.report import measured_data
from orchestrator.run_folder import DATABASE_FILE, read_writer
from orchestrator.run_plan import RunPlan
from orchestrator.run_state import RunState, run_state
from orchestrator.statistics import Measured, MissingRule, measure_success
from orchestrator.store import RunReader

__all__ = [
    "PolicyOutcome",
    "RunEntry",
    "describe_run",
    "entry_data",
    "find_runs",
    "imported_from",
    "list_runs",
    "name_some",
    "played_from",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOutcome:
    """What one policy came to in all environments of a run."""

    policy: str
    planned: int | None
    """None = the run did not record its plan."""
    finished: int
    judged: int
    """Finished episodes that say whether they succeeded."""
    given_up: int
    success: Measured
    """Over the episodes of all environments, clustered by item."""
    tokens: int
    """Prompts and completions of all records: failed ones cost, too."""
    cost_usd: float | None
    """None where any is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """One run."""

    folder: Path
    run_id: str
    state: RunState
    created: str
    """UTC, ISO 8601."""
    last_ended_unix_ms: int | None
    """When its latest record ended; None = it has none."""
    environments: Sequence[str]
    policies: Sequence[PolicyOutcome]
    suite: str = ""
    """That its environments were chosen by, a name or a file; empty = they were named."""
    played_from: str = ""
    """Name of the run that its episodes were played on from, by hand; empty = they were not."""
    imported_from: Sequence[str] = ()
    """Names of the files that it was imported from; empty = it was played here."""
    problem: str = ""
    """Why it cannot be read, or only in part; empty = it can."""

    @property
    def planned(self) -> int | None:
        """Episodes that were to be played; None = not recorded."""
        counts = [policy.planned for policy in self.policies if policy.planned is not None]
        return sum(counts) if len(counts) == len(self.policies) else None

    @property
    def finished(self) -> int:
        """Planned episodes with a finished record."""
        return sum(policy.finished for policy in self.policies)

    @property
    def judged(self) -> int:
        """Finished episodes that say whether they succeeded."""
        return sum(policy.judged for policy in self.policies)

    @property
    def tokens(self) -> int:
        """Tokens of all policies."""
        return sum(policy.tokens for policy in self.policies)

    @property
    def cost_usd(self) -> float | None:
        """Cost of all policies; None where any is unknown."""
        costs = [policy.cost_usd for policy in self.policies if policy.cost_usd is not None]
        return math.fsum(costs) if costs and len(costs) == len(self.policies) else None


def played_from(manifest: Manifest) -> str:
    """Return the name of the run that another one was played on from; empty = it is no such."""
    origin = manifest.config.get(PLAYED_FROM)
    return str(origin.get("name", "")) if isinstance(origin, dict) else ""


def imported_from(manifest: Manifest) -> list[str]:
    """Return the names of the files that a run was imported from; empty = it was played here."""
    origins = manifest.config.get(IMPORTED_FROM)
    listed = origins if isinstance(origins, list) else []
    return [
        str(cast("dict[str, Any]", it).get("file", "")) for it in listed if isinstance(it, dict)
    ]


def name_some(names: Sequence[str]) -> str:
    """Return names for people: the first two, and how many more there are."""
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more


def list_runs(roots: Iterable[Path], *, missing: MissingRule = "bounds") -> Iterator[RunEntry]:
    """Yield an entry for each run at or below folders, by path; raises RunNotFound for a root."""
    for folder in find_runs(roots):
        yield describe_run(folder, missing=missing)


def find_runs(roots: Iterable[Path]) -> list[Path]:
    """Return the run folders at or below folders, sorted; links are not followed.

    Raises RunNotFound where a root is no folder.
    """
    found: dict[Path, Path] = {}
    for root in roots:
        if not root.is_dir():
            raise RunNotFound(root)
        for path, folders, files in os.walk(root):
            if MANIFEST_FILE in files and _is_run(Path(path), DATABASE_FILE in files):
                found.setdefault(Path(path).resolve(), Path(path))
                folders.clear()  # what is in a run's folder is its own
            # A run that is being made has a hidden name until it is complete.
            folders[:] = [name for name in folders if not name.startswith(".")]
    return sorted(found.values())


def _is_run(folder: Path, has_database: bool) -> bool:
    """Tell whether a manifest is a run's: other programs write files of this name, too."""
    try:
        read_manifest(folder)
    except ForeignFolder:
        return False
    except (OrchestratorError, OSError):
        return has_database
    return True


def describe_run(folder: Path, *, missing: MissingRule = "bounds") -> RunEntry:
    """Return the entry of a run folder; one that cannot be read has a `problem`."""
    try:
        with RunReader.open(folder) as run:
            return _describe(run, missing)
    except (OrchestratorError, OSError) as error:
        return RunEntry(
            folder=folder,
            run_id="",
            state=RunState.UNREADABLE,
            created="",
            last_ended_unix_ms=None,
            environments=(),
            policies=(),
            problem=str(error),
        )


def _describe(run: RunReader, missing: MissingRule) -> RunEntry:
    damage: list[str] = run.loss()

    def on_damage(error: RecordCorrupt) -> None:
        damage.append(error.problem)

    # In this order: what is stored after the plan was read is no more than was planned.
    plan = run.plan()
    records = list(run.summaries(on_damage=on_damage))
    policies = _policies(records, plan, missing)
    planned = sum(policy.planned or 0 for policy in policies) if plan is not None else None
    finished = sum(policy.finished for policy in policies)
    played = {record.environment for record in records}
    return RunEntry(
        folder=run.folder,
        run_id=run.manifest.run_id,
        state=run_state(
            writer=read_writer(run.folder),
            planned=planned,
            complete=finished == planned and plan is not None and not (damage or plan.gaps),
            end=run.session_end(),
        ),
        created=run.manifest.created,
        last_ended_unix_ms=max((record.ended_unix_ms for record in records), default=None),
        environments=sorted(played | (plan.items.keys() if plan is not None else set())),
        policies=policies,
        suite=str(run.manifest.config.get("suite") or ""),
        played_from=played_from(run.manifest),
        imported_from=imported_from(run.manifest),
        problem=f"{len(damage)} damaged, the first: {damage[0]}" if damage else "",
    )


def _policies(
    records: Sequence[EpisodeSummary], plan: RunPlan | None, missing: MissingRule
) -> list[PolicyOutcome]:
    planned: defaultdict[str, list[EpisodeKey]] = defaultdict(list)
    for key in plan.keys() if plan is not None else ():
        planned[key.policy].append(key)
    played: defaultdict[str, list[EpisodeSummary]] = defaultdict(list)
    for record in records:
        played[record.policy].append(record)
    return [
        _outcome(name, played[name], planned[name] if plan is not None else None, missing)
        for name in sorted(planned.keys() | played.keys())
    ]


def _outcome(
    policy: str,
    records: Sequence[EpisodeSummary],
    planned: Sequence[EpisodeKey] | None,
    missing: MissingRule,
) -> PolicyOutcome:
    costs = [record.cost_usd for record in records if record.cost_usd is not None]
    given_up = sum(record.failed for record in records)
    return PolicyOutcome(
        policy=policy,
        planned=None if planned is None else len(planned),
        finished=len(records) - given_up,
        judged=sum(record.success is not None for record in records),
        given_up=given_up,
        success=measure_success(records, planned or (), missing=missing),
        tokens=sum(record.prompt_tokens + record.completion_tokens for record in records),
        cost_usd=math.fsum(costs) if costs and len(costs) == len(records) else None,
    )


def entry_data(entry: RunEntry) -> dict[str, Any]:
    """Return an entry as JSON data; intervals and bounds as [low, high]."""
    return {
        "folder": str(entry.folder),
        "run_id": entry.run_id,
        "state": entry.state,
        "created": entry.created,
        "last_ended_unix_ms": entry.last_ended_unix_ms,
        "environments": list(entry.environments),
        "suite": entry.suite,
        "played_from": entry.played_from,
        "imported_from": list(entry.imported_from),
        "planned": entry.planned,
        "finished": entry.finished,
        "judged": entry.judged,
        "tokens": entry.tokens,
        "cost_usd": entry.cost_usd,
        "policies": [
            {**dataclasses.asdict(outcome), "success": measured_data(outcome.success)}
            for outcome in entry.policies
        ],
        "problem": entry.problem,
    }
