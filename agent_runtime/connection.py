"""One multiplexed stream to one environment server, kept alive across losses.

Connect to a server (`python -m env_servers serve echo --port 9000`) and play one episode:

    import asyncio

    from agent_runtime.connection import Connection
    from agent_runtime.episode import RemoteEpisode
    from agentgym.env.v1 import environment_pb2 as pb

    async def main() -> None:
        async with Connection("127.0.0.1:9000") as connection:
            reset = pb.Reset(environment="echo", item_id="echo_1000000")
            episode = RemoteEpisode(connection, "my-first-episode", reset)
            transition = await episode.reset()
            while not transition.ended:
                print(transition.text)
                transition = await episode.step("hello")
            print("reward", transition.reward)
            episode.close()

    asyncio.run(main())

Many episodes share a connection; at most one command of each waits for its event at a time. When
the stream breaks it is opened again and every waiting command is sent again under the same
(episode_id, seq), which the protocol makes safe.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, NoReturn, Protocol, cast

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from agent_runtime.channel import ConnectionOptions, open_channel
from agent_runtime.errors import (
    AnswerOverdue,
    CommandTooLong,
    ConnectionLost,
    ContractMismatch,
    ServerReplaced,
)
from agent_runtime.logs import bind_context, get_logger
from agent_runtime.patience import AnswerWatch
from agent_runtime.pending import Pending, StreamBroke
from agent_runtime.statuses import rpc_failure
from agent_runtime.supervision import cancel_tasks, supervise
from agent_runtime.tracing import trace_metadata
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import environment_pb2_grpc

__all__ = [
    "CONTRACT_REVISION",
    "Connection",
]

CONTRACT_REVISION: Final = 1
"""Revision of protos/agentgym/env/v1 that this client speaks."""
_MAX_ITEMS: Final = 128
"""Commands per message; 64 to 128 measured best."""
_MAX_BYTES: Final = 1024 * 1024
"""Of a message that holds several commands."""
_OVERHEAD_BYTES: Final = 64 * 1024
"""What a message may have beside the text of its one long command."""
_MAX_NAMED_ITEMS: Final = 1_000
"""Item ids of one ListTasks: what servers take at once."""
_NO_SEQ: Final = 2**64 - 1
"""Of commands whose seq does not matter: an error that answers them must answer nothing else."""
_NOBODY: Final = "-"
"""No episode's id: whose heartbeat asks for a sign of life."""
_HEALTH_SECONDS: Final = 1.0
"""Before a server is asked for its health again whose answers broke off."""
_BACKOFF_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1.0)

log = get_logger(__name__)


class OpenEpisode(Protocol):
    """The part of an episode that a connection needs to re-attach it."""

    @property
    def episode_id(self) -> str:
        """Id of the episode on the server."""
        ...

    @property
    def seq(self) -> int:
        """The last seq whose event arrived."""
        ...


class _InteractCall(Protocol):
    """The part of grpc.aio's stream call that is used here."""

    async def write(self, request: pb.InteractRequest) -> None: ...
    def __aiter__(self) -> AsyncIterator[pb.InteractResponse]: ...
    def cancel(self) -> bool: ...


