"""TODOList keeps what the SDK and the tool layer promise."""

from __future__ import annotations

from env_servers.sdk import EnvironmentConfig
from env_servers.sdk.contract import EnvironmentContract, Terms
from env_servers.toolkit.tool_calls.hostile import HostileInputContract
from tests.kit.data import require_data


class TestTodo(EnvironmentContract):
    environment_name = "todo"


class TestHostileInput(HostileInputContract):
    environment_name = "todo"
    more_values = {"id of a path": "../projects/1", "id of a query": "1?all=true"}


class TestOfficialTodo(EnvironmentContract):
    """The same with official tasks, where they are."""

    environment_name = "todo"
    terms = Terms(items=("todo_0", "todo_12", "todo_104", "todo_138"))

    @classmethod
    def setup_class(cls) -> None:
        cls.config = EnvironmentConfig(data_dir=require_data("tools/todo.jsonl"))
