"""The viewer on a port of its own, and a browser to look at it with."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from env_servers.environments.webarena.browser.chromium import AUTO, find_chromium
from env_servers.sdk import EnvironmentUnavailable
from orchestrator.viewer.live_servers import LiveServers

TOKEN = "a-token-for-tests"


class RunningViewer:
    """A viewer that serves; `ask` is what a program asks it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.origin = f"http://127.0.0.1:{port}"

    def page(self, path: str, **parameters: object) -> str:
        return f"{self.origin}{path}?{urlencode(parameters)}"

    def request(
        self,
        path: str,
        *,
        method: str = "GET",
        token: str = TOKEN,
        body: bytes | None = None,
        **headers: str,
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers by their small names, and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        with contextlib.closing(connection):
            connection.request(method, path, body=body, headers=sent)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, named, answer.read()

    def ask(self, what: str, **parameters: object) -> Any:
        """Return the data of an answer."""
        _, _, body = self.request(f"/api/{what}?{urlencode(parameters)}")
        return json.loads(body)

    def post(self, what: str, *, token: str = TOKEN, **given: object) -> Any:
        """Post an object; returns the data of the answer."""
        sent = json.dumps(given).encode()
        _, _, body = self.request(
            f"/api/{what}", method="POST", token=token, body=sent, Content_Type="application/json"
        )
        return json.loads(body)


@contextlib.contextmanager
def run_viewer(
    *roots: Path, cache: Path | None = None, servers: LiveServers | None = None
) -> Iterator[RunningViewer]:
    """Serve runs until the block ends; `servers` are asked for states, and closed."""
    uvicorn = pytest.importorskip("uvicorn", reason="needs the extra viewer")
    from orchestrator.viewer.application import Viewer, create_application
    from orchestrator.viewer.library import Library

    viewer = Viewer(Library(roots), servers, cache=cache)
    application = create_application(viewer, token=TOKEN, hosts=[])
    server = uvicorn.Server(
        uvicorn.Config(application, port=0, lifespan="off", log_level="warning", ws="none")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield RunningViewer(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
        viewer.close()


@contextlib.contextmanager
def open_browser() -> Iterator[Any]:
    """Start a headless Chromium; skips where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    try:
        path = find_chromium(AUTO)
    except EnvironmentUnavailable as error:
        pytest.skip(str(error))
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, chromium_sandbox=False)
        try:
            yield browser
        finally:
            browser.close()
