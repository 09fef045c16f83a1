"""A live episode seen from the client: reset, step, and surviving the loss of its server.

The client keeps the episode's inputs (its journal) and the state hash after each. When the server
no longer knows the episode and it is deterministic, it is opened again with the journal, on the
same server or on another; every state hash must come out again, or the episode fails loudly.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, cast

from google.protobuf import struct_pb2

from agent_runtime.connection import Connection
from agent_runtime.errors import CommandGivenUp, ConnectionLost, EnvironmentFailure
from agent_runtime.images import Image
from agent_runtime.judgements import give_back, judgements_of
from agent_runtime.logs import get_logger
from agent_runtime.patience import Patience
from agent_runtime.pending import Pending, StreamBroke
from agent_runtime.statuses import to_failure
from agent_runtime.suspicion import Suspicion
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2

__all__ = ["RemoteEpisode", "Transition"]

_MAX_REBUILDS = 8
"""Rebuilds without a step between them before a server counts as broken: it forgets the episode
each time. Those that an end of the server explains do not count."""
_MAX_JOURNAL_BYTES = 16 * 1024 * 1024
"""Of a rebuild's journal; what comes after it is sent as steps. Well below what a message has."""
_MAX_JOURNAL_ENTRIES = 100_000
"""What servers take at once."""
_MAX_ASIDE_SECONDS = 20.0
_SHOWN_CHARS = 200
_DRAIN_WAIT_SECONDS = 0.2
"""Before another server is asked, or the same one where it did not say how long to wait."""
_ROOM_WAIT_SECONDS = 0.5
"""Before an episode is opened again for which the server had no room."""
_CREDIT_WAIT_SECONDS = 0.1
"""Before a command is sent again for which the server had no credit left."""

log = get_logger(__name__)

