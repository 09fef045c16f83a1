"""Where branches and tasks that a person played are kept: a run of their own, beside the parent.

    runs/first             the run
    runs/first-played      what was played on from it: a run like any other

Nothing is ever written into the parent's folder. Environments that have changed since begin another
one (`first-played-2`), because a run is of one version of each.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from agent_runtime.redaction import Json
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.episode.v1 import episode_pb2
from orchestrator.branching import PERSON
from orchestrator.errors import RunMismatch, UsageError
from orchestrator.manifest import (
    PLAYED_FROM,
    EnvironmentIdentity,
    Manifest,
    begin_session,
    is_own,
    read_manifest,
    utc_now,
)
from orchestrator.run_plan import SessionEnd
from orchestrator.store import RunReader, RunStore

__all__ = ["keep_played", "played_folders", "used_samples"]

_SUFFIX: Final = "-played"


def played_folders(parent: Path) -> Iterator[Path]:
    """Yield the folders that hold what was played on from a run, as far as there are any."""
    for folder in _names(parent):
        if not folder.is_dir():
            return
        yield folder


def used_samples(folders: Iterable[Path], environment: str, item_id: str) -> set[int]:
    """Return the numbers of the samples of an item in some runs; raises RunFolderError."""
    used: set[int] = set()
    for folder in folders:
        with RunReader.open(folder) as run:
            used |= {
                it.sample
                for it in run.summaries()
                if (it.environment, it.item_id) == (environment, item_id)
            }
    return used


def keep_played(
    parent: Path,
    record: episode_pb2.Episode,
    described: pb.GetEnvironmentResponse,
    policies: Mapping[str, Mapping[str, str]],
) -> Path:
    """Store a record of `Branch.record` in a run beside its parent's; durable on return.

    Args:
        parent: Folder of the run that it was played on from.
        record: What was played; it gets the id of the run that keeps it.
        described: The environment as the server that played it describes it.
        policies: What the policies that played say of themselves, by name.

    Returns:
        The folder of the run that keeps it.

    Raises:
        UsageError: Nothing was played, or nothing may be written beside the parent.
        RunFolderError: The run is being written to, or damaged.
        DuplicateEpisode, StoreWriteFailed: It could not be stored.
    """
    if len(record.steps) - 1 <= record.parent.turn:
        raise UsageError("nothing was played yet: there is nothing to keep")
    if not os.access(parent.parent, os.W_OK):
        raise UsageError(f"{parent.parent} may not be written to: nothing can be kept there")
    manifest = _manifest(parent, described)
    settings: dict[str, Any] = {"kept": record.episode_id, "policies": policies}
    if is_own(parent):
        # Where its servers are. What this program writes passes for this user's wish: a stranger's
        # addresses and arguments must not become that by keeping a branch.
        recorded = read_manifest(parent).sessions[-1].settings
        settings |= {name: recorded[name] for name in ("fleet",) if name in recorded}
    session = begin_session(settings)
    for folder in _names(parent):
        try:
            begin = RunStore.resume if folder.exists() else RunStore.create
            store = begin(folder, manifest, session)
        except RunMismatch:
            continue
        with store:
            record.run_id = store.manifest.run_id
            store.append_all([record])
            store.end_playing(SessionEnd(interrupted=False))
        return folder
    raise AssertionError("folders are numbered without an end")


def _names(parent: Path) -> Iterator[Path]:
    base = parent.name if _is_played(parent) else f"{parent.name}{_SUFFIX}"
    for number in itertools.count(1):
        yield parent.with_name(base if number == 1 else f"{base}-{number}")


def _is_played(folder: Path) -> bool:
    """Tell whether a run holds what was played on: branches of it stay with it."""
    return PLAYED_FROM in read_manifest(folder).config


def _manifest(parent: Path, described: pb.GetEnvironmentResponse) -> Manifest:
    """Return what binds the run that keeps: the parent's settings, whoever played."""
    of = read_manifest(parent)
    played = EnvironmentIdentity(
        name=described.name, version=described.version, digest=described.digest
    )
    origin: dict[str, Json] = {"run_id": of.run_id, "name": parent.name}
    return replace(
        of,
        run_id=uuid.uuid4().hex,
        created=utc_now(),
        environments=tuple(
            sorted(
                (*(it for it in of.environments if it.name != played.name), played),
                key=lambda it: it.name,
            )
        ),
        policy=PERSON,
        policies=None,
        config={PLAYED_FROM: origin, **of.config},
        sessions=(),
        shards=(),
    )
