"""Which servers a fleet has: fixed addresses, those of a DNS name or a watched file, or as told.

A source is read again and again and says what it says now; what joining and leaving mean is the
fleet's business. A source that cannot be read changes nothing: servers that are gone are noticed by
their connections, and the others must not be left for a name server's or an editor's sake.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, cast

from orchestrator.errors import FleetError, UsageError
from orchestrator.servers import FleetConfig

__all__ = [
    "DnsSource",
    "FileSource",
    "FixedSource",
    "Member",
    "Source",
    "ToldSource",
    "open_source",
]

_MAX_BYTES: Final = 4 * 1024 * 1024
"""Of a file of addresses: some 100,000 servers."""


@dataclass(frozen=True, slots=True)
class Member:
    """A server that a fleet is to have."""

    address: str
    """host:port or unix:PATH."""
    capacity: int = 0
    """Most live episodes of this run there, beside what the server itself says; 0 = no other."""
    tls_name: str = ""
    """Name that its certificate has; empty = the address's."""
    node: str = ""
    """Machine of a cluster that it is on; empty = nobody knows it."""


class Source(Protocol):
    """Where members are listed."""

    interval: float
    """Seconds until it is read again; 0 = it never changes."""

    async def read(self) -> Sequence[Member]:
        """Return the members of now, without repetitions; raises FleetError, UsageError."""
        ...


class FixedSource:
    """Addresses that stay."""

    interval = 0.0

    def __init__(self, addresses: Sequence[str]) -> None:
        self._members = [Member(address) for address in dict.fromkeys(addresses)]

    async def read(self) -> Sequence[Member]:
        """Return the members."""
        return self._members


class ToldSource:
    """Members of which somebody tells this program."""

    interval = 1.0

    def __init__(self, members: Sequence[Member] = ()) -> None:
        self.members: Sequence[Member] = members
        """Of now; to be replaced."""

    async def read(self) -> Sequence[Member]:
        """Return the members."""
        return self.members


class DnsSource:
    """All A and AAAA records of a name."""

    interval = 5.0
    """As often as Kubernetes' name server changes its answers for a headless service."""

    def __init__(
        self,
        name: str,
        lookup: Callable[[str, int], Awaitable[Sequence[str]]] | None = None,
    ) -> None:
        """`name` is NAME:PORT; `lookup` gives the addresses of a name, by default the system's.

        Raises UsageError.
        """
        self._host, _, port = name.rpartition(":")
        if not self._host or not port.isdecimal():
            raise UsageError(f"--servers-dns {name!r} is not NAME:PORT")
        self._port = int(port)
        self._lookup = lookup or _look_up

    async def read(self) -> Sequence[Member]:
        """Look the name up; raises FleetError where it has no address, or nobody can tell."""
        try:
            found = await self._lookup(self._host, self._port)
        except OSError as error:
            raise FleetError(f"cannot look up {self._host}: {error}") from error
        hosts = (f"[{it}]" if ":" in it else it for it in sorted(set(found)))
        return [Member(f"{host}:{self._port}", tls_name=self._host) for host in hosts]


async def _look_up(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class FileSource:
    """A file of addresses, one a line with # for comments, or a JSON list."""

    interval = 1.0

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> Sequence[Member]:
        """Read the file; raises UsageError for what is no list of servers."""
        try:
            text = (await asyncio.to_thread(self._content)).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the servers in {self._path}: {error}") from error
        if text.lstrip().startswith("["):
            members = self._from_json(text)
        else:
            lines = (line.partition("#")[0].strip() for line in text.splitlines())
            members = [self._member(line) for line in lines if line]
        return list({member.address: member for member in members}.values())

    def _content(self) -> bytes:
        with self._path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise UsageError(f"{self._path} has more than {_MAX_BYTES:,} bytes")
        return content

    def _from_json(self, text: str) -> list[Member]:
        try:
            entries = cast("list[Any]", json.loads(text))
        except ValueError as error:
            raise UsageError(f"{self._path} is no JSON: {error}") from error
        return [
            self._from_entry(cast("dict[str, Any]", entry))
            if isinstance(entry, dict)
            else self._member(entry)
            for entry in entries
        ]

    def _from_entry(self, entry: dict[str, Any]) -> Member:
        unknown = entry.keys() - {"address", "capacity"}
        if unknown:
            raise UsageError(
                f"{self._path}: a server has no {min(unknown)!r}", valid=("address", "capacity")
            )
        capacity = entry.get("capacity", 0)
        if type(capacity) is not int or capacity < 0:
            raise UsageError(f"{self._path}: capacity {capacity!r} is no number of episodes")
        return self._member(entry.get("address"), capacity)

    def _member(self, address: object, capacity: int = 0) -> Member:
        if isinstance(address, str):
            port = address.rpartition(":")[2]
            if address.startswith("unix:") or (port != address and port.isdecimal()):
                return Member(address, capacity)
        raise UsageError(f"{self._path}: {address!r} is neither HOST:PORT nor unix:PATH")


def open_source(config: FleetConfig) -> Source | None:
    """Return where a configuration's running servers are listed; None = they are to be spawned.

    Raises UsageError where there are several lists.
    """
    flags = {
        "--servers": config.servers,
        "--servers-dns": config.servers_dns,
        "--servers-file": config.servers_file,
    }
    given = [flag for flag, value in flags.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} both say where the servers are: give one of them")
    if config.servers_dns:
        return DnsSource(config.servers_dns)
    if config.servers_file is not None:
        return FileSource(config.servers_file)
    return FixedSource(config.servers) if config.servers else None
