"""Whatever arrives, the server stays, and episodes of others are undisturbed."""

import asyncio
import itertools
import random
import time

import pytest

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.conformance.stream_client import StreamClient
from env_servers.conformance.verdicts import Violation, expect_well_formed
from tests.env_servers.server.conftest import harness_for
from tests.kit.servers import serving

SECONDS = {"inline": 1.5, "thread": 1.5, "process": 2.0}
TEXTS = ["", "a", "x" * 3000, "\x00", "\u202e\U0001f600", "Action:\nsay", "{", "```say(1)```",
         '{"function_name": "say", "arguments": {"text": "\\ud800"}}', "\ufffe"]  # fmt: skip
SEQS = [0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 7, 2**31, 2**64 - 1]
NUMBERS = [0, 1, -1, 2.5, 1e300, float("nan"), float("inf"), 3, 10]


class Fuzzer:
    """Random commands over a few episode ids, so that they meet."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = itertools.count(10**6)
        self.ids = [f"fuzz-{number}" for number in range(4)]

    def command(self):
        pick = self.random.choice
        command = pb.Command(episode_id=pick([*self.ids, *self.ids, "", "x" * 200]), seq=pick(SEQS))
        if self.random.random() < 0.1:
            command.deadline_ms = pick([1, 5, 2**32 - 1])
        if self.random.random() < 0.1:
            command.action_format = pick([0, 1, 2, 3, 77, -5])
        verb = pick(["action", "action", "reply", "tool_call", "reset", "reset", "fork", "attach",
                     "consult", "cancel", "heartbeat", "close", None])  # fmt: skip
        if verb in ("attach", "heartbeat", "close"):
            command.seq = next(self.numbers)  # it is ignored, so let it name the answer
        if verb is not None:
            getattr(self, verb)(command)
        return command

    def action(self, command):
        command.action = self.random.choice(TEXTS)

    def reply(self, command):
        command.reply = self.random.choice(TEXTS)

    def tool_call(self, command):
        pick = self.random.choice
        arguments = pick(["", "{}", "[", "[1]", '{"text": "\\ud800"}', '{"text": 5}', "9" * 5000])
        command.tool_call.CopyFrom(
            types_pb2.ToolCall(name=pick(["say", "", "\x00"]), arguments_json=arguments)
        )

    def reset(self, command):
        pick = self.random.choice
        command.seq = pick([0, 0, 0, command.seq % 100])
        reset = command.reset
        reset.environment = pick(["echo", "echo", "echo", "", "nosuch", "x" * 5000])
        reset.item_id = pick(["echo_1000000"] * 4 + ["1000001", "", "nosuch", "9" * 3000, "\x00"])
        reset.seed = pick([0, 0, 0, 2**64 - 1])
        reset.action_format = pick([0, 0, 1, 2, 3, 99])
        reset.profile = pick(["", "", "agentgym", "nosuch"])
        reset.lease_ms = pick([0, 1, 2**32 - 1])
        for name in self.random.sample(["length", "observation_bytes", "crash_at", "nosuch"], 1):
            if self.random.random() < 0.4:
                reset.options[name] = pick(NUMBERS)
        if self.random.random() < 0.1:
            reset.options["length"] = {"a": [None, {"b": []}]}
        for _ in range(command.seq if command.seq < 6 else pick([0, 1, 2])):
            entry = reset.journal.add(state_hash=pick([b"", b"", b"x", b"\x00" * 8, b"y" * 999]))
            if self.random.random() < 0.9:
                entry.input.action = pick(TEXTS)

    def fork(self, command):
        command.seq = self.random.choice([0, 1, 2, command.seq])
        command.fork.from_episode_id = self.random.choice([*self.ids, "", "nosuch"])

    def attach(self, command):
        command.attach.last_seq_seen = self.random.choice([-1, 0, 1, -(2**63), 2**63 - 1])

    def consult(self, command):
        command.consult.advisor = self.random.choice([0, 1, 2, 3, 44])
        command.consult.seed = self.random.choice([0, 2**64 - 1])

    def cancel(self, command):
        command.cancel.SetInParent()

    def heartbeat(self, command):
        command.heartbeat.SetInParent()

    def close(self, command):
        command.close.SetInParent()

    def corrupt(self):
        """Bytes of a request with some of them changed."""
        commands = [self.command() for _ in range(3)]
        data = bytearray(pb.InteractRequest(commands=commands).SerializeToString())
        for _ in range(self.random.randint(1, 8)):
            data[self.random.randrange(len(data))] = self.random.randrange(256)
        return bytes(data[: self.random.randint(1, len(data))])


async def answered(stream, commands):
    """Send commands; there must be an answer for each one's (episode_id, seq)."""
    await stream.send(*commands)
    for command in commands:
        event = await stream.answer(command)
        if event.HasField("error"):
            expect_well_formed(event.error)


