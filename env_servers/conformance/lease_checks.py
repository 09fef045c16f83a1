"""Rules of leases: streams come and go, episodes stay as long as they are wanted."""

from __future__ import annotations

import asyncio
from typing import Final

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.harness import Harness, Play
from env_servers.conformance.stream_client import StreamClient
from env_servers.conformance.verdicts import (
    expect,
    expect_equal,
    expect_error,
    expect_observation,
)

__all__ = ["CHECKS"]

_SHORT_LEASE_MS: Final = 300
_PATIENCE_SECONDS: Final = 15.0


async def lost_streams_lose_nothing(harness: Harness) -> None:
    """After a lost stream the episode goes on where it was, on any other stream."""
    play = await harness.play()
    await play.steps(2)
    if play.ended:
        play = await harness.play()
    await play.stream.drop()
    play.stream = await harness.open_stream()
    await play.must_be_at(play.seq)
    event = await play.step()
    expect_equal(event.seq, play.seq, "seq of the next step")


async def attach_replays_what_was_missed(harness: Harness) -> None:
    """Attach sends exactly the events after last_seq_seen, marked replayed, before its own."""
    cache_size = harness.described.limits.response_cache_events
    play = await harness.play()
    await play.steps(min(3, cache_size - 1))
    await play.stream.drop()
    for last_seen in range(-1, play.seq + 1):
        stream = await harness.open_stream()
        await stream.send(play.command(99, attach=pb.Attach(last_seq_seen=last_seen)))
        await _expect_missed(stream, play, last_seen)


async def _expect_missed(stream: StreamClient, play: Play, last_seen: int) -> None:
    for expected in play.events[last_seen + 1 :]:
        event = await stream.take(lambda event: True, f"the event of seq {expected.seq}")
        expect_observation(event, replayed=True)
        event.replayed = False
        expect_equal(event, expected, f"the event of seq {expected.seq}, attached")
    own = await stream.take(lambda event: True, "the answer to attach")
    expect(own.HasField("attached"), f"{own.WhichOneof('body')} instead of attached")
    expect_equal(own.seq, 99, "seq of the answer to attach")
    expect_equal(own.attached.current_seq, play.seq, "current_seq")
    expect(not own.attached.in_flight, "in_flight though nothing executes")
    expect(own.attached.lease_ms > 0, "lease_ms is 0")


async def attach_beyond_the_state_is_a_gap(harness: Harness) -> None:
    """Attach with a last_seq_seen that the episode never reached is SEQ_GAP."""
    play = await harness.play()
    metadata = await play.refused("SEQ_GAP", "expected", attach=pb.Attach(last_seq_seen=5))
    expect_equal(metadata["expected"], "0", "metadata expected")


async def leases_run_out(harness: Harness) -> None:
    """An episode whose stream is lost ends when its lease runs out, not before."""
    short = await _with_lease(harness, _SHORT_LEASE_MS)
    long = await _with_lease(harness, 60_000)
    await short.stream.drop()
    await long.stream.drop()
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while await harness.summary(short.episode_id) is not None:
            await asyncio.sleep(0.1)
    stream = await harness.open_stream()
    expect_error(await stream.ask(short.command(1, action="late")), "EPISODE_NOT_FOUND")
    expect(await harness.summary(long.episode_id) is not None, "a long lease ran out early")


async def attached_episodes_outlive_their_lease(harness: Harness) -> None:
    """The lease clock runs only while no stream holds the episode."""
    attached = await _with_lease(harness, _SHORT_LEASE_MS)
    lost = await _with_lease(harness, _SHORT_LEASE_MS)
    await lost.stream.drop()
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while await harness.summary(lost.episode_id) is not None:
            await asyncio.sleep(0.1)
    summary = await harness.summary(attached.episode_id)
    expect(summary is not None and summary.attached, "an attached episode is gone")
    await attached.step()


async def heartbeats_tell_the_lease(harness: Harness) -> None:
    """A heartbeat answers with the lease; a lease is at most limits.max_lease_ms."""
    limits = harness.described.limits
    wishes = {0: limits.default_lease_ms, 5_000: 5_000, 2**32 - 1: limits.max_lease_ms}
    for requested, granted in wishes.items():
        play = await _with_lease(harness, requested)
        event = await play.ask(heartbeat=pb.Heartbeat())
        expect(event.HasField("lease_extended"), f"{event.WhichOneof('body')} for a heartbeat")
        expect_equal(
            event.lease_extended.lease_ms, granted, f"the lease when {requested} was asked"
        )


async def any_stream_takes_over(harness: Harness) -> None:
    """A command on another stream takes the episode over; the first stream's end is no loss."""
    play = await harness.play()
    first = play.stream
    play.stream = await harness.open_stream()
    await play.step()
    await first.drop()
    await asyncio.sleep(0.1)
    summary = await harness.summary(play.episode_id)
    expect(summary is not None and summary.attached, "the losing stream took the episode along")
    await play.step()


async def _with_lease(harness: Harness, lease_ms: int) -> Play:
    play = Play(harness, await harness.open_stream(), harness.fresh_id())
    command = harness.reset(play.episode_id)
    command.reset.lease_ms = lease_ms
    await play.open(command)
    return play


CHECKS: Final = (
    ("R20.1", lost_streams_lose_nothing),
    ("R21.1", attach_replays_what_was_missed),
    ("R21.2", attach_beyond_the_state_is_a_gap),
    ("R22.1", leases_run_out),
    ("R22.2", attached_episodes_outlive_their_lease),
    ("R23.1", heartbeats_tell_the_lease),
    ("R24.1", any_stream_takes_over),
)
