"""The plain request that AgentGym's release sends before it opens an address.

It has no cookies, follows redirections and wants status 200; its errors are those of the library
that the original uses, in its words.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from env_servers.environments.webarena.browser.gate import Request, Respond

__all__ = ["PlainRequest"]

_MOST_REDIRECTIONS: Final = 30
_REDIRECTIONS: Final = frozenset({301, 302, 303, 307, 308})
_SAFE: Final = "!#$%&'()*+,/:;=?@[]~"


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """Asks sites of this process; see `browsing.Probe`."""

    hosts: Collection[str]
    respond: Respond

    async def __call__(self, url: str) -> str:
        """Return why an address may not be opened, or nothing."""
        wanted = url.lstrip()
        if ":" in wanted and not wanted.lower().startswith("http"):
            return f"No connection adapters were found for {url!r}"
        if not urlsplit(wanted).scheme:
            return f"Invalid URL {url!r}: No scheme supplied. Perhaps you meant https://{url}?"
        place = quote(wanted, safe=_SAFE)
        for _ in range(_MOST_REDIRECTIONS):
            if error := self._unreachable(place):
                return error
            answer = await self.respond(Request("GET", place, {}))
            headers = {name.lower(): value for name, value in answer.headers}
            location = headers.get("location")
            if answer.status not in _REDIRECTIONS or not location:
                return "" if answer.status == 200 else f"Failed to load the page: {url}"
            place = urljoin(place, location)
        return f"Exceeded {_MOST_REDIRECTIONS} redirects."

    def _unreachable(self, url: str) -> str:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or {"https": 443}.get(parts.scheme, 80)
        except ValueError:
            return f"Failed to parse: {url}"
        standard = {"http": 80, "https": 443}.get(parts.scheme)
        if (host if port == standard else f"{host}:{port}") in self.hosts:
            return ""
        kind = "HTTPS" if parts.scheme == "https" else "HTTP"
        whose = f"{kind}Connection(host='{host}', port={port})"
        path = parts.path or "/"
        cause = (
            f'NewConnectionError("{whose}: Failed to establish a new connection: '
            '[Errno 111] Connection refused")'
            if host in self.hosts
            else f"NameResolutionError(\"{whose}: Failed to resolve '{host}' "
            '([Errno -2] Name or service not known)")'
        )
        return (
            f"{kind}ConnectionPool(host='{host}', port={port}): Max retries exceeded with url: "
            f"{path}{'?' + parts.query if parts.query else ''} (Caused by {cause})"
        )
