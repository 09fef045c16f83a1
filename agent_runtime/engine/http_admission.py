"""Which HTTP requests an engine's server takes: of a bounded size, and from no web page.

Whoever reaches the port may pause and abort: on loopback every program of the machine, which is
meant, but not every page in a browser there. Browsers name the page in `Origin`; a page that points
a name of its own at 127.0.0.1 gives itself away by `Host`.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

__all__ = ["MAX_BODY_BYTES", "MAX_TEXT_CHARS", "refuse_web_pages", "too_large"]

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""Of a request: a context of a million token ids takes a fifth of it."""
MAX_TEXT_CHARS: Final = 1024 * 1024
"""Of a text to tokenize, which takes a second and 200 bytes of memory a character."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def refuse_web_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 403 to requests that a page in a browser has made."""
    if "Origin" in request.headers:
        return _error(403, "requests of web pages are refused: this one has the header Origin")
    if _is_loopback(_own_address(request)) and not _is_local_name(request.url.host or ""):
        return _error(
            403, f"a server on loopback is no {request.host!r}: use its address, or localhost"
        )
    return await handler(request)


def too_large(what: str, limit: int) -> web.Response:
    """Return the answer 413 to a request of which something is longer than `limit`."""
    return _error(413, f"{what} is longer than this server takes ({limit:,})")


def _own_address(request: web.Request) -> str:
    """Return where the request arrived; empty for a Unix socket."""
    transport = request.transport
    name: Any = transport.get_extra_info("sockname") if transport is not None else None
    return "" if name is None or isinstance(name, str) else str(name[0])


@functools.lru_cache(maxsize=64)
def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


@functools.lru_cache(maxsize=64)
def _is_local_name(host: str) -> bool:
    """Whether nobody else can have chosen what a name means: an address, or localhost."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status)
