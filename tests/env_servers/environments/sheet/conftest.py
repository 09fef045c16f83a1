"""Task sets that several modules play."""

from __future__ import annotations

from pathlib import Path

import pytest

from env_servers.environments.sheet import SheetWork
from env_servers.sdk import EnvironmentConfig
from env_servers.toolkit.tool_calls import ToolTaskSet
from tests.kit.data import data_fixture

data_dir = data_fixture("tools/sheet_reference_workbook.xlsx")


@pytest.fixture(scope="package")
def tasks() -> ToolTaskSet:
    return SheetWork.load_tasks(EnvironmentConfig())


@pytest.fixture(scope="package")
def official(data_dir: Path) -> ToolTaskSet:
    return SheetWork.load_tasks(EnvironmentConfig(data_dir=data_dir))
