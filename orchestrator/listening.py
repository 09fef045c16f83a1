"""Where an HTTP server of ours listens, and whose requests it may answer at all.

What a server tells on loopback is for this user. Every web page that this user visits can send
requests to loopback, so two things are checked before anything else:

- The *Host* of a request is an IP address, `localhost` or a name that this server was given: a name
  of an attacker's that resolves to this machine (DNS rebinding) is none of these.
- A request that a browser sends for another page (its Origin, its Sec-Fetch-Site) is *foreign*.

Beyond loopback a server wants a token that somebody chose.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from orchestrator.errors import UsageError

__all__ = ["OwnHosts", "check_token", "is_foreign", "listen", "resolve", "shown_host"]

_TOKEN_CHARACTERS: Final = 16
"""Of a token that somebody chose: it must not be guessed over a network."""


class OwnHosts:
    """The names under which a server is asked."""

    def __init__(self, names: Iterable[str]) -> None:
        """`names` are those beside IP addresses and `localhost`."""
        self._names = frozenset(name.lower() for name in names) | {"localhost"}

    def __contains__(self, host: str) -> bool:
        """Tell whether the Host of a request is this server."""
        name = _host_name(host)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True


def is_foreign(headers: Mapping[str, str], host: str) -> bool:
    """Tell whether another page asks, or leads here to anything but a page."""
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        return True
    site = headers.get("sec-fetch-site", "same-origin")
    if site in ("same-origin", "none"):
        return False
    # A link in a message may be followed; what a foreign page embeds or fetches is refused.
    return headers.get("sec-fetch-mode") != "navigate"


def resolve(host: str) -> str:
    """Return the IP address to listen on; raises UsageError."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise UsageError(f"--host {host!r} is no address of this machine ({error})") from error
    return str(found[0][4][0])


def check_token(token: str, address: str, *, host: str, variable: str) -> None:
    """Raise UsageError where an address asks for a token that others cannot guess.

    Args:
        token: What was given; empty = nothing.
        address: The IP address that is listened on.
        host: As the user wrote it.
        variable: The environment variable that a token is read from, too.
    """
    if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        return
    if not token:
        raise UsageError(
            f"--host {host} is reached from other machines: choose a token (--token, or "
            f"{variable}), or stay on loopback and forward the port by ssh"
        )
    if len(token) < _TOKEN_CHARACTERS:
        raise UsageError(f"beyond loopback a token has at least {_TOKEN_CHARACTERS} characters")


def listen(address: str, port: int) -> socket.socket:
    """Return a listening socket; raises UsageError, OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family)
    except OverflowError as error:
        raise UsageError(f"--port {port} is none: 0 to 65535") from error


def shown_host(host: str) -> str:
    """Return a host as it stands in an address."""
    return f"[{host}]" if ":" in host else host


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:  # for example an IPv6 address that is none
        return ""
