"""The manifest of a run: what was played, with what, and by whom.

Fields of `Manifest` itself *bind*: they decide what the episodes are, so a resume must repeat them.
Fields of `Session` *may differ*: there is one entry per start of the run. Secrets are never written
(`agent_runtime.redaction`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from agent_runtime.redaction import Json, redact, redact_arguments
from orchestrator import configuration
from orchestrator.atomic_file import write_atomically
from orchestrator.errors import (
    Difference,
    ForeignFolder,
    LayoutUnsupported,
    RunMismatch,
    RunNotFound,
    StoreCorrupt,
)
from orchestrator.manifest_layouts import MANIFEST_SCHEMA, upgrade
from orchestrator.trust import SIGNATURE, is_signed, sign

__all__ = [
    "IMPORTED_FROM",
    "MANIFEST_FILE",
    "MANIFEST_SCHEMA",
    "PLAYED_FROM",
    "EnvironmentIdentity",
    "Manifest",
    "Session",
    "begin_session",
    "check_resumable",
    "code_changes",
    "differences",
    "is_own",
    "read_manifest",
    "utc_now",
    "write_manifest",
]

IMPORTED_FROM: Final = "imported_from"
"""Key in the configuration of a run that others played: the files that it was made of."""
MANIFEST_FILE: Final = "manifest.json"
PLAYED_FROM: Final = "played_from"
"""Key in the configuration of a run that keeps what was played on: from which."""
_FORMAT: Final = "agentgym-run"
"""Marks the file as ours: other tools write files of this name, too."""
_MARKS: Final = ("format", SIGNATURE)
_LOCK_FILE: Final = "constraints.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentIdentity:
    """One environment as its server described it."""

    name: str
    version: str
    digest: str
    """GetEnvironmentResponse.digest: changes whenever the environment could play differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One start of a run. Nothing here decides what the episodes are, so a resume may differ."""

    started: str
    """UTC, ISO 8601."""
    code_version: str
    git_commit: str | None
    """None = not started from a git checkout; `+changes` at the end = with local changes."""
    lock_hash: str | None
    """SHA-256 of constraints.txt; None = there was none."""
    command: tuple[str, ...]
    machine: Mapping[str, str]
    settings: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The part of the configuration that only says how to run: addresses, concurrency."""
    code_hash: str | None = None
    """SHA-256 of this program's modules; None = written before it was recorded."""
    policy_code: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict[str, Mapping[str, str]]
    )
    """Module, distribution and SHA-256 of the source of each policy that is no part of this
    program."""

    @property
    def code(self) -> str:
        """The code that played, for people."""
        commit = (self.git_commit or "").partition("+")
        parts = (
            self.code_version,
            f"commit {commit[0][:12]}{''.join(commit[1:])}" if self.git_commit else "",
            f"code {self.code_hash[:12]}" if self.code_hash else "",
            f"constraints {self.lock_hash[:12]}" if self.lock_hash else "",
        )
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a run is. All but `run_id`, `created`, `sessions` and `shards` binds a resume."""

    run_id: str
    created: str
    """UTC, ISO 8601."""
    environments: tuple[EnvironmentIdentity, ...]
    policy: str
    run_seed: int
    policies: Mapping[str, Mapping[str, str]] | None = None
    """What each policy said of itself: weights, what computes them. None = written before policies
    said anything, which binds nothing."""
    sampling: Mapping[str, Json] = field(default_factory=dict[str, Json])
    config: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The part of the resolved configuration that decides what is played: items, samples, rounds,
    formats, profiles."""
    step: int = 0
    """Training step that the run belongs to; part of every seed."""
    sessions: tuple[Session, ...] = ()
    shards: tuple[str, ...] = ()
    """Names of the shards that the run is known to have; one that was begun this moment may not be
    among them. Empty in a shard's own manifest."""
    schema_version: int = MANIFEST_SCHEMA

    def with_session(self, session: Session) -> Manifest:
        """Return the manifest after one more start."""
        return dataclasses.replace(self, sessions=(*self.sessions, session))

    def with_shards(self, names: Iterable[str]) -> Manifest:
        """Return the manifest that also names these shards."""
        return dataclasses.replace(self, shards=tuple(sorted({*self.shards, *names})))


def code_changes(before: Session, now: Session) -> list[str]:
    """Say in a sentence each that this program, or a policy, goes on under other code."""
    changes = [_program_change(before, now)]
    for policy, code in now.policy_code.items():
        old = before.policy_code.get(policy, code)
        if old != code:
            changes.append(
                f"policy {policy} was last played by other code ({_named(old)}) and goes on with "
                f"{_named(code)}; its records will be of both"
            )
    return [change for change in changes if change]


def _named(code: Mapping[str, str]) -> str:
    source = f"source {code['source'][:12]}" if code.get("source") else ""
    parts = (code.get("module", ""), code.get("distribution", ""), source)
    return ", ".join(part for part in parts if part)


def _program_change(before: Session, now: Session) -> str:
    fields = ("code_version", "git_commit", "lock_hash", "code_hash")
    pairs = [(getattr(before, name), getattr(now, name)) for name in fields]
    if all(old == new or None in (old, new) for old, new in pairs):
        return ""
    return (
        f"this run was last played by other code ({before.code}) and goes on with {now.code}; "
        "its records will be of both"
    )