_new_transition = cast("Callable[..., Transition]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]

Reroute = Callable[[Connection], Awaitable[Connection]]
"""Another connection in place of one that is lost, drains, or is full until its `full_until`.

The same one where there is no other for a full one; raises ConnectionLost where there is none.
"""


class Transition(NamedTuple):
    """What a reset or step led to; absent is None, never 0."""

    seq: int
    text: str
    reward: float | None
    score: float | None
    terminated: bool
    truncated: bool
    stop_reason: int
    state_hash: bytes
    parsed_action: str | None
    info: Mapping[str, Any] | None
    images: tuple[Image, ...] = ()
    """What the agent sees beside the text, where an option of the reset asks for it."""

    @property
    def ended(self) -> bool:
        """Whether the episode takes no more steps."""
        return self.terminated or self.truncated


# No keyword parameters: CPython calls a function that has some more slowly, with or without them.
def _to_transition(event: pb.Event, takes_images: bool) -> Transition:
    has = event.HasField
    # The named tuple's own constructor costs three times as much.
    return _new_transition(
        Transition,
        (
            event.seq,
            event.observation,
            event.reward if has("reward") else None,
            event.score if has("score") else None,
            event.terminated,
            event.truncated,
            event.stop_reason,
            event.state_hash,
            event.parsed_action if has("parsed_action") else None,
            dict(event.info) if has("info") else None,
            # Asking an event for them costs more than any other field, so not where none come.
            _images(event) if takes_images and event.images else (),
        ),
    )


def _images(event: pb.Event) -> tuple[Image, ...]:
    return tuple(Image(image.media_type, image.content) for image in event.images)


class RemoteEpisode:
    """An episode on a server; use it from one task at a time."""

    # Thousands of episodes do not fit a cache: with slots a step reaches for fewer places.
    __slots__ = (
        "__weakref__",
        "_deadline_ms",
        "_deterministic",
        "_hashes",
        "_journal",
        "_judgements",
        "_patience",
        "_pending",
        "_rebuilds_in_a_row",
        "_reroute",
        "_reset",
        "_seconds_alone",
        "_suspicion",
        "_takes_images",
        "connection",
        "episode_id",
        "rebuilds",
        "seq",
    )

    def __init__(
        self,
        connection: Connection,
        episode_id: str,
        reset: pb.Reset,
        *,
        deterministic: bool = False,
        reroute: Reroute | None = None,
        step_deadline: float = 0.0,
    ) -> None:
        """Describe an episode; nothing is sent before `reset`.

        Args:
            connection: Its server.
            episode_id: Chosen by the client, unique on the server.
            reset: What to open.
            deterministic: Whether it may be rebuilt from its journal after a loss.
            reroute: Gives another server for one that is lost, drains or is full; None = there is
                none.
            step_deadline: Seconds until the server gives a step up; 0 = the server's own limit.
        """
        self.connection = connection
        self.episode_id = episode_id
        self.seq = -1
        self.rebuilds = 0
        """Times that the episode was opened again with its journal."""
        self._reset = reset
        self._takes_images = reset.images
        self._deterministic = deterministic
        self._reroute = reroute
        self._deadline_ms = int(step_deadline * 1000)
        self._patience = Patience()
        self._pending: Pending | None = None
        """The last step's command; used again, for at most one is in flight."""
        self._rebuilds_in_a_row = 0
        self._suspicion = Suspicion()
        self._seconds_alone = 0.0
        """How long its last command took that was the only suspect one."""
        self._journal: list[tuple[str, Any, int]] = []
        self._judgements: list[struct_pb2.Value] = []
        """What judges said so far, given back in a rebuild: they are not asked again."""
        self._hashes: list[bytes] = []

    @property
    def journal(self) -> tuple[pb.JournalEntry, ...]:
        """The inputs so far, each with the hash of the state that it led to."""
        return tuple(self._entries())

    async def reset(self) -> Transition:
        """Open the episode; raises EnvironmentFailure, ConnectionLost."""
        event = await self._command(0, "reset", self._reset, 0)
        transition = _to_transition(event, self._takes_images)
        self._hashes.append(transition.state_hash)
        self.seq = 0
        self._note_progress()
        return transition

    async def open_at(
        self,
        initial_state_hash: bytes,
        journal: Sequence[pb.JournalEntry],
        judgements: Iterable[struct_pb2.Value] = (),
    ) -> Transition:
        """Open the episode in the state that a journal leads to, in place of `reset`.

        Args:
            initial_state_hash: Of the state after the reset.
            journal: The inputs; every state hash must come out again.
            judgements: What judges said meanwhile, who are not asked again.

        Returns:
            The last transition.

        Raises EnvironmentFailure, ConnectionLost.
        """
        self._hashes = [initial_state_hash, *(entry.state_hash for entry in journal)]
        self._journal = [_to_input(entry.input) for entry in journal]
        self._judgements = list(judgements)
        reset = self._journaled_reset()
        self.seq = len(reset.journal)
        event = await self._command(self.seq, "reset", reset, 0)
        while self.seq < len(journal):
            body, value, action_format = self._journal[self.seq]
            event = await self._command(self.seq + 1, body, value, action_format)
            self._require_same_state(self.seq + 1, event)
            self.seq += 1
        self._note_progress()
        return _to_transition(event, self._takes_images)

    # The three below return the coroutine of `_step` itself: a layer less on the hot path.

    def step(self, action: str) -> Coroutine[Any, Any, Transition]:
        """Apply a native action; raises EnvironmentFailure, ConnectionLost."""
        return self._step("action", action, 0)

    def step_reply(
        self,
        reply: str,
        action_format: types_pb2.ActionFormat = types_pb2.ACTION_FORMAT_UNSPECIFIED,
    ) -> Coroutine[Any, Any, Transition]:
        """Apply a model's whole reply; the server reads the action in it.

        Args:
            reply: What the model wrote.
            action_format: How to read it; default: as the episode was opened.
        """
        return self._step("reply", reply, action_format or 0)

    def step_call(self, name: str, arguments_json: str) -> Coroutine[Any, Any, Transition]:
        """Apply a function call; `arguments_json` is a JSON object."""
        call = types_pb2.ToolCall(name=name, arguments_json=arguments_json)
        return self._step("tool_call", call, 0)

    async def consult(self, advisor: pb.Advisor, seed: int) -> pb.Advice:
        """Ask a scripted player for advice in the current state; changes nothing."""
        consult = pb.Consult(advisor=advisor, seed=seed)
        event = await self._command(self.seq, "consult", consult, 0)
        return event.advice

    async def fork(self, episode_id: str) -> RemoteEpisode:
        """Copy this episode under another id, in the same state, on the same server."""
        copy = RemoteEpisode(
            self.connection,
            episode_id,
            self._reset,
            deterministic=self._deterministic,
            reroute=self._reroute,
        )
        fork = pb.Fork(from_episode_id=self.episode_id, lease_ms=self._reset.lease_ms)
        await copy._command(self.seq, "fork", fork, 0)
        copy._journal, copy._hashes = list(self._journal), list(self._hashes)
        copy._judgements = list(self._judgements)
        copy.seq = self.seq
        self.connection.register(copy)
        return copy

    def close(self) -> None:
        """End the episode on the server; does not wait for it.

        Where the connection is closed right afterwards that may stay unsent: see `end`.
        """
        self.connection.unregister(self.episode_id)
        self.connection.post(self._closing())

    async def end(self) -> None:
        """End the episode and wait until the server has; raises ConnectionLost."""
        self.connection.unregister(self.episode_id)
        with suppress(StreamBroke):  # its server ended, and the episode with it
            await self.connection.exchange(self._closing())

    def _closing(self) -> Pending:
        future = self.connection.future()
        return Pending(self.episode_id, max(self.seq, 0), "close", pb.Close(), future)

    def send(self, action: str, *, reply: bool = False) -> asyncio.Future[pb.Event]:
        """Send a step and do not wait: who steps many episodes at once needs no task for each.

        Args:
            action: A native action, or a model's whole reply.
            reply: Which of the two it is.

        Returns:
            What gets the event. Then call `receive`, or `forget`.
        """
        return self._send("reply" if reply else "action", action, 0).future

    def receive(self) -> Coroutine[Any, Any, Transition]:
        """Await what was sent, and send it again where it has to be; raises as `step`."""
        sent = self._pending
        assert sent is not None
        return self._step(sent.body, sent.value, sent.action_format, sent)

    def received(self, event: pb.Event) -> Transition | None:
        """Take the event that answers what was sent: as `receive`, for who has awaited it.

        None where it is a refusal, which `receive` deals with.
        """
        sent = self._pending
        assert sent is not None
        if not event.state_hash:
            return None
        return self._advance(event, sent.seq, sent.body, sent.value, sent.action_format)

    def forget(self) -> None:
        """Wait no longer for what was sent; it may be applied nevertheless."""
        if self._pending is not None:
            self.connection.forget(self._pending)

    def _send(self, body: str, value: Any, action_format: int) -> Pending:
        connection = self.connection
        pending = self._pending
        if pending is None:
            pending = self._pending = Pending(
                self.episode_id, 0, body, value, connection.future(), 0, self._deadline_ms
            )
        pending.seq = self.seq + 1
        pending.body = body
        pending.value = value
        pending.action_format = action_format
        pending.future = connection.future()
        connection.submit(pending)
        return pending

    async def _step(
        self, body: str, value: Any, action_format: int, sent: Pending | None = None
    ) -> Transition:
        connection = self.connection
        pending = sent or self._send(body, value, action_format)
        seq = pending.seq
        try:
            event = await pending.future
        except asyncio.CancelledError:
            connection.forget(pending)
            raise
        except StreamBroke as broke:
            self._record_break(broke, alone=False)
            event = await self._command(seq, body, value, action_format)
            self._note_progress()
        except ConnectionLost:
            await self._change_server()
            event = await self._command(seq, body, value, action_format)
            self._note_progress()
        if not event.state_hash:
            event = await self._command(seq, body, value, action_format, refused=event)
            self._note_progress()
        return self._advance(event, seq, body, value, action_format)

    def _advance(
        self, event: pb.Event, seq: int, body: str, value: Any, action_format: int
    ) -> Transition:
        """Note a step that the server has applied."""
        transition = _to_transition(event, self._takes_images)
        self._journal.append((body, value, action_format))
        self._hashes.append(transition.state_hash)  # asking the event again costs more
        self.seq = seq
        if transition.info is not None:
            self._judgements += judgements_of(event.info)
        return transition

    async def _command(
        self,
        seq: int,
        body: str,
        value: Any,
        action_format: int,
        *,
        refused: pb.Event | None = None,
    ) -> pb.Event:
        """Send a command until its event arrives, through losses of stream and server.

        `refused` is the error that it was answered with already; None = it is to be sent first.

        Raises:
            EnvironmentFailure: The server refused it, for good.
            ConnectionLost: There is no server that goes on with the episode.
            CommandGivenUp: Servers or streams broke of it.
            CommandTooLong: No message carries it.
        """
        while True:
            try:
                if refused is not None:
                    await self._recover(refused, body)
                event = await self._exchange(seq, body, value, action_format)
            except StreamBroke:
                refused = None
            except ConnectionLost:
                refused = None
                await self._change_server()
            else:
                if not event.HasField("error"):
                    return event
                refused = event

    async def _exchange(self, seq: int, body: str, value: Any, action_format: int) -> pb.Event:
        """Send a command once, as the only one of all suspects where this episode is one."""
        connection = self.connection
        pending = Pending(
            self.episode_id,
            seq,
            body,
            value,
            connection.future(),
            action_format,
            self._deadline_ms,
        )
        if self._suspicion.tried_alone:
            await self._stand_aside(connection)
        alone = self._suspicion.suspected
        try:
            if not alone:
                return await connection.exchange(pending)
            async with connection.quarantine:
                started = time.monotonic()
                try:
                    return await connection.exchange(pending)
                finally:
                    self._seconds_alone = time.monotonic() - started
        except StreamBroke as broke:
            self._record_break(broke, alone=alone)
            if self._suspicion.convicted:
                raise self._give_up(pending, broke) from broke
            raise

    async def _stand_aside(self, connection: Connection) -> None:
        """Give the server time to end without this episode, which proves its innocence."""
        ends = connection.unexplained_ends
        await asyncio.sleep(min(2 * self._seconds_alone, _MAX_ASIDE_SECONDS))
        if connection.unexplained_ends > ends or connection.lost:
            self._suspicion.clear()

    def _record_break(self, broke: StreamBroke, *, alone: bool) -> None:
        self._suspicion.record(alone=alone, by_message=broke.by_message)
        self._rebuilds_in_a_row = 0

    def _give_up(self, pending: Pending, broke: StreamBroke) -> CommandGivenUp:
        """Log who ended the server, or broke the stream, and return the error that says so."""
        shown = str(pending.value)[:_SHOWN_CHARS]
        item_id, breaks = self._reset.item_id, self._suspicion.breaks
        log.error(
            "command given up",
            cause=str(broke),
            episode_id=self.episode_id,
            item_id=item_id,
            seq=pending.seq,
            verb=pending.body,
            value=shown,
            breaks=breaks,
            server=self.connection.address,
        )
        return CommandGivenUp(
            f"{broke}, {breaks} times in a row, while seq {pending.seq} of episode "
            f"{self.episode_id} (item {item_id}) was in flight: {pending.body} {shown!r}",
            reason="BREAKS_STREAM" if broke.by_message else "ENDS_SERVER",
        )

    def _note_progress(self) -> None:
        """Forget what was held against an episode that has got an answer."""
        self._suspicion.clear()
        self._rebuilds_in_a_row = 0
        self.connection.register(self)

    async def _recover(self, event: pb.Event, body: str) -> None:
        """Mend what was wrong, so that the command may be sent again, or raise its error."""
        failure = to_failure(event.error)
        if body not in ("reset", "fork") and self._is_behind(failure):
            if not self._deterministic or self._rebuilds_in_a_row >= _MAX_REBUILDS:
                raise failure
            await self._rebuild()
        elif failure.reason == "DRAINING" and self._reroute is not None:
            other = await self._reroute(self.connection)
            if other is not self.connection:
                failure.retry_after = None  # another server need not be waited for
            await self._patience.wait(event.seq, failure, _DRAIN_WAIT_SECONDS)
            self.connection = other
            self._log_reroute("its server drains")
        elif failure.reason == "CREDITS_EXCEEDED":
            # Commands that were given up still count on the server: no failure but flow control.
            await self._patience.wait(event.seq, failure, _CREDIT_WAIT_SECONDS)
        elif failure.reason == "CAPACITY_EXHAUSTED":
            await self._find_room(event.seq, failure, body)
        else:
            raise failure

    async def _find_room(self, seq: int, failure: EnvironmentFailure, body: str) -> None:
        """Change to a server that has room, or wait for it: others share the server.

        There is some when one of their episodes, or ours, ends.
        """
        full = self.connection
        wait = max(failure.retry_after or 0.0, _ROOM_WAIT_SECONDS)
        full.full_until = time.monotonic() + wait
        if self._reroute is not None and body == "reset":
            self.connection = await self._reroute(full)
        if self.connection is not full:
            full.unregister(self.episode_id)
            self._log_reroute(f"its server {full.address} is full")
            failure.retry_after, wait = None, _DRAIN_WAIT_SECONDS
        await self._patience.wait(seq, failure, wait)

    def _is_behind(self, failure: EnvironmentFailure) -> bool:
        """Tell whether the server knows the episode not at all, or only an older state of it."""
        if failure.reason == "SEQ_GAP":
            expected = failure.metadata.get("expected", "")
            # Of a server that says something else, nothing is known: the error stands.
            return expected.isdecimal() and len(expected) < 20 and int(expected) <= self.seq
        return failure.reason == "EPISODE_NOT_FOUND"

    async def _change_server(self) -> None:
        """Go on with another server; raises ConnectionLost when there is none."""
        lost = self.connection
        lost.unregister(self.episode_id)
        if self._reroute is None or (self.seq >= 0 and not self._deterministic):
            raise ConnectionLost(
                f"the server {lost.address} of episode {self.episode_id} is lost at seq {self.seq}"
            )
        self.connection = await self._reroute(lost)
        self._log_reroute(f"its server {lost.address} is lost")

    def _log_reroute(self, reason: str) -> None:
        log.info(
            "episode rerouted",
            episode_id=self.episode_id,
            seq=self.seq,
            server=self.connection.address,
            reason=reason,
        )

    async def _rebuild(self) -> None:
        """Open the episode again where it was; every state hash is checked.

        May return half-way where the server forgets the episode meanwhile: whatever is sent to it
        next is refused then, and leads to another rebuild.
        """
        self.rebuilds += 1
        self._rebuilds_in_a_row += 1
        log.info(
            "episode rebuilt",
            episode_id=self.episode_id,
            seq=self.seq,
            server=self.connection.address,
            rebuilds=self.rebuilds,
        )
        reset = self._journaled_reset()
        opened = len(reset.journal)
        while (event := await self._exchange(opened, "reset", reset, 0)).HasField("error"):
            await self._recover(event, "reset")
        for seq in range(opened + 1, self.seq + 1):
            if not await self._repeat_step(seq):
                return
        self.connection.register(self)

    def _journaled_reset(self) -> pb.Reset:
        """Return what opens the episode with as much of its journal as one message should have."""
        reset = pb.Reset()
        reset.CopyFrom(self._reset)
        reset.initial_state_hash = self._hashes[0]
        give_back(reset, self._judgements)
        size = 0
        for entry in islice(self._entries(), _MAX_JOURNAL_ENTRIES):
            size += entry.input.ByteSize()
            if size > _MAX_JOURNAL_BYTES:
                break
            reset.journal.append(entry)
        return reset

    def _entries(self) -> Iterator[pb.JournalEntry]:
        for (body, value, action_format), state_hash in zip(
            self._journal, self._hashes[1:], strict=False
        ):
            entry = pb.JournalEntry(state_hash=state_hash)
            if body == "tool_call":
                entry.input.tool_call.CopyFrom(value)
            else:
                setattr(entry.input, body, value)
            entry.input.action_format = action_format  # pyright: ignore[reportAttributeAccessIssue]
            yield entry

    async def _repeat_step(self, seq: int) -> bool:
        """Play a step of the journal again; False = the server no longer knows the episode."""
        body, value, action_format = self._journal[seq - 1]
        while (event := await self._exchange(seq, body, value, action_format)).HasField("error"):
            if self._is_behind(to_failure(event.error)):
                return False
            await self._recover(event, body)
        self._require_same_state(seq, event)
        return True

    def _require_same_state(self, seq: int, event: pb.Event) -> None:
        """Raise EnvironmentFailure where a step of the journal led elsewhere."""
        if event.state_hash != self._hashes[seq]:
            raise EnvironmentFailure(
                f"the rebuild of episode {self.episode_id} diverged at seq {seq}",
                reason="REPLAY_DIVERGED",
                fault=types_pb2.FAULT_ENVIRONMENT,
                retriable=False,
                metadata={"at_seq": str(seq)},
            )


def _to_input(played: types_pb2.ActionInput) -> tuple[str, Any, int]:
    """Return an input as a journal holds it: its kind, its value, and how it is read."""
    kind = played.WhichOneof("input")
    assert kind is not None, "only a reset has none"
    return kind, getattr(played, kind), played.action_format
