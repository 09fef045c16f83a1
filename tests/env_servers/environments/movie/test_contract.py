"""Movie keeps the contract of all environments, and takes no harm."""

from collections.abc import Mapping
from typing import Any, ClassVar

from env_servers.sdk import EnvironmentConfig
from env_servers.sdk.contract import EnvironmentContract
from env_servers.sdk.contract.subject import Subject
from env_servers.toolkit.tool_calls.hostile import HostileInputContract
from tests.kit.data import require_data


class TestMovie(EnvironmentContract):
    environment_name = "movie"


class TestHostileInput(HostileInputContract):
    environment_name = "movie"
    more_values: ClassVar[Mapping[str, Any]] = {
        "path in an id": "1/../../person/2",
        "query in an id": "1?api_key=x",
        "encoded path": "..%2f..%2faccount",
    }


class TestOfficialMovie(EnvironmentContract):
    """The same on official tasks and the recording, where they are there."""

    environment_name = "movie"

    @classmethod
    def subject(cls) -> Subject:
        cls.config = EnvironmentConfig(data_dir=require_data("tools/movie.jsonl"))
        return super().subject()
