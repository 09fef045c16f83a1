"""Where tests find recorded conversations and official task files.

The folder is the one that AGENTGYM_DATA names, or `../shared/data` beside the checkout. A test
whose files are not there is skipped, always for the same reason: `MISSING`.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

__all__ = [
    "REPOSITORY",
    "data_dir",
    "data_fixture",
    "find_data",
    "needs_data",
    "read_conversations",
    "read_eval_ids",
    "require_data",
]

REPOSITORY = Path(__file__).parents[2]
MISSING = "needs {files} in the data folder: set AGENTGYM_DATA"


def data_dir() -> Path:
    """Return the folder of recorded and official files; it may not exist."""
    return Path(os.environ.get("AGENTGYM_DATA") or REPOSITORY.parent / "shared" / "data")


def find_data(*files: str) -> Path | None:
    """Return the data folder, or None where one of the files (or folders) is not in it."""
    folder = data_dir()
    return folder if all((folder / name).exists() for name in files) else None


def require_data(*files: str) -> Path:
    """Return the data folder; skip the test where one of the files is not in it."""
    folder = find_data(*files)
    if folder is None:
        pytest.skip(_reason(files))
    return folder


def needs_data(*files: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test where one of the files is not in the data folder."""
    return pytest.mark.skipif(find_data(*files) is None, reason=_reason(files))


def data_fixture(*files: str) -> Callable[[], Path]:
    """Make the fixture `data_dir` of a test package that needs these files."""

    @pytest.fixture(scope="session", name="data_dir")
    def fixture() -> Path:
        return require_data(*files)

    return fixture


def read_conversations(name: str) -> list[dict[str, Any]]:
    """Return AgentTraj-L's entries of one file, such as "textcraft"; skip where it is not there."""
    file = f"agenttraj_l/{name}.jsonl.gz"
    with gzip.open(require_data(file) / file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read_eval_ids(name: str) -> list[str]:
    """Return AgentEval's item ids of one list, such as "textcraft"; skip where it is not there."""
    file = f"agenteval/{name}_test.json"
    return [entry["item_id"] for entry in json.loads((require_data(file) / file).read_text())]


def _reason(files: tuple[str, ...]) -> str:
    return MISSING.format(files=" and ".join(files) or "files")
