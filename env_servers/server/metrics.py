"""Prometheus metrics of a server, read from its counters when they are asked for, and its probes.

`/ready` answers 200 as long as health is SERVING, `/live` as long as the event loop turns; else
503. They are for those who cannot ask `grpc.health.v1`: probes that know no TLS and no token. Only
the step latency costs anything on the hot path, and only when metrics are on.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import (
    CollectorRegistry,
    Histogram,
    make_wsgi_app,  # pyright: ignore[reportUnknownVariableType]
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from env_servers.server.commands import CommandHandler
from env_servers.server.processes import WorkerPool
from env_servers.server.security import AddressUnavailable
from env_servers.server.threads import AbandonableThreadPool

__all__ = ["ServerMetrics"]

_LATENCY_BUCKETS = (
    *(1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2),
    *(0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
)
_LAG_SECONDS = 0.5
_STALLED_SECONDS = 60.0
"""So long without a turn, and the event loop counts as dead. Inline calls are interrupted long
before."""
_MOST_CONNECTIONS = 64
"""At once; further ones are hung up on."""


class _Listener(ThreadingMixIn, WSGIServer):
    """An HTTP server with a thread for each connection, so that a slow reader delays nobody."""

    daemon_threads = True

    def __init__(self, address: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        super().__init__((address, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if there is one left."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and leave the thread to others."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class _Handler(WSGIRequestHandler):
    timeout = 10
    """Seconds that a connection may be silent."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Log nothing: probes ask every few seconds."""


class ServerMetrics:
    """Collects from a command handler and from what executes its environments."""

    def __init__(
        self,
        handler: CommandHandler,
        workers: WorkerPool,
        threads: AbandonableThreadPool,
        overruns: Mapping[str, int],
    ) -> None:
        """`overruns` counts the interrupted inline calls of each environment that had some."""
        self._overruns = overruns
        self._handler = handler
        self._workers = workers
        self._threads = threads
        self._server: WSGIServer | None = None
        self._turned = time.monotonic()
        """When the event loop last turned."""
        self.ready = False
        """Health is SERVING."""
        self.loop_lag = 0.0
        """Seconds that the loop's last wake-up came late."""
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self._scrape: WSGIApplication = make_wsgi_app(self.registry)
        self.latency = Histogram(
            "agentgym_step_seconds",
            "Time that a step's environment took",
            ["environment"],
            buckets=_LATENCY_BUCKETS,
            registry=self.registry,
        )

    def collect(self) -> Iterable[Metric]:
        """Read the counters; called by prometheus_client."""
        table = self._handler.table
        live = GaugeMetricFamily("agentgym_episodes_live", "Live episodes", labels=["environment"])
        steps = CounterMetricFamily("agentgym_steps", "Steps executed", labels=["environment"])
        capacity = GaugeMetricFamily(
            "agentgym_episodes_capacity", "Most live episodes", labels=["environment"]
        )
        for name, host in self._handler.hosts.items():
            live.add_metric([name], table.admission.live[name])
            steps.add_metric([name], host.steps)
            capacity.add_metric([name], table.admission.capacities[name])
        yield live
        yield steps
        yield capacity
        refused = CounterMetricFamily(
            "agentgym_resets_refused",
            "Resets and forks that got no room, repeated ones included",
            labels=["reason"],
        )
        for name in ("CAPACITY_EXHAUSTED", "CLIENT_LIMIT", "DRAINING"):
            refused.add_metric([name], table.admission.refused[name])
        yield refused
        yield GaugeMetricFamily(
            "agentgym_episodes_limit",
            "Most live episodes of all environments together",
            value=table.admission.total,
        )
        yield GaugeMetricFamily(
            "agentgym_draining",
            "1 while no new episodes are taken",
            value=int(table.admission.draining),
        )
        overruns = CounterMetricFamily(
            "agentgym_inline_overruns",
            "Inline calls that held up the loop and moved their environment to workers",
            labels=["environment"],
        )
        for name in self._handler.hosts:  # those without any, too: else the first is no increase
            overruns.add_metric([name], self._overruns.get(name, 0))
        yield overruns
        budget = table.admission.budget
        for name, text, value in (
            ("journal_bytes", "Inputs of live episodes", budget.journals),
            ("result_bytes", "Results kept for repeated commands", budget.results),
            ("outbox_bytes", "Answers that wait for their readers", budget.outboxes),
            ("budget_bytes", "What the three may take together", budget.limit),
            ("clients", "Clients that share the server", budget.clients),
        ):
            yield GaugeMetricFamily(f"agentgym_{name}", text, value=value)
        for name, text, value in (
            ("cache_hits", "Commands answered from the response cache", table.cache_hits),
            ("episodes_reaped", "Episodes whose lease or idle limit ran out", table.reaped),
            ("episodes_evicted", "Episodes ended because room was short", table.evicted),
            ("worker_restarts", "Worker processes that died", self._workers.deaths),
            ("threads_abandoned", "Threads given up as hung", self._threads.abandoned),
        ):
            yield CounterMetricFamily(f"agentgym_{name}", text, value=value)
        yield GaugeMetricFamily("agentgym_loop_lag_seconds", "Event loop lag", value=self.loop_lag)

    def serve(self, address: str, port: int) -> None:
        """Answer scrapes and probes on a port, and measure every step from now on.

        Raises:
            AddressUnavailable: Another program listens on the port.
        """
        for host in self._handler.hosts.values():
            host.observe = self.latency.labels(host.spec.name).observe
        try:
            self._server = _Listener(address, port)
        except OSError as error:
            raise AddressUnavailable(
                f"cannot serve metrics on {address}:{port}: {error.strerror or error}"
            ) from error
        self._server.set_app(self._answer)
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def _answer(self, request: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
        """Answer one request, in a thread."""
        path = request.get("PATH_INFO")
        if path not in ("/ready", "/live"):
            return self._scrape(request, respond)
        stalled = time.monotonic() - self._turned > _STALLED_SECONDS
        fine = not stalled and (self.ready or path == "/live")
        status = HTTPStatus.OK if fine else HTTPStatus.SERVICE_UNAVAILABLE
        respond(f"{status.value} {status.phrase}", [("Content-Type", "text/plain")])
        return [b"yes\n" if fine else b"no\n"]

    def close(self) -> None:
        """Stop answering scrapes."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    async def watch_loop(self) -> None:
        """Measure the loop's lag, for ever."""
        while True:
            due = time.monotonic() + _LAG_SECONDS
            await asyncio.sleep(_LAG_SECONDS)
            self._turned = time.monotonic()
            self.loop_lag = max(0.0, self._turned - due)
