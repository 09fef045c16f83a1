"""Echo's tasks: every index is one, and differs from the others only in its padding."""

from __future__ import annotations

from typing import Final

from env_servers.sdk import EMBEDDED_BASE, RangeSplit, RangeTaskSet, Task

__all__ = ["EVAL_SIZE", "TRAIN_SIZE", "echo_tasks"]

TRAIN_SIZE: Final = 10_000
EVAL_SIZE: Final = 1_000


def echo_tasks() -> RangeTaskSet:
    """`train` and `eval`, disjoint index ranges from EMBEDDED_BASE on."""
    return RangeTaskSet(
        "echo",
        {
            "train": RangeSplit(EMBEDDED_BASE, TRAIN_SIZE, _task),
            "eval": RangeSplit(EMBEDDED_BASE + TRAIN_SIZE, EVAL_SIZE, _task),
        },
    )


def _task(index: int) -> Task:
    return Task(f"echo_{index}", payload=index, category="echo")
