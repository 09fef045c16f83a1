"""Prometheus metrics of a server, read from its counters when they are asked for.

Only the step latency costs anything on the hot path, and only when metrics are on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Histogram, start_http_server
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
        self.loop_lag = 0.0
        """Seconds that the loop's last wake-up came late."""
        self.registry = CollectorRegistry()
        self.registry.register(self)
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
        for name, host in self._handler.hosts.items():
            live.add_metric([name], table.admission.live[name])
            steps.add_metric([name], host.steps)
        yield live
        yield steps
        overruns = CounterMetricFamily(
            "agentgym_inline_overruns",
            "Inline calls that held up the loop and moved their environment to workers",
            labels=["environment"],
        )
        for name, count in self._overruns.items():
            overruns.add_metric([name], count)
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

    def serve(self, port: int) -> None:
        """Answer scrapes on a port of 127.0.0.1, and measure every step from now on.

        Raises:
            AddressUnavailable: Another program listens on the port.
        """
        for host in self._handler.hosts.values():
            host.observe = self.latency.labels(host.spec.name).observe
        try:
            self._server, _ = start_http_server(port, addr="127.0.0.1", registry=self.registry)
        except OSError as error:
            raise AddressUnavailable(
                f"cannot serve metrics on 127.0.0.1:{port}: {error.strerror or error}"
            ) from error

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
            self.loop_lag = max(0.0, time.monotonic() - due)
