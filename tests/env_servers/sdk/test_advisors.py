"""What an environment without a scripted player says when it is asked for one."""

import random

import pytest

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.environments.echo import EchoEnvironment
from env_servers.environments.echo.tasks import echo_tasks
from env_servers.sdk import Environment, InvalidOption
from env_servers.server.errors import CommandError


def test_an_environment_without_a_random_player_names_one_that_it_has():
    with pytest.raises(InvalidOption) as refused:
        Environment.advise_random(EchoEnvironment(echo_tasks()), random.Random(1))
    error = CommandError.from_sdk(refused.value)
    assert error.reason == pb.ERROR_REASON_UNKNOWN_OPTION
    assert error.metadata == {"valid": "ADVISOR_NOOP"}
