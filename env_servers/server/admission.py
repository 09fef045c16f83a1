"""Admission: how many episodes and bytes a server takes, in all, per environment and per client.

Capacity is derived from memory and cores unless it is configured. Only resets and forks compete for
it, so an open episode can always go on. Clients get fair shares: see `fair_share`.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from env_servers.sdk import EnvironmentSpec, Execution
from env_servers.server import errors
from env_servers.server.budget import Account, Budget, fair_share

__all__ = [
    "AdmissionController",
    "available_memory",
    "derive_budget",
    "derive_capacity",
    "derive_worker_memory",
]

_MEMORY_SHARE = 0.5
"""Share of the memory that is free at the start which environments and workers may fill."""
_BUDGET_SHARE = 0.25
"""Share of it for what the server itself keeps: journals, results, outboxes."""
_MIN_WORKER_MEMORY = 1 << 30
_MIN_BUDGET = 64 * 1024 * 1024
_ASKED_SECONDS = 5.0
"""So long a client that was refused counts among those who share."""
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


def derive_worker_memory(memory: int, workers: int) -> int:
    """Return how many bytes each of so many workers may hold where `memory` bytes are free."""
    return max(_MIN_WORKER_MEMORY, int(memory * _MEMORY_SHARE) // workers)


def derive_budget(memory: int) -> int:
    """Return how many bytes a server may keep for its clients where `memory` bytes are free."""
    return max(_MIN_BUDGET, int(memory * _BUDGET_SHARE))


class AdmissionController:
    """Counts live episodes and their bytes against the capacities, and shares them out."""

    def __init__(
        self,
        capacities: Mapping[str, int],
        *,
        total: int = 0,
        per_client: int = 0,
        budget: Budget | None = None,
        fair: bool = True,
    ) -> None:
        """Share out room for episodes and bytes.

        Args:
            capacities: Most episodes per environment.
            total: Most episodes in all; 0 = the capacities together.
            per_client: Most episodes of one client; 0 = no limit of its own.
            budget: Bytes; default: no limit.
            fair: Whether a client may not take what is another's share.
        """
        self.capacities = dict(capacities)
        self.total = total or sum(capacities.values())
        self.per_client = per_client
        self.budget = budget or Budget(0)
        self.draining = False
        """No more episodes are admitted: the server is shutting down."""
        self.live: Counter[str] = Counter()
        """Admitted episodes by environment."""
        self.refused: Counter[str] = Counter()
        """Resets and forks that got no room, repeated ones included, by reason."""
        self._fair = fair
        self._accounts: weakref.WeakValueDictionary[str, Account] = weakref.WeakValueDictionary()
        self._present: dict[str, Account] = {}
        """Clients that hold episodes or asked for one a moment ago: who shares."""

    def account(self, client: str) -> Account:
        """Return the account of a client; the same one as long as anything refers to it."""
        account = self._accounts.get(client)
        if account is None:
            account = self._accounts[client] = Account(client, self.budget)
        return account

    def check(self, environment: str, account: Account, now: float, size: int = 0) -> None:
        """Raise CommandError where a client gets no room for another episode of `size` bytes."""
        if self.draining:
            raise errors.draining()
        account.asked = now
        self._present[account.client] = account
        self._count_clients()
        if self.per_client and account.episodes.total() >= self.per_client:
            raise errors.client_limit(self.per_client)
        live, total = self.live[environment], self.live.total()
        mine, capacity = account.episodes[environment], self.capacities[environment]
        self._check_share("episodes", mine + 1, capacity, live)
        self._check_share("episodes", account.episodes.total() + 1, self.total, total)
        self._check_share("bytes", account.held + size, self.budget.limit, self.budget.held)
        if live >= capacity or total >= self.total:
            raise errors.capacity_exhausted(
                f"no room for another {environment} episode: {live} of {capacity} are live, "
                f"{total} of {self.total} in all"
            )
        if self.budget.held + size > self.budget.limit:
            raise errors.capacity_exhausted(
                f"no memory for another episode: {self.budget.held} of {self.budget.limit} bytes "
                "are taken"
            )

    def _check_share(self, what: str, wanted: int, capacity: int, taken: int) -> None:
        """Raise CommandError where a client would hold what is left for others."""
        clients = self.budget.clients
        share = fair_share(capacity, taken, clients)
        if clients > 1 and wanted > share:
            raise errors.over_share(what, share, clients)

    def crowded(self, environment: str) -> str:
        """Return the environment whose capacity is short; empty = that of all together is."""
        return environment if self.live[environment] >= self.capacities[environment] else ""

    def over_seats(self, account: Account, environment: str) -> bool:
        """Whether a client has more than its share of episodes; "" = of all environments."""
        if environment:
            mine, capacity = account.episodes[environment], self.capacities[environment]
        else:
            mine, capacity = account.episodes.total(), self.total
        return mine > capacity // self.budget.clients

    def admit(self, environment: str, account: Account) -> None:
        """Count an episode that was checked."""
        self.live[environment] += 1
        account.episodes[environment] += 1

    def release(self, environment: str, account: Account) -> None:
        """Give the room of an episode back."""
        self.live[environment] -= 1
        account.episodes[environment] -= 1
        if not account.episodes[environment]:
            del account.episodes[environment]

    def forget_absent(self, now: float) -> None:
        """Leave out of the shares who holds nothing and has not asked for a while."""
        for account in list(self._present.values()):
            if not account.episodes and now - account.asked > _ASKED_SECONDS:
                del self._present[account.client]
        self._count_clients()

    def _count_clients(self) -> None:
        self.budget.clients = len(self._present) if self._fair else 1
