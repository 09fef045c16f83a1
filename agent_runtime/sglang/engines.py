"""The engines behind some addresses: what they report, which may serve, and their weights.

This is the control side of SGLang servers, or of a router with several: discovery, load, aborts,
weight updates, and the gate that requests wait at while no engine may serve. It is open only while
every engine that answers has the weights that it should have (`agent_runtime.sglang.health`).

A router forwards no control requests, so engines are spoken to directly, by the addresses that the
router lists; where they cannot be reached from here, only the router is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from agent_runtime.concurrency import Load
from agent_runtime.endpoint import Endpoint, is_loopback
from agent_runtime.errors import (
    PolicyError,
    PolicyMisbehaved,
    PolicyMisconfigured,
    PolicyRejected,
    PolicyStale,
    PolicyUnavailable,
)
from agent_runtime.logs import get_logger
from agent_runtime.request_retry import Outage
from agent_runtime.sglang.adapters import Adapter, Adapters, load_adapter, unload_adapter
from agent_runtime.sglang.fronts import Fronts
from agent_runtime.sglang.groups import Ask, GroupSender, GroupSettings, tensor_parallel_size
from agent_runtime.sglang.health import EngineHealth, EngineInfo, EngineState, GroupHealth
from agent_runtime.sglang.tensors import WeightTensors
from agent_runtime.supervision import cancel_tasks, supervise
from agent_runtime.weights import Interrupt

__all__ = ["EngineGroup", "WeightUpdate"]

_PROBE_TIMEOUT: Final = 10.0
_START_TIMEOUT: Final = 30.0
_ABORT_TIMEOUT: Final = 5.0
_PAUSE_TIMEOUT: Final = 60.0
_RECOVERY_PAUSE: Final = 0.5
_REVISIT_SECONDS: Final = 5.0
"""Between two looks at those of several addresses that do not answer."""

T = TypeVar("T")
log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightUpdate:
    """New weights for all engines."""

    version: str
    """Name under which engines report tokens of these weights; new for new weights."""
    path: str = ""
    """Folder of a checkpoint of the same architecture, as the engines see it."""
    tensors: WeightTensors | None = None
    """Instead of `path`: handed by handle to engines on this machine, or sent. An engine that
    restarts afterwards is stale until the next update: nothing here keeps the tensors."""
    group: GroupSettings | None = None
    """Tensors are sent through a process group with each engine, wherever it is."""
    interrupt: Interrupt = "in_place"
    """What happens to replies that are being sampled."""
    timeout: float = 600.0
    """Seconds until an engine must have loaded them."""

    def __post_init__(self) -> None:
        if bool(self.path) == (self.tensors is not None):
            raise ValueError("new weights come from a path or from tensors: give one of them")
        if self.group is not None and self.tensors is None:
            raise ValueError("a process group sends tensors: give them")


class EngineGroup:
    """Engines by address; use between `start` and `close`."""

    def __init__(
        self, fronts: Fronts, connect: Callable[[str], Endpoint], *, recovery: float
    ) -> None:
        """Know the addresses, not yet the engines behind them.

        Args:
            fronts: Take the requests: servers or routers.
            connect: Makes a client for one engine's address.
            recovery: Seconds that requests wait at the closed gate before they fail.
        """
        self.health = GroupHealth(())
        self.recoveries = 0
        """How often the gate was closed and opened again."""
        self._fronts = fronts
        self._behind: dict[str, tuple[str, ...]] = {}
        """The engines of each front, by its address."""
        self._connect = connect
        self._recovery_seconds = recovery
        self._clients: dict[str, Endpoint] = {}
        self._routers: set[str] = set()
        self._revisiting: asyncio.Task[None] | None = None
        self._gate = asyncio.Event()
        self._gate_closed_at = 0.0
        self._suspicion = ""
        """Why the gate was closed."""
        self._recovering: asyncio.Task[None] | None = None
        self._update: WeightUpdate | None = None
        self._follows = False
        """Whether another process gives the engines their weights, and says so."""
        self._past: set[str] = set()
        """Versions that engines were once seen to serve; those of now are among them after a
        restart."""
        # One update of an engine at a time. SGLang that is asked for two at once answers one with
        # the other's error: the recovery's retry of a folder that was not there once failed the
        # good update that came after it.
        self._updating: dict[str, asyncio.Lock] = {}
        self._adapters = Adapters()
        self._senders: dict[str, GroupSender] = {}
        """Of the engines that were sent weights through a process group, by their addresses."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Engines, without the router."""
        return tuple(self._clients)

    @property
    def adapter(self) -> str:
        """Name of the adapter that requests ask for; empty = they are for the weights alone."""
        newest = self._adapters.newest
        return newest.name if newest is not None else ""

    async def start(self) -> dict[str, Any]:
        """Find the engines and check that they serve.

        Returns:
            What one of them says of its model.

        Raises:
            PolicyError: None of them may serve, or they serve several models.
        """
        await self._discover()
        models = await _answers(self._ask_front(front) for front in self._fronts)
        named = sorted(
            {str(it["served_model_name"]) for it in models if it.get("served_model_name")}
        )
        if len(named) > 1:
            raise PolicyMisconfigured(
                f"{self._fronts.base_url} serve several models, {', '.join(named)}: name addresses "
                "of one, and play each model as a policy of its own"
            )
        await self.probe()
        if not self.health.may_serve:
            raise PolicyUnavailable(f"{self._fronts.base_url}: {self.health.describe()}")
        self._gate.set()
        if len(self._fronts) > 1:
            self._revisiting = supervise(self._revisit(), "revisit engines")
        log.info("engines found", server=self._fronts.base_url, engines=list(self._clients))
        return models[0]

    async def close(self) -> None:
        """Stop recovering and disconnect."""
        await cancel_tasks(self._recovering, self._revisiting)
        await asyncio.gather(*(sender.close() for sender in self._senders.values()))
        for address, client in self._clients.items():
            if address not in self._fronts:
                await client.close()

    def front(self, key: str) -> Endpoint:
        """Return where a request of a key is sent: of several addresses, one whose engines serve.

        A router is asked whatever its engines do: it knows of them before we do.
        """
        serving = {
            address
            for address, engines in self._behind.items()
            if any(self.health[engine].may_serve for engine in engines)
        }
        return self._fronts.choose(key, serving)

    async def server_info(self) -> dict[str, Any]:
        """Ask an engine for its limits and settings; empty where none tells."""
        for client in self._clients.values():
            with contextlib.suppress(PolicyError):
                return await self._server_info(client, _START_TIMEOUT)
        return {}

    async def tokenize(self, text: str) -> list[int] | None:
        """Ask for the ids of a text, in which special tokens count as such; None = none can say."""
        for client in self._clients.values():
            body = {"prompt": text, "add_special_tokens": False}
            with contextlib.suppress(PolicyError):
                answer = await client.control("/v1/tokenize", body, timeout=_PROBE_TIMEOUT)
                tokens = answer.get("tokens")
                return cast("list[int]", tokens) if isinstance(tokens, list) else None
        return None

    async def probe(self) -> None:
        """Ask every engine how it is."""
        await asyncio.gather(*(self._probe_one(address) for address in self._clients))

    async def loads(self) -> Load | None:
        """Ask the engines for their load, all of them together; None = they do not tell."""
        answers = await asyncio.gather(
            *(self._engine_load(client) for client in self._clients.values()),
            return_exceptions=True,
        )
        loads = [answer for answer in answers if isinstance(answer, Load)]
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, PolicyError):
                raise answer
        if not loads:
            return None
        return Load(
            running=sum(load.running for load in loads),
            waiting=sum(load.waiting for load in loads),
            kv_usage=max(load.kv_usage for load in loads),
            retracted=sum(load.retracted for load in loads),
        )

    async def abort(self, rid: str) -> None:
        """Abort a request wherever it runs, as well as that goes."""
        await asyncio.gather(*(self._abort_at(client, rid) for client in self._clients.values()))

    async def wait_ready(self) -> frozenset[str]:
        """Wait until engines may serve.

        Returns:
            The versions of the weights that they serve now.

        Raises:
            PolicyUnavailable: They did not come back in time.
            PolicyStale: They did, with weights that they should not have.
        """
        if not self._gate.is_set():
            remaining = self._gate_closed_at + self._recovery_seconds - time.monotonic()
            try:
                async with asyncio.timeout(max(0.0, remaining)):
                    await self._gate.wait()
            except TimeoutError:
                raise self._not_ready() from None
        return self.health.versions

    def outage(self) -> Outage | None:
        """Return since when and why requests wait at the closed gate; None = it is open."""
        recovering = self._recovering is not None and not self._recovering.done()
        if self._gate.is_set() or not recovering or not self._recovery_seconds:
            return None
        seconds = time.monotonic() - self._gate_closed_at
        over = seconds >= self._recovery_seconds
        return Outage(self._fronts.base_url, self._suspicion, seconds, over)

    def report_failure(self, reason: str) -> None:
        """Let no request pass until the engines were looked at: one was cut off, for example."""
        if self._gate.is_set():
            self._suspicion = reason
            log.warning("engines suspected", server=self._fronts.base_url, reason=reason)
        self._close_gate()
        if self._recovering is None or self._recovering.done():
            self._recovering = supervise(self._recover(), "recover engines")

    async def are_current(self, versions: Iterable[str], expected: frozenset[str]) -> bool:
        """Tell whether tokens of these versions may be used.

        Where a version is a surprise, the engines are asked first.

        Args:
            versions: What the tokens say that sampled them.
            expected: The versions that were served when the tokens were asked for.
        """
        if expected | self.health.versions >= set(versions):
            return True
        await self.probe()
        if self.health.stale:
            self.report_failure("tokens of weights that should not be served")
            return False
        return True

    async def update(self, update: WeightUpdate) -> None:
        """Give all engines new weights; returns when each of them reports the new version.

        Raises PolicyMisconfigured for a version that is served already, PolicyError where an
        engine could not be updated: that engine is stale then, and the gate stays closed.
        """
        if update.version in self.health.versions or not update.version:
            raise PolicyMisconfigured(
                f"version {update.version!r} is served already: name a new one"
            )
        by_handle = update.tensors is not None and update.group is None
        if by_handle and not all(map(is_loopback, self._clients)):
            raise PolicyMisconfigured(
                "tensors are handed over within one machine, and an engine is on another one: "
                "give the path of a checkpoint that all of them see, or BroadcastWeights (in "
                'recipes rollout.push = "distributed")'
            )
        self._update = update if update.path else None
        dropped = self._adapters.clear()  # they were on other weights
        if update.interrupt == "abort":
            self._close_gate()  # replies that are given back wait here for the new weights
        started = time.monotonic()
        try:
            results = await asyncio.gather(
                *(self._update_one(address, update) for address in self._clients),
                return_exceptions=True,
            )
        finally:
            if self.health.may_serve:
                self._gate.set()
        failures = [result for result in results if isinstance(result, BaseException)]
        if failures:
            log.warning("weight update failed", version=update.version, error=str(failures[0]))
            self.report_failure("a weight update failed")
            raise failures[0]
        await self._unload(dropped)
        log.info(
            "weights updated",
            version=update.version,
            engines=len(self._clients),
            interrupt=update.interrupt,
            seconds=round(time.monotonic() - started, 3),
        )

    def follow(self, version: str) -> None:
        """Know that another process has given the engines weights of this version.

        Requests are for these weights from now on: engines find in their caches what others of the
        same name computed. The first time, an engine that serves others may not serve: it was
        restarted before it was first asked, and is to be given them. Later, who tells may be late.
        """
        first, self._follows = not self._follows, True
        if version in self._past:
            return
        for address in self._clients:
            health = self.health[address]
            told = health.expected(version) if first else health.updated_elsewhere(version)
            self._set_health(address, told)
        if self.health.stale:
            self.report_failure(f"an engine does not serve {version}")

    async def load_adapter(self, name: str, path: str) -> None:
        """Load a LoRA adapter on all engines; requests ask for it when this returns.

        The one before stays for requests that are on their way; the one before that is unloaded. An
        engine that was down, or restarts, gets weights and adapter before it serves again.

        Args:
            name: New for new weights: engines cache by it.
            path: Folder of the adapter, as the engines see it.

        Raises:
            PolicyMisconfigured: There was an adapter of this name, or engines take none.
            PolicyError: An engine could not load it.
        """
        if name in self.health.versions:
            raise PolicyMisconfigured(f"version {name!r} is served already: name a new one")
        self._adapters.require_new(name)
        adapter = Adapter(name, path)
        results = await asyncio.gather(
            *(self._load_one(address, adapter) for address in self._clients),
            return_exceptions=True,
        )
        failures = [result for result in results if isinstance(result, BaseException)]
        for failure in failures:
            if not isinstance(failure, PolicyUnavailable):
                raise failure
        dropped = self._adapters.add(adapter)
        if failures:
            self.report_failure("an adapter was not loaded")
            raise failures[0]
        await self._unload(dropped)
        log.info("adapter loaded", version=name, engines=len(self._clients))

    async def _load_one(self, address: str, adapter: Adapter) -> None:
        async with self._updating[address]:
            try:
                await load_adapter(self._clients[address], adapter)
            except PolicyUnavailable:
                self._set_health(address, self.health[address].update_failed())
                raise

    async def _unload(self, dropped: Sequence[Adapter]) -> None:
        await asyncio.gather(
            *(unload_adapter(client, it) for client in self._clients.values() for it in dropped)
        )

    async def _update_one(self, address: str, update: WeightUpdate) -> None:
        async with self._updating[address]:
            await self._update_alone(address, update)

    async def _restore(self, address: str) -> None:
        """Give a stale engine the weights that it should have, as they are once it is its turn."""
        async with self._updating[address]:
            if self._update is not None and address in self.health.stale:
                with contextlib.suppress(PolicyError):
                    await self._update_alone(address, self._update)
                    await self._restore_adapter(address)

    async def _restore_adapter(self, address: str) -> None:
        """Give an engine that has its weights again the adapter on them; raises PolicyError."""
        adapter = self._adapters.newest
        if adapter is None:
            return
        try:
            await load_adapter(self._clients[address], adapter)
        except BaseException:
            self._set_health(address, self.health[address].update_failed())
            raise

    async def _update_alone(self, address: str, update: WeightUpdate) -> None:
        client = self._clients[address]
        self._set_health(address, self.health[address].update_begun())
        try:
            info = await self._replace_weights(client, update)
        except BaseException:
            self._set_health(address, self.health[address].update_failed())
            raise
        self._set_health(address, self.health[address].update_done(info))

    def _set_health(self, address: str, health: EngineHealth) -> None:
        before, self.health[address] = self.health[address], health
        if before.info is not None and before.info != health.info:
            self._past.add(before.info.version)
        if health.state is before.state:
            return
        bad = health.state in (EngineState.DOWN, EngineState.STALE)
        log.log(
            logging.WARNING if bad else logging.INFO,
            f"engine {health.state}",
            engine=address,
            before=before.state.value,
            version=health.info.version if health.info is not None else None,
            expected_version=health.version,
        )

    async def _replace_weights(self, client: Endpoint, update: WeightUpdate) -> EngineInfo:
        paused = update.interrupt != "finish"
        if paused:
            mode = {"mode": update.interrupt}
            await client.control("/pause_generation", mode, timeout=_PAUSE_TIMEOUT)
        try:
            # A cache that replies go on with cannot be flushed.
            flush = update.interrupt != "in_place"
            await self._send_weights(client, update, flush)
        finally:
            if paused:
                await client.control("/continue_generation", {}, timeout=_PAUSE_TIMEOUT)
        info = await self._engine_info(client)
        if info.version != update.version:
            raise PolicyMisbehaved(
                f"{client.base_url} serves {info.version!r} after it took {update.version!r}"
            )
        return info

    async def _send_weights(self, client: Endpoint, update: WeightUpdate, flush: bool) -> None:
        async def ask(path: str, body: Mapping[str, Any]) -> None:
            answer = await client.control(path, body, timeout=update.timeout)
            if answer.get("success") is False:
                raise PolicyRejected(f"{client.base_url}: {answer.get('message')}")

        options = {"weight_version": update.version, "flush_cache": flush}
        if update.tensors is None:
            await ask("/update_weights_from_disk", {"model_path": update.path, **options})
            return
        server = await self._server_info(client, _START_TIMEOUT)
        sender = None
        if update.group is not None:
            sender = self._sender(client, update.group)
            await sender.join(server, _boot_id(server), ask, timeout=update.timeout)
        framed = await _begins_update(ask)
        try:
            if sender is not None:
                await sender.send(update.tensors, options, ask)
            else:
                await _send_handles(update.tensors, server, options, ask)
        finally:
            if framed:
                await ask("/end_weight_update", {})

    def _sender(self, client: Endpoint, settings: GroupSettings) -> GroupSender:
        sender = self._senders.get(client.base_url)
        if sender is None:
            sender = self._senders[client.base_url] = GroupSender(client, settings)
        return sender

    def _close_gate(self) -> None:
        if self._gate.is_set():
            self._gate.clear()
            self._gate_closed_at = time.monotonic()

    async def _recover(self) -> None:
        """Ask the engines until they may serve; give weights to those that lost them."""
        while True:
            await self.probe()
            for address in self.health.stale:
                await self._restore(address)
            if self.health.may_serve:
                self.recoveries += 1
                self._gate.set()
                log.info(
                    "engines recovered",
                    server=self._fronts.base_url,
                    versions=sorted(self.health.versions),
                    seconds=round(time.monotonic() - self._gate_closed_at, 3),
                )
                return
            await asyncio.sleep(_RECOVERY_PAUSE)

    def _not_ready(self) -> PolicyUnavailable:
        url, state = self._fronts.base_url, self.health.describe()
        if self.health.stale:
            return PolicyStale(f"{url}: {state}; update its weights before it may serve")
        return PolicyUnavailable(f"{url}: {state}, for {self._recovery_seconds:g} s")

    async def _revisit(self) -> None:
        """Look again and again whether those that do not answer have come back.

        Of a single address that is found out by its requests; to others' no request goes.
        """
        while True:
            await asyncio.sleep(_REVISIT_SECONDS)
            down = [
                address
                for address in self._clients
                if self.health[address].state is EngineState.DOWN
            ]
            await asyncio.gather(*map(self._probe_one, down))
            if self.health.stale and self._gate.is_set():
                self.report_failure("an engine came back with other weights")

    async def _ask_front(self, front: Endpoint) -> dict[str, Any]:
        path = "/readiness" if front.base_url in self._routers else "/health"
        await front.get(path, timeout=_START_TIMEOUT)
        return await self._model_info(front, _START_TIMEOUT)

    async def _discover(self) -> None:
        """Find the engines; of several addresses those that do not answer count as engines."""
        await _answers(self._find_engines(front) for front in self._fronts)
        for front in self._fronts:
            if front.base_url not in self._behind:
                self._add_engines(front, {})
        self._updating = {address: asyncio.Lock() for address in self._clients}
        self.health = GroupHealth(self._clients)

    def _add_engines(self, front: Endpoint, engines: Mapping[str, Endpoint]) -> None:
        found = engines or {front.base_url: front}
        self._clients |= found
        self._behind[front.base_url] = tuple(found)

    async def _find_engines(self, front: Endpoint) -> None:
        try:
            listed = await front.get("/workers", timeout=_START_TIMEOUT)
        except PolicyRejected:  # an engine, not a router
            listed = {}
        workers = listed.get("workers")
        urls = [
            url
            for worker in cast("list[dict[str, Any]]", workers if isinstance(workers, list) else [])
            if isinstance(url := worker.get("url"), str) and url.startswith("http")
        ]
        if urls:
            self._routers.add(front.base_url)
        clients: dict[str, Endpoint] = {}
        for url in urls:
            if url in self._clients:  # of another router, too
                clients[url] = self._clients[url]
                continue
            client = self._connect(url)
            await client.open()
            try:
                await self._model_info(client, _PROBE_TIMEOUT)
            except PolicyError:  # out of reach from here
                await client.close()
                continue
            clients[url] = client
        self._add_engines(front, clients)

    async def _probe_one(self, address: str) -> None:
        try:
            info = await self._engine_info(self._clients[address])
        except PolicyError:
            self._set_health(address, self.health[address].unreachable())
            return
        known = self.health[address]
        health = known.answered(info)
        if self.adapter and known.info is not None and known.info.boot_id != info.boot_id:
            health = health.update_failed()  # adapters end with the process that loaded them
        self._set_health(address, health)

    async def _engine_info(self, client: Endpoint) -> EngineInfo:
        model = await self._model_info(client, _PROBE_TIMEOUT)
        try:
            server = await self._server_info(client, _PROBE_TIMEOUT)
        except PolicyRejected:
            server = {}
        return EngineInfo(_boot_id(server), str(model.get("weight_version") or ""))

    async def _model_info(self, client: Endpoint, timeout: float) -> dict[str, Any]:
        try:
            return await client.get("/model_info", timeout=timeout)
        except PolicyRejected:  # routers and older servers
            return await client.get("/get_model_info", timeout=timeout)

    async def _server_info(self, client: Endpoint, timeout: float) -> dict[str, Any]:
        try:
            return await client.get("/server_info", timeout=timeout)
        except PolicyRejected:
            return await client.get("/get_server_info", timeout=timeout)

    async def _engine_load(self, client: Endpoint) -> Load:
        try:
            answer = await client.get("/v1/loads", timeout=_PROBE_TIMEOUT)
        except PolicyRejected:
            answer = await client.get("/get_loads", timeout=_PROBE_TIMEOUT)
        rows = answer.get("loads")
        if not isinstance(rows, list):
            raise PolicyMisbehaved("the server reports no loads")
        return _sum_load(cast("list[Mapping[str, Any]]", rows))

    async def _abort_at(self, client: Endpoint, rid: str) -> None:
        with contextlib.suppress(PolicyError):  # dead servers need none, routers forward none
            await client.control("/abort_request", {"rid": rid}, timeout=_ABORT_TIMEOUT)


