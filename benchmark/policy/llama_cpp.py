"""llama.cpp's server in a process of its own, as a contender of `benchmark.policy.embedded`.

One slot for each episode keeps its keys and values from turn to turn.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import aiohttp
import psutil

__all__ = ["LlamaCpp"]

_SERVER: Final = Path(__file__).with_name("llama_cpp_server.py").resolve()


class LlamaCpp:
    """A running server; `close` ends it."""

    def __init__(self, python: Path, gguf: Path, *, threads: int, slots: int, context: int) -> None:
        """Start it and wait until it has told its address; raises RuntimeError where it does not.

        Args:
            python: An interpreter that has `xllamacpp`.
            gguf: The model.
            threads: Of CPU.
            slots: Episodes at once.
            context: Tokens of each.
        """
        command = [str(python), str(_SERVER), str(gguf)]
        command += [str(threads), str(slots), str(context)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().decode().strip()
        if not self.address.startswith("http"):
            self.close()
            raise RuntimeError(f"{python} started no llama.cpp: pip install xllamacpp")

    def cpu_seconds(self) -> float:
        """Return the CPU time that the server has used."""
        times = psutil.Process(self._process.pid).cpu_times()
        return times.user + times.system

    async def play(self, turns: Sequence[Sequence[Sequence[int]]], reply: int) -> list[list[int]]:
        """Play all episodes at once, each in a slot; returns the ids of each one's replies."""
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:

            async def episode(slot: int) -> list[int]:
                context, said = list[int](), list[int]()
                for observation in turns[slot]:
                    context.extend(observation)
                    body = {"prompt": context, "n_predict": reply, "id_slot": slot}
                    body |= {"ignore_eos": True, "temperature": 0, "return_tokens": True}
                    body |= {"cache_prompt": True, "samplers": ["temperature"]}
                    async with session.post(f"{self.address}/completion", json=body) as response:
                        response.raise_for_status()
                        ids: list[int] = (await response.json())["tokens"]
                    context.extend(ids)
                    said.extend(ids)
                return said

            return list(await asyncio.gather(*(episode(slot) for slot in range(len(turns)))))

    def close(self) -> None:
        """End the server."""
        self._process.terminate()
        self._process.wait()
