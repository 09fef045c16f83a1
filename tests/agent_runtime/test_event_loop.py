from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc, resource
from agent_runtime.event_loop import run_event_loop

async def told():
    return resource.getrlimit(resource.RLIMIT_NOFILE), gc.get_threshold()[0]

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
limits, threshold = run_event_loop(told())
assert limits == (hard, hard), limits
assert threshold > 100_000, threshold
"""


def test_commands_may_open_as_many_files_as_the_system_allows() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
