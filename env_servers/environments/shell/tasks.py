"""Which tasks there are, and under which item ids."""

from __future__ import annotations

import hashlib
import random
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Final

from env_servers.environments.shell.judged_kinds import JUDGED_KINDS, RUBRIC
from env_servers.environments.shell.kinds import KINDS
from env_servers.environments.shell.sandbox import Sandbox
from env_servers.sdk import (
    EMBEDDED_BASE,
    EnvironmentUnavailable,
    RangeSplit,
    RangeTaskSet,
    Task,
    item_index,
)
from env_servers.sdk.judging import Examiner, Judge

__all__ = ["EVAL_BASE", "JUDGED_BASE", "JUDGED_EVAL_BASE", "ShellTasks"]

EVAL_BASE: Final = EMBEDDED_BASE * 3 // 2
JUDGED_BASE: Final = EMBEDDED_BASE * 2
JUDGED_EVAL_BASE: Final = EMBEDDED_BASE * 5 // 2
TRAIN_SIZE: Final = 3_600
EVAL_SIZE: Final = 360
JUDGED_SIZE: Final = 1_000
JUDGED_EVAL_SIZE: Final = 100
_DRAWN: Final = "1"
"""Changes when a kind draws other puzzles."""
_KEPT: Final = 256
"""Tasks that were drawn; groups of episodes play the same one."""
_AT_ONCE: Final = 32
"""Commands of this process that run at once. Where each of the server's 256 threads has a command
that reaches its limit of time, the last one still ends before the step limit."""


class ShellTasks(RangeTaskSet):
    """Tasks that are drawn from their index, and the room that their commands run in."""

    def __init__(self, sandbox: Sandbox, judge: Judge | None) -> None:
        """Without a judge there are no tasks that need one."""
        self.sandbox = sandbox
        self.examiner = None if judge is None else Examiner(judge)
        self.threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="shell")
        splits = {
            "train": RangeSplit(EMBEDDED_BASE, TRAIN_SIZE, _drawn),
            "eval": RangeSplit(EVAL_BASE, EVAL_SIZE, _drawn),
        }
        if judge is not None:
            splits["judged_train"] = RangeSplit(JUDGED_BASE, JUDGED_SIZE, _drawn)
            splits["judged_eval"] = RangeSplit(JUDGED_EVAL_BASE, JUDGED_EVAL_SIZE, _drawn)
        super().__init__("shell", splits)

    def get(self, item_id: str) -> Task:
        if self.examiner is None and _is_judged(item_index(item_id, names=("shell",))):
            raise EnvironmentUnavailable(
                f"{item_id[:100]} needs a judge: --set judge.model=NAME judge.base_url=URL, "
                "or --set judge.model=scripted"
            )
        return super().get(item_id)

    def digest(self) -> bytes:
        told = super().digest() + _DRAWN.encode()
        if self.examiner is not None:
            told += f"{self.examiner.judge.identity} {RUBRIC}".encode()
        return hashlib.blake2b(told, digest_size=8).digest()

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)


def _is_judged(index: int) -> bool:
    spans = ((JUDGED_BASE, JUDGED_SIZE), (JUDGED_EVAL_BASE, JUDGED_EVAL_SIZE))
    return any(start <= index < start + size for start, size in spans)


@lru_cache(maxsize=_KEPT)
def _drawn(index: int) -> Task:
    kinds = JUDGED_KINDS if _is_judged(index) else KINDS
    kind = list(kinds)[index % (EMBEDDED_BASE // 2) % len(kinds)]
    return Task(f"shell_{index}", kinds[kind](random.Random(f"shell {index}")), kind)
