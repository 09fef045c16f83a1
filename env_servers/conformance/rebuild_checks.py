"""Rules of determinism: equal journals, equal states; rebuilding and forking."""

from __future__ import annotations

from typing import Final

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.harness import Harness, Play
from env_servers.conformance.verdicts import expect_equal, expect_error, expect_observation

__all__ = ["CHECKS"]


async def equal_journals_give_equal_states(harness: Harness) -> None:
    """Two episodes with the same reset and actions agree in every event."""
    harness.require(pb.CAPABILITY_DETERMINISTIC)
    first, second = await harness.play(), await harness.play()
    for _ in range(3):
        if first.ended:
            break
        event = await first.step()
        twin = await second.step(first.actions[-1])
        twin.episode_id = event.episode_id
        expect_equal(twin, event, f"the twin's event of seq {event.seq}")
    expect_equal(second.events[0].state_hash, first.events[0].state_hash, "the first state_hash")


async def journals_rebuild_episodes(harness: Harness) -> None:
    """A reset with a journal opens at its end, proves every hash, and goes on as before."""
    harness.require(pb.CAPABILITY_DETERMINISTIC)
    play = await harness.play()
    await play.steps(3)
    rebuilt = Play(harness, play.stream, harness.fresh_id())
    event = expect_observation(await play.stream.ask(_journal(play, rebuilt.episode_id)))
    expect_equal(event.seq, play.seq, "seq of the rebuilt episode's event")
    expect_equal(event.state_hash, play.events[-1].state_hash, "state_hash after the rebuild")
    expect_equal(event.observation, play.events[-1].observation, "the observation of the rebuild")
    if not play.ended:
        expected = await play.step()
        event = await rebuilt.ask(expected.seq, action=play.actions[-1])
        expect_equal(event.state_hash, expected.state_hash, "the state_hash of the next step")
    again = await play.stream.ask(_journal(play, rebuilt.episode_id, play.seq))
    expect_observation(again, replayed=True)


async def rebuilt_episodes_answer_old_steps(harness: Harness) -> None:
    """The steps of the journal count as done: sent again, they are replayed."""
    harness.require(pb.CAPABILITY_DETERMINISTIC)
    play = await harness.play()
    await play.steps(2)
    rebuilt = Play(harness, play.stream, harness.fresh_id())
    expect_observation(await play.stream.ask(_journal(play, rebuilt.episode_id)))
    again = await rebuilt.ask(play.seq, action=play.actions[-1])
    expect_observation(again, replayed=True)


async def wrong_hashes_are_refused(harness: Harness) -> None:
    """A journal that leads to another state_hash is REPLAY_DIVERGED; no episode is opened."""
    harness.require(pb.CAPABILITY_DETERMINISTIC)
    play = await harness.play()
    await play.steps(2)
    for wrong_at in range(play.seq + 1):
        command = _journal(play, harness.fresh_id())
        if wrong_at:
            command.reset.journal[wrong_at - 1].state_hash = b"\0" * 8
        else:
            command.reset.initial_state_hash = b"\0" * 8
        error = await play.stream.ask(command)
        expect_error(error, "REPLAY_DIVERGED", at_seq=str(wrong_at), fault="ENVIRONMENT")
        step = pb.Command(episode_id=command.episode_id, seq=play.seq + 1, action="hello?")
        expect_error(await play.stream.ask(step), "EPISODE_NOT_FOUND")


async def diverging_environments_are_caught(harness: Harness) -> None:
    """An environment that is not as deterministic as it says fails its rebuild loudly."""
    harness.require_echo()
    play = await harness.play(diverge=True)
    await play.steps(2)
    # Worker processes may have answered equally often so far; not after a few rebuilds.
    event = pb.Event()
    for _ in range(8):
        event = await play.stream.ask(_journal(play, harness.fresh_id()))
        if event.HasField("error"):
            break
    expect_error(event, "REPLAY_DIVERGED", "at_seq")


async def journals_fit_their_seq(harness: Harness) -> None:
    """A reset's seq is the number of its journal entries, and every entry has an input."""
    play = await harness.play()
    bare = harness.reset()
    bare.seq = 1
    expect_error(await play.stream.ask(bare), "INVALID_ARGUMENT", field="seq")
    if harness.deterministic:
        empty = harness.reset()
        empty.seq = 1
        empty.reset.journal.add()
        expect_error(await play.stream.ask(empty), "INVALID_ARGUMENT", field="journal")


async def longer_journals_replace_stale_episodes(harness: Harness) -> None:
    """A journal that continues what a server still knows replaces the stale episode."""
    harness.require(pb.CAPABILITY_DETERMINISTIC)
    stale = await harness.play()
    await stale.step()
    ahead = await harness.play()
    await ahead.step(stale.actions[0])
    await ahead.steps(2)
    command = _journal(ahead, stale.episode_id)
    event = expect_observation(await stale.stream.ask(command))
    expect_equal(event.state_hash, ahead.events[-1].state_hash, "state_hash after the rebuild")


