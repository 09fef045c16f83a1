"""The published questions: BIRD, its mini-dev set, and Spider, in their official layouts.

Contains file names, where they are looked for, and what is said when a file is missing or broken
off. Questions whose database is not there are known but cannot be played: of these gigabytes people
often have a part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from env_servers.environments.bird.database import check_file
from env_servers.environments.bird.schema import Schema, read_entry
from env_servers.sdk import EnvironmentUnavailable

__all__ = ["DEV_START", "Collection", "OfficialQuestion", "find_collections"]

DEV_START: Final = 9428
"""AgentGym's first item of BIRD's dev set; its train set comes before."""
DEV_END: Final = 10962

_BIRD: Final = "bird"
_SPIDER: Final = "spider"
_EXCERPT: Final = "sqlgym_tasks_on_available_dbs.jsonl"
"""AgentGym's tasks with their prompts, for those who have a few databases of the train set."""
_DEV_FOLDERS: Final = ("bird/dev", "bird/dev_20240627", "bird")
_TRAIN_FOLDERS: Final = ("bird/train", "bird")
_MINI_FOLDERS: Final = (
    *(
        "bird/mini_dev_data/minidev/MINIDEV",
        "bird/minidev/MINIDEV",
        "bird/MINIDEV",
        "bird/minidev",
        "bird/mini_dev",
        "bird",
    ),
    *("minidev/MINIDEV", "minidev"),
)
_UNGRADED: Final = "ungraded"
_UNREADABLE: Final = (OSError, ValueError, LookupError, TypeError, AttributeError)
"""What files raise that are damaged or of another form."""
_HOW: Final = {
    _BIRD: "BIRD is at https://bird-bench.github.io (train.zip, dev.zip, minidev.zip; the archives "
    "of databases within them have to be unpacked, too)",
    _SPIDER: "Spider is at https://yale-lily.github.io/spider (spider_data.zip)",
}
_WITHOUT: Final = "Without that folder the embedded databases are played, which need no download."


@dataclass(frozen=True, slots=True)
class OfficialQuestion:
    """One published question."""

    number: int
    """The integer of its item id."""
    db_id: str
    question: str
    sql: str
    evidence: str = ""
    level: str = _UNGRADED
    prompt: str | None = None
    """The first observation, where the question was published with it."""


@dataclass(frozen=True, slots=True)
class Collection:
    """The questions of one file and the folder of their databases."""

    name: str
    """train, dev, mini_dev, spider_train, spider_dev."""
    prefix: str
    """Of its item ids."""
    questions: Mapping[int, OfficialQuestion]
    """By the integer of the item id."""
    databases: Path
    entries: Mapping[str, Mapping[str, Any]]
    """Tables file by db_id; empty where there is none."""

    def database(self, db_id: str) -> Path:
        """Return where the file of a database belongs."""
        return self.databases / db_id / f"{db_id}.sqlite"

    def told(self, db_id: str) -> Callable[[], Schema] | None:
        """Return the schema with the names of the tables file."""
        entry = self.entries.get(db_id)
        return None if entry is None else lambda: read_entry(entry)

    def missing(self, db_id: str) -> str:
        """Return what to say when a question is asked for whose database is not there."""
        source = _SPIDER if self.name.startswith(_SPIDER) else _BIRD
        return (
            f"the database {db_id} is not there: expected is {self.database(db_id)}. "
            f"{_HOW[source]}. The embedded databases need no download."
        )


def find_collections(data_dir: Path) -> list[Collection]:
    """Return all published questions below a folder; none where there is no folder for them.

    Raises EnvironmentUnavailable for a folder that lacks files, and for damaged ones.
    """
    collections = [
        *_find_train(data_dir),
        *_find_set(data_dir, "dev", _DEV_FOLDERS, ("dev.json", "dev_tables.json")),
        *_find_set(
            data_dir, "mini_dev", _MINI_FOLDERS, ("mini_dev_sqlite.json", "dev_tables.json")
        ),
    ]
    folder = data_dir / _BIRD
    if folder.is_dir() and not collections:
        archives = sorted(path.name for path in folder.glob("**/*.zip"))
        unpack = f" Unpack {', '.join(archives)}." if archives else ""
        raise EnvironmentUnavailable(
            f"{folder} has no questions.{unpack} Expected is train/train.json, dev/dev.json or "
            f"minidev/MINIDEV/mini_dev_sqlite.json in it. {_HOW[_BIRD]}. {_WITHOUT}"
        )
    collections += _find_spider(data_dir)
    for collection in collections:
        _check_databases(collection)
    return collections


def _find_train(data_dir: Path) -> Iterator[Collection]:
    """Yield the train set, or else the excerpt of it."""
    sets = list(_find_set(data_dir, "train", _TRAIN_FOLDERS, ("train.json", "train_tables.json")))
    excerpt = data_dir / _BIRD / _EXCERPT
    if sets or not excerpt.is_file():
        yield from sets
        return
    try:
        rows = [json.loads(line) for line in excerpt.read_text("utf-8").splitlines() if line]
        questions = {q.number: q for q in map(_read_excerpt, rows) if q.number < DEV_START}
    except _UNREADABLE as error:
        raise _unreadable(excerpt, error, _BIRD) from error
    folder = data_dir / _BIRD
    roots = [folder / "train_databases", folder / "train/train_databases", folder / "dev_databases"]
    root = next((root for root in roots if root.is_dir()), roots[0])
    yield Collection("train", "sqlgym", questions, root, {})