class Connection:
    """Commands to, and events from, one server."""

    def __init__(self, address: str, options: ConnectionOptions | None = None) -> None:
        """`address` is host:port or unix:PATH."""
        self.address = address
        self.options = options or ConnectionOptions()
        self.reconnects = 0
        """Times that a broken stream was opened again."""
        self.environments: Sequence[str] = ()
        """Names of the environments that the server has; known once connected."""
        self.inspect: Callable[[Connection], Awaitable[str]] | None = None
        """Asked whenever a stream was opened, before a command is sent on it: why this server must
        not get any, for example because it was replaced; empty = it may."""
        self.full_until = 0.0
        """Until when (`time.monotonic`) the server has no room for another episode, as it said."""
        # Weak: an episode that its user dropped without closing it gets no signs of life.
        self._episodes: weakref.WeakValueDictionary[str, OpenEpisode] = (
            weakref.WeakValueDictionary()
        )
        """Open episodes; those without a command in flight are re-attached after a loss."""
        self.future: Callable[[], asyncio.Future[pb.Event]] = _new_future
        """Returns a future for a new command."""
        self._channel: grpc.aio.Channel | None = None
        self._stub: environment_pb2_grpc.EnvironmentServiceAsyncStub | None = None
        self._call: _InteractCall | None = None
        self._pending: dict[str, Pending] = {}
        self._posted: list[Pending] = []
        """Commands whose event nobody awaits, from while there was no stream."""
        self._outgoing: deque[Pending] = deque()
        """Commands that the next messages carry."""
        self._scheduled = False
        self._writing = False
        self._closed = False
        self._credits = 0  # until the server tells
        self._instance = ""
        self._in_flight_at_break: list[Pending] = []
        self._broken_by_message = False
        self.quarantine = asyncio.Lock()
        """Held by the one command under way of all that may have ended this server before."""
        self.unexplained_ends = 0
        """Ends of the server while no such command was under way."""
        self._queued: deque[Pending] = deque()
        """Commands that wait for a credit; they count as pending, too."""
        self._lost: ConnectionLost | None = None
        self._heard = 0
        """Messages that arrived."""
        self._run_task: asyncio.Task[None] | None = None
        self._watch_task: asyncio.Task[None] | None = None
        self._heartbeat_task: asyncio.Task[None] | None = None
        self._flush_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Connection:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def lost(self) -> bool:
        """Whether the server stayed away for longer than the connect deadline."""
        return self._lost is not None

    @property
    def load(self) -> int:
        """Commands in flight."""
        return len(self._pending)

    @property
    def _service(self) -> environment_pb2_grpc.EnvironmentServiceAsyncStub:
        if self._stub is None:
            raise RuntimeError(f"the connection to {self.address} is not started")
        return self._stub

    async def start(self) -> None:
        """Connect.

        Raises:
            ConnectionLost: Nobody answered within the connect deadline, or we were refused.
            ConnectionMisconfigured: The TLS files cannot be used, or the token would travel in
                plain text.
            ContractMismatch: The server speaks another revision of the protocol.
        """
        # Asking for the running loop is a system call before CPython 3.12: not for every command.
        self.future = asyncio.get_running_loop().create_future
        self._channel = open_channel(self.address, self.options)
        self._stub = environment_pb2_grpc.EnvironmentServiceStub(self._channel)
        try:
            listed = await self._service.ListEnvironments(
                pb.ListEnvironmentsRequest(),
                timeout=self.options.connect_deadline,
                wait_for_ready=True,
                metadata=self._metadata(),
            )
        except grpc.aio.AioRpcError as error:
            await self._channel.close()
            self._raise_start_error(error)
        if CONTRACT_REVISION not in listed.contract_revisions:
            await self._channel.close()
            revisions = ", ".join(map(str, listed.contract_revisions))
            raise ContractMismatch(
                f"{self.address} ({listed.server_version}) speaks contract revision {revisions}, "
                f"this client speaks {CONTRACT_REVISION}"
            )
        self.environments = tuple(listed.environments)
        with bind_context(server=self.address):
            self._run_task = supervise(
                self._run(),
                f"connection to {self.address}",
                on_failure=lambda error: self._give_up(
                    ConnectionLost(f"the connection to {self.address} failed: {error!r}")
                ),
            )

            self._watch_task = supervise(self._watch(), f"watch answers of {self.address}")
            self._heartbeat_task = supervise(
                self._send_heartbeats(), f"heartbeats to {self.address}"
            )

    async def close(self) -> None:
        """End the stream; open episodes live on under their leases.

        What the stream died of was logged and given to whoever waited; it is not raised here, so
        that the channel is closed in any case.
        """
        self._closed = True
        closed = ConnectionLost(f"the connection to {self.address} was closed")
        if self._lost is None:
            self._lost = closed
        try:
            await cancel_tasks(
                self._heartbeat_task, self._watch_task, self._run_task, self._flush_task
            )
        finally:
            self._fail_all(closed)
            # The tracebacks of ended tasks refer to this object. Without them it goes with its
            # last user, and its socket with it; else a collection would have to find both.
            self._heartbeat_task = self._watch_task = self._run_task = self._flush_task = None
            channel, self._channel, self._stub = self._channel, None, None
            if channel is not None:
                await channel.close()

    def register(self, episode: OpenEpisode) -> None:
        """Keep this episode until it is unregistered, or dropped by all others.

        It gets signs of life, and is attached again when the stream was lost.
        """
        self._episodes[episode.episode_id] = episode

    def unregister(self, episode_id: str) -> None:
        """Leave an episode to itself: it has ended, or goes on elsewhere."""
        self._episodes.pop(episode_id, None)

    @property
    def open_episodes(self) -> Sequence[str]:
        """Ids of the registered episodes."""
        return tuple(self._episodes)

    # ------------------------------------------------------------------ questions

    async def get_environment(self, environment: str) -> pb.GetEnvironmentResponse:
        """Ask for all about one environment; raises EnvironmentFailure, ConnectionLost."""
        request = pb.GetEnvironmentRequest(
            environment=environment, contract_revision=CONTRACT_REVISION
        )
        return await self._ask(self._service.GetEnvironment, request)

    async def list_tasks(
        self, environment: str, split: str, page_token: str = "", page_size: int = 0
    ) -> pb.ListTasksResponse:
        """Ask for one page of a split; raises EnvironmentFailure, ConnectionLost."""
        request = pb.ListTasksRequest(
            environment=environment, split=split, page_token=page_token, page_size=page_size
        )
        return await self._ask(self._service.ListTasks, request)

    async def get_tasks(
        self, environment: str, item_ids: Sequence[str]
    ) -> Sequence[pb.TaskSummary]:
        """Ask for the named tasks; raises EnvironmentFailure for an unknown one, ConnectionLost."""
        tasks: list[pb.TaskSummary] = []
        for start in range(0, len(item_ids), _MAX_NAMED_ITEMS):
            named = item_ids[start : start + _MAX_NAMED_ITEMS]
            request = pb.ListTasksRequest(environment=environment, item_ids=named)
            tasks += (await self._ask(self._service.ListTasks, request)).tasks
        return tasks

    async def render(self, episode_id: str) -> pb.RenderResponse:
        """Ask for pictures of an episode's state; the episode stays as it is.

        Only servers of environments with the capability RENDER know how. A step that is under way
        is waited for. Views are strangers' bytes: whoever shows HTML or SVG keeps it in a sandbox.

        Raises EnvironmentFailure, ConnectionLost.
        """
        request = pb.RenderRequest(episode_id=episode_id)
        return await self._ask(self._service.Render, request, self.options.answer_deadline)

    async def watch_health(self) -> AsyncGenerator[bool]:
        """Tell whether the server takes new episodes: now, and whenever that changes.

        Ends with the connection, and at once where the server does not know `grpc.health.v1`.
        """
        assert self._channel is not None
        health = health_pb2_grpc.HealthStub(self._channel)
        while self._lost is None:
            try:
                call = health.Watch(  # pyright: ignore
                    health_pb2.HealthCheckRequest(), metadata=self._metadata(), wait_for_ready=True
                )
                async for answer in cast("AsyncIterator[health_pb2.HealthCheckResponse]", call):
                    yield answer.status == health_pb2.HealthCheckResponse.SERVING
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    return
            await asyncio.sleep(_HEALTH_SECONDS)

    async def call(self, method: str, request: Any, seconds: float = 0.0) -> Any:
        """Make a unary call of the contract by its name, for whoever passes messages on.

        `seconds` are the time that it may take, 0 = the connect deadline. Raises
        EnvironmentFailure, ConnectionLost.
        """
        return await self._ask(getattr(self._service, method), request, seconds)

    async def _ask(self, method: Any, request: Any, seconds: float = 0.0) -> Any:
        """Make a unary call; `seconds` are the time that it may take, 0 = the connect deadline."""
        timeout = seconds or self.options.connect_deadline
        try:
            return await method(request, timeout=timeout, metadata=self._metadata())
        except grpc.aio.AioRpcError as error:
            raise rpc_failure(error, self.address) from error

    # ------------------------------------------------------------------ the hot path

    def submit(self, pending: Pending) -> asyncio.Future[pb.Event]:
        """Send a command; its future gets the event, or ConnectionLost.

        The caller calls `forget` when it no longer waits. At most one command of an episode waits.
        """
        if self._lost is not None:
            pending.future.set_exception(self._lost)
            return pending.future
        waiting = self._pending
        waiting[pending.episode_id] = pending
        if len(waiting) > self._credits:
            # Sent when an answer makes room; dictionaries keep the order of arrival.
            self._queued.append(pending)
        elif self._scheduled:
            self._outgoing.append(pending)  # `_enqueue` without the call
        else:
            self._enqueue(pending)
        return pending.future

    def forget(self, pending: Pending) -> None:
        """Wait no longer for a command's event."""
        if self._pending.get(pending.episode_id) is pending:
            del self._pending[pending.episode_id]

    async def exchange(self, pending: Pending) -> pb.Event:
        """Send a command and await its event; raises ConnectionLost, never retries a refusal."""
        try:
            return await self.submit(pending)
        except asyncio.CancelledError:
            self.forget(pending)
            raise

    def post(self, pending: Pending) -> None:
        """Send a command whose event nobody awaits."""
        if self._lost is not None or self._closed:
            return
        if self._call is None:
            self._posted.append(pending)
        else:
            self._enqueue(pending)

    def _enqueue(self, pending: Pending) -> None:
        self._outgoing.append(pending)
        if not self._scheduled:
            self._scheduled = True
            # Everything that is sent before the loop goes idle travels in one message.
            asyncio.get_running_loop().call_soon(self._start_flush)

    def _next_message(self) -> pb.InteractRequest:
        """Take commands from those that are to be sent, as many as a message may carry."""
        request = pb.InteractRequest()
        add, outgoing = request.commands.add, self._outgoing
        items = size = 0
        while outgoing and items < _MAX_ITEMS:
            pending = outgoing[0]
            value = pending.value
            size += len(value) if value.__class__ is str else value.ByteSize()
            if size > _MAX_BYTES and items:
                break
            del outgoing[0]
            if size > _MAX_BYTES and self._refuse_too_long(pending):
                size = 0
                continue
            items += 1
            pending.fill(add())
        return request

    def _refuse_too_long(self, pending: Pending) -> bool:
        """Fail a command that no message can carry: it would break the stream of all the others."""
        value = pending.value
        size = len(value.encode()) if value.__class__ is str else value.ByteSize()
        limit = self.options.max_message_bytes - _OVERHEAD_BYTES
        if size <= limit:
            return False
        self.forget(pending)
        if not pending.future.done():
            pending.future.set_exception(
                CommandTooLong(
                    f"seq {pending.seq} of episode {pending.episode_id} is a {pending.body} of "
                    f"{size:,} bytes; a message carries at most {limit:,}"
                )
            )
        return True

    def _start_flush(self) -> None:
        self._scheduled = False
        if not self._writing and self._call is not None:
            self._writing = True
            self._flush_task = asyncio.get_running_loop().create_task(self._flush(self._call))

    async def _flush(self, call: _InteractCall) -> None:
        try:
            while self._outgoing:
                request = self._next_message()
                if request.commands:
                    await call.write(request)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
            # The stream broke: `_run` opens another and sends what still waits again.
            return
        finally:
            self._writing = False

    def _receive(self, events: Sequence[pb.Event]) -> None:
        waiting = self._pending
        for event in events:
            episode_id = event.episode_id
            pending = waiting.get(episode_id)
            if (
                pending is not None
                and pending.seq == event.seq
                and (event.HasField(pending.answer) or event.HasField("error"))
            ):
                del waiting[episode_id]
                future = pending.future
                if not future.done():
                    future.set_result(event)
            elif event.HasField("credits"):
                self._begin_stream(event.credits)
        while self._queued and len(waiting) - len(self._queued) < self._credits:
            queued = self._queued.popleft()
            if waiting.get(queued.episode_id) is queued:
                self._enqueue(queued)

    def _begin_stream(self, first: pb.Credits) -> None:
        """Note what a stream begins with, and what the end of the last one says of its commands."""
        self._credits = first.max_in_flight
        ended = bool(self._instance) and first.instance != self._instance
        self._instance = first.instance
        suspects, self._in_flight_at_break = self._in_flight_at_break, []
        if not (ended or self._broken_by_message):
            return
        if ended and not self.quarantine.locked():
            self.unexplained_ends += 1
        cause = "its stream broke of a message" if self._broken_by_message else "its server ended"
        for pending in suspects:
            if self._pending.get(pending.episode_id) is pending and not pending.future.done():
                self.forget(pending)
                # Not attached either: the server would repeat what the stream may have broken of.
                self.unregister(pending.episode_id)
                broke = StreamBroke(cause, by_message=self._broken_by_message)
                pending.future.set_exception(broke)
        log.info("commands in flight at the break", cause=cause, commands=len(suspects))
        self._broken_by_message = False

    # ------------------------------------------------------------------ losses

    async def _run(self) -> None:
        """Keep a stream open until the connection is closed or the server stays away."""
        lost_since = time.monotonic()
        attempt = 0
        try:
            while not self._closed:
                if await self._receive_all():
                    lost_since, attempt = time.monotonic(), 0
                if not await self._wait_for_server(lost_since, attempt):
                    return
                attempt += 1
                self.reconnects += 1
        except ConnectionLost as refusal:
            self._give_up(refusal)

    async def _receive_all(self) -> bool:
        """Serve one stream until it breaks; whether anything arrived. Raises ConnectionLost."""
        call = self._open_stream()
        received = by_message = False
        reason = "the server ended the stream"
        try:
            async for response in call:
                self._heard += 1
                self._receive(response.events)
                if not received:
                    await self._require_same_server()
                    # The server's first message (credits) proves that the stream works. Only from
                    # now on are commands written to it: `_resend` sends all that wait, and one
                    # that was written earlier would go out twice.
                    received, self._call = True, call
                    self._resend()
        except ServerReplaced:
            raise
        except ConnectionLost as error:  # it was gone again before it could be inspected
            reason = str(error)
        except grpc.aio.AioRpcError as error:
            refusal = _refusal(error, self.address)
            if refusal is not None:
                raise refusal from error
            reason = f"{error.code().name}: {error.details()}"
            # What gRPC says of a message that is too large, on either side.
            by_message = error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        finally:
            call.cancel()
            self._call = None
        if received:
            queued = set(self._queued)
            self._broken_by_message = by_message
            self._in_flight_at_break = [p for p in self._pending.values() if p not in queued]
            log.warning(
                "connection lost",
                reason=reason,
                in_flight=len(self._pending),
                episodes=len(self._episodes),
            )
        return received

    async def _require_same_server(self) -> None:
        """Raise ServerReplaced where this server must not be used, ConnectionLost if it is gone."""
        problem = "" if self.inspect is None else await self.inspect(self)
        if problem:
            raise ServerReplaced(f"the server at {self.address} was replaced: {problem}")

    def _open_stream(self) -> _InteractCall:
        return self._service.Interact(metadata=self._metadata())  # pyright: ignore

    def _resend(self) -> None:
        """Send all that waits, again or for the first time; re-attach the other episodes."""
        self._outgoing.clear()
        self._queued.clear()
        for number, pending in enumerate(self._pending.values()):
            if number < self._credits:
                self._enqueue(pending)
            else:
                self._queued.append(pending)
        for pending in self._posted:
            self._enqueue(pending)
        self._posted.clear()
        if self.reconnects:
            idle = self._idle_episodes()
            for episode in idle:
                attach = pb.Attach(last_seq_seen=episode.seq)
                self.post(Pending(episode.episode_id, _NO_SEQ, "attach", attach, self.future()))
            log.info(
                "connection re-attached",
                reconnects=self.reconnects,
                resent=len(self._pending),
                attached=len(idle),
            )
        self._start_flush()

    async def _wait_for_server(self, lost_since: float, attempt: int) -> bool:
        """Wait until the channel is ready again; False = the server stayed away too long."""
        assert self._channel is not None
        remaining = self.options.connect_deadline - (time.monotonic() - lost_since)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(remaining, 0.0)):
                await asyncio.sleep(_BACKOFF_SECONDS[min(attempt, len(_BACKOFF_SECONDS) - 1)])
                await self._channel.channel_ready()
                return True
        self._give_up(self._unanswered())
        return False

    def _idle_episodes(self) -> list[OpenEpisode]:
        """Return those that no command is in flight of."""
        return [
            episode
            for episode in self._episodes.values()
            if episode.episode_id not in self._pending
        ]

    async def _send_heartbeats(self) -> None:
        """Keep the server from ending episodes whose agent thinks for long."""
        while self._lost is None:
            await asyncio.sleep(self.options.heartbeat)
            if self._call is not None:
                for episode in self._idle_episodes():
                    beat = pb.Heartbeat()
                    self.post(
                        Pending(episode.episode_id, _NO_SEQ, "heartbeat", beat, self.future())
                    )

    async def _watch(self) -> None:
        """Give up commands that are never answered, and a server that says nothing at all."""
        watch = AnswerWatch(self.options.answer_deadline, self.options.silence)
        now = time.monotonic()
        while self._lost is None:
            before = now
            await asyncio.sleep(watch.interval)
            now = time.monotonic()
            waiting = {pending.future: pending for pending in self._pending.values()}
            for future in watch.overdue(waiting, now):
                self._give_up_command(waiting[future])
            # Silence means nothing without a stream, where nothing was asked, or where this very
            # program stood still and has not read what arrived.
            late = now - before > 2 * watch.interval
            if self._call is None or not self._pending or late:
                self._heard += 1
            silence = watch.silence(self._heard, now)
            if silence > 1:
                self._give_up(
                    ConnectionLost(
                        f"the server at {self.address} accepts commands and says nothing "
                        f"(waited {self.options.silence:g} s)"
                    )
                )
                assert self._run_task is not None
                self._run_task.cancel()
            elif silence > 1 / 2:
                # Answered at once by a server whose loop runs, whatever its episodes do.
                self.post(Pending(_NOBODY, 0, "heartbeat", pb.Heartbeat(), self.future()))

    def _give_up_command(self, pending: Pending) -> None:
        self.forget(pending)
        if not pending.future.done():
            pending.future.set_exception(
                AnswerOverdue(
                    f"the server at {self.address} has not answered command {pending.seq} "
                    f"({pending.body}) in {self.options.answer_deadline:g} s"
                )
            )

    def _unanswered(self) -> ConnectionLost:
        return ConnectionLost(
            f"no environment server answers at {self.address} "
            f"(waited {self.options.connect_deadline:g} s)"
        )

    def _give_up(self, error: ConnectionLost) -> None:
        log.error("server lost", error=str(error), in_flight=len(self._pending))
        self._lost = error
        self._fail_all(error)

    def _fail_all(self, error: ConnectionLost) -> None:
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_exception(error)
        self._pending.clear()
        self._queued.clear()

    def _raise_start_error(self, error: grpc.aio.AioRpcError) -> NoReturn:
        refusal = _refusal(error, self.address)
        raise (refusal or self._unanswered()) from error

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        token = self.options.security.token
        authorization = (("authorization", f"Bearer {token}"),) if token else ()
        return (*authorization, *trace_metadata())


def _new_future() -> asyncio.Future[pb.Event]:
    return asyncio.get_running_loop().create_future()


def _refusal(error: grpc.aio.AioRpcError, address: str) -> ConnectionLost | None:
    """Return the error to raise where waiting would not mend it; None = it may."""
    if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        refused = ConnectionLost(f"{address} refused this client: {error.details()}")
        refused.retriable = False
        return refused
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        refused = ConnectionLost(f"{address} is no agentgym.env.v1 server: {error.details()}")
        refused.retriable = False
        return refused
    return None
