"""ALFWorld's tasks: which game an item id stands for, and the games that are ready to be played.

Contains item ids, splits and the games in memory: a game is read when it is first asked for and
shared by all its episodes; the least recently used ones are let go.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from env_servers.environments.alfworld.embedded import Assignment, assign, build, game_texts
from env_servers.environments.alfworld.game import Game, read_game
from env_servers.environments.alfworld.official import (
    GAME_PATH,
    HOW_TO_GET,
    MAPPINGS,
    Mapped,
    OfficialGames,
    find_official,
    read_mapping,
)
from env_servers.environments.alfworld.pddl import GameError
from env_servers.environments.alfworld.tasktypes import TaskType, type_of_folder
from env_servers.sdk import (
    EMBEDDED_BASE,
    EnvironmentConfig,
    EnvironmentUnavailable,
    InvalidOption,
    Task,
    TaskSet,
    UnknownItem,
    UnknownSplit,
    item_index,
)

__all__ = ["ENGINES", "HELD_OUT", "NAME", "AlfworldTasks", "Source", "load_tasks"]

NAME: Final = "alfworld"
ENGINES: Final = ("native", "textworld")
HELD_OUT: Final = ("valid_seen", "valid_unseen")
"""ALFWorld's own evaluation splits; AgentGym has no numbers for them."""
OFFICIAL_ITEMS: Final = 2_620
"""AgentGym's items: 0..2419 train, 2420..2619 evaluation."""
_ENGINE_KEY: Final = f"{NAME}.engine"
_FIRST_EVAL: Final = 2_420
_GAMES: Final = 256
"""Games kept in memory besides those that episodes are playing."""


@dataclass(frozen=True, slots=True)
class _Embedded:
    """A range of generated games."""

    start: int
    size: int
    unseen: bool


EMBEDDED: Final[Mapping[str, _Embedded]] = {
    "train": _Embedded(EMBEDDED_BASE, 12_000, unseen=False),
    "eval_seen": _Embedded(EMBEDDED_BASE + 500_000, 300, unseen=False),
    "eval": _Embedded(EMBEDDED_BASE + 600_000, 300, unseen=True),
}


class Source(NamedTuple):
    """Where a game comes from."""

    split: str
    """An embedded split, or empty for an official game."""
    number: int
    """Of an embedded game within its split."""
    path: str = ""
    """`<split>/<task>/<trial>` of an official game."""


