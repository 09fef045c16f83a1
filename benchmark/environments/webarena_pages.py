"""Pages for WebArena's benchmark, the same for both sides: in process for ours, else over HTTP.

Lists of a wanted size, and the recorded pages of the original's comparison where a user has them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from benchmark.fidelity.webarena import RecordedPages
from env_servers.environments.webarena.browser.gate import Answer, Request

__all__ = ["Pages", "address"]

_HOST: Final = "list.test"
_NODES_PER_ROW: Final = 10
"""List item, its marker, link, bold, three texts, and inline boxes of texts."""
_RECORDED: Final[Mapping[str, str]] = {
    "recorded shop front": "http://shop.test/",
    "recorded large3000": "http://pages.test/large3000",
}


@dataclass(frozen=True, slots=True)
class _Answer:
    body: bytes
    status: int = 200
    headers: Sequence[tuple[str, str]] = (("Content-Type", "text/html; charset=utf-8"),)


def address(nodes: int) -> str:
    """Return where a list of about so many nodes is; its links lead to lists of the same size."""
    return f"http://{_HOST}/?nodes={nodes}"


class Pages:
    """All pages."""

    def __init__(self, data: Path | None) -> None:
        """`data` holds `webarena/pages`; None = there are only lists."""
        self._recorded = None if data is None else RecordedPages(data / "webarena" / "pages")
        self.hosts = {_HOST, *(self._recorded.hosts if self._recorded else ())}

    def observed(self, sizes: Sequence[int]) -> dict[str, str]:
        """Return the addresses of what is observed, by their names."""
        lists = {f"list of {size}": address(size) for size in sizes}
        return {**lists, **(_RECORDED if self._recorded else {})}

    async def __call__(self, request: Request) -> Answer:
        """Answer a request of a browser in this process."""
        if urlsplit(request.url).hostname == _HOST or self._recorded is None:
            return _Answer(_list(request.url))
        return await self._recorded(request)

    @contextmanager
    def serve(self) -> Iterator[int]:
        """Serve all hosts on a port of this machine while the context is open; yields the port."""
        respond = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = f"http://{self.headers['Host']}{self.path}"
                answer = asyncio.run(respond(Request("GET", url, {})))
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _list(url: str) -> bytes:
    query = parse_qs(urlsplit(url).query)
    nodes, number = int(query.get("nodes", ["250"])[0]), int(query.get("page", ["0"])[0])
    rows = "".join(
        f"<li><a href='/?nodes={nodes}&page={number + row}'>Product number {number + row}</a> "
        f"<b>$ {row}.50</b></li>"
        for row in range(1, nodes // _NODES_PER_ROW)
    )
    return f"<!DOCTYPE html><title>List {number}</title><h1>List</h1><ul>{rows}</ul>".encode()
