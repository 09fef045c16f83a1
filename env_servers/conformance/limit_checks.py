"""Rules of what is refused: credits, sizes, unknown names, and how errors look."""

from __future__ import annotations

import asyncio
from typing import Final

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.conformance.harness import MAX_PROBED_EPISODES, Harness, NotApplicable
from env_servers.conformance.verdicts import (
    expect,
    expect_equal,
    expect_error,
    expect_observation,
)

__all__ = ["CHECKS"]

_MAX_PROBED_CREDITS: Final = 128
_MAX_PROBED_BYTES: Final = 64 * 1024 * 1024
_MAX_PROBED_JOURNAL: Final = 16 * 1024 * 1024
_MAX_PROBED_IDLE_MS: Final = 3_000


async def credits_are_enforced(harness: Harness) -> None:
    """Commands beyond the credits are CREDITS_EXCEEDED with a RetryInfo; the others go on."""
    await harness.require_observable_steps()
    allowed = harness.described.limits.max_in_flight
    if allowed > _MAX_PROBED_CREDITS:
        raise NotApplicable(
            f"{allowed} credits are too many to exhaust politely: a server with at most "
            f"{_MAX_PROBED_CREDITS} (limits.max_in_flight) can be checked"
        )
    limits = harness.described.limits
    if allowed >= min(limits.max_episodes, limits.max_episodes_per_client or allowed + 1):
        raise NotApplicable(f"one client may not open the {allowed + 1} episodes that this needs")
    stream = await harness.open_stream()
    ids = [harness.fresh_id() for _ in range(allowed + 1)]
    for episode_id in ids:
        expect_observation(await stream.ask(harness.reset(episode_id, sleep_ms=150)))
    steps = [pb.Command(episode_id=i, seq=1, action="slowly") for i in ids]
    control = pb.Command(episode_id=ids[0], seq=40, heartbeat=pb.Heartbeat())
    await stream.send(*steps, control)
    expect((await stream.answer(control)).HasField("lease_extended"), "a heartbeat needed credit")
    events = [await stream.answer(step) for step in steps]
    refused = [event for event in events if event.HasField("error")]
    expect_equal(len(refused), 1, f"refusals of {allowed + 1} commands with {allowed} credits")
    expect_error(refused[0], "CREDITS_EXCEEDED", retriable="true")
    expect_equal(len(refused[0].error.details), 2, "details (ErrorInfo and RetryInfo)")
    expect_observation(await stream.ask(steps[-1]))


