"""Prometheus metrics of a server, read from its counters when they are asked for.

Only the step latency costs anything on the hot path, and only when metrics are on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from env_servers.server.engine import Engine
from env_servers.server.live import Input, Result
from env_servers.server.processes import WorkerPool
from env_servers.server.runners import Host, InlineHost, Runner
from env_servers.server.threads import ThreadCrew

__all__ = ["ServerMetrics", "instrument"]

_LATENCY_BUCKETS = (
    *(1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2),
    *(0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
)
_LAG_SECONDS = 0.5


class ServerMetrics:
    """Collects from an engine and its executors."""

    def __init__(self, engine: Engine, pool: WorkerPool, crew: ThreadCrew) -> None:
        self._engine = engine
        self._pool = pool
        self._crew = crew
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
        engine = self._engine
        live = GaugeMetricFamily("agentgym_episodes_live", "Live episodes", labels=["environment"])
        steps = CounterMetricFamily("agentgym_steps", "Steps executed", labels=["environment"])
        for name, host in engine.hosts.items():
            live.add_metric([name], engine.seats.taken[name])
            steps.add_metric([name], host.steps)
        yield live
        yield steps
        for name, text, value in (
            ("cache_hits", "Commands answered from the response cache", engine.cache_hits),
            ("episodes_reaped", "Episodes whose lease ran out", engine.reaped),
            ("worker_restarts", "Worker processes that died", self._pool.restarts),
            ("threads_abandoned", "Threads given up as hung", self._crew.abandoned),
        ):
            yield CounterMetricFamily(f"agentgym_{name}", text, value=value)
        yield GaugeMetricFamily("agentgym_loop_lag_seconds", "Event loop lag", value=self.loop_lag)

    def serve(self, port: int) -> None:
        """Answer scrapes on a port of 127.0.0.1."""
        self._server, _ = start_http_server(port, addr="127.0.0.1", registry=self.registry)

    def close(self) -> None:
        """Stop answering scrapes."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    async def watch_loop(self) -> None:
        """Measure the loop's lag for ever."""
        while True:
            due = time.monotonic() + _LAG_SECONDS
            await asyncio.sleep(_LAG_SECONDS)
            self.loop_lag = max(0.0, time.monotonic() - due)


def instrument(host: Host, latency: Histogram) -> None:
    """Measure every step of a host."""
    observe = latency.labels(host.spec.name).observe
    if isinstance(host, InlineHost):
        host.observe = observe
        return
    step_elsewhere = host.timed_step

    async def timed_elsewhere(runner: Runner, given: Input) -> Result:
        started = time.perf_counter()
        try:
            return await step_elsewhere(runner, given)
        finally:
            observe(time.perf_counter() - started)

    host.timed_step = timed_elsewhere
