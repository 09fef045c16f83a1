"""Official task files: what is read from them, and what is said of a damaged one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from env_servers.toolkit.tool_calls import MalformedFile, official_splits, read_tasks

GOOD: dict[str, Any] = {
    "id": 7,
    "goal": "How warm?",
    "subgoals": [18.5],
    "additional_info": {
        "answer": 18.5,
        "init_config": {"current_date": "2023-06-15", "current_location": "New York"},
        "goal_type": 0,
        "tool": "weather",
    },
    "difficulty": "hard",
}


def write(folder: Path, *lines: object) -> Path:
    path = folder / "tools" / "weather.jsonl"
    path.parent.mkdir(exist_ok=True)
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(texts), encoding="utf-8")
    return folder


def changed(**fields: object) -> dict[str, object]:
    return {**GOOD, **fields}


def info(**fields: object) -> dict[str, object]:
    return changed(additional_info={**GOOD["additional_info"], **fields})


def test_tasks_keep_their_ids_and_configurations(tmp_path: Path) -> None:
    tasks = read_tasks(write(tmp_path, GOOD, "", changed(id=9)), "weather")
    assert tasks is not None
    assert [task.index for task in tasks] == [7, 9]
    assert tasks[0].subgoals == (18.5,)
    assert tasks[0].init["current_location"] == "New York"
    splits = official_splits("weather", tasks, {9})
    assert [task.item_id for task in splits["official_eval"]] == ["weather_9"]
    assert [task.item_id for task in splits["official_train"]] == ["weather_7"]


def test_without_a_file_there_are_no_tasks(tmp_path: Path) -> None:
    assert read_tasks(tmp_path, "weather") is None
    assert official_splits("weather", None, {9}) == {}


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("{", "(whole line)"),
        ("[1]", "(whole line)"),
        (changed(goal=1), "goal"),
        (changed(id="7"), "id"),
        (changed(id=True), "id"),
        ({key: GOOD[key] for key in GOOD if key != "subgoals"}, "subgoals"),
        (changed(subgoals=[]), "subgoals"),
        (changed(additional_info=[]), "additional_info"),
        (info(tool="movie"), "additional_info.tool"),
        (info(init_config=5), "additional_info.init_config"),
        (
            info(init_config={"current_date": "2023-06-15"}),
            "additional_info.init_config.current_location",
        ),
        (changed(), "id"),
    ],
)
def test_a_malformed_file_is_reported_with_line_and_field(
    tmp_path: Path, line: object, field: str
) -> None:
    folder = write(tmp_path, GOOD, line)
    with pytest.raises(MalformedFile) as caught:
        read_tasks(folder, "weather", required_init=("current_date", "current_location"))
    assert (caught.value.line, caught.value.field) == (2, field)
    assert "weather.jsonl, line 2, field" in str(caught.value)
