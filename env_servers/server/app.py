"""Builds a server from its configuration, runs it, and takes it down in order.

SIGTERM or SIGINT: health turns to NOT_SERVING, resets are refused, live episodes may go on until
they end or the drain time is over, then the port closes and workers stop. A background task that
dies ends the server: without its reaper or its watchdog it would only seem to work.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import environment_pb2_grpc
from env_servers.sdk import EnvironmentConfig, EnvironmentUnavailable, Execution, InvalidOption
from env_servers.server.admission import (
    AdmissionController,
    available_memory,
    derive_budget,
    derive_capacity,
    derive_worker_memory,
)
from env_servers.server.budget import Budget
from env_servers.server.clients import Clients
from env_servers.server.commands import CommandHandler
from env_servers.server.config import ServerConfig
from env_servers.server.guard import InlineGuard
from env_servers.server.instance import LoadedEnvironment
from env_servers.server.logs import get_logger
from env_servers.server.metrics import ServerMetrics
from env_servers.server.processes import ProcessHost, WorkerPool
from env_servers.server.relocation import Relocation
from env_servers.server.runners import Host, InlineHost, ThreadHost
from env_servers.server.security import TokenInterceptor, add_port, check_address, check_security
from env_servers.server.service import EnvironmentService
from env_servers.server.threads import AbandonableThreadPool
from env_servers.server.tracing import EpisodeTracing, open_tracing, tracing_requested
from env_servers.server.upkeep import Upkeep, UpkeepFailed, reap_leases, watch_parent

__all__ = ["EnvironmentServer", "run_loop", "serve"]

SERVICE_NAME = pb.DESCRIPTOR.services_by_name["EnvironmentService"].full_name
_STREAM_GRACE_SECONDS = 1.0

log = get_logger("env_servers.app")


class EnvironmentServer:
    """One server process: environments, command handler, gRPC server, background tasks."""

    def __init__(self, config: ServerConfig, *, tracing: EpisodeTracing | None = None) -> None:
        """Load the environments; `tracing` replaces the one that the configuration asks for.

        Raises:
            SdkError: An environment is unknown or unavailable.
        """
        self.config = config
        limits = config.limits
        environment_config = EnvironmentConfig(config.data_dir, config.settings)
        self.guard = InlineGuard(
            min(limits.inline_limit, limits.step_limit), max(1, len(config.environments))
        )
        self._stuck = _read_names(config.stuck_file)
        self.threads = AbandonableThreadPool(config.threads)
        self.workers = WorkerPool(
            config.worker_count(),
            environment_config,
            limits.step_limit,
            config.log,
            config.worker_memory or derive_worker_memory(available_memory(), config.worker_count()),
        )
        loaded, unavailable = _load(config, environment_config)
        hosts = {environment.spec.name: self._host(environment) for environment in loaded}
        self.tracing = tracing or _configured_tracing(config)
        self.handler = CommandHandler(hosts, limits, self._admission(hosts), self.tracing)
        self.table = self.handler.table
        self.relocation = Relocation(hosts, self.table, self.workers)
        self.clients = Clients(config.security)
        self.service = EnvironmentService(self.handler, self.clients, unavailable)
        self.metrics = ServerMetrics(
            self.handler, self.workers, self.threads, self.relocation.overruns
        )
        self.health = health.aio.HealthServicer()
        self.upkeep = Upkeep()
        self.addresses: list[str] = []
        """Where it listens, with the ports that were picked."""
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Listen; `addresses` then says where."""
        _raise_file_limit()
        self._server = server = grpc.aio.server(
            interceptors=self._interceptors(), options=_channel_options(self.config)
        )
        environment_pb2_grpc.add_EnvironmentServiceServicer_to_server(self.service, server)
        health_pb2_grpc.add_HealthServicer_to_server(self.health, server)
        names = (SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
        check_security(self.config.security)
        for address in self.config.bind:
            check_address(address, self.config)
            self.addresses.append(add_port(server, address, self.config.security))
        await server.start()
        self.upkeep.add("lease reaper", reap_leases(self.table))
        self.upkeep.add("worker watchdog", self.workers.watch())
        if self.config.exit_with_parent:
            self.upkeep.add("parent watch", watch_parent(self.config.exit_with_parent))
        if self.config.metrics_port:
            self.metrics.serve(self.config.metrics_host, self.config.metrics_port)
            self.upkeep.add("loop lag", self.metrics.watch_loop())
        self.upkeep.start()
        self.guard.start()
        await self._set_health(serving=True)
        log.info("serving", addresses=self.addresses, environments=list(self.handler.hosts))

    async def drain(self) -> None:
        """Refuse resets and wait until live episodes have ended, at most the drain time."""
        log.info("drain begun", episodes=len(self.table.episodes))
        await self._set_health(serving=False)
        self.table.admission.draining = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.config.drain_seconds
        while loop.time() < deadline and self.table.busy:
            await asyncio.sleep(0.1)
        log.info("drain ended", episodes_left=len(self.table.episodes))

    async def stop(self) -> None:
        """Close the port, the episodes and the workers."""
        await self.upkeep.stop()
        self.guard.stop()
        if self._server is not None:
            await self._server.stop(_STREAM_GRACE_SECONDS)
        self.handler.close()
        self.metrics.close()
        await self.workers.close()
        self.threads.close()
        for host in self.handler.hosts.values():
            host.loaded.tasks.close()
        if self.tracing is not None:
            self.tracing.close()

    def execution(self, loaded: LoadedEnvironment) -> Execution:
        """Return where an environment runs here."""
        if loaded.spec.name in self._stuck:
            return Execution.PROCESS
        return self.config.execution.get(loaded.spec.name, loaded.spec.execution)

    def _host(self, loaded: LoadedEnvironment) -> Host:
        execution = self.execution(loaded)
        if execution is Execution.INLINE and loaded.waits:
            raise InvalidOption(
                f"{loaded.spec.name} waits for others, and inline the whole server would wait with "
                "it: its execution is thread or process"
            )
        if execution is Execution.INLINE:
            return InlineHost(loaded, self.guard)
        if execution is Execution.THREAD:
            return ThreadHost(loaded, self.threads, self.config.limits.step_limit)
        return ProcessHost(loaded, self.workers)

    def _admission(self, hosts: dict[str, Host]) -> AdmissionController:
        memory, cores = available_memory(), os.cpu_count() or 1
        limits = self.config.limits
        capacities = {
            name: limits.max_episodes
            or derive_capacity(host.spec, self.execution(host.loaded), memory, cores)
            for name, host in hosts.items()
        }
        return AdmissionController(
            capacities,
            total=limits.max_episodes,
            per_client=limits.max_episodes_per_client,
            budget=Budget(limits.memory_budget or derive_budget(memory)),
            fair=limits.fair_shares,
        )

    def _interceptors(self) -> list[grpc.aio.ServerInterceptor]:
        return [TokenInterceptor(self.clients)] if self.clients.ask_for_tokens else []

    async def _set_health(self, *, serving: bool) -> None:
        status = health_pb2.HealthCheckResponse.SERVING
        if not serving:
            status = health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", SERVICE_NAME, *self.handler.hosts):
            await self.health.set(name, status)
        self.metrics.ready = serving


def run_loop(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, on uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:  # not made for every platform
        asyncio.run(work)
    else:
        uvloop.run(work)


async def serve(
    config: ServerConfig, ready: Callable[[EnvironmentServer], Awaitable[None]] | None = None
) -> None:
    """Run a server until SIGTERM or SIGINT, then drain it; a second signal ends it at once.

    Args:
        config: The server's configuration.
        ready: Awaited once the server listens.

    Raises:
        UpkeepFailed: A background task died; the server was stopped.
        SdkError: An environment is unknown or unavailable.
        SecurityMisconfigured: Plain text would be served to other machines, or TLS by unfit files.
        AddressUnavailable: An address is taken.
    """
    _tune_collector()
    server = EnvironmentServer(config)
    _keep_for_good()
    await server.start()
    server.guard.start_watchdog(config.stuck_file)
    if ready is not None:
        await ready(server)
    loop = asyncio.get_running_loop()
    first, second = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (second if first.is_set() else first).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    failed = asyncio.create_task(server.upkeep.failed.wait())
    await _first_of(first.wait(), failed)
    if not failed.done():
        await _first_of(server.drain(), second.wait(), failed)
    failed.cancel()
    await server.stop()
    if server.upkeep.failed.is_set():
        raise UpkeepFailed("a background task of the server died; its log says why")


def _load(
    config: ServerConfig, environment_config: EnvironmentConfig
) -> tuple[list[LoadedEnvironment], dict[str, EnvironmentUnavailable]]:
    """Return the environments, and those that are left out with the reason."""
    loaded: list[LoadedEnvironment] = []
    unavailable: dict[str, EnvironmentUnavailable] = {}
    for name in config.environments:
        try:
            loaded.append(LoadedEnvironment(name, environment_config))
        except EnvironmentUnavailable as error:
            if not config.skip_unavailable:
                raise
            log.warning("environment left out", environment=name, error=str(error))
            unavailable[name] = error
    if not loaded and unavailable:
        raise next(iter(unavailable.values()))
    return loaded, unavailable


async def _first_of(*waits: Coroutine[Any, Any, Any] | asyncio.Task[Any]) -> None:
    """Wait until one of these is done; cancels the coroutines among the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task, wait in zip(tasks, waits, strict=True):
        if task is not wait:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _read_names(path: Path | None) -> set[str]:
    """Names, one a line; none where there is no such file yet."""
    if path is None or not path.exists():
        return set()
    return set(path.read_text(encoding="utf-8").split())


def _configured_tracing(config: ServerConfig) -> EpisodeTracing | None:
    if config.trace:
        return open_tracing()
    if not tracing_requested():
        return None
    try:
        return open_tracing()
    except EnvironmentUnavailable as error:
        # Clusters set OTEL_* for every container: no reason not to serve.
        log.warning("not tracing", error=str(error))
        return None


def _tune_collector() -> None:
    """Look for reference cycles rarely: episodes hold many objects and make almost no cycles.

    Measured: with Python's defaults the collector took a fifth of the hot path, and a sixth of
    loading all environments.
    """
    gc.set_threshold(50_000, 20, 50)


def _keep_for_good() -> None:
    """Tell the collector that what is loaded stays."""
    gc.collect()
    gc.freeze()


def _channel_options(config: ServerConfig) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", config.limits.max_message_bytes),
        ("grpc.max_send_message_length", config.limits.max_message_bytes),
        ("grpc.max_concurrent_streams", 1_000_000),
        ("grpc.keepalive_time_ms", 60_000),
        # Below the clients' keepalive: a ping that comes too early costs them their connection,
        # and streams are silent for minutes while models think.
        ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.so_reuseport", 0),
    ]


def _raise_file_limit() -> None:
    """Thousands of connections need thousands of descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
