"""Finds ALFWorld's official games on this machine and AgentGym's numbering of them.

Contains the layouts in which they come: the tree `json_2.1.1/<split>/<task>/<trial>/game.tw-pddl`
that `alfworld-download` unpacks, or archives of such trees. Archives are read in memory; nothing is
written.
"""

from __future__ import annotations

import json
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from env_servers.sdk import EnvironmentUnavailable

__all__ = [
    "GAME_FILE",
    "GAME_PATH",
    "HOW_TO_GET",
    "MAPPINGS",
    "Mapped",
    "OfficialGames",
    "find_official",
    "read_mapping",
]

GAME_FILE: Final = "game.tw-pddl"
VERSION: Final = "json_2.1.1"
SPLITS: Final = ("train", "valid_train", "valid_seen", "valid_unseen")
MAPPINGS: Final = {"train": "mappings_train.json", "valid_train": "mappings_test.json"}
"""AgentGym's lists, by the split in which their games lie."""

HOW_TO_GET: Final = (
    "The games come with `pip install alfworld` and `alfworld-download --data-dir FOLDER` (about"
    " 2 GB), the mappings with AgentGym's repository, agentenv-alfworld/configs."
    " The embedded games (splits train, eval_seen and eval) need no data."
)
_MAX_GAME: Final = 4 * 1024 * 1024
_MAX_TOTAL: Final = 2 * 1024**3
_MAX_MAPPING: Final = 64 * 1024 * 1024
_SOLVABLE: Final = re.compile(rb'"solvable"\s*:\s*true')
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")
GAME_PATH: Final = re.compile(rf"(?:{'|'.join(SPLITS)})(?:/{_NAME.pattern}){{2}}")
"""A game as `<split>/<task>/<trial>`."""


class Mapped(NamedTuple):
    """An item of AgentGym: its number and its game."""

    number: int
    path: str
    """`<split>/<task>/<trial>`."""


@dataclass(slots=True)
class OfficialGames:
    """The games that were found, by `<split>/<task>/<trial>`."""

    home: Path
    """Where they were looked for."""
    folders: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Folder of a split, where it is unpacked."""
    packed: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Compressed game files of the archives."""

    def has(self, path: str) -> bool:
        """Return whether the game is there; its content is not looked at."""
        return path in self.packed or self._file(path).is_file()

    def read(self, path: str) -> bytes:
        """Return the game file; raises EnvironmentUnavailable where it is missing."""
        packed = self.packed.get(path)
        if packed is not None:
            return zlib.decompress(packed)
        file = self._file(path)
        try:
            if file.stat().st_size > _MAX_GAME:
                raise EnvironmentUnavailable(f"{file} is too large for a game")
            return file.read_bytes()
        except OSError as error:
            raise EnvironmentUnavailable(f"{self.missing(path)} ({error.strerror})") from error

    def missing(self, path: str) -> str:
        """Return what to say of a game that is not there."""
        return (
            f"the game {VERSION}/{path}/{GAME_FILE} is missing: expected at {self._file(path)} or"
            f" in an archive {self.home / VERSION}-*.tar.xz. {HOW_TO_GET}"
        )

    def damaged(self, path: str, why: object) -> str:
        """Return what to say of a game that cannot be read."""
        where = f"in an archive of {self.home}" if path in self.packed else self._file(path)
        return f"the game {VERSION}/{path}/{GAME_FILE} ({where}) is damaged: {why}. {HOW_TO_GET}"

    def solvable(self, split: str) -> list[str]:
        """Return the games of a split that are marked as solvable, in order of their paths."""
        return sorted(path for path in self._paths(split) if _SOLVABLE.search(self.read(path)))

    def _paths(self, split: str) -> Iterator[str]:
        yield from (path for path in self.packed if path.startswith(f"{split}/"))
        folder = self.folders.get(split)
        if folder is not None:
            for file in folder.glob(f"*/*/{GAME_FILE}"):
                path = f"{split}/{file.parts[-3]}/{file.parts[-2]}"
                if path not in self.packed:
                    yield path

    def _file(self, path: str) -> Path:
        split, _, rest = path.partition("/")
        folder = self.folders.get(split, self.home / VERSION / split)
        return folder / rest / GAME_FILE


def find_official(data_dir: Path) -> OfficialGames:
    """The games below a folder; raises EnvironmentUnavailable for an archive that is damaged."""
    own = data_dir / "alfworld"
    homes = [own, data_dir] if own.is_dir() else [data_dir]
    folders: dict[str, Path] = {}
    packed: dict[str, bytes] = {}
    for home in homes:
        for split in SPLITS:
            for folder in (home / VERSION / split, home / split):
                # A folder of that name may be anything, short of a task in it.
                if split not in folders and any(folder.glob("*/*/")):
                    folders[split] = folder
        for archive in sorted(home.glob(f"{VERSION}*.tar.*")):
            packed |= _unpack(archive)
    return OfficialGames(homes[0], folders, packed)


def _unpack(archive: Path) -> dict[str, bytes]:
    games: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(archive) as members:
            for member in members:
                if not member.isfile() or not member.name.endswith(f"/{GAME_FILE}"):
                    continue
                total += member.size
                stream = members.extractfile(member)
                if stream is None or member.size > _MAX_GAME or total > _MAX_TOTAL:
                    raise EnvironmentUnavailable(f"{archive} holds {member.name}, which is no game")
                games["/".join(member.name.split("/")[-4:-1])] = zlib.compress(stream.read(), 1)
    except (OSError, EOFError, tarfile.TarError, lzma.LZMAError, zlib.error) as error:
        raise EnvironmentUnavailable(
            f"the archive {archive} is damaged or only half there ({error});"
            f" it breaks off after {len(games)} games. Fetch it again or remove it. {HOW_TO_GET}"
        ) from error
    return games


def read_mapping(games: OfficialGames, split: str) -> list[Mapped] | None:
    """AgentGym's items whose games lie in a split, whether they are there or not.

    None where the list is not there; raises EnvironmentUnavailable where it is damaged.
    """
    path = games.home / MAPPINGS[split]
    try:
        if path.stat().st_size > _MAX_MAPPING:
            raise EnvironmentUnavailable(f"{path} is too large for a mapping")
        rows: Any = json.loads(path.read_text(encoding="utf-8"))
        return [_row(row, split) for row in rows]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise EnvironmentUnavailable(f"{path} is damaged: {error!r}. {HOW_TO_GET}") from error


def _row(row: Any, split: str) -> Mapped:
    index, task, trial = row["item_id"], row["task_type"], row["task_id"]
    if not isinstance(index, int) or not (_NAME.fullmatch(task) and _NAME.fullmatch(trial)):
        raise ValueError(f"unexpected entry {str(row)[:100]}")
    if ".." in (task, trial):
        raise ValueError(f"unexpected entry {str(row)[:100]}")
    return Mapped(index, f"{split}/{task}/{trial}")