_PACKAGES: Final = ("agent_runtime", "env_servers", "orchestrator")
"""What decides how episodes are played, where the servers run here."""
_OPTION: Final = re.compile(r"(^|\.)options\.")
"""What an environment names: there, an absent entry is not one that is off."""
_NOT_BINDING: Final = ("run_id", "created", "sessions", "shards")


def begin_session(
    settings: Mapping[str, Json] | None = None,
    *,
    command: Sequence[str] | None = None,
    policy_code: Mapping[str, Mapping[str, str]] | None = None,
) -> Session:
    """Describe the present process as a session, its code version and machine looked up."""
    root = Path(__file__).resolve().parent.parent
    lock = root / _LOCK_FILE
    return Session(
        started=utc_now(),
        code_version=_code_version(),
        git_commit=_git_commit(root),
        lock_hash=hashlib.sha256(lock.read_bytes()).hexdigest() if lock.is_file() else None,
        command=redact_arguments(sys.argv if command is None else command),
        machine={
            "host": platform.node(),
            "platform": platform.platform(),
            "python": platform.python_version(),
            "processors": str(os.cpu_count() or 0),
        },
        code_hash=_code_hash(root),
        policy_code=policy_code or {},
        settings=cast("Mapping[str, Json]", redact(settings or {})),
    )


def utc_now() -> str:
    """Return now, UTC, ISO 8601 with seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def differences(recorded: Manifest, requested: Manifest) -> list[Difference]:
    """Return the binding fields in which two manifests differ, sorted by name."""
    old, new = _binding(recorded), _binding(requested)
    if None in (old["policies"], new["policies"]):
        del old["policies"], new["policies"]
    return [it for it in configuration.differences(old, new) if not _is_new_and_off(it)]


def _is_new_and_off(difference: Difference) -> bool:
    """Tell whether a setting is off that the run's program did not have yet."""
    path = difference.field
    return (
        difference.old == "-" and difference.new in configuration.OFF and not _OPTION.search(path)
    )


def check_resumable(recorded: Manifest, requested: Manifest) -> None:
    """Raise RunMismatch where the requested run is not the recorded one."""
    changes = differences(recorded, requested)
    if changes:
        raise RunMismatch(recorded.run_id, changes)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a run folder without touching anything.

    Raises RunNotFound, ForeignFolder, LayoutUnsupported or StoreCorrupt.
    """
    if not folder.is_dir():
        raise RunNotFound(folder)
    path = folder / MANIFEST_FILE
    if not path.is_file():
        raise ForeignFolder(folder, f"not a run folder: it has no {MANIFEST_FILE}")
    try:
        loaded: object = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise StoreCorrupt(folder, f"{MANIFEST_FILE} is no JSON ({error})") from error
    if not isinstance(loaded, dict) or cast("dict[str, Any]", loaded).get("format") != _FORMAT:
        raise ForeignFolder(folder, f"not a run folder: {MANIFEST_FILE} is another program's")
    document = cast("dict[str, Any]", loaded)
    layout = document.get("schema_version")
    if isinstance(layout, int) and layout > MANIFEST_SCHEMA:
        raise LayoutUnsupported(
            folder, f"{MANIFEST_FILE} has layout {layout}, this program reads {MANIFEST_SCHEMA}"
        )
    try:
        return _from_json(upgrade(document))
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise StoreCorrupt(folder, f"{MANIFEST_FILE} is incomplete ({error!r})") from error


def is_own(folder: Path) -> bool:
    """Tell whether a run was begun by this user: its manifest was written by their programs.

    An import is written by them and says what strangers wrote: names of environments, for one.
    """
    try:
        document: object = json.loads((folder / MANIFEST_FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(document, dict):
        return False
    fields = cast("dict[str, Any]", document)
    return is_signed(fields) and IMPORTED_FROM not in fields.get("config", {})


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a manifest into its folder, whole or not at all."""
    document = cast("dict[str, Any]", redact({"format": _FORMAT} | dataclasses.asdict(manifest)))
    document[SIGNATURE] = sign(document)
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(folder / MANIFEST_FILE, text + "\n", private=True)


def _from_json(document: dict[str, Any]) -> Manifest:
    fields = {name: value for name, value in document.items() if name not in _MARKS}
    manifest = msgspec.convert(fields, Manifest)
    known = {field.name for field in dataclasses.fields(Manifest)}
    if unknown := sorted(fields.keys() - known):
        raise ValueError(f"unknown: {', '.join(unknown)}")
    if not manifest.run_id:
        raise ValueError("run_id")
    if not manifest.sessions:
        raise ValueError("sessions: every run was started once")
    return manifest


def _binding(manifest: Manifest) -> dict[str, Json]:
    # What was redacted before it was written must compare equal to what is requested now.
    document = cast("dict[str, Any]", redact(dataclasses.asdict(manifest)))
    # By name, so that the order of environments does not matter and a difference names its own.
    document["environments"] = {
        identity.pop("name"): identity for identity in document["environments"]
    }
    return {name: value for name, value in document.items() if name not in _NOT_BINDING}


def _code_version() -> str:
    try:
        return version("agentgym-grpc")
    except PackageNotFoundError:
        return "unknown"


def _code_hash(root: Path) -> str:
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for module in sorted((root / package).rglob("*.py")):
            digest.update(f"{module.relative_to(root)}\0".encode() + module.read_bytes() + b"\0")
    return digest.hexdigest()


def _git_commit(root: Path) -> str | None:
    if not (root / ".git").exists():
        return None
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+changes" if changes else commit


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()
