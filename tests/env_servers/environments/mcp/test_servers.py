"""What becomes of servers that do not start, end, hang, say too much, or answer otherwise."""

import random
import sys
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from env_servers.environments.mcp import stdio
from env_servers.environments.mcp.connection import Connection
from env_servers.environments.mcp.environment import Mcp
from env_servers.environments.mcp.errors import (
    NotRepeatable,
    OversizeMessage,
    ServerLost,
    ServerNotStarted,
    ServerSilent,
)
from env_servers.environments.mcp.example.stockroom import TOOLS
from env_servers.environments.mcp.tasks import read_settings
from env_servers.sdk import EnvironmentConfig, InvalidOption, ResetOptions
from env_servers.toolkit.tool_calls import ServiceUnavailable, write_call

SERVER = Path(__file__).with_name("odd_server.py")
TASKS = """
[[tasks]]
id = 3
instruction = "Count to two."
checks = [{ kind = "answer", number = 2 }, { kind = "called", tool = "count" }]
"""


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """Open episodes on the odd server."""
    monkeypatch.setattr(stdio, "_LEAVE_SECONDS", 0.2)
    episodes = []

    def opened(text=TASKS, mode="well", **settings):
        file = tmp_path / "tasks.toml"
        file.write_text(text, encoding="utf-8")
        command = f"{sys.executable} -I -S {SERVER} {mode} {tmp_path}"
        values = {"command": command, "tasks": str(file), **settings}
        config = EnvironmentConfig(None, {f"mcp.{key}": it for key, it in values.items()})
        environment = Mcp.configured(config)
        episode = environment(environment.load_tasks(config))
        episode.reset(episode.tasks.get("3"), ResetOptions(profile="fixed"))
        episodes.append(episode)
        return episode

    yield opened
    for episode in episodes:
        episode.close()


def say(episode, tool, **arguments):
    text = episode.step(write_call(tool, arguments)).text
    return text.removeprefix("Observation: ").removesuffix("\nGive me one action.")


def living(folder):
    """The processes of servers that are there."""
    numbers = [int(it.name) for it in folder.iterdir() if it.name.isdecimal()]
    return [number for number in numbers if Path(f"/proc/{number}").exists()]


def test_the_example_tells_the_tools_that_it_is_described_with():
    with closing(Connection.open(read_settings(EnvironmentConfig()).server.address, 30)) as server:
        told = [tool.model_dump(by_alias=True, exclude_none=True) for tool in server.tools()]
    assert told == list(TOOLS)


def test_an_episode_has_a_process_of_its_own_which_ends_with_it(begin, tmp_path):
    one, other = begin(), begin()
    assert [say(it, "count") for it in (one, other, one)] == ["1", "1", "2"]
    assert len(living(tmp_path)) == 2
    one.close()
    assert len(living(tmp_path)) == 1
    other.close()
    assert living(tmp_path) == []


def test_a_server_that_is_not_there_is_said_when_it_is_configured(begin):
    with pytest.raises(ServerNotStarted, match="cannot start 'no-such-program'"):
        begin(command="no-such-program --stdio")
    with pytest.raises(ServerLost, match="ended with status 1; it said: no database"):
        begin(mode="dies")
    with pytest.raises(ServerSilent, match="did not begin a session"):
        begin(mode="silent", timeout="0.5")
    with pytest.raises(OversizeMessage, match="more than 1,048,576 bytes"):
        begin(mode="babbles")
    with pytest.raises(ServiceUnavailable):
        begin(command="", url="http://127.0.0.1:9/mcp")
    with pytest.raises(ServerNotStarted, match="variable NOT_SET is not set"):
        begin(variables="NOT_SET")


def test_a_lost_session_ends_an_episode_that_nobody_can_play_again(begin, tmp_path):
    episode = begin(timeout="0.5")
    assert say(episode, "count") == "1"
    with pytest.raises(InvalidOption, match="copied only where the server is deterministic"):
        episode.fork()
    with pytest.raises(ServerLost, match="ended with status 7; it said: I am dying"):
        say(episode, "die")
    with pytest.raises(ServerLost, match="play the episode again"):
        say(episode, "count")
    for tool, error in (("hang", ServerSilent), ("flood", OversizeMessage)):
        with pytest.raises(error):
            say(begin(timeout="0.5"), tool)
    assert living(tmp_path) == []


