"""Live services against a local HTTP server: limits, faults, cancellation."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from env_servers.sdk import EnvironmentUnavailable
from env_servers.server.errors import CommandError
from env_servers.toolkit.tool_calls import ServiceUnavailable, ToolSettings
from env_servers.toolkit.tool_calls.live import LiveService, Rate


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = int(self.path.strip("/").split("?")[0] or 200)
        if status == 999:
            self.server.hold.wait(10)  # type: ignore[attr-defined]
            status = 200
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "7")
        self.end_headers()
        self.wfile.write(self.path.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep quiet."""


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.hold = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.hold.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()


@pytest.fixture
def service() -> Iterator[LiveService]:
    made = LiveService("The stall", rate=Rate(1000, 1.0), timeout=5)
    yield made
    made.close()


def test_answers_and_refusals_of_a_question_come_back(service: LiveService, address: str) -> None:
    answer = service.get(f"{address}/200", {"a": 1})
    assert (answer.ok, answer.text) == (True, "/200?a=1")
    assert not service.get(f"{address}/400", {}).ok


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (429, "refuses more calls for now .*7 s"),
        (503, "answers with 503"),
        (401, "refuses the key"),
    ],
)
def test_a_service_that_cannot_be_used_now_is_unavailable(
    service: LiveService, address: str, status: int, says: str
) -> None:
    with pytest.raises(ServiceUnavailable, match=f"The stall {says}"):
        service.get(f"{address}/{status}", {})


def test_a_wait_that_a_service_asks_for_reaches_the_client(
    service: LiveService, address: str
) -> None:
    with pytest.raises(ServiceUnavailable) as caught:
        service.get(f"{address}/429", {})
    assert CommandError.from_sdk(caught.value).retry_after == 7.0


def test_a_service_that_is_down_is_unavailable(service: LiveService) -> None:
    with pytest.raises(ServiceUnavailable, match="cannot be reached"):
        service.get("http://127.0.0.1:9/", {})


def test_a_service_that_is_slow_is_unavailable(address: str) -> None:
    service = LiveService("The stall", rate=Rate(10), timeout=0.05)
    with pytest.raises(ServiceUnavailable, match=r"did not answer within 0\.05 s"):
        service.get(f"{address}/999", {})
    service.close()


def test_a_call_that_waits_can_be_cancelled_from_another_thread(
    service: LiveService, address: str
) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: service.get(f"{address}/999", {}, owner="me"))
        while not service._waiting:
            time.sleep(0.001)
        service.cancel("somebody else")
        service.cancel("me")
        with pytest.raises(ServiceUnavailable, match="cancelled"):
            waiting.result()


def test_calls_wait_for_the_rate_limit() -> None:
    service = LiveService("The stall", rate=Rate(2, 60.0), timeout=2)
    assert [service.guarded(lambda: "a"), service.guarded(lambda: "b")] == ["a", "b"]
    with pytest.raises(ServiceUnavailable, match="did not answer within"):
        service.guarded(lambda: "c")
    service.close()


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STALL_KEY", raising=False)
    settings = ToolSettings("stall", {})
    with pytest.raises(EnvironmentUnavailable, match="environment variable STALL_KEY"):
        settings.secret("STALL_KEY")
    monkeypatch.setenv("STALL_KEY", "x")
    assert settings.secret("STALL_KEY") == "x"
