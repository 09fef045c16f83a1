"""A process that writes a run until it is killed: `python -m tests.orchestrator.writing_process`.

Prints the number of each episode once its append has returned: from then on it must not get lost.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from orchestrator.store import RunStore
from tests.orchestrator.records import build_episode, build_manifest, build_session


def open_store(folder: Path) -> RunStore:
    opening = RunStore.resume if folder.exists() else RunStore.create
    return opening(folder, build_manifest(), build_session())


async def write(folder: Path, count: int) -> None:
    with open_store(folder) as store:
        finished = {key.item_id for key in store.finished_keys()}
        limit = asyncio.Semaphore(8)

        async def append(number: int) -> None:
            async with limit:
                await store.append(build_episode(f"maze_{number}"))
                sys.stdout.write(f"{number}\n")
                sys.stdout.flush()

        todo = [number for number in range(count) if f"maze_{number}" not in finished]
        await asyncio.gather(*map(append, todo))


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2])))
