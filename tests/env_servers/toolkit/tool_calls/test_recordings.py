"""Recorded calls: found by tool and values, and a clear error for what nobody recorded."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from env_servers.toolkit.tool_calls import (
    MalformedFile,
    NotRecorded,
    RecordedBackend,
    Recording,
    ToolError,
    ToolTask,
    parse_value,
)

TASK = ToolTask(goal="x", subgoals=(1,), official=True, index=3)


def conversation(*turns: str) -> dict[str, object]:
    opening = ["instruction", "Ok.", "goal"]
    return {"item_id": "stall_3", "conversations": [{"value": text} for text in (*opening, *turns)]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    said = conversation(
        "Thought: x\n\nAction: get_price with Action Input: {'thing': 'figs'}",
        "Observation: 1.5\nGive me one action.",
        "Action: get_price with Action Input: {'thing': 'figs'}",
        "Observation: 2.5\nGive me one action.",
        "nonsense",
        "Format error",
        "Action: get_price with Action Input: {'thing': 'gold'}",
        "Observation: ERROR | there is no gold\nGive me one action.",
        "Action: finish with Action Input: {'answer': 'figs'}",
    )
    (tmp_path / "agenttraj_l").mkdir()
    with gzip.open(tmp_path / "agenttraj_l" / "stall.jsonl.gz", "wt") as file:
        file.write(json.dumps(said))
    (tmp_path / "tools").mkdir()
    pair = {
        "tool": "get_price",
        "input": '{"thing": "plums"}',
        "observations": [{"text": "['a', 'b']", "count": 2}],
    }
    (tmp_path / "tools" / "derived_stall_io.jsonl").write_text(json.dumps(pair))
    return tmp_path


def test_a_call_of_a_task_is_answered_in_the_order_of_its_conversation(folder: Path) -> None:
    recording = Recording.read(folder, "stall")
    assert recording is not None
    session = RecordedBackend(recording).open(TASK)
    twin = session.fork()
    assert [session.call("get_price", {"thing": "figs"}).value for _ in range(3)] == [1.5, 2.5, 2.5]
    assert twin.call("get_price", {"thing": "figs"}).value == 1.5


def test_pairs_without_a_task_are_found_too(folder: Path) -> None:
    recording = Recording.read(folder, "stall")
    assert recording is not None
    session = RecordedBackend(recording).open(TASK)
    assert session.call("get_price", {"thing": "plums"}).value == ["a", "b"]


def test_recorded_errors_are_errors_again(folder: Path) -> None:
    recording = Recording.read(folder, "stall")
    assert recording is not None
    with pytest.raises(ToolError, match="there is no gold"):
        RecordedBackend(recording).open(TASK).call("get_price", {"thing": "gold"})


def test_a_call_that_nobody_recorded_is_named(folder: Path) -> None:
    recording = Recording.read(folder, "stall")
    assert recording is not None
    with pytest.raises(NotRecorded, match=r"get_price was never recorded with {'thing': 'pears'}"):
        RecordedBackend(recording).open(TASK).call("get_price", {"thing": "pears"})


def test_an_episode_may_be_kept_from_its_own_conversation(folder: Path) -> None:
    recording = Recording.read(folder, "stall")
    assert recording is not None
    backend = RecordedBackend(recording)
    others = backend.knowing("other_tasks", TASK).open(TASK)
    for things in ("figs", "plums"):  # of its conversation, and a pair of unknown origin
        with pytest.raises(NotRecorded):
            others.call("get_price", {"thing": things})
    neighbour = replace(TASK, index=TASK.index + 1)
    assert (
        backend.knowing("other_tasks", neighbour)
        .open(neighbour)
        .call("get_price", {"thing": "figs"})
        .value
        == 1.5
    )
    with pytest.raises(NotRecorded):
        backend.knowing("none", neighbour).open(neighbour).call("get_price", {"thing": "figs"})


def test_there_is_no_recording_without_files(tmp_path: Path) -> None:
    assert Recording.read(tmp_path, "stall") is None


def test_a_malformed_recording_is_reported_with_file_and_line(folder: Path) -> None:
    (folder / "tools" / "derived_stall_io.jsonl").write_text('{"tool": "x"}')
    with pytest.raises(MalformedFile, match=r"derived_stall_io.jsonl, line 1"):
        Recording.read(folder, "stall")


@pytest.mark.parametrize(
    ("text", "value"),
    [("2023-10-12", "2023-10-12"), ("1.5", 1.5), ("New York", "New York"), ("{'a': 1}", {"a": 1})],
)
def test_texts_become_the_values_that_they_show(text: str, value: object) -> None:
    assert parse_value(text) == value
