"""The published task files of the tool environments, and what is said of a damaged one.

`tools/<name>.jsonl` has one object a line with `id`, `goal`, `subgoals`, `additional_info` and
`difficulty`. A wrong field is reported with its file and line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from env_servers.sdk import EnvironmentUnavailable, Task
from env_servers.toolkit.tool_calls.payload import ToolTask

__all__ = ["FOLDER", "MalformedFile", "official_splits", "read_objects", "read_tasks"]

FOLDER: Final = "tools"
_TYPES: Final = {
    "id": int,
    "goal": str,
    "subgoals": list,
    "additional_info": dict,
    "difficulty": str,
}


class MalformedFile(EnvironmentUnavailable):
    """When an official file is not what it should be; names the file, the line and the field."""

    def __init__(self, path: Path, line: int, field: str, problem: str) -> None:
        super().__init__(f"{path}, line {line}, field {field}: {problem}")
        self.path = path
        self.line = line
        self.field = field


def read_objects(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of a JSONL file; raises MalformedFile."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry: object = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise MalformedFile(path, number, "(whole line)", f"no JSON: {error}") from error
        if not isinstance(entry, dict):
            raise MalformedFile(path, number, "(whole line)", "no JSON object")
        yield number, cast("dict[str, Any]", entry)


def read_tasks(
    data_dir: Path, name: str, *, required_init: Collection[str] = ()
) -> list[ToolTask] | None:
    """Return the official tasks of an environment in order, or None where there is no file.

    `required_init` are texts that every `init_config` must have. Raises MalformedFile.
    """
    path = data_dir / FOLDER / f"{name}.jsonl"
    if not path.is_file():
        return None
    tasks: list[ToolTask] = []
    indexes: set[int] = set()
    try:
        with path.open(encoding="utf-8") as lines:
            for number, entry in read_objects(path, iter(lines)):
                task = _task(path, number, entry, name, required_init)
                if task.index in indexes:
                    raise MalformedFile(path, number, "id", f"{task.index} occurs twice")
                indexes.add(task.index)
                tasks.append(task)
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentUnavailable(f"cannot read {path}: {error}") from error
    return tasks


def _task(
    path: Path, line: int, entry: Mapping[str, Any], name: str, required_init: Collection[str]
) -> ToolTask:
    for field, kind in _TYPES.items():
        if field not in entry:
            raise MalformedFile(path, line, field, "is missing")
        if not isinstance(entry[field], kind) or isinstance(entry[field], bool):
            raise MalformedFile(path, line, field, f"must be of type {kind.__name__}")
    if not entry["subgoals"] and name != "sheet":
        raise MalformedFile(path, line, "subgoals", "is empty")
    info = entry["additional_info"]
    if info.get("tool", name) != name:
        raise MalformedFile(path, line, "additional_info.tool", f"is not {name!r}")
    if "answer" not in info:
        raise MalformedFile(path, line, "additional_info.answer", "is missing")
    init = info.get("init_config") or {}
    if not isinstance(init, dict):
        raise MalformedFile(path, line, "additional_info.init_config", "must be an object")
    for field in required_init:
        if not isinstance(cast("dict[str, Any]", init).get(field), str):
            raise MalformedFile(
                path, line, f"additional_info.init_config.{field}", "must be a text"
            )
    return ToolTask(
        goal=entry["goal"],
        subgoals=tuple(entry["subgoals"]),
        official=True,
        index=entry["id"],
        init=MappingProxyType(dict(cast("dict[str, Any]", init))),
        end_state=info["answer"],
    )


def official_splits(
    name: str,
    tasks: Collection[ToolTask] | None,
    held_out: Collection[int],
    *,
    category: Callable[[ToolTask], str] = lambda _: "official",
) -> dict[str, list[Task]]:
    """Return the splits official_train and official_eval; `held_out` are AgentEval's ids."""
    if tasks is None:
        return {}
    eval_indexes = frozenset(held_out)
    by_index = {task.index: Task(f"{name}_{task.index}", task, category(task)) for task in tasks}
    train = [task for index, task in by_index.items() if index not in eval_indexes]
    splits = {"official_train": train} if train else {}
    return splits | {
        "official_eval": [task for index, task in by_index.items() if index in eval_indexes]
    }
