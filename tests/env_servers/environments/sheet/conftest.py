"""Task sets that several modules play."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from env_servers.environments.sheet import SheetWork
from env_servers.sdk import EnvironmentConfig
from env_servers.toolkit.tool_calls import ToolTaskSet


@pytest.fixture(scope="package")
def data_dir() -> Path:
    pytest.importorskip("openpyxl")
    beside = Path(__file__).parents[5] / "shared" / "data"
    folder = Path(os.environ.get("AGENTGYM_DATA", str(beside)))
    if not (folder / "tools" / "sheet_reference_workbook.xlsx").is_file():
        pytest.skip("needs the official sheet tasks and their workbook")
    return folder


@pytest.fixture(scope="package")
def tasks() -> ToolTaskSet:
    return SheetWork.load_tasks(EnvironmentConfig())


@pytest.fixture(scope="package")
def official(data_dir: Path) -> ToolTaskSet:
    return SheetWork.load_tasks(EnvironmentConfig(data_dir=data_dir))
