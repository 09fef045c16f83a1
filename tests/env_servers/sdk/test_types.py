"""Options are checked in one place and survive a fork; enums equal those on the wire."""

from __future__ import annotations

import copy
from enum import IntEnum

import pytest

from agentgym.env.v1 import environment_pb2, types_pb2
from env_servers.sdk import ActionFormat, Advisor, InvalidOption, Metric, ResetOptions, StopReason


def test_unknown_profiles_and_options_are_refused():
    options = ResetOptions(profile="fixed", options={"size": 3})
    options.require(("agentgym", "fixed"), ("size",))
    with pytest.raises(InvalidOption, match=r"fixed.*valid: agentgym"):
        options.require(("agentgym",), ("size",))
    with pytest.raises(InvalidOption, match=r"size.*valid: length"):
        options.require(("fixed",), ("length",))
    with pytest.raises(InvalidOption, match="no options"):
        options.require(("fixed",))


def test_default_options_can_be_copied_with_an_episode():
    options = ResetOptions()
    assert copy.deepcopy([options]) == [options]


def wire(name):
    found = getattr(types_pb2, name, None) or getattr(environment_pb2, name)
    prefix = "".join(f"_{c}" if c.isupper() else c.upper() for c in name).lstrip("_") + "_"
    return {key.removeprefix(prefix): value for key, value in found.items() if value}


@pytest.mark.parametrize("enum", [ActionFormat, Advisor, Metric, StopReason])
def test_enum_values_are_those_of_the_wire(enum: type[IntEnum]):
    values = {member.name: member.value for member in enum if member.value}
    on_wire = wire(enum.__name__)
    assert values
    assert {name: on_wire[name] for name in values} == values