def test_a_deterministic_session_is_made_anew_as_it_was(begin):
    episode = begin(deterministic="yes", timeout="0.5")
    assert episode.spec.deterministic
    assert [say(episode, "count") for _ in range(2)] == ["1", "2"]
    for tool, error in (("die", ServerLost), ("hang", ServerSilent), ("flood", OversizeMessage)):
        with pytest.raises(error):
            say(episode, tool)
    twin = episode.fork()
    assert [say(it, "count") for it in (episode, twin, twin)] == ["3", "3", "4"]
    twin.close()


def test_a_server_that_only_calls_itself_deterministic_is_found_out(begin):
    episode = begin(deterministic="yes")
    assert say(episode, "own_number").isdecimal()
    with pytest.raises(ServerLost):
        say(episode, "die")
    with pytest.raises(NotRepeatable, match="own_number otherwise"):
        say(episode, "count")


def test_what_a_server_refuses_or_mumbles_is_an_observation(begin):
    episode = begin()
    assert say(episode, "refuse") == "ERROR | I would rather not"
    assert say(episode, "mumble") == "mumbled"
    assert say(episode, "say", text="\x1b[31m<b>") == "\x1b[31m<b>"
    assert say(episode, "say", text=1).startswith("ERROR | ValueError(argument text must be")
    assert say(episode, "say").startswith("ERROR | KeyError(")
    answer = say(episode, "read_file", from_="a", with_=b"x")
    assert answer.startswith("ERROR | the arguments are no JSON")


def test_names_that_no_call_could_have_are_translated(begin):
    episode = begin()
    assert say(episode, "read_file", from_="a", with_=1) == '{"from": "a", "with": 1}'
    assert say(episode, "finish_2") == "well"
    functions = {it["function"]["name"]: it["function"] for it in _functions(episode)}
    assert functions["read_file"]["parameters"]["properties"]["with_"] == {
        "anyOf": [{"type": "integer"}]
    }


def _functions(episode):
    return [verb.schema() for verb in episode.spec.grammar.verbs]


def test_a_process_gets_no_variable_that_is_not_named(begin, monkeypatch):
    monkeypatch.setenv("MCP_TEST_SECRET", "told")
    assert say(begin(), "variable", name="MCP_TEST_SECRET") == "unset"
    named = begin(variables="MCP_TEST_SECRET")
    assert say(named, "variable", name="MCP_TEST_SECRET") == "told"


def test_an_answer_can_be_handed_in_again_when_a_check_got_none(begin):
    checks = 'checks = [{ kind = "result", tool = "die_once", equals = "back" }]'
    episode = begin(f'[[tasks]]\nid = 3\ninstruction = "Wait."\n{checks}', deterministic="yes")
    answer = write_call("finish", {"answer": "well"})
    with pytest.raises(ServerLost):
        episode.step(answer)
    last = episode.step(answer)
    assert (last.reward, last.terminated, last.info["checks"]) == (1.0, True, [True])


def test_a_random_player_tries_the_tools_before_it_ends(begin):
    episode = begin()
    actions = [episode.advise_random(random.Random(seed)).action for seed in range(50)]
    assert sum("finish with" in action for action in actions) < 5


def test_a_task_without_a_solution_has_no_expert(begin):
    episode = begin()
    assert not episode.spec.has_expert
    with pytest.raises(InvalidOption, match="no solution"):
        episode.advise_expert(0)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"url": "http://h/mcp"}, "not both"),
        ({"tasks": ""}, "mcp.tasks has to name"),
        ({"command": "", "url": "ftp://h"}, "no address of HTTP"),
        ({"command": "'"}, "no command line"),
        ({"surplus": "1"}, "unknown setting 'surplus'"),
        ({"timeout": "-1"}, "positive number"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(begin, settings, problem):
    with pytest.raises(InvalidOption, match=problem):
        begin(**settings)
