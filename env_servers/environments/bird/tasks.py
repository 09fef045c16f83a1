"""BIRD's tasks: which question of which database an item id stands for.

Contains item ids, splits and all databases of a process. Embedded questions depend on the templates
alone, and no question is in two splits.

Official ids are AgentGym's `sqlgym_<n>`: 0 to 9427 are BIRD's train set, the dev set follows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from env_servers.environments.bird.database import Database
from env_servers.environments.bird.domains import DOMAINS, Question
from env_servers.environments.bird.embedded import cache_folder, find_or_build
from env_servers.environments.bird.guard import Limits
from env_servers.environments.bird.official import (
    DEV_END,
    DEV_START,
    Collection,
    OfficialQuestion,
    find_collections,
)
from env_servers.environments.bird.puzzle import DescribedDatabase, Puzzle
from env_servers.environments.bird.schema import schema_of_ddl
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

__all__ = ["EVAL_BASE", "OFFICIAL_LIMITS", "BirdTasks", "load_tasks"]

EVAL_BASE: Final = EMBEDDED_BASE + 500_000
"""First index of the embedded eval split."""
EVAL_IDS: Final = Path("agenteval", "sqlgym_test.json")
"""AgentEval's item ids, in the folder of official data."""
OFFICIAL_LIMITS: Final = Limits(steps=200_000_000, seconds=30.0, memory_bytes=256 * 2**20)
"""Published databases are up to some hundred times as large as the embedded ones."""

_NAME: Final = "bird"
_SQLGYM: Final = "sqlgym"
_PREFIXES: Final = (_NAME, _SQLGYM, "minidev", "spider", "spidertrain")
_HELD_OUT_PERCENT: Final = 17
_CACHE: Final = "bird.cache"
_STEPS: Final = "bird.steps"


@dataclass(frozen=True, slots=True)
class _Entry:
    """One item, before it is made a task."""

    make: Callable[[], Puzzle]
    category: str


class BirdTasks(TaskSet):
    """All tasks, and the databases that they are about."""

    def __init__(
        self,
        splits: Mapping[str, Mapping[str, _Entry]],
        databases: Sequence[DescribedDatabase],
        absent: Mapping[str, str],
        digest: bytes,
    ) -> None:
        """`absent` says by item id why a known question cannot be played."""
        self._splits = {name: dict(entries) for name, entries in splits.items() if entries}
        self._ids = {name: tuple(entries) for name, entries in self._splits.items()}
        self._entries = {
            item: entry for entries in self._splits.values() for item, entry in entries.items()
        }
        self._absent = dict(absent)
        self._digest = digest
        self.databases = tuple(base.database for base in databases)

    def splits(self) -> Mapping[str, int]:
        return {name: len(ids) for name, ids in self._ids.items()}

    def item_ids(self, split: str, start: int, stop: int) -> Sequence[str]:
        if split not in self._ids:
            raise UnknownSplit(f"unknown split {split[:100]!r}", valid=self._ids)
        return list(self._ids[split][start:stop])

    def get(self, item_id: str) -> Task:
        item = self._canonical(item_id)
        entry = self._entry(item)
        return Task(item, entry.make(), entry.category)

    def category(self, item_id: str) -> str:
        return self._entry(self._canonical(item_id)).category

    def digest(self) -> bytes:
        return self._digest

    def close(self) -> None:
        for database in self.databases:
            database.close()

    def _canonical(self, item_id: str) -> str:
        index = item_index(item_id, names=_PREFIXES)
        prefix = item_id.rpartition("_")[0] or _NAME
        if prefix in (_NAME, _SQLGYM):
            prefix = _SQLGYM if index < DEV_END else _NAME
        return f"{prefix}_{index}"

    def _entry(self, item: str) -> _Entry:
        entry = self._entries.get(item)
        if entry is not None:
            return entry
        if item in self._absent:
            raise EnvironmentUnavailable(f"{item}: {self._absent[item]}")
        prefix = item.rpartition("_")[0]
        is_known = any(item_prefix.startswith(f"{prefix}_") for item_prefix in self._entries)
        if prefix == _SQLGYM or (prefix != _NAME and not is_known):
            raise EnvironmentUnavailable(
                f"{item} is a published question, and its file is not there: BIRD's train/ and "
                "dev/ (https://bird-bench.github.io) belong into bird/, Spider's files into "
                "spider/ of the folder that AGENTGYM_DATA or --data names. "
                f"{_NAME}_{EMBEDDED_BASE} and those after it need no download."
            )
        spans = (f"{ids[0]}..{ids[-1]} ({name})" for name, ids in self._ids.items())
        raise UnknownItem(f"unknown item {item[:100]!r}", valid=spans)


