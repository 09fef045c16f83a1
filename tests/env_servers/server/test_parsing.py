"""Commands become checked values, or say what is wrong with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.sdk import ActionFormat, Advisor, EnvironmentConfig
from env_servers.server.config import ServerLimits
from env_servers.server.errors import CommandError
from env_servers.server.guard import InlineGuard
from env_servers.server.inputs import Action, Reply, ToolCall, decode_input, encode_input
from env_servers.server.instance import LoadedEnvironment
from env_servers.server.parsing import CommandParser
from env_servers.server.runners import InlineHost

LIMITS = ServerLimits(max_text_bytes=100, max_journal=3, default_lease=60.0, max_lease=600.0)


@pytest.fixture(scope="module")
def parser():
    echo = LoadedEnvironment("echo", EnvironmentConfig())
    return CommandParser({"echo": InlineHost(echo, InlineGuard(1.0))}, LIMITS)


@pytest.fixture
def reset(parser):
    return parser.reset_spec(pb.Reset(item_id="echo_1000000"))


def refusal(work):
    with pytest.raises(CommandError) as caught:
        work()
    return pb.ErrorReason.Name(caught.value.reason).removeprefix("ERROR_REASON_")


def test_each_body_of_a_step_is_an_input_of_its_own_type(parser, reset):
    call = types_pb2.ToolCall(name="say", arguments_json="{}")
    for command, body, step_input in (
        (pb.Command(action="look"), "action", Action("look")),
        (pb.Command(reply="Action: look"), "reply", Reply(1, "Action: look")),
        (pb.Command(reply="x", action_format=2), "reply", Reply(2, "x")),
        (pb.Command(tool_call=call), "tool_call", ToolCall("say", "{}")),
    ):
        assert parser.step_input(command, body, reset) == step_input


@pytest.mark.parametrize(
    ("command", "body"),
    [
        (pb.Command(action="x" * 101), "action"),
        (pb.Command(action="\u20ac" * 34), "action"),
        (pb.Command(reply="x" * 101), "reply"),
        (pb.Command(tool_call=types_pb2.ToolCall(name="x" * 101)), "tool_call"),
        (pb.Command(tool_call=types_pb2.ToolCall(arguments_json="x" * 101)), "tool_call"),
    ],
)
def test_texts_beyond_the_limit_are_refused_by_their_bytes(parser, reset, command, body):
    assert refusal(lambda: parser.step_input(command, body, reset)) == "TEXT_TOO_LONG"


def test_a_text_of_just_the_limit_is_taken(parser, reset):
    for text in ("x" * 100, "\u20ac" * 33):
        assert parser.step_input(pb.Command(action=text), "action", reset) == Action(text)


def test_replies_of_a_format_that_the_environment_lacks_are_refused(parser, reset):
    command = pb.Command(reply="x", action_format=77)
    reason = refusal(lambda: parser.step_input(command, "reply", reset))
    assert reason == "UNSUPPORTED_ACTION_FORMAT"


def test_a_reset_fills_in_what_it_leaves_open(parser):
    reset = parser.reset_spec(pb.Reset(item_id="echo_1000000", seed=5))
    assert reset.environment == "echo"
    assert reset.profile == "agentgym"
    assert reset.action_format is ActionFormat.REACT
    assert (reset.item_id, reset.seed, reset.options) == ("echo_1000000", 5, {})


@pytest.mark.parametrize(
    ("reset", "reason"),
    [
        (pb.Reset(environment="nosuch"), "UNKNOWN_ENVIRONMENT"),
        (pb.Reset(profile="nosuch"), "UNKNOWN_OPTION"),
        (pb.Reset(action_format=77), "UNSUPPORTED_ACTION_FORMAT"),
        (pb.Reset(item_id="x" * 101), "TEXT_TOO_LONG"),
    ],
)
def test_resets_that_ask_for_what_is_not_there_are_refused(parser, reset, reason):
    assert refusal(lambda: parser.reset_spec(reset)) == reason


def test_options_that_are_no_json_are_refused(parser):
    reset = pb.Reset(item_id="echo_1000000")
    reset.options["length"] = float("nan")
    assert refusal(lambda: parser.reset_spec(reset)) == "INVALID_ARGUMENT"


def command_with_journal(seq, *actions):
    command = pb.Command(seq=seq)
    for action in actions:
        entry = command.reset.journal.add()
        if action is not None:
            entry.input.action = action
    return command


def test_a_journal_is_read_in_order(parser, reset):
    command = command_with_journal(2, "a", "b")
    assert parser.journal(command, reset) == [Action("a"), Action("b")]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (command_with_journal(1, "a", "b"), "INVALID_ARGUMENT"),
        (command_with_journal(4, "a", "b", "c", "d"), "INVALID_ARGUMENT"),
        (command_with_journal(1, None), "INVALID_ARGUMENT"),
        (command_with_journal(1, "x" * 101), "TEXT_TOO_LONG"),
    ],
)
def test_journals_that_cannot_be_played_are_refused(parser, reset, command, reason):
    assert refusal(lambda: parser.journal(command, reset)) == reason


def test_leases_stay_within_the_servers_bounds(parser):
    assert [parser.lease(ms) for ms in (0, 1500, 10_000_000)] == [60.0, 1.5, 600.0]


def test_an_advisor_has_to_be_one_that_the_environment_has(parser):
    assert parser.advisor("echo", 1) is Advisor.EXPERT
    for number in (0, 9):
        assert refusal(lambda number=number: parser.advisor("echo", number)) == "INVALID_ARGUMENT"


@pytest.mark.parametrize("episode_id", ["", "x" * 129, "\u20ac" * 43])
def test_episode_ids_have_a_length(parser, episode_id):
    assert refusal(lambda: parser.episode_id(episode_id)) == "INVALID_ARGUMENT"


INPUTS = st.one_of(
    st.builds(Action, st.text()),
    st.builds(Reply, st.integers(1, 3), st.text()),
    st.builds(ToolCall, st.text(), st.text()),
)


@given(INPUTS)
def test_inputs_reach_a_worker_as_they_are(step_input):
    decoded = decode_input(encode_input(step_input))
    assert decoded == step_input
    assert type(decoded) is type(step_input)


@given(INPUTS, INPUTS)
def test_inputs_of_different_types_are_never_equal(one, other):
    if type(one) is not type(other):
        assert one != other
