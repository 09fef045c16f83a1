"""Make a run of others' episodes: AgentTraj files, ATIF trajectories, logs of Inspect.

    python -m orchestrator.import_run FILE... --out runs/NAME

The folder is a run like any other, and appears when every entry was read, or not at all. What a
file does not say stays absent: nothing is judged, counted or replayed here.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, Literal

import tyro

from agent_runtime.redaction import Json
from agentgym.episode.v1 import episode_pb2
from orchestrator.command_line import run_command
from orchestrator.conversations import read_entries
from orchestrator.errors import EntryUnreadable, InvalidEpisode, UsageError
from orchestrator.imports import READERS, EntryReader
from orchestrator.imports.base import Source, imported_environment
from orchestrator.manifest import IMPORTED_FROM, Manifest, begin_session, utc_now, write_manifest
from orchestrator.records import EpisodeKey, check, episode_key
from orchestrator.run_folder import staged_folder
from orchestrator.run_plan import SessionEnd
from orchestrator.store import RunStore
from orchestrator.terminal import TerminalConsole

__all__ = ["ImportOptions", "ImportResult", "import_run", "main"]

_BATCH: Final = 256
"""Records that are held in memory."""
_NAMED: Final = 50
"""Kinds of what was left out that are named: strangers may invent any number."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import did."""

    folder: Path
    episodes: int
    left_out: Counter[str]
    """What entries have and records do not, by its name: how often."""


def import_run(
    files: Sequence[Path],
    folder: Path,
    *,
    format_name: str = "auto",
    environment: str = "",
    policy: str = "unknown",
) -> ImportResult:
    """Make the run `folder` of the entries of files, in their order.

    Args:
        files: JSON, JSON lines, or either gzipped; logs of Inspect.
        folder: Of the new run.
        format_name: One of `READERS`; `auto` = each file's first entry tells.
        environment: Of entries that name none.
        policy: Who played entries that do not say.

    Raises:
        EntryUnreadable: Names the file and the entry that is no episode; then there is no run.
        UsageError: There is nothing to import, or no such format.
        RunExists, ForeignFolder: The folder is not empty.
    """
    if format_name != "auto" and format_name not in READERS:
        raise UsageError(f"unknown format {format_name!r}", valid=["auto", *READERS])
    manifest = Manifest(
        run_id=uuid.uuid4().hex, created=utc_now(), environments=(), policy="", run_seed=0
    )
    writing = _Import(manifest.run_id)
    origins: list[Json] = []
    with staged_folder(folder) as staging:
        with RunStore.create(staging, manifest, begin_session()) as store:
            for path in files:
                reader = _choose_reader(path, format_name)
                source = Source(
                    path=path, digest=_digest(path), environment=environment, policy=policy
                )
                before = writing.count
                episodes = writing.episodes(source, reader)
                while batch := list(itertools.islice(episodes, _BATCH)):
                    store.append_all(batch)
                origins.append(_origin(source, reader, writing.count - before))
                writing.left_out.update(source.left_out)
            if not writing.count:
                raise UsageError("the files have no episodes: there is nothing to import")
            store.end_playing(SessionEnd(interrupted=False))
            recorded = store.manifest
        # Only who has read everything knows who played what.
        environments = tuple(imported_environment(it) for it in sorted(writing.environments))
        players = ",".join(sorted(writing.policies))
        config: dict[str, Json] = {IMPORTED_FROM: origins}
        write_manifest(
            staging, replace(recorded, environments=environments, policy=players, config=config)
        )
    return ImportResult(folder, writing.count, writing.left_out)


class _Import:
    """What was read so far, over all files of a run."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._samples: dict[EpisodeKey, int] = {}
        """By key with sample 0: the next number that was not used."""
        self._ids: set[str] = set()
        self.count = 0
        self.environments: set[str] = set()
        self.policies: set[str] = set()
        self.left_out: Counter[str] = Counter()

    def episodes(self, source: Source, reader: EntryReader) -> Iterator[episode_pb2.Episode]:
        """Yield the records of a file; raises EntryUnreadable."""
        for number, entry in enumerate(reader.entries(source.path)):
            try:
                episode = reader.to_episode(number, entry, source)
                episode.run_id = self._run_id
                self._number(episode)
                check(episode, run_id=self._run_id)
            except (ValueError, OverflowError, InvalidEpisode) as error:
                raise EntryUnreadable(source.path, str(error), number) from error
            self.count += 1
            self.environments.add(episode.environment)
            self.policies.add(episode.policy)
            yield episode

    def _number(self, episode: episode_pb2.Episode) -> None:
        """Give a record a sample of its own; raises ValueError where it was imported already."""
        if episode.episode_id in self._ids:
            raise ValueError(f"episode {episode.episode_id} is there twice: name each file once")
        self._ids.add(episode.episode_id)
        item = episode_key(episode)._replace(sample=0)
        episode.sample = max(episode.sample, self._samples.get(item, 0))
        self._samples[item] = episode.sample + 1


def _choose_reader(path: Path, format_name: str) -> EntryReader:
    """Return the reader of a file; raises EntryUnreadable where nobody reads its first entry."""
    if format_name != "auto":
        return READERS[format_name]
    for reader in READERS.values():
        if reader.suffix and path.name.endswith(reader.suffix):
            return reader
    for first in itertools.islice(read_entries(path), 1):
        for reader in READERS.values():
            if reader.accepts(first):
                return reader
        raise EntryUnreadable(path, f"it has none of the formats {', '.join(READERS)}", 0)
    raise EntryUnreadable(path, "it has no entries")


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _origin(source: Source, reader: EntryReader, episodes: int) -> Json:
    """Return what the manifest says of a file."""
    [name] = [name for name, it in READERS.items() if it is reader]
    return {
        "file": _printable(source.path.name),
        "sha256": source.digest,
        "format": name,
        "episodes": episodes,
        "left_out": {_printable(it): count for it, count in source.left_out.most_common(_NAMED)},
    }


def _printable(name: str) -> str:
    """Return a stranger's name as UTF-8 can hold it."""
    return name.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Make a run of episodes that others played."""

    files: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """JSON, JSON lines, or either gzipped; logs of Inspect (.eval, .json)."""
    out: Path
    """Folder of the new run; it appears when everything was read."""
    format: Literal["auto", "agenttraj", "atif", "inspect"] = "auto"
    """agenttraj: AgentTraj and AgentTraj-L; atif: Harbor's trajectories (1.0 to 1.8); inspect: logs
    of its evaluations; auto: as each file tells."""
    environment: str = ""
    """Environment of entries that name none, as those of other programs' ATIF; in place of the
    task's name where Inspect ran a task that is not ours."""
    policy: str = "unknown"
    """Who played, where an entry does not say."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    return run_command(ImportOptions, _import, argv, program="agentgym-import")


def _import(options: ImportOptions) -> int:
    result = import_run(
        options.files,
        options.out,
        format_name=options.format,
        environment=options.environment,
        policy=options.policy,
    )
    console = TerminalConsole(file=sys.stderr, soft_wrap=True)
    told = [f"{result.folder}: {result.episodes} episodes"]
    told += [
        f"left out: {count} x {_printable(name)}"
        for name, count in result.left_out.most_common(_NAMED)
    ]
    for line in told:
        console.print(line, markup=False, highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