async def rebuilds_may_be_sent_in_parts(harness: Harness) -> None:
    """A beginning of the journal opens the episode; the rest, sent as steps, leads where it was."""
    harness.require(pb.CAPABILITY_DETERMINISTIC)
    play = await harness.play(**harness.length(0))
    await play.steps(4)
    command = _journal(play, harness.fresh_id(), 2)
    del command.reset.journal[2:]
    event = expect_observation(await play.stream.ask(command))
    expect_equal(event.state_hash, play.events[2].state_hash, "state_hash after the first part")
    for seq in range(3, play.seq + 1):
        step = pb.Command(episode_id=command.episode_id, seq=seq, action=play.actions[seq - 1])
        event = expect_observation(await play.stream.ask(step), replayed=False)
        expect_equal(event.state_hash, play.events[seq].state_hash, f"state_hash at seq {seq}")


async def forks_copy_the_present(harness: Harness) -> None:
    """A fork at the current seq is in the same state and independent from then on."""
    harness.require(pb.CAPABILITY_FORK)
    play = await harness.play(**harness.length(0))
    await play.steps(2)
    copy = Play(harness, play.stream, harness.fresh_id())
    event = expect_observation(await play.stream.ask(_fork(play, copy.episode_id, play.seq)))
    expect_equal(event.seq, play.seq, "seq of the fork's event")
    expect_equal(event.observation, play.events[-1].observation, "the fork's observation")
    expect_equal(event.state_hash, play.events[-1].state_hash, "the fork's state_hash")
    again = await play.stream.ask(_fork(play, copy.episode_id, play.seq))
    expect_observation(again, replayed=True)
    if play.ended:
        return
    action = await play.advised()
    moved = await copy.ask(play.seq + 1, action=action)
    expect_observation(moved)
    await play.must_be_at(play.seq)
    own = await play.step(action)
    expect_equal(moved.state_hash, own.state_hash, "state_hash of the same action in both")
    await copy.ask(close=pb.Close())
    await play.must_be_at(play.seq)


async def forks_copy_the_past(harness: Harness) -> None:
    """A fork at an earlier seq opens there, and its own past counts as done."""
    harness.require(pb.CAPABILITY_FORK)
    harness.require(pb.CAPABILITY_DETERMINISTIC)
    play = await harness.play(**harness.length(0))
    await play.steps(3)
    for seq in range(play.seq):
        copy = Play(harness, play.stream, harness.fresh_id())
        event = expect_observation(await play.stream.ask(_fork(play, copy.episode_id, seq)))
        expect_equal(event.seq, seq, "seq of the fork's event")
        expect_equal(event.state_hash, play.events[seq].state_hash, "the fork's state_hash")
        step = await copy.ask(seq + 1, action=play.actions[seq])
        expect_equal(step.state_hash, play.events[seq + 1].state_hash, "the fork's next state")


async def forks_need_a_source(harness: Harness) -> None:
    """A fork needs a live source that has reached its seq, and an id that is free."""
    harness.require(pb.CAPABILITY_FORK)
    play = await harness.play()
    error = await play.stream.ask(_fork(play, harness.fresh_id(), 5))
    expect_error(error, "SEQ_GAP", expected="0")
    nobody = Play(harness, play.stream, harness.fresh_id())
    expect_error(await play.stream.ask(_fork(nobody, harness.fresh_id(), 0)), "EPISODE_NOT_FOUND")
    live = await harness.play(play.stream)
    expect_error(await play.stream.ask(_fork(play, live.episode_id, 0)), "SEQ_CONFLICT")


def _fork(play: Play, episode_id: str, seq: int) -> pb.Command:
    fork = pb.Fork(from_episode_id=play.episode_id)
    return pb.Command(episode_id=episode_id, seq=seq, fork=fork)


def _journal(play: Play, episode_id: str, seq: int | None = None) -> pb.Command:
    """The command that rebuilds an episode under another id, with all its hashes."""
    command = pb.Command()
    command.CopyFrom(play.open_command)
    command.episode_id = episode_id
    command.seq = play.seq if seq is None else seq
    command.reset.initial_state_hash = play.events[0].state_hash
    for action, event in zip(play.actions, play.events[1:], strict=True):
        command.reset.journal.add(state_hash=event.state_hash).input.action = action
    return command


CHECKS: Final = (
    ("R25.1", equal_journals_give_equal_states),
    ("R26.1", journals_rebuild_episodes),
    ("R26.2", rebuilt_episodes_answer_old_steps),
    ("R26.3", journals_fit_their_seq),
    ("R26.4", longer_journals_replace_stale_episodes),
    ("R27.1", wrong_hashes_are_refused),
    ("R27.2", diverging_environments_are_caught),
    ("R28.1", forks_copy_the_present),
    ("R28.2", forks_copy_the_past),
    ("R29.1", forks_need_a_source),
    ("R51.1", rebuilds_may_be_sent_in_parts),
)