def _read_excerpt(row: Mapping[str, Any]) -> OfficialQuestion:
    return OfficialQuestion(
        number=int(row["item_id"].rpartition("_")[2]),
        db_id=row["db_id"],
        question=row["prompt"].rpartition("\n\n")[2],
        sql=row["sql"],
        prompt=row["prompt"],
    )


def _find_set(
    data_dir: Path, name: str, folders: Sequence[str], files: tuple[str, str]
) -> Iterator[Collection]:
    """Yield a set of BIRD's layout, in the first of the folders that has its questions."""
    folder = next((data_dir / f for f in folders if (data_dir / f / files[0]).is_file()), None)
    if folder is None:
        return
    tables = folder / files[1]
    if not tables.is_file():
        raise EnvironmentUnavailable(
            f"{folder} has {files[0]} and lacks {files[1]}. {_HOW[_BIRD]}. {_WITHOUT}"
        )
    entries = _read_tables(tables, _BIRD)
    kind = "train" if name == "train" else "dev"
    start = DEV_START if name == "dev" else 0
    path = folder / files[0]
    try:
        rows = _read_list(path)
        questions = [_read_bird(start, index, row) for index, row in enumerate(rows)]
    except _UNREADABLE as error:
        raise _unreadable(path, error, _BIRD) from error
    prefix = "minidev" if name == "mini_dev" else "sqlgym"
    yield Collection(
        name, prefix, {q.number: q for q in questions}, folder / f"{kind}_databases", entries
    )


def _read_bird(start: int, index: int, row: Mapping[str, Any]) -> OfficialQuestion:
    """A row of a questions file. AgentGym counts rows, as `question_id` does in full files."""
    return OfficialQuestion(
        number=start + int(row.get("question_id", index)),
        db_id=row["db_id"],
        question=row["question"],
        sql=row["SQL"],
        evidence=row.get("evidence") or "",
        level=row.get("difficulty") or _UNGRADED,
    )


def _find_spider(data_dir: Path) -> Iterator[Collection]:
    """Spider's questions, and the form in which its dev set is passed on with databases."""
    folder = data_dir / _SPIDER
    if not folder.is_dir():
        return
    dev = "dev.json" if (folder / "dev.json").is_file() else "dev_questions.json"
    tables = folder / "tables.json"
    entries = _read_tables(tables, _SPIDER) if tables.is_file() else {}
    collections: list[Collection] = []
    for name, prefix, files in (
        ("spider_train", "spidertrain", ("train_spider.json", "train_others.json")),
        ("spider_dev", "spider", (dev,)),
    ):
        paths = [folder / file for file in files if (folder / files[0]).is_file()]
        rows = [row for path in paths if path.is_file() for row in _read_rows(path)]
        if rows:
            questions = {number: _read_spider(number, row) for number, row in enumerate(rows)}
            collections.append(Collection(name, prefix, questions, folder / "database", entries))
    if not collections:
        raise EnvironmentUnavailable(
            f"{folder} has no questions. Expected is dev.json or train_spider.json in it, with "
            f"tables.json and database/. {_HOW[_SPIDER]}. {_WITHOUT}"
        )
    yield from collections


def _read_rows(path: Path) -> list[Mapping[str, Any]]:
    """Return a questions file of Spider; raises EnvironmentUnavailable."""
    try:
        rows = _read_list(path)
        for row in rows:
            _read_spider(0, row)
    except _UNREADABLE as error:
        raise _unreadable(path, error, _SPIDER) from error
    return rows


def _read_spider(index: int, row: Mapping[str, Any]) -> OfficialQuestion:
    """Return a row of the official files, or of the form {db, gold, query, hardness}."""
    if "db_id" in row:
        return OfficialQuestion(index, row["db_id"], row["question"], row["query"])
    level = row.get("hardness") or _UNGRADED
    return OfficialQuestion(index, row["db"], row["query"], row["gold"], level=level)


def _read_list(path: Path) -> list[Mapping[str, Any]]:
    rows: object = json.loads(path.read_text("utf-8"))
    if not isinstance(rows, list):
        raise TypeError("it is no list of questions")
    return cast("list[Mapping[str, Any]]", rows)


def _read_tables(path: Path, source: str) -> Mapping[str, Mapping[str, Any]]:
    try:
        entries = {entry["db_id"]: entry for entry in _read_list(path)}
        for entry in entries.values():
            read_entry(entry)
    except _UNREADABLE as error:
        raise _unreadable(path, error, source) from error
    return entries


def _unreadable(path: Path, error: Exception, source: str) -> EnvironmentUnavailable:
    problem = f"an entry lacks {error}" if isinstance(error, KeyError) else str(error)[:200]
    return EnvironmentUnavailable(
        f"cannot read {path}: {problem}. Its download may have broken off. {_HOW[source]}. "
        f"{_WITHOUT}"
    )


def _check_databases(collection: Collection) -> None:
    """Whole files, and at least one of them."""
    names = sorted({question.db_id for question in collection.questions.values()})
    there = [path for path in map(collection.database, names) if path.exists()]
    source = _SPIDER if collection.name.startswith(_SPIDER) else _BIRD
    if not there:
        archives = sorted(path.name for path in collection.databases.parent.glob("*.zip"))
        unpack = f"Unpack {', '.join(archives)}. " if archives else ""
        raise EnvironmentUnavailable(
            f"the questions of {collection.name} are there and none of their databases: expected "
            f"is for example {collection.database(names[0] if names else 'NAME')}. {unpack}"
            f"{_HOW[source]}. {_WITHOUT}"
        )
    for path in there:
        try:
            check_file(path)
        except EnvironmentUnavailable as error:
            raise EnvironmentUnavailable(f"{error}. {_HOW[source]}. {_WITHOUT}") from error
