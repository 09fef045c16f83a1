"""Task sets shared by the BIRD tests, and where recorded data is found."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from env_servers.environments.bird import Bird
from env_servers.environments.bird.database import Database
from env_servers.environments.bird.guard import Limits
from env_servers.environments.bird.tasks import BirdTasks
from env_servers.sdk import EnvironmentConfig, Observation, ResetOptions
from tests.kit.data import data_fixture


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Databases are built for the tests, whatever the user's cache holds."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


data_dir = data_fixture("bird")


@pytest.fixture(scope="session")
def embedded(_own_cache: None) -> Iterator[BirdTasks]:
    tasks = Bird.load_tasks(EnvironmentConfig())
    yield tasks
    tasks.close()


@pytest.fixture(scope="session")
def official(data_dir: Path) -> Iterator[BirdTasks]:
    tasks = Bird.load_tasks(EnvironmentConfig(data_dir))
    yield tasks
    tasks.close()


def start(
    tasks: BirdTasks, item: str, profile: str = "agentgym", **options: object
) -> tuple[Bird, Observation]:
    """An episode just begun."""
    episode = Bird(tasks)
    first = episode.reset(tasks.get(item), ResetOptions(profile=profile, options=options))
    return episode, first


def every_item(tasks: BirdTasks, *splits: str) -> list[str]:
    return [item for split in splits for item in tasks.item_ids(split, 0, 10**6)]


def write_database(path: Path, script: str) -> Path:
    """A database file, in folders that are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.commit()
    connection.close()
    return path


def guarded(path: Path, **limits: Any) -> Database:
    return Database("test", lambda: path, Limits(**limits))


SHOP = """
CREATE TABLE Shop (ShopID INTEGER PRIMARY KEY, "Shop Name" TEXT, City TEXT);
CREATE TABLE Sale (
  ShopID INTEGER REFERENCES Shop(ShopID), Day TEXT, Amount REAL, PRIMARY KEY (ShopID, Day));
INSERT INTO Shop VALUES (1, 'One', 'Oslo'), (2, 'Two', 'Bergen'), (3, 'Three', 'Oslo');
INSERT INTO Sale VALUES (1, '2020-01-01', 10.5), (1, '2020-01-02', 20), (2, '2020-01-01', 7);
"""
SHOP_ENTRY = {
    "db_id": "shop",
    "table_names_original": ["Shop", "Sale"],
    "table_names": ["shop", "Daily Sale"],
    "column_names_original": [
        [-1, "*"],
        [0, "ShopID"],
        [0, "Shop Name"],
        [0, "City"],
        [1, "ShopID"],
        [1, "Day"],
        [1, "Amount"],
    ],
    "column_names": [
        [-1, "*"],
        [0, "Shop ID"],
        [0, "Shop Name"],
        [0, "City"],
        [1, "Shop ID"],
        [1, "Day"],
        [1, "Amount"],
    ],
    "column_types": ["text", "integer", "text", "text", "integer", "text", "real"],
    "primary_keys": [1, [4, 5]],
    "foreign_keys": [[4, 1]],
}
SHOP_QUESTIONS = [
    {
        "question_id": number,
        "db_id": db_id,
        "question": question,
        "evidence": "in Oslo means City = 'Oslo'",
        "SQL": sql,
        "difficulty": "simple",
    }
    for number, (db_id, question, sql) in enumerate(
        (
            ("shop", "How many shops are in Oslo?", "SELECT COUNT(*) FROM Shop WHERE City='Oslo'"),
            ("shop", "What are the cities?", "SELECT City FROM Shop"),
            ("shop", "Which shops are in Paris?", "SELECT ShopID FROM Shop WHERE City='Paris'"),
            ("other", "What is there?", "SELECT 1"),
        )
    )
]


def write_bird(
    folder: Path,
    kind: str = "dev",
    within: str = "bird/dev",
    questions: str = "dev.json",
) -> Path:
    """A folder of BIRD's layout with one database of two; returns the data folder."""
    base = folder / within
    base.mkdir(parents=True)
    (base / questions).write_text(json.dumps(SHOP_QUESTIONS))
    (base / f"{kind}_tables.json").write_text(json.dumps([SHOP_ENTRY]))
    write_database(base / f"{kind}_databases" / "shop" / "shop.sqlite", SHOP)
    return folder


def write_spider(folder: Path) -> Path:
    base = folder / "spider"
    base.mkdir(parents=True)
    rows = [
        {"db_id": q["db_id"], "question": q["question"], "query": q["SQL"]} for q in SHOP_QUESTIONS
    ]
    (base / "dev.json").write_text(json.dumps(rows[:2]))
    (base / "train_spider.json").write_text(json.dumps(rows[:1]))
    (base / "train_others.json").write_text(json.dumps(rows[1:3]))
    (base / "tables.json").write_text(json.dumps([SHOP_ENTRY]))
    write_database(base / "database" / "shop" / "shop.sqlite", SHOP)
    return folder
