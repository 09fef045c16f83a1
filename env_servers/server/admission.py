"""Admission: how many episodes a server takes, in all, per environment and per client.

Capacity is derived from memory and cores unless it is configured. Only resets and forks compete for
it, so an open episode can always go on.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from env_servers.sdk import EnvironmentSpec, Execution
from env_servers.server import errors

__all__ = ["AdmissionController", "available_memory", "derive_capacity"]

_MEMORY_SHARE = 0.5
"""Share of the memory that is free at the start which episodes may fill."""
_EPISODES_PER_CORE = {Execution.INLINE: 16_384, Execution.THREAD: 2_048, Execution.PROCESS: 1_024}
"""Beyond these, more episodes only wait for each other."""
_OVERHEAD_BYTES = 8 * 1024
"""The server's own memory per episode."""


def available_memory() -> int:
    """Return the bytes of memory that are free now, within the cgroup's limit if there is one."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, KeyError, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        free = int(fields["MemAvailable"].split()[0]) * 1024
    with contextlib.suppress(OSError, ValueError):  # "max" = no limit
        group = Path("/sys/fs/cgroup")
        limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        free = min(free, max(0, limit - used))
    return free


def derive_capacity(spec: EnvironmentSpec, execution: Execution, memory: int, cores: int) -> int:
    """Return how many episodes of an environment fit `memory` bytes and `cores`; at least 1."""
    by_memory = int(memory * _MEMORY_SHARE) // (spec.episode_bytes + _OVERHEAD_BYTES)
    return max(1, min(by_memory, cores * _EPISODES_PER_CORE[execution]))


class AdmissionController:
    """Counts live episodes against the capacities."""

    def __init__(
        self, capacities: Mapping[str, int], *, total: int = 0, per_client: int = 0
    ) -> None:
        """`capacities` per environment; 0 = no limit for `total` and `per_client`."""
        self.capacities = dict(capacities)
        self.total = total or sum(capacities.values())
        self.per_client = per_client
        self.draining = False
        """No more episodes are admitted: the server is shutting down."""
        self.live: Counter[str] = Counter()
        """Admitted episodes by environment."""
        self._by_client: Counter[str] = Counter()

    def check(self, environment: str, client: str) -> None:
        """Raise CommandError where there is no room for another episode."""
        if self.draining:
            raise errors.draining()
        live, total = self.live[environment], self.live.total()
        if live >= self.capacities[environment] or total >= self.total:
            raise errors.capacity_exhausted(
                f"no room for another {environment} episode: {live} of "
                f"{self.capacities[environment]} are live, {total} of {self.total} in all"
            )
        if self.per_client and self._by_client[client] >= self.per_client:
            raise errors.client_limit(self.per_client)

    def admit(self, environment: str, client: str) -> None:
        """Count an episode that was checked."""
        self.live[environment] += 1
        self._by_client[client] += 1

    def release(self, environment: str, client: str) -> None:
        """Give the room of an episode back."""
        self.live[environment] -= 1
        self._by_client[client] -= 1
        if not self._by_client[client]:
            del self._by_client[client]
