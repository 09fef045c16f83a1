"""Task sets shared by the SearchQA tests, small official files, and where recorded data is."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from env_servers.environments.searchqa import SearchQA
from env_servers.environments.searchqa.embedded import EmbeddedSource, load_embedded
from env_servers.environments.searchqa.tasks import SearchQATasks
from env_servers.sdk import EnvironmentConfig, ResetOptions
from tests.kit.data import data_fixture

data_dir = data_fixture("searchqa")


@pytest.fixture(scope="session")
def source() -> EmbeddedSource:
    return load_embedded()


@pytest.fixture(scope="session")
def embedded() -> SearchQATasks:
    return SearchQA.load_tasks(EnvironmentConfig())


def start(tasks: SearchQATasks, item: str, profile: str = "agentgym") -> SearchQA:
    """An episode just begun."""
    episode = SearchQA(tasks)
    episode.reset(tasks.get(item), ResetOptions(profile=profile))
    return episode


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """A `.jsonl` file, gzipped where its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


BAMBOOGLE = [
    {"id": f"test_{n}", "question": f"Who wrote book {n}?", "golden_answers": [f"Writer {n}"]}
    for n in range(125)
]
CORPUS = [
    {"id": str(n), "contents": f'"Book {n}"\nBook {n} was written by Writer {n}.'}
    for n in range(125)
]


@pytest.fixture
def official(tmp_path: Path) -> Path:
    """A data folder in FlashRAG's layout with the smallest published set."""
    write_lines(tmp_path / "searchqa" / "bamboogle" / "test.jsonl", BAMBOOGLE)
    write_lines(tmp_path / "searchqa" / "corpus.jsonl", CORPUS)
    return tmp_path