def load_tasks(config: EnvironmentConfig) -> BirdTasks:
    """Embedded tasks, and the official ones where their files are in `data_dir`.

    Settings: `bird.cache`, the folder in which embedded databases are kept; `bird.steps`, the most
    work that a statement may take, in steps of SQLite's virtual machine.
    """
    embedded_limits, official_limits = _limits(config)
    digest = hashlib.blake2b(repr(embedded_limits).encode(), digest_size=8)
    folder = cache_folder(config.settings.get(_CACHE))
    bases: list[DescribedDatabase] = []
    splits: dict[str, dict[str, _Entry]] = {"train": {}, "eval": {}}
    for domain in DOMAINS:
        locate = partial(find_or_build, domain, folder)
        base = DescribedDatabase(
            Database(domain.name, locate, embedded_limits),
            partial(schema_of_ddl, domain.name, domain.ddl),
        )
        bases.append(base)
        digest.update(f"{domain.seed}{domain.ddl}".encode())
        for question in domain.questions():
            digest.update(f"{question.text}\0{question.sql}\0".encode())
            _enter(splits, base, question)
    absent: dict[str, str] = {}
    if config.data_dir is not None:
        held_out = _agent_eval(config.data_dir / EVAL_IDS)
        for collection in find_collections(config.data_dir):
            entry = _Official(collection, official_limits, held_out)
            splits.update(entry.splits)
            absent.update(entry.absent)
            bases += entry.bases.values()
            digest.update(entry.digest)
    return BirdTasks(splits, bases, absent, digest.digest())


def _limits(config: EnvironmentConfig) -> tuple[Limits, Limits]:
    steps_setting = config.settings.get(_STEPS)
    if steps_setting is None:
        return Limits(), OFFICIAL_LIMITS
    try:
        steps = int(steps_setting)
    except (TypeError, ValueError):
        steps = 0
    if steps < 1:
        raise InvalidOption(
            f"setting {_STEPS}={steps_setting!r:.100}", valid="a number of steps above 0"
        )
    return replace(Limits(), steps=steps), replace(OFFICIAL_LIMITS, steps=steps)


def _enter(
    splits: Mapping[str, dict[str, _Entry]], base: DescribedDatabase, question: Question
) -> None:
    """Put an embedded question into train or eval, by a hash of its text alone."""
    drawn = int.from_bytes(hashlib.blake2b(question.text.encode(), digest_size=8).digest(), "big")
    held_out = drawn % 100 < _HELD_OUT_PERCENT
    split = splits["eval" if held_out else "train"]
    item = f"{_NAME}_{(EVAL_BASE if held_out else EMBEDDED_BASE) + len(split)}"
    puzzle = Puzzle(
        base,
        question.text,
        question.sql,
        question.evidence,
        question.reason,
        hinted=True,
    )
    split[item] = _Entry(lambda: puzzle, question.level.value)


class _Official:
    """The playable questions of one collection, by split."""

    def __init__(self, collection: Collection, limits: Limits, held_out: frozenset[int]) -> None:
        self._collection = collection
        self._limits = limits
        self.bases: dict[str, DescribedDatabase] = {}
        self.splits: dict[str, dict[str, _Entry]] = {}
        self.absent: dict[str, str] = {}
        digest = hashlib.blake2b(digest_size=8)
        for number, question in sorted(collection.questions.items()):
            item = f"{collection.prefix}_{number}"
            digest.update(f"{item}\0{question}\0".encode())
            if not self._base(question.db_id):
                self.absent[item] = collection.missing(question.db_id)
                continue
            split = self.splits.setdefault(self._split(number, held_out), {})
            split[item] = _Entry(partial(self._puzzle, question), question.level)
        self.digest = digest.digest()

    def _split(self, number: int, held_out: frozenset[int]) -> str:
        name = self._collection.name
        if name == "dev" and (number in held_out or not held_out):
            return "official_eval"
        return f"official_{name}"

    def _base(self, db_id: str) -> DescribedDatabase | None:
        path = self._collection.database(db_id)
        if db_id not in self.bases and path.is_file():
            database = Database(db_id, lambda: path, self._limits)
            self.bases[db_id] = DescribedDatabase(database, self._collection.told(db_id))
        return self.bases.get(db_id)

    def _puzzle(self, question: OfficialQuestion) -> Puzzle:
        return Puzzle(
            self.bases[question.db_id],
            question.question,
            question.sql,
            question.evidence,
            prompt=question.prompt,
        )


def _agent_eval(path: Path) -> frozenset[int]:
    """AgentEval's item numbers; none where the list is missing."""
    if not path.is_file():
        return frozenset()
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        indexes = {item_index(row["item_id"], names=(_SQLGYM,)) for row in rows}
    except (ValueError, TypeError, KeyError) as error:
        raise EnvironmentUnavailable(f"cannot read {path}: {error}") from error
    return frozenset(number for number in indexes if number >= DEV_START)