async def texts_have_a_limit(harness: Harness) -> None:
    """A text beyond limits.max_text_bytes is TEXT_TOO_LONG; the episode goes on."""
    limit = harness.described.limits.max_text_bytes
    expect(limit > 0, "limits.max_text_bytes is 0")
    if limit > _MAX_PROBED_BYTES:
        raise NotApplicable(
            f"{limit} bytes are too many to send: a server with at most {_MAX_PROBED_BYTES} "
            "(limits.max_text_bytes) can be checked"
        )
    play = await harness.play()
    long = "x" * (limit + 1)
    call = types_pb2.ToolCall(name="f", arguments_json=long)
    for body in ({"action": long}, {"reply": long}, {"tool_call": call}):
        metadata = await play.refused("TEXT_TOO_LONG", "limit", seq=1, **body)
        expect_equal(metadata["limit"], str(limit), "metadata limit")
    wide = "\u00e9" * (limit // 2 + 1)
    await play.refused("TEXT_TOO_LONG", seq=1, action=wide)
    await play.step()


async def episode_ids_have_a_size(harness: Harness) -> None:
    """A reset needs an episode_id of 1 to 128 bytes."""
    stream = await harness.open_stream()
    for bad in ("", "x" * 129, "\u00e9" * 65):
        command = harness.reset("placeholder")
        command.episode_id = bad
        expect_error(await stream.ask(command), "INVALID_ARGUMENT", field="episode_id")
    fits = harness.fresh_id()
    fits += "x" * (128 - len(fits))
    expect_observation(await stream.ask(harness.reset(fits)))
    await stream.ask(pb.Command(episode_id=fits, close=pb.Close()))


async def unknown_verbs_are_refused_alone(harness: Harness) -> None:
    """A command without a known body is UNSUPPORTED_VERB; the stream goes on."""
    play = await harness.play()
    metadata = await play.refused("UNSUPPORTED_VERB", seq=1)
    expect_equal(metadata["fault"], "AGENT", "metadata fault")
    raw = await harness.open_raw_stream()
    command = pb.Command(episode_id=play.episode_id, seq=3).SerializeToString()
    future_verb = b"\xca\x3e\x00"  # field 1001, an empty message
    body = command + future_verb
    await raw.write_bytes(b"\x0a" + bytes([len(body)]) + body)
    expect_error(await raw.answer(play.command(3)), "UNSUPPORTED_VERB")
    await play.step()


async def unknown_names_tell_the_valid_ones(harness: Harness) -> None:
    """Unknown environments, items, profiles, options and formats are refused with `valid`."""
    stream = await harness.open_stream()

    def reset(**fields: object) -> pb.Command:
        command = harness.reset()
        for name, value in fields.items():
            setattr(command.reset, name, value)
        return command

    wrong = {
        "UNKNOWN_ENVIRONMENT": [reset(environment="no-such-environment")],
        "UNKNOWN_ITEM": [reset(item_id="nosuch_1"), reset(item_id="999999999999")],
        "UNKNOWN_OPTION": [reset(profile="no such profile"), harness.reset(no_such_option=1)],
        "UNSUPPORTED_ACTION_FORMAT": [reset(action_format=77)],
    }
    for reason, commands in wrong.items():
        for command in commands:
            expect_error(
                await stream.ask(command), reason, "valid", fault="AGENT", retriable="false"
            )
            step = pb.Command(episode_id=command.episode_id, seq=1, action="hello?")
            expect_error(await stream.ask(step), "EPISODE_NOT_FOUND")


async def unknown_formats_spare_the_episode(harness: Harness) -> None:
    """A reply in an unknown action format is refused; the episode goes on."""
    play = await harness.play()
    step = play.command(1, reply="hello", action_format=77)
    expect_error(await play.stream.ask(step), "UNSUPPORTED_ACTION_FORMAT", "valid")
    await play.step()


async def options_are_json(harness: Harness) -> None:
    """Options that JSON cannot say are INVALID_ARGUMENT."""
    stream = await harness.open_stream()
    for number in (float("nan"), float("inf")):
        error = await stream.ask(harness.reset(length=number))
        expect_error(error, "INVALID_ARGUMENT", field="options")


async def long_journals_end_their_episode_alone(harness: Harness) -> None:
    """Inputs beyond limits.max_journal_bytes are TEXT_TOO_LONG; other episodes go on."""
    harness.require_echo()
    limits = harness.described.limits
    if not limits.max_journal_bytes:
        raise NotApplicable("limits.max_journal_bytes is 0: there is no bound")
    if limits.max_journal_bytes > _MAX_PROBED_JOURNAL:
        raise NotApplicable(
            f"{limits.max_journal_bytes} bytes are too many to send: a server with at most "
            f"{_MAX_PROBED_JOURNAL} (limits.max_journal_bytes) can be checked"
        )
    play = await harness.play(length=0)
    neighbour = await harness.play(play.stream, length=0)
    text = "x" * min(limits.max_text_bytes, limits.max_journal_bytes // 4)
    event = pb.Event()
    for seq in range(1, limits.max_journal_bytes // len(text) + 3):
        event = await play.ask(seq, action=text)
        if event.HasField("error"):
            break
    metadata = expect_error(event, "TEXT_TOO_LONG", "limit", fault="AGENT", retriable="false")
    expect_equal(metadata["limit"], str(limits.max_journal_bytes), "metadata limit")
    await neighbour.steps(2)


async def others_leave_a_client_its_share(harness: Harness) -> None:
    """A client beside another one gets its part; the other's open episodes go on."""
    capacity = harness.described.limits.max_episodes
    if capacity > MAX_PROBED_EPISODES:
        raise NotApplicable(
            f"{capacity} episodes are too many to open: a server with at most "
            f"{MAX_PROBED_EPISODES} (limits.max_episodes) can be checked"
        )
    async with Harness(harness.target) as other, other.cleanup():
        mine, theirs = await harness.open_stream(), await other.open_stream()
        first = other.reset()
        expect_observation(await theirs.ask(first))
        opened: list[str] = []
        refused = pb.Event()
        for _ in range(capacity + 1):
            command = harness.reset()
            refused = await mine.ask(command)
            if refused.HasField("error"):
                break
            opened.append(command.episode_id)
        expect_error(refused, "CAPACITY_EXHAUSTED", "share", retriable="true")
        expect_equal(len(refused.error.details), 2, "details (ErrorInfo and RetryInfo)")
        while len(opened) < capacity:
            event = await theirs.ask(other.reset())
            if event.HasField("error"):
                break
            opened.append("theirs")
        expect(opened.count("theirs") >= capacity // 2 - 1, "the other client lacks its part")


async def unused_episodes_end_and_say_why(harness: Harness) -> None:
    """An episode that no command names for limits.idle_limit_ms ends; `cause` says so."""
    limit = harness.described.limits.idle_limit_ms
    if not 0 < limit <= _MAX_PROBED_IDLE_MS:
        raise NotApplicable(
            f"{limit} ms are too long to wait (0 = never): a server with at most "
            f"{_MAX_PROBED_IDLE_MS} (limits.idle_limit_ms) can be checked"
        )
    stream = await harness.open_stream()
    unused, used = await harness.play(stream), await harness.play(stream)
    for _ in range(12):
        await asyncio.sleep(limit / 4000)
        await used.ask(heartbeat=pb.Heartbeat())
    await asyncio.sleep(1.0)
    expect(
        (await used.ask(heartbeat=pb.Heartbeat())).HasField("lease_extended"), "a used one ended"
    )
    metadata = await unused.refused("EPISODE_NOT_FOUND", "cause", seq=1, action="late")
    expect_equal(metadata["cause"], "IDLE", "metadata cause")


async def forks_outlive_what_they_share(harness: Harness) -> None:
    """A fork goes on, and can be forked, after its source was closed."""
    harness.require(pb.CAPABILITY_FORK)
    play = await harness.play(**harness.length(0))
    await play.steps(3)
    fork = pb.Fork(from_episode_id=play.episode_id)
    copy, second = harness.fresh_id(), harness.fresh_id()
    at = play.seq
    expect_observation(await play.stream.ask(pb.Command(episode_id=copy, seq=at, fork=fork)))
    await play.ask(close=pb.Close())
    fork = pb.Fork(from_episode_id=copy)
    event = await play.stream.ask(pb.Command(episode_id=second, seq=at, fork=fork))
    expect_equal(event.state_hash, play.events[at].state_hash, "the state of a fork of a fork")
    for episode_id in (copy, second):
        wrong = pb.Command(episode_id=episode_id, seq=1, action="another past")
        expect_error(await play.stream.ask(wrong), "SEQ_CONFLICT")


CHECKS: Final = (
    ("R34.1", credits_are_enforced),
    ("R35.1", texts_have_a_limit),
    ("R36.1", episode_ids_have_a_size),
    ("R37.1", unknown_verbs_are_refused_alone),
    ("R38.1", unknown_names_tell_the_valid_ones),
    ("R38.2", unknown_formats_spare_the_episode),
    ("R38.3", options_are_json),
    ("R55.1", long_journals_end_their_episode_alone),
    ("R57.1", unused_episodes_end_and_say_why),
    ("R58.1", others_leave_a_client_its_share),
    ("R59.1", forks_outlive_what_they_share),
)