async def _answers(asking: Iterable[Awaitable[T]]) -> list[T]:
    """Return what those answer that do; raises a PolicyError where none does."""
    results = await asyncio.gather(*asking, return_exceptions=True)
    failures = [it for it in results if isinstance(it, BaseException)]
    for failure in failures:
        if len(failures) == len(results) or not isinstance(failure, PolicyError):
            raise failure
    return [it for it in results if not isinstance(it, BaseException)]


async def _send_handles(
    tensors: WeightTensors, server: Mapping[str, Any], options: Mapping[str, Any], ask: Ask
) -> None:
    buckets = tensors.payloads(tensor_parallel_size(server))
    while bucket := await asyncio.to_thread(next, buckets, None):
        await ask("/update_weights_from_tensor", {"serialized_named_tensors": bucket, **options})


async def _begins_update(ask: Ask) -> bool:
    """Tell the engine that tensors follow; returns False where it has no use for that: 0.5.17."""
    try:
        await ask("/begin_weight_update", {})
    except PolicyRejected as error:
        if error.status != 404:
            raise
        return False
    return True


def _boot_id(server: Mapping[str, Any]) -> str:
    """Return what tells an engine's starts apart."""
    # Seconds that the start took, to the nanosecond: no two starts agree.
    return str(server.get("startup_time") or server.get("random_seed") or "")


def _sum_load(rows: list[Mapping[str, Any]]) -> Load:
    """Add up one engine's load over its data-parallel ranks."""

    def total(name: str) -> int:
        values = (row.get(name) for row in rows)
        return sum(value for value in values if isinstance(value, int))

    shares = [float(row.get("token_usage") or 0.0) for row in rows]
    queues = [cast("Mapping[str, Any]", row.get("queues") or {}) for row in rows]
    return Load(
        running=total("num_running_reqs"),
        waiting=total("num_waiting_reqs"),
        kv_usage=max(shares, default=0.0),
        retracted=sum(int(queue.get("retracted") or 0) for queue in queues),
    )
