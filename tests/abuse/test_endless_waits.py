"""Servers that would have a run wait for ever."""

from __future__ import annotations

import asyncio
import io
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agent_runtime.channel import ConnectionOptions
from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agent_runtime.errors import ConnectionLost
from agentgym.env.v1 import environment_pb2 as pb
from orchestrator.client import ClientConfig
from orchestrator.config import RunConfig, parse_policies
from orchestrator.errors import FleetError
from orchestrator.fleet import FleetConfig
from orchestrator.retry import RetryPolicy
from orchestrator.run import RunOutcome, run
from orchestrator.store import RunReader
from tests.kit.lying_server import error_event, lying_server
from tests.kit.server_process import ServerProcess
from tests.kit.servers import serving

AGES = 10**8
HANG_SECONDS = 60


async def play(folder: Path, address: str) -> tuple[RunOutcome, Counter[str]]:
    """Play five episodes without retries; how it ended, and the failures' reasons."""
    config = RunConfig(
        environments=("echo",),
        episodes=5,
        policies=parse_policies("expert"),
        fleet=FleetConfig(servers=(address,), wait_for_servers=1.0),
        client=ClientConfig(answer_deadline=1.0),
        retry=RetryPolicy(max_attempts=1),
    )
    async with asyncio.timeout(HANG_SECONDS):
        outcome = await run(config, folder, resume=False, console=Console(file=io.StringIO()))
    with RunReader.open(folder) as reader:
        return outcome, Counter(it.reason or "" for it in reader.summaries())


def draining(event: pb.Event) -> pb.Event:
    if event.seq == 0 and event.HasField("observation"):
        return error_event(event, "DRAINING", fault="INFRASTRUCTURE", retry_after=AGES)
    return event


def out_of_credits(event: pb.Event) -> pb.Event:
    if event.seq == 1 and event.HasField("observation"):
        return error_event(event, "CREDITS_EXCEEDED", fault="AGENT", retry_after=AGES)
    return event


def silent_about_steps(event: pb.Event) -> pb.Event | None:
    return None if event.seq == 1 and event.HasField("observation") else event


def without_credits(event: pb.Event) -> pb.Event:
    if event.HasField("credits"):
        event.credits.max_in_flight = 0
    return event


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (out_of_credits, "WAIT_TOO_LONG"),
        (silent_about_steps, "ANSWER_OVERDUE"),
        (without_credits, "ANSWER_OVERDUE"),
    ],
)
async def test_a_server_that_would_be_waited_for_without_end_fails_the_episodes_that_wait(
    tmp_path: Path, lie: Callable[[pb.Event], pb.Event | None], reason: str
) -> None:
    async with serving() as honest, lying_server(honest.addresses[0], lie=lie) as address:
        outcome, reasons = await play(tmp_path / "run", address)
    assert (outcome.finished, outcome.failed) == (0, 5)
    assert reasons == {reason: 5}


async def test_a_fleet_that_drains_for_ever_ends_the_run(tmp_path: Path) -> None:
    async with serving() as honest, lying_server(honest.addresses[0], lie=draining) as address:
        with pytest.raises(FleetError, match=r"drains.* resume it"):
            await play(tmp_path / "run", address)


def pages_that_repeat(_question: Any, honest: Any) -> Any:
    if isinstance(honest, pb.ListTasksResponse):
        honest.next_page_token = "once more"
    return honest


def pages_that_are_empty(_question: Any, honest: Any) -> Any:
    if isinstance(honest, pb.ListTasksResponse):
        del honest.tasks[:]
    return pages_that_repeat(_question, honest)


@pytest.mark.parametrize("answer", [pages_that_repeat, pages_that_are_empty])
async def test_pages_without_an_end_are_refused(
    tmp_path: Path, answer: Callable[[Any, Any], Any]
) -> None:
    def question(asked: Any) -> Any:
        if isinstance(asked, pb.ListTasksRequest):
            asked.page_token = ""  # the honest server has not given it
        return asked

    async with (
        serving() as honest,
        lying_server(honest.addresses[0], question=question, answer=answer) as address,
    ):
        with pytest.raises(FleetError, match="without an end"):
            await play(tmp_path / "run", address)


async def test_a_server_that_says_nothing_is_lost_although_its_connection_lives(
    server_process: Callable[..., ServerProcess],
) -> None:
    server = server_process()
    options = ConnectionOptions(silence=1.0)
    async with Connection(server.address, options) as connection:
        reset = pb.Reset(environment="echo", item_id="echo_1000000")
        episode = RemoteEpisode(connection, "e", reset)
        await episode.reset()
        server.signal(signal.SIGSTOP)
        try:
            async with asyncio.timeout(HANG_SECONDS):
                with pytest.raises(ConnectionLost):
                    await episode.step("hello")
            assert connection.lost
        finally:
            server.signal(signal.SIGCONT)


async def test_a_server_whose_steps_take_long_is_not_lost() -> None:
    async with serving("thread") as server:
        options = ConnectionOptions(silence=0.5)
        async with Connection(server.addresses[0], options) as connection:
            reset = pb.Reset(environment="echo", item_id="echo_1000000")
            reset.options.update({"sleep_ms": 2000})
            episode = RemoteEpisode(connection, "e", reset)
            await episode.reset()
            await episode.step("hello")
            assert not connection.lost
