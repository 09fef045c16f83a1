"""What can go wrong around a run: its folder, its record, its exports, its command line.

    OrchestratorError               base; carries the exit code of a command that ends with it
    ├── UsageError                  what was asked for does not exist; names the valid choices
    │   ├── ConfigurationError      a field of a configuration is unknown or has a wrong value
    │   └── OutputExists            a file is there already and overwriting was not asked for
    ├── RunMismatch                 a resume with another configuration; names each difference
    ├── ScoringMismatch             a scoring goes on with other settings; names each difference
    ├── RunFolderError              a folder cannot be used as a run; it was left as it was
    │   ├── RunNotFound             there is no such folder
    │   ├── RunExists               a new run was to be made where one is
    │   ├── ForeignFolder           the folder or its database belongs to something else
    │   │   └── ForeignShard        a shard is another run's
    │   ├── LayoutUnsupported       written by a newer version of this program
    │   ├── RunLocked               another process writes to the run; names its pid
    │   └── StoreCorrupt            the manifest, the database or a record is damaged
    │       ├── RecordCorrupt       one row is not as it was written; the others can be read
    │       └── ShardMissing        a part of the run is not there
    ├── InvalidEpisode              a record breaks an invariant and was not stored
    │   └── DuplicateEpisode        the run has a finished record for that key
    ├── StoreWriteFailed            the disk or the database refused a write
    ├── EpisodesMissing             a run is incomplete and its figures were asked for only if not
    ├── ReplayDiverged              recorded actions lead to something else than was recorded
    ├── FleetError                  the environment servers of a run cannot be had
    ├── ClusterError                the Ray cluster of a run was lost, or a worker broke
    ├── ObjectStorageError          a run on object storage cannot be read or put
    │   ├── RemoteRunNotFound       nothing at that address is a run
    │   ├── BucketMissing           there is no such bucket
    │   └── CredentialsRefused      there are none, or they may not do this
    ├── EntryUnreadable             a file of others' episodes, or an entry of it, cannot be read
    └── ExtraMissing                an optional dependency is not installed; names the extra

Failures *inside* an episode are no exceptions here but data: `Episode.error`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from agent_runtime.extras import install_command

__all__ = [
    "BucketMissing",
    "ClusterError",
    "ConfigurationError",
    "CredentialsRefused",
    "Difference",
    "DuplicateEpisode",
    "EntryUnreadable",
    "EpisodesMissing",
    "ExtraMissing",
    "FleetError",
    "ForeignFolder",
    "ForeignShard",
    "InvalidEpisode",
    "LayoutUnsupported",
    "ObjectStorageError",
    "OrchestratorError",
    "OutputExists",
    "RecordCorrupt",
    "RemoteRunNotFound",
    "ReplayDiverged",
    "RunExists",
    "RunFolderError",
    "RunLocked",
    "RunMismatch",
    "RunNotFound",
    "ScoringMismatch",
    "ShardMissing",
    "StoreCorrupt",
    "StoreWriteFailed",
    "UsageError",
]


class OrchestratorError(Exception):
    """Base of this package's errors."""

    exit_code: ClassVar[int] = 1
    """What a command that ends with this error returns to the shell."""


class UsageError(OrchestratorError):
    """When a command or call asks for what does not exist; `valid` tells what would be right."""

    exit_code = 2

    def __init__(self, message: str, *, valid: Iterable[str] = ()) -> None:
        self.valid = tuple(valid)
        super().__init__(f"{message} (valid: {', '.join(self.valid)})" if self.valid else message)


class ConfigurationError(UsageError):
    """When a configuration has an unknown key or a value of another type; names the field."""

    def __init__(self, message: str, *, field: str = "", valid: Iterable[str] = ()) -> None:
        self.field = field
        """Dotted path; empty = no single field is wrong."""
        super().__init__(f"{field}: {message}" if field else message, valid=valid)


