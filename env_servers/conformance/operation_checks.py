"""Rules that operators rely on: how errors look, what a full server refuses, and draining.

The last check ends the server: it is made where the target names a command that does so.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.harness import MAX_PROBED_EPISODES, Harness, NotApplicable, Play
from env_servers.conformance.unary_checks import expect_refused
from env_servers.conformance.verdicts import (
    Violation,
    error_info,
    expect,
    expect_equal,
    expect_error,
    expect_observation,
)

__all__ = ["CHECKS"]

_POLL_SECONDS: Final = 0.05


async def errors_are_those_of_their_reason(harness: Harness) -> None:
    """An error has the code, fault and metadata of its reason, and is the same in unary calls."""
    play = await harness.play()
    unknown = harness.reset()
    unknown.reset.environment = "nosuch"
    commands = {
        "SEQ_GAP": play.command(7, action="too far"),
        "SEQ_CONFLICT": harness.reset(play.episode_id),
        "EPISODE_NOT_FOUND": pb.Command(episode_id=harness.fresh_id(), seq=1, action="who?"),
        "UNKNOWN_ENVIRONMENT": unknown,
        "INVALID_ARGUMENT": harness.reset("x" * 129),
        "UNSUPPORTED_VERB": play.command(1),
    }
    commands["SEQ_CONFLICT"].reset.seed = 1 + play.open_command.reset.seed
    for reason, command in commands.items():
        event = await play.stream.ask(command)
        expect_error(event, reason)
        is_reset = command.HasField("reset")
        method: Any = harness.stub.Reset if is_reset else harness.stub.Step
        request = pb.ResetRequest if is_reset else pb.StepRequest
        try:
            await method(
                request(command=command),
                timeout=harness.target.timeout,
                metadata=harness.target.metadata(),
            )
        except grpc.aio.AioRpcError as error:
            metadata = expect_refused(error, reason)
        else:
            raise Violation(f"a unary call was answered instead of refused with {reason}")
        in_band = dict(error_info(event.error).metadata)
        expect_equal(sorted(metadata), sorted(in_band), f"metadata keys of a unary {reason}")


async def full_servers_refuse_resets_alone(harness: Harness) -> None:
    """Beyond its capacity a server refuses resets and forks; open episodes go on."""
    limits = harness.described.limits
    bounds = {
        "CAPACITY_EXHAUSTED": limits.max_episodes,
        "CLIENT_LIMIT": limits.max_episodes_per_client,
    }
    bound = min((it for it in bounds.values() if it), default=0)
    if not 0 < bound <= MAX_PROBED_EPISODES:
        raise NotApplicable(
            f"{bound} episodes are too many to open: a server with at most {MAX_PROBED_EPISODES} "
            "(limits.max_episodes, limits.max_episodes_per_client) can be checked"
        )
    stream = await harness.open_stream()
    first = await harness.play(stream, **harness.length(0))
    for _ in range(bound):
        refused_command = harness.reset()
        refused = await stream.ask(refused_command)
        if refused.HasField("error"):
            break
    else:
        raise Violation(f"{bound + 1} episodes were opened, and {bound} are allowed")
    reason = error_info(refused.error).reason
    expect(bounds.get(reason) == bound, f"refused with {reason}, the limits are {bounds}")
    expect_error(refused, reason)
    fork = pb.Fork(from_episode_id=first.episode_id)
    if pb.CAPABILITY_FORK in harness.described.capabilities:
        expect_error(await stream.ask(pb.Command(episode_id=harness.fresh_id(), fork=fork)), reason)
    expect_observation(await stream.ask(first.open_command), replayed=True)
    await first.step()
    await first.ask(close=pb.Close())
    expect_observation(await stream.ask(refused_command), replayed=False)


async def draining_servers_finish_what_is_open(harness: Harness) -> None:
    """A draining server says so, refuses resets, lets attached episodes go on, and then ends."""
    if not harness.target.drain_command:
        raise NotApplicable("needs --drain-command, which ends the server ('kill -TERM PID')")
    play = await harness.play(**harness.length(0))
    await _drain(harness)
    refused = await play.stream.ask(harness.reset())
    expect_error(refused, "DRAINING")
    if pb.CAPABILITY_FORK in harness.described.capabilities:
        fork = pb.Fork(from_episode_id=play.episode_id)
        command = pb.Command(episode_id=harness.fresh_id(), fork=fork)
        expect_error(await play.stream.ask(command), "DRAINING")
    expect_observation(await play.stream.ask(play.open_command), replayed=True)
    await play.step()
    await _close(play)
    await play.stream.wait_end()


async def _drain(harness: Harness) -> None:
    """Make the server drain, and wait until its health says so."""
    process = await asyncio.create_subprocess_shell(harness.target.drain_command)
    if await process.wait():
        raise NotApplicable(f"--drain-command ended with {process.returncode}")
    stub: Any = health_pb2_grpc.HealthStub(harness.channel)
    deadline = time.monotonic() + harness.target.timeout
    while time.monotonic() < deadline:
        answer = await stub.Check(
            health_pb2.HealthCheckRequest(service=""), metadata=harness.target.metadata()
        )
        if answer.status == health_pb2.HealthCheckResponse.NOT_SERVING:
            return
        await asyncio.sleep(_POLL_SECONDS)
    raise Violation(f"health is still SERVING {harness.target.timeout:g} s after --drain-command")


async def _close(play: Play) -> None:
    """Close the last episode: the stream may end before the answer is read."""
    await play.stream.send(play.command(close=pb.Close()))


CHECKS: Final = (
    ("R39.1", errors_are_those_of_their_reason),
    ("R49.1", full_servers_refuse_resets_alone),
    ("R48.1", draining_servers_finish_what_is_open),
)