@pytest.mark.parametrize("how", ["inline", "thread", "process"])
@pytest.mark.parametrize(
    ("seed", "times"), [("short", 1), pytest.param("long", 10, marks=pytest.mark.slow)]
)
async def test_random_commands_are_all_answered_and_disturb_nobody(how, seed, times):
    end = time.monotonic() + SECONDS[how] * times
    limits = {"step_limit": 5.0, "max_episodes": 50}
    async with serving(how, limits=limits) as server, harness_for(server.addresses[0]) as harness:
        bystander = await harness.play(length=0)
        fuzzer, stream, rounds = Fuzzer(f"{seed} {how}"), await harness.open_stream(), 0
        while rounds < 25 or time.monotonic() < end:
            rounds += 1
            await answered(stream, [fuzzer.command() for _ in range(fuzzer.random.randint(1, 12))])
            if rounds % 20 == 0:
                await bystander.step()
                await stream.drop()
                stream = await harness.open_stream()
        assert f"Step {bystander.seq + 1}, " in (await bystander.step()).observation
        await stream.ask_all(
            [pb.Command(episode_id=i, seq=999, close=pb.Close()) for i in fuzzer.ids]
        )
        await bystander.ask(close=pb.Close())
        await asyncio.gather(*server.handler.background.running, return_exceptions=True)
        assert server.table.admission.live.total() == 0
        assert not server.table.pending_opens


async def test_random_bytes_end_at_most_their_own_stream():
    end = time.monotonic() + 1.5
    async with serving() as server, harness_for(server.addresses[0]) as harness:
        bystander = await harness.play(length=0)
        fuzzer, count = Fuzzer("bytes"), 0
        while count < 20 or time.monotonic() < end:
            count += 1
            raw = await harness.open_raw_stream()
            for _ in range(3):
                await raw.write_bytes(
                    fuzzer.corrupt() if count % 2 else fuzzer.random.randbytes(count % 300)
                )
            await raw.drop()
            if count % 10 == 0:
                await bystander.step()
        assert f"Step {bystander.seq + 1}, " in (await bystander.step()).observation


async def test_oversized_messages_end_at_most_their_own_stream():
    limits = {"max_message_bytes": 100_000, "max_text_bytes": 10_000}
    async with serving(limits=limits) as server, harness_for(server.addresses[0]) as harness:
        bystander = await harness.play(length=0)
        stream: StreamClient = await harness.open_stream()
        await stream.send(pb.Command(episode_id="x", seq=1, action="y" * 200_000))
        await stream.wait_end()
        assert stream.error is not None
        stream = await harness.open_stream()
        huge = harness.reset()
        huge.reset.options["nosuch"] = "z" * 50_000
        event = await stream.ask(huge)
        assert expect_well_formed(event.error).reason == "TEXT_TOO_LONG"
        with pytest.raises(Violation):
            await stream.ask(pb.Command(episode_id="e" * 99_000, seq=1, action="y" * 999_000))
        await bystander.step()