class OutputExists(UsageError):
    """When an output file exists and overwriting was not asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} exists; choose another file or ask for overwriting")


class Difference(NamedTuple):
    """One field in which two manifests differ; values as JSON texts, `-` = absent."""

    field: str
    """Dotted path, for example `sampling.temperature`."""
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.field}: {self.old} -> {self.new}"


class RunMismatch(OrchestratorError):
    """When a run is resumed with another configuration than it was begun with."""

    exit_code = 2

    def __init__(self, run: str, differences: Sequence[Difference]) -> None:
        self.differences = tuple(differences)
        listed = "\n".join(f"  {difference}" for difference in self.differences)
        super().__init__(
            f"run {run!r} was begun with another configuration; "
            f"resume it unchanged or begin a new run. Recorded -> requested:\n{listed}"
        )


class ScoringMismatch(OrchestratorError):
    """When a run has a scoring of that name, which judges otherwise."""

    exit_code = 2

    def __init__(self, name: str, differences: Sequence[Difference]) -> None:
        self.differences = tuple(differences)
        listed = "\n".join(f"  {difference}" for difference in self.differences)
        super().__init__(
            f"the run has a scoring {name!r} that judges otherwise; go on with it unchanged or "
            f"choose another name with --name. Recorded -> requested:\n{listed}"
        )


class RunFolderError(OrchestratorError):
    """When a folder cannot be used as a run; nothing in it was changed."""

    def __init__(self, folder: Path, problem: str) -> None:
        self.folder = folder
        self.problem = problem
        suffix = "; nothing was changed" if folder.exists() else ""
        super().__init__(f"{folder}: {problem}{suffix}")


class RunNotFound(RunFolderError):
    """When there is no such run; `valid` names those that are there."""

    exit_code = 2

    def __init__(self, folder: Path, *, valid: Iterable[str] = ()) -> None:
        self.valid = tuple(valid)
        runs = f" (runs here: {', '.join(self.valid)})" if self.valid else ""
        super().__init__(folder, f"there is no such run{runs}")


class RunExists(RunFolderError):
    """When a new run was to be made where one is."""

    exit_code = 2

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "a run is here already; resume it or choose another name")


class ForeignFolder(RunFolderError):
    """When a folder or its database was not made by this program."""


class ForeignShard(ForeignFolder):
    """When a folder among a run's shards belongs to another run."""

    def __init__(self, folder: Path, *, run_id: str, wanted: str) -> None:
        self.run_id = run_id
        """Of the run that it belongs to."""
        super().__init__(
            folder,
            f"this is a shard of run {run_id!r}, not of {wanted!r}: move it to its own run",
        )


class LayoutUnsupported(RunFolderError):
    """When a run was written by a newer version of this program."""


class RunLocked(RunFolderError):
    """When another process writes to the run."""

    def __init__(self, folder: Path, *, pid: int | None, host: str) -> None:
        self.pid = pid
        """None where the other process has not yet said who it is."""
        self.host = host
        who = f"process {pid} on {host}" if pid is not None else "another process"
        super().__init__(folder, f"{who} is writing to this run; wait for it or stop it")


class StoreCorrupt(RunFolderError):
    """When the manifest, the database or one of its records is damaged."""


class ShardMissing(StoreCorrupt):
    """When shards are not there that the run's manifest names: its records are incomplete."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.names = tuple(names)
        some = ", ".join(self.names[:5]) + (", ..." if len(self.names) > 5 else "")
        super().__init__(
            folder,
            f"{len(self.names)} of its shards are not in shards/ ({some}): copy them there, or go "
            "on without their records: python -m orchestrator.forget_shards RUN NAME ...",
        )


class TrainingUnreadable(RunFolderError):
    """When the files of a training are damaged."""


class RecordCorrupt(StoreCorrupt):
    """When one row of the database is not as it was written; others can be read."""

    def __init__(self, folder: Path, table: str, row: int, episode_id: str, problem: str) -> None:
        self.table = table
        """`episodes`, or `attempts` for one that was played again."""
        self.row = row
        """Its id in the table."""
        self.episode_id = episode_id
        """What its column says."""
        super().__init__(folder, f"{table}, row {row}, episode {episode_id}: {problem}")


class InvalidEpisode(OrchestratorError):
    """When a record breaks an invariant of the store; it was not stored."""


class DuplicateEpisode(InvalidEpisode):
    """When the run holds a record that the new one may not replace."""


class StoreWriteFailed(OrchestratorError):
    """When the disk or the database refused a write; the batch was rolled back."""


class EpisodesMissing(OrchestratorError):
    """When episodes are missing and `--missing error` asked for no figures then."""


class ReplayDiverged(OrchestratorError):
    """When recorded actions, played again, lead to something else than was recorded."""


class FleetError(OrchestratorError):
    """When a spawned server does not start, or servers of one environment contradict."""


class ClusterError(OrchestratorError):
    """When the cluster that plays a run is lost, or none of its workers can play."""


class ObjectStorageError(OrchestratorError):
    """When a run on object storage cannot be read or put there; what was there is as it was."""

    def __init__(self, url: str, problem: str) -> None:
        self.url = url
        self.problem = problem
        super().__init__(f"{url}: {problem}")


class RemoteRunNotFound(ObjectStorageError):
    """When nothing at an address is a run."""

    exit_code = 2


class BucketMissing(ObjectStorageError):
    """When there is no such bucket."""

    exit_code = 2

    def __init__(self, url: str) -> None:
        super().__init__(url, "there is no such bucket: make it, or mend the address")


class CredentialsRefused(ObjectStorageError):
    """When there are no credentials, or they may not do this."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(
            url,
            f"{problem}: give credentials that may read and write there (for s3:// in "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for gs:// in "
            "GOOGLE_APPLICATION_CREDENTIALS)",
        )


class EntryUnreadable(OrchestratorError):
    """When a file of others' episodes cannot be read, or an entry of it is no episode."""

    def __init__(self, path: Path, problem: str, number: int | None = None) -> None:
        self.path = path
        self.number = number
        """Of the entry, from 0; None = the file itself."""
        where = f"{path}, entry {number}" if number is not None else str(path)
        super().__init__(f"{where}: {problem}")


class ExtraMissing(OrchestratorError):
    """When an optional dependency is not installed."""

    def __init__(self, feature: str, *, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{feature} needs an extra: {install_command(extra)}")
