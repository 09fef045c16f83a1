"""Official files: recorded conversations come back, damaged ones are reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from env_servers.environments.todo import Todo
from env_servers.sdk import ActionFormat, EnvironmentConfig, Observation, ResetOptions
from env_servers.toolkit.tool_calls import MalformedFile, ToolTaskSet
from tests.kit.fidelity import FidelityContract, recordings


@pytest.fixture(scope="module", params=["embedded", "recorded"])
def replayed(data_dir: Path, request: pytest.FixtureRequest) -> ToolTaskSet:
    settings = {"todo.backend": request.param}
    return Todo.load_tasks(EnvironmentConfig(data_dir=data_dir, settings=settings))


class TestRecordedConversations(FidelityContract):
    """Our own to-do service and the recording both answer as the original did."""

    environment = Todo
    counts = (68, 310)
    options = {}

    @pytest.fixture(scope="class")
    @classmethod
    def replayed_tasks(cls, replayed: ToolTaskSet) -> ToolTaskSet:
        return replayed


def test_a_fork_in_the_middle_of_a_recording_goes_on_like_the_original(
    replayed: ToolTaskSet,
) -> None:
    for recording in recordings("todo", every=7):
        actions = [Todo.spec.grammar.read(reply, ActionFormat.REACT) for reply in recording.replies]
        episode = Todo(replayed)
        episode.reset(replayed.get(recording.item_id), ResetOptions())
        seen: list[list[Observation]] = [[], []]
        fork = episode
        for number, action in enumerate(actions):
            if number == len(actions) // 2:
                fork = episode.fork()
            seen[0].append(episode.step(str(action)))
        for action in actions[len(actions) // 2 :]:
            seen[1].append(fork.step(str(action)))
        assert seen[0][len(actions) // 2 :] == seen[1]
        assert seen[1][-1].reward == 1.0


def test_a_call_that_nobody_recorded_says_so(data_dir: Path) -> None:
    config = EnvironmentConfig(data_dir=data_dir, settings={"todo.backend": "recorded"})
    tasks = Todo.load_tasks(config)
    episode = Todo(tasks)
    episode.reset(tasks.get("todo_0"), ResetOptions())
    seen = episode.step('Action: get_tasks with Action Input: {"project_id": "7"}')
    assert "ERROR | NotRecorded(get_tasks was never recorded with {'project_id': '7'})" in seen.text


def test_official_ids_are_agentgyms_and_agentevals_are_held_out(official: ToolTaskSet) -> None:
    assert official.splits()["official_train"] == 135
    assert official.splits()["official_eval"] == 20
    assert "todo_104" in official.item_ids("official_eval", 0, 20)
    assert official.get("todo_37").payload.subgoals == ("School laboratory",)


def _without(name: str) -> Callable[[dict[str, Any]], None]:
    def damage(row: dict[str, Any]) -> None:
        inside = row
        *path, last = name.split(".")
        for part in path:
            inside = inside[part]
        del inside[last]

    return damage


def _with(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def damage(row: dict[str, Any]) -> None:
        inside = row
        *path, last = name.split(".")
        for part in path:
            inside = inside[part]
        inside[last] = value

    return damage


@pytest.mark.parametrize(
    ("damage", "field"),
    [
        (_without("goal"), "goal"),
        (_with("id", "x"), "id"),
        (_with("subgoals", ["a", "b"]), "subgoals"),
        (_without("additional_info.init_config"), "additional_info.init_config"),
        (_with("additional_info.init_config.current_date", "soon"), "current_date"),
        (_without("additional_info.answer.tasks"), "additional_info.answer"),
        (_with("additional_info.answer.tasks", [{"order": 1}]), "additional_info.answer"),
        (_with("additional_info.answer.projects", []), "additional_info.answer"),
    ],
)
def test_a_malformed_file_is_reported_with_file_line_and_field(
    data_dir: Path, tmp_path: Path, damage: Callable[[dict[str, Any]], None], field: str
) -> None:
    lines = (data_dir / "tools" / "todo.jsonl").read_text().splitlines()[:6]
    row = json.loads(lines[3])
    damage(row)
    lines[3] = json.dumps(row)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "todo.jsonl").write_text("\n".join(lines))
    with pytest.raises(MalformedFile) as caught:
        Todo.load_tasks(EnvironmentConfig(data_dir=tmp_path))
    assert "todo.jsonl, line 4, field " in str(caught.value)
    assert field in str(caught.value)
