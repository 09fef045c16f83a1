"""Rules of the stream itself: credits, one answer per command, coalescing, its end."""

from __future__ import annotations

from typing import Final

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.harness import Harness, NotApplicable
from env_servers.conformance.verdicts import expect, expect_equal, expect_observation

__all__ = ["CHECKS"]


async def credits_come_first(harness: Harness) -> None:
    """The first event of a stream tells how many commands may be in flight."""
    stream = await harness.open_stream(credits_first=False)
    first = await stream.take(lambda event: True, "the first event")
    expect(first.HasField("credits"), f"the first event is {first.WhichOneof('body')}")
    expect_equal(first.episode_id, "", "episode_id of Credits")
    expect_equal(
        first.credits.max_in_flight,
        harness.described.limits.max_in_flight,
        "max_in_flight of Credits, compared with GetEnvironment's",
    )
    expect(first.credits.max_in_flight > 0, "no credits at all")


async def streams_name_the_run_of_the_server(harness: Harness) -> None:
    """All streams of one run of a server name the same instance."""
    instances: list[str] = []
    for _ in range(2):
        stream = await harness.open_stream(credits_first=False)
        first = await stream.take(lambda event: event.HasField("credits"), "credits")
        instances.append(first.credits.instance)
    if not any(instances):
        raise NotApplicable("the server does not name its instance")
    expect_equal(instances[1], instances[0], "instance of a second stream")


async def every_command_gets_one_answer(harness: Harness) -> None:
    """Every command gets exactly one event, with its episode_id and seq."""
    stream = await harness.open_stream()
    play = await harness.play(stream)
    commands = [
        play.command(heartbeat=pb.Heartbeat()),
        play.command(1, action=await play.advised()),
        play.command(7, action="too far"),
        pb.Command(episode_id=harness.fresh_id(), seq=3, action="nobody is here"),
        pb.Command(episode_id=play.episode_id, seq=9),
        play.command(1, attach=pb.Attach(last_seq_seen=1)),
        play.command(55, cancel=pb.Cancel()),
        play.command(77, close=pb.Close()),
    ]
    await stream.send(*commands)
    events = await stream.finish()
    answered = sorted((event.episode_id, event.seq) for event in events)
    expected = sorted((command.episode_id, command.seq) for command in commands)
    expect_equal(answered, expected, "(episode_id, seq) of all events")
    expect(stream.error is None, "the stream ended with an error though the client ended it well")


async def messages_mix_episodes(harness: Harness) -> None:
    """A message carries commands of many episodes, each handled in its own order."""
    stream = await harness.open_stream()
    ids = [harness.fresh_id() for _ in range(16)]
    opened = await stream.ask_all([harness.reset(episode_id) for episode_id in ids])
    for event in opened:
        expect_observation(event, replayed=False)
    action = "say 1" if harness.is_echo else "look"
    rounds = [pb.Command(episode_id=episode_id, seq=1, action=action) for episode_id in ids]
    beats = [pb.Command(episode_id=i, seq=1, heartbeat=pb.Heartbeat()) for i in ids]
    await stream.send(*[command for pair in zip(rounds, beats, strict=True) for command in pair])
    for episode_id in ids:
        event = await stream.take(
            lambda event, expected_id=episode_id: (
                event.episode_id == expected_id and event.HasField("observation")
            ),
            f"the observation of {episode_id}",
        )
        expect_equal(event.seq, 1, "seq of the step's event")
        await stream.take(
            lambda event, expected_id=episode_id: (
                event.episode_id == expected_id and event.HasField("lease_extended")
            ),
            f"the heartbeat's answer of {episode_id}",
        )
    expect_equal(stream.untaken_events(), [], "events that nobody asked for")


async def many_answers_keep_the_size(harness: Harness) -> None:
    """Many commands in one message are all answered, in messages of the announced size."""
    stream = await harness.open_stream()
    play = await harness.play(stream)
    limit = harness.described.limits.max_items_per_message
    expect(limit > 0, "limits.max_items_per_message is 0")
    count = 3 * limit + 1
    before = stream.messages
    await stream.send(*[play.command(i, heartbeat=pb.Heartbeat()) for i in range(count)])
    for seq in range(count):
        event = await stream.answer(play.command(seq))
        expect(event.HasField("lease_extended"), f"{event.WhichOneof('body')} for a heartbeat")
    expect(
        stream.messages - before >= 4, f"{count} events came in {stream.messages - before} messages"
    )


async def half_close_ends_the_stream(harness: Harness) -> None:
    """A client that half-closes gets every outstanding answer, then a good end."""
    stream = await harness.open_stream()
    command = harness.reset()
    await stream.send(command)
    events = await stream.finish()
    expect_equal([event.episode_id for event in events], [command.episode_id], "answers")
    expect_observation(events[0])
    expect(stream.error is None, f"the stream ended with {stream.error and stream.error.details()}")


async def malformed_bytes_end_one_stream(harness: Harness) -> None:
    """Bytes that are no message end their stream and no other."""
    healthy = await harness.play()
    raw = await harness.open_raw_stream()
    await raw.take(lambda event: event.HasField("credits"), "the Credits event")
    await raw.write_bytes(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
    await raw.wait_end()
    expect(raw.error is not None, "a stream with malformed bytes ended as if all were well")
    await healthy.step()
    another = await harness.play()
    await another.step()


async def unknown_fields_are_ignored(harness: Harness) -> None:
    """Fields that the server does not know are no error."""
    raw = await harness.open_raw_stream()
    command = harness.reset()
    unknown = b"\xc2\x3e\x03abc"  # field 1000, length-delimited
    body = command.SerializeToString() + unknown
    await raw.write_bytes(b"\x0a" + _varint(len(body)) + body + unknown)
    expect_observation(await raw.answer(command), replayed=False)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


CHECKS: Final = (
    ("R1.1", credits_come_first),
    ("R2.1", every_command_gets_one_answer),
    ("R3.1", messages_mix_episodes),
    ("R3.2", many_answers_keep_the_size),
    ("R4.1", half_close_ends_the_stream),
    ("R5.1", malformed_bytes_end_one_stream),
    ("R5.2", unknown_fields_are_ignored),
    ("R50.1", streams_name_the_run_of_the_server),
)