class AlfworldTasks(TaskSet):
    """All tasks, and the games that they are played in."""

    def __init__(self, official: OfficialGames | None, engine: str) -> None:
        """Raises EnvironmentUnavailable where official files are damaged."""
        self.engine = engine
        self._official = official
        self._mapped = _read_mappings(official) if official else {}
        self._by_index = {m.number: m.path for items in self._mapped.values() for m in items}
        self._held_out = {split: official.solvable(split) for split in HELD_OUT} if official else {}
        self._ids = self._list_official()
        self._games: OrderedDict[Source, Game] = OrderedDict()

    def splits(self) -> Mapping[str, int]:
        sizes = {name: split.size for name, split in EMBEDDED.items()}
        return sizes | {name: len(ids) for name, ids in self._ids.items() if ids}

    def item_ids(self, split: str, start: int, stop: int) -> Sequence[str]:
        if split in EMBEDDED:
            block = EMBEDDED[split]
            indexes = range(block.start, block.start + block.size)[start:stop]
            return [f"{NAME}_{index}" for index in indexes]
        if not self._ids.get(split):
            raise UnknownSplit(f"unknown split {split[:100]!r}", valid=self.splits())
        return self._ids[split][start:stop]

    def get(self, item_id: str) -> Task:
        """Return the task of an item id.

        Raises UnknownItem, and EnvironmentUnavailable for an official item whose game is missing.
        """
        source = self._source(item_id)
        full_id = item_id if item_id.startswith(f"{NAME}_") else f"{NAME}_{int(item_id)}"
        return Task(full_id, source, _category(source))

    def category(self, item_id: str) -> str:
        return _category(self._source(item_id))

    def game(self, source: Source) -> Game:
        """Return the game of a source; raises EnvironmentUnavailable where it is damaged."""
        loaded = self._games.get(source)
        if loaded is None:
            loaded = self._load(source)
            self._games[source] = loaded
            if len(self._games) > _GAMES:
                self._games.popitem(last=False)
        else:
            self._games.move_to_end(source)
        return loaded

    def named(self, path: object) -> Source:
        """Return the official game `<split>/<task>/<trial>`, also one without an item id.

        Raises InvalidOption where it is not there.
        """
        if not isinstance(path, str) or not GAME_PATH.fullmatch(path) or ".." in path.split("/"):
            raise InvalidOption(f"option game {str(path)[:100]!r}", valid="<split>/<task>/<trial>")
        if self._official is None or not self._official.has(path):
            why = self._official.missing(path) if self._official else HOW_TO_GET
            raise InvalidOption(f"option game {path[:200]!r}: {why}")
        return Source("", 0, path)

    def game_file(self, source: Source) -> bytes | Mapping[str, str]:
        """Return the game as its file has it, or the three texts of one for an embedded game."""
        if source.split:
            return game_texts(_assignment(source))
        if self._official is None:
            raise EnvironmentUnavailable("there are no official games without data")
        return self._official.read(source.path)

    def digest(self) -> bytes:
        digest = hashlib.blake2b(super().digest(), digest_size=8)
        for items in self._mapped.values():
            digest.update(repr(items).encode())
        digest.update(repr(self._held_out).encode())
        return digest.digest()

    def _load(self, source: Source) -> Game:
        if source.split:
            return build(_assignment(source))
        try:
            content = self.game_file(source)
            return read_game(content if isinstance(content, bytes) else b"")
        except GameError as error:
            why = self._official.damaged(source.path, error) if self._official else str(error)
            raise EnvironmentUnavailable(why) from error

    def _source(self, item_id: str) -> Source:
        for split in HELD_OUT:
            if item_id.startswith(f"{NAME}_{split}_"):
                return self._held_out_source(item_id, split)
        index = item_index(item_id, names=(NAME,))
        for name, split in EMBEDDED.items():
            if split.start <= index < split.start + split.size:
                return Source(name, index - split.start)
        if index < OFFICIAL_ITEMS:
            return Source("", 0, self._official_path(index))
        spans = [f"{s.start}..{s.start + s.size - 1} ({name})" for name, s in EMBEDDED.items()]
        valid = [f"0..{OFFICIAL_ITEMS - 1} (official)", *spans]
        raise UnknownItem(f"unknown item {item_id[:100]!r}", valid=valid)

    def _held_out_source(self, item_id: str, split: str) -> Source:
        sources = self._held_out.get(split, [])
        index = item_index(item_id, names=(f"{NAME}_{split}",))
        if index >= len(sources):
            raise UnknownItem(
                f"unknown item {item_id[:100]!r}:"
                f" {len(sources)} solvable games of {split} are there",
            )
        return Source("", 0, sources[index])

    def _official_path(self, index: int) -> str:
        split = "train" if index < _FIRST_EVAL else "valid_train"
        official = self._official
        if official is None:
            raise EnvironmentUnavailable(_no_data(index))
        path = self._by_index.get(index)
        if path is None:
            raise EnvironmentUnavailable(_no_mapping(official, index, MAPPINGS[split]))
        if not official.has(path):
            raise EnvironmentUnavailable(f"{NAME}_{index}: {official.missing(path)}")
        return path

    def _list_official(self) -> dict[str, list[str]]:
        official = self._official
        if official is None:
            return {}
        names = {"official_train": "train", "official_eval": "valid_train"}
        listed = {
            name: [
                f"{NAME}_{item.number}"
                for item in self._mapped.get(split, [])
                if official.has(item.path)
            ]
            for name, split in names.items()
        }
        for split, paths in self._held_out.items():
            listed[f"official_{split}"] = [f"{NAME}_{split}_{n}" for n in range(len(paths))]
        return listed


def load_tasks(config: EnvironmentConfig) -> AlfworldTasks:
    """Embedded tasks, and the official ones whose games are in `data_dir`.

    The setting `alfworld.engine` is one of ENGINES. Raises InvalidOption and
    EnvironmentUnavailable.
    """
    for key in config.settings:
        if key.startswith(f"{NAME}.") and key != _ENGINE_KEY:
            raise InvalidOption(f"unknown setting {key[:100]!r}", valid=_ENGINE_KEY)
    engine = config.settings.get(_ENGINE_KEY, ENGINES[0])
    if engine not in ENGINES:
        raise InvalidOption(f"unknown engine {str(engine)[:100]!r}", valid=ENGINES)
    if engine == "textworld":
        from env_servers.environments.alfworld.reference import check_installed

        check_installed()
    official = find_official(config.data_dir) if config.data_dir is not None else None
    return AlfworldTasks(official, engine)


def _read_mappings(official: OfficialGames) -> dict[str, list[Mapped]]:
    mappings = {split: read_mapping(official, split) for split in MAPPINGS}
    return {split: items for split, items in mappings.items() if items is not None}


@lru_cache(maxsize=1024)
def _assignment(source: Source) -> Assignment:
    split = EMBEDDED[source.split]
    return assign(source.number, unseen=split.unseen, stream=source.split)


def _category(source: Source) -> str:
    if source.split:
        return list(TaskType)[source.number % len(TaskType)].value
    return type_of_folder(source.path.split("/")[1])


def _no_data(index: int) -> str:
    return f"{NAME}_{index} is an official game: start with --data FOLDER. {HOW_TO_GET}"


def _no_mapping(official: OfficialGames, index: int, file: str) -> str:
    expected = official.home / file
    return f"{NAME}_{index} is in no mapping: expected in {expected}. {HOW_TO_GET}"
