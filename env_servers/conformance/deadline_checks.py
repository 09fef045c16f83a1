"""Rules of commands that take time: deadlines, cancellation, busy episodes, closing.

They need a step that is slow on request and a server that does not execute it inline; on a server
that does, the step is simply done and there is nothing to check.
"""

from __future__ import annotations

from typing import Final

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.harness import Harness, Play
from env_servers.conformance.verdicts import (
    expect,
    expect_equal,
    expect_error,
    expect_observation,
)

__all__ = ["CHECKS"]

_SLOW_MS: Final = 400


async def deadlines_are_kept(harness: Harness) -> None:
    """A step past its deadline is DEADLINE_EXCEEDED; sent again, it gives its one result."""
    play = await _slow(harness)
    step = play.command(1, action="slowly")
    step.deadline_ms = 50
    first = await play.stream.ask(step)
    expect_error(first, "DEADLINE_EXCEEDED", retriable="true", may_have_been_applied="true")
    step.deadline_ms = 0
    event = expect_observation(await play.stream.ask(step))
    expect("Step 1," in event.observation, "the step was applied more than once")
    await play.must_be_at(1)


async def deadlines_hold_for_resets(harness: Harness) -> None:
    """A reset whose deadline passes can be sent again and opens one episode."""
    play = await _slow(harness)
    await play.step("one")
    command = harness.reset(sleep_ms=_SLOW_MS)
    command.seq = 1
    command.deadline_ms = 50
    command.reset.journal.add().input.action = "one"
    event = await play.stream.ask(command)
    expect_error(event, "DEADLINE_EXCEEDED", may_have_been_applied="true")
    command.deadline_ms = 0
    event = expect_observation(await play.stream.ask(command))
    expect_equal(event.seq, 1, "seq of the reset that was sent again")


async def cancel_answers_both(harness: Harness) -> None:
    """Cancel ends the step in flight with CANCELLED; sent again, it gives its one result."""
    play = await _slow(harness)
    step, cancel = play.command(1, action="slowly"), play.command(1, cancel=pb.Cancel())
    await play.stream.send(step, cancel)
    events = [await play.stream.answer(step), await play.stream.answer(step)]
    cancelled = [event for event in events if event.HasField("cancelled")]
    expect_equal(len(cancelled), 1, "the number of Cancelled events")
    expect(cancelled[0].cancelled.found, "cancel did not find the step")
    errors = [event for event in events if event.HasField("error")]
    expect_equal(len(errors), 1, "the number of answers to the cancelled step")
    expect_error(errors[0], "CANCELLED", retriable="true", may_have_been_applied="true")
    event = expect_observation(await play.stream.ask(step))
    expect("Step 1," in event.observation, "the step was applied more than once")


async def nothing_to_cancel_is_no_error(harness: Harness) -> None:
    """Cancel with nothing in flight at that seq says found = false."""
    play = await harness.play()
    for seq in (0, 1, 9):
        event = await play.ask(seq, cancel=pb.Cancel())
        expect(event.HasField("cancelled"), f"{event.WhichOneof('body')} instead of cancelled")
        expect(not event.cancelled.found, "something was found to cancel")


async def busy_episodes_say_so(harness: Harness) -> None:
    """While a step executes, the same one joins it and any other is EPISODE_BUSY or a conflict."""
    play = await _slow(harness)
    await play.stream.send(play.command(1, action="slowly"))
    second_stream = await harness.open_stream()
    attached = await second_stream.ask(play.command(70, attach=pb.Attach(last_seq_seen=0)))
    expect(attached.attached.in_flight, "attach does not see the step in flight")
    busy = await second_stream.ask(play.command(2, action="the next already"))
    expect_error(busy, "EPISODE_BUSY", retriable="true", in_flight="1")
    expect_error(await second_stream.ask(play.command(1, action="another")), "SEQ_CONFLICT")
    consult = play.command(0, consult=pb.Consult(advisor=pb.ADVISOR_NOOP))
    expect_error(await second_stream.ask(consult), "EPISODE_BUSY", in_flight="1")
    fork = pb.Fork(from_episode_id=play.episode_id)
    command = pb.Command(episode_id=harness.fresh_id(), seq=0, fork=fork)
    expect_error(await second_stream.ask(command), "EPISODE_BUSY", in_flight="1")
    joined = expect_observation(await second_stream.ask(play.command(1, action="slowly")))
    expect("Step 1," in joined.observation, "the step was applied more than once")
    expect_observation(await play.stream.answer(play.command(1)))


async def lost_streams_do_not_cancel(harness: Harness) -> None:
    """A step whose stream is lost goes on; whoever sends it again gets its one result."""
    play = await _slow(harness)
    step = play.command(1, action="slowly")
    await play.stream.send(step, play.command(50, heartbeat=pb.Heartbeat()))
    await play.stream.answer(play.command(50))
    await play.stream.drop()
    play.stream = await harness.open_stream()
    event = expect_observation(await play.stream.ask(step))
    expect("Step 1," in event.observation, "the step was applied more than once")
    await play.must_be_at(1)


async def closing_answers_what_is_in_flight(harness: Harness) -> None:
    """Close while a step executes answers the step with CANCELLED and ends the episode."""
    play = await _slow(harness)
    step = play.command(1, action="slowly")
    await play.stream.send(step, play.command(60, close=pb.Close()))
    closed = await play.stream.answer(play.command(60))
    expect(closed.closed.found, "close did not find the episode")
    answer = await play.stream.answer(step)
    expect_error(answer, "CANCELLED", may_have_been_applied="true")
    expect_error(await play.stream.ask(step), "EPISODE_NOT_FOUND")


async def _slow(harness: Harness) -> Play:
    await harness.require_observable_steps()
    return await harness.play(sleep_ms=_SLOW_MS)


CHECKS: Final = (
    ("R30.1", deadlines_are_kept),
    ("R30.2", deadlines_hold_for_resets),
    ("R31.1", cancel_answers_both),
    ("R31.2", nothing_to_cancel_is_no_error),
    ("R32.1", busy_episodes_say_so),
    ("R32.2", lost_streams_do_not_cancel),
    ("R33.1", closing_answers_what_is_in_flight),
)
