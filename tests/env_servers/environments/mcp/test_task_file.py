"""What a task file may say, and when its checks hold."""

import json

import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from env_servers.environments.mcp.checks import Called, judge
from env_servers.environments.mcp.environment import Mcp
from env_servers.environments.mcp.errors import TaskFileError
from env_servers.environments.mcp.task_file import read_file
from env_servers.sdk import EnvironmentConfig
from env_servers.toolkit.tool_calls import ToolError

TASK = {"id": 1, "instruction": "Do it.", "checks": [{"kind": "answer", "equals": "done"}]}
CALL = {"tool": "look", "arguments": {"shelf": "A1"}}


@pytest.fixture
def written(tmp_path):
    def write(document):
        path = tmp_path / "tasks.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    return write


def test_toml_and_json_say_the_same(tmp_path, written):
    path = tmp_path / "tasks.toml"
    path.write_text(
        '[[tasks]]\nid = 1\ninstruction = "Do it."\n'
        '[[tasks.checks]]\nkind = "answer"\nequals = "done"\n',
        encoding="utf-8",
    )
    assert read_file(path) == read_file(written({"tasks": [TASK]}))


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "the whole file"),
        ({"tasks": []}, "tasks: Tuple should have at least 1 item"),
        ({"tasks": [TASK], "surplus": 1}, "surplus: Extra inputs"),
        ({"tasks": [TASK | {"splits": "train"}]}, r"tasks\.0\.splits: Extra inputs"),
        ({"tasks": [TASK | {"checks": []}]}, r"tasks\.0\.checks: Tuple should have at least"),
        ({"tasks": [TASK | {"id": -1}]}, r"tasks\.0\.id"),
        ({"tasks": [TASK | {"split": "To Train"}]}, r"tasks\.0\.split: String should match"),
        ({"tasks": [TASK, TASK]}, "two tasks have the id 1"),
        ({"tasks": [TASK | {"solution": [CALL, CALL]}]}, "a call twice"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(written, document, problem):
    with pytest.raises(TaskFileError, match=problem):
        read_file(written(document))


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        ({}, "kind"),
        ({"kind": "guess"}, "kind"),
        ({"kind": "answer"}, "give one of equals, contains, matches, number"),
        ({"kind": "answer", "equals": "a", "number": 1}, "give one of"),
        ({"kind": "answer", "equals": "a", "tolerance": 1}, "tolerance is for number"),
        ({"kind": "answer", "matches": "("}, "no regular expression"),
        ({"kind": "answer", "equals": "a", "tool": "look"}, "Extra inputs"),
        ({"kind": "called"}, "tool: Field required"),
        ({"kind": "result", "equals": "a"}, "tool: Field required"),
    ],
)
def test_what_is_wrong_with_a_check_is_named(written, check, problem):
    with pytest.raises(TaskFileError, match=rf"tasks\.0\.checks\.0.*{problem}"):
        read_file(written({"tasks": [TASK | {"checks": [check]}]}))


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    broken = tmp_path / "tasks.toml"
    broken.write_text("tasks = [", encoding="utf-8")
    for path in (broken, tmp_path / "none.toml", tmp_path):
        with pytest.raises(TaskFileError, match="cannot read the task file"):
            read_file(path)


@pytest.mark.parametrize("key", ["checks", "solution"])
def test_a_tool_that_the_server_does_not_have_is_named(written, key):
    named = {"kind": "called", "tool": "dance"} if key == "checks" else {"tool": "dance"}
    config = EnvironmentConfig(
        None, {"mcp.tasks": str(written({"tasks": [TASK | {key: [named]}]}))}
    )
    with pytest.raises(TaskFileError, match=r"task 1 names the tool 'dance'.*valid: list_shelves"):
        Mcp.configured(config).load_tasks(config)


def looked(tool, arguments):
    if tool == "broken":
        raise ToolError("it is broken")
    return f"{tool} {json.dumps(arguments)}"


@pytest.mark.parametrize(
    ("check", "answer", "holds"),
    [
        ({"kind": "answer", "equals": "Done"}, " done ", True),
        ({"kind": "answer", "equals": "done"}, "done.", False),
        ({"kind": "answer", "equals": "a"}, ["a"], True),
        ({"kind": "answer", "contains": "B1"}, "it is on b1", True),
        ({"kind": "answer", "matches": "[ab]+"}, " abba ", True),
        ({"kind": "answer", "matches": "[ab]+"}, "abba!", False),
        ({"kind": "answer", "matches": "a+"}, "a" * 10_001, False),
        ({"kind": "answer", "number": 3}, "3.0", True),
        ({"kind": "answer", "number": 3}, 3, True),
        ({"kind": "answer", "number": 3}, "three", False),
        ({"kind": "answer", "number": 3}, True, False),
        ({"kind": "answer", "number": 3}, float("nan"), False),
        ({"kind": "answer", "number": 3}, "9" * 5000, False),
        ({"kind": "answer", "number": 3, "tolerance": 0.1}, "2.95", True),
        ({"kind": "answer", "number": 3, "tolerance": 0.1}, "2.8", False),
        ({"kind": "called", "tool": "look"}, "", True),
        ({"kind": "called", "tool": "look", "arguments": {"shelf": "A1"}}, "", True),
        ({"kind": "called", "tool": "look", "arguments": {"shelf": "B1"}}, "", False),
        ({"kind": "called", "tool": "weigh"}, "", False),
        ({"kind": "result", "tool": "find", "equals": "find {}"}, "", True),
        ({"kind": "result", **CALL, "contains": "A1"}, "", True),
        ({"kind": "result", "tool": "broken", "contains": ""}, "", False),
    ],
)
def test_a_check_holds(written, check, answer, holds):
    checks = read_file(written({"tasks": [TASK | {"checks": [check]}]})).tasks[0].checks
    calls = [Called("look", {"shelf": "A1", "deep": True})]
    assert judge(checks, answer, calls, looked) == (holds,)
