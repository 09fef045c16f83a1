"""Rules of idempotency: (episode_id, seq) names a command once and for all."""

from __future__ import annotations

from typing import Final

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.harness import Harness, NotApplicable
from env_servers.conformance.verdicts import (
    expect,
    expect_equal,
    expect_error,
    expect_observation,
)

__all__ = ["CHECKS"]


async def same_command_same_event(harness: Harness) -> None:
    """The same seq with the same body gives the same event again, marked replayed."""
    play = await harness.play()
    first = await play.step()
    again = expect_observation(await play.ask(1, action=play.actions[0]), replayed=True)
    again.replayed = False
    expect_equal(again, first, "the replayed event")
    await play.must_be_at(1)


async def same_reset_same_event(harness: Harness) -> None:
    """The same reset again gives the first observation again, also after a step."""
    play = await harness.play()
    for _ in range(2):
        again = expect_observation(await play.stream.ask(play.open_command), replayed=True)
        again.replayed = False
        expect_equal(again, play.events[0], "the replayed reset")
        await play.steps(1)


async def other_body_conflicts(harness: Harness) -> None:
    """The same seq with another body is SEQ_CONFLICT and changes nothing."""
    play = await harness.play()
    await play.step()
    await play.refused("SEQ_CONFLICT", seq=1, action=play.actions[0] + " differently")
    await play.refused("SEQ_CONFLICT", seq=1, reply=play.actions[0])
    await play.must_be_at(1)


async def other_reset_conflicts(harness: Harness) -> None:
    """Another reset under the id of a live episode is SEQ_CONFLICT."""
    play = await harness.play()
    conflicting = pb.Command()
    conflicting.CopyFrom(play.open_command)
    conflicting.reset.seed = 4711
    expect_error(await play.stream.ask(conflicting), "SEQ_CONFLICT")
    await play.must_be_at(0)


async def gaps_are_refused(harness: Harness) -> None:
    """A seq beyond the next is SEQ_GAP and tells the one that is expected."""
    play = await harness.play()
    for seq in (2, 3, 2**63):
        metadata = await play.refused("SEQ_GAP", "expected", seq=seq, action="too far")
        expect_equal(metadata["expected"], "1", "metadata expected")
    await play.refused("SEQ_GAP", "expected", seq=0, action="a reset cannot be an action")
    await play.step()


async def unknown_episodes_are_not_found(harness: Harness) -> None:
    """A step of an episode that is not live is EPISODE_NOT_FOUND."""
    stream = await harness.open_stream()
    command = pb.Command(episode_id=harness.fresh_id(), seq=1, action="hello?")
    metadata = expect_error(await stream.ask(command), "EPISODE_NOT_FOUND", "journal_replayable")
    expect(metadata["journal_replayable"] in ("true", "false"), "journal_replayable is no flag")


async def old_answers_are_evicted(harness: Harness) -> None:
    """An answer that has left the bounded cache is RESPONSE_EVICTED, and nothing happens twice."""
    cache_size = harness.described.limits.response_cache_events
    expect(cache_size >= 1, "limits.response_cache_events is 0: no answer could ever be repeated")
    play = await harness.play(**harness.length(0))
    await play.steps(cache_size + 1)
    if play.seq < cache_size + 1:
        raise NotApplicable(
            f"the episode ended after {play.seq} steps, the cache holds {cache_size}"
        )
    metadata = await play.refused("RESPONSE_EVICTED", "oldest", seq=1, action=play.actions[0])
    expect_equal(metadata["oldest"], str(play.seq - cache_size + 1), "metadata oldest")
    oldest = play.seq - cache_size + 1
    again = await play.ask(oldest, action=play.actions[oldest - 1])
    expect_observation(again, replayed=True)
    await play.refused("SEQ_CONFLICT", seq=1, action=play.actions[0] + "!")
    await play.must_be_at(play.seq)


async def two_streams_open_one_episode(harness: Harness) -> None:
    """The same reset sent on two streams at once opens one episode; both are answered."""
    one, other = await harness.open_stream(), await harness.open_stream()
    command = harness.reset()
    await one.send(command)
    await other.send(command)
    first = expect_observation(await one.answer(command))
    second = expect_observation(await other.answer(command))
    expect_equal(second.observation, first.observation, "the second stream's observation")
    if harness.deterministic:
        expect_equal(second.state_hash, first.state_hash, "the second stream's state_hash")


CHECKS: Final = (
    ("R14.1", same_command_same_event),
    ("R14.2", same_reset_same_event),
    ("R15.1", other_body_conflicts),
    ("R15.2", other_reset_conflicts),
    ("R16.1", gaps_are_refused),
    ("R17.1", unknown_episodes_are_not_found),
    ("R18.1", old_answers_are_evicted),
    ("R19.1", two_streams_open_one_episode),
)
