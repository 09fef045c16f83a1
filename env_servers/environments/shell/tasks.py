"""Which tasks there are, and under which item ids."""

from __future__ import annotations

import hashlib
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from env_servers.environments.shell.kinds import KINDS
from env_servers.environments.shell.sandbox import Sandbox
from env_servers.sdk import EMBEDDED_BASE, RangeSplit, RangeTaskSet, Task

__all__ = ["EVAL_BASE", "ShellTasks"]

EVAL_BASE: Final = EMBEDDED_BASE * 3 // 2
TRAIN_SIZE: Final = 3_600
EVAL_SIZE: Final = 360
_DRAWN: Final = "1"
"""Changes when a kind draws other puzzles."""
_AT_ONCE: Final = 32
"""Commands of this process that run at once. Where each of the server's 256 threads has a command
that reaches its limit of time, the last one still ends before the step limit."""


class ShellTasks(RangeTaskSet):
    """Tasks that are drawn from their index, and the room that their commands run in."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="shell")
        super().__init__(
            "shell",
            {
                "train": RangeSplit(EMBEDDED_BASE, TRAIN_SIZE, _drawn),
                "eval": RangeSplit(EVAL_BASE, EVAL_SIZE, _drawn),
            },
        )

    def digest(self) -> bytes:
        return hashlib.blake2b(super().digest() + _DRAWN.encode(), digest_size=8).digest()

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)


def _drawn(index: int) -> Task:
    kind = list(KINDS)[index % (EMBEDDED_BASE // 2) % len(KINDS)]
    return Task(f"shell_{index}", KINDS[kind](random.Random(f"shell {index}")), kind)
