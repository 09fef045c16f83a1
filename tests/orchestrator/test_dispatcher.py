from __future__ import annotations

import asyncio
import math
from contextlib import nullcontext
from types import SimpleNamespace
from uuid import UUID

from rich.console import Console

from agent_runtime.episode import RemoteEpisode
from agent_runtime.library import aio
from agentgym.env.v1 import environment_pb2 as pb
from orchestrator import run as runs
from orchestrator import seeds
from orchestrator.config import RunConfig, parse_policies
from orchestrator.dispatcher import Dispatcher
from orchestrator.fleet import FleetConfig
from orchestrator.records import EpisodeKey
from orchestrator.retry import RetryBudget, RetryPolicy
from orchestrator.run_limits import RunAccount, RunLimits
from orchestrator.scheduler import Limits, Scheduler
from orchestrator.store import RunReader
from tests.kit.servers import serving


async def test_a_run_ends_that_is_stopped_before_its_episodes_have_begun():
    keys = [EpisodeKey("maze", f"maze_{number}", 0, "p") for number in range(3)]
    retries = RetryBudget(RetryPolicy(budget=math.inf))
    scheduler = Scheduler(keys, limits=Limits(total=2), retries=retries, endless=True)
    dispatcher = Dispatcher(
        scheduler,
        SimpleNamespace(followed=lambda *_calls: nullcontext()),
        {"p": SimpleNamespace(outage=lambda: None)},
        lambda environment: None,
        lambda assignment: None,
        lambda record: None,
        account=RunAccount(RunLimits()),
        on_limit=lambda limit: None,
    )
    playing = asyncio.create_task(dispatcher.run())
    await asyncio.sleep(0)
    assert scheduler.running == 2
    dispatcher.stop()
    async with asyncio.timeout(30):
        await playing
    assert scheduler.idle and scheduler.pending == 3


async def test_the_first_episodes_are_planned_while_most_are_not_begun():
    keys = [EpisodeKey("maze", f"maze_{number}", 0, "p") for number in range(1000)]
    retries = RetryBudget(RetryPolicy(budget=math.inf))
    scheduler = Scheduler(keys, limits=Limits(total=1000), retries=retries)
    begun: list[int] = []

    def plan(assignment):
        begun.append(scheduler.running)
        raise asyncio.CancelledError  # planned, and never played

    dispatcher = Dispatcher(
        scheduler,
        SimpleNamespace(followed=lambda *_calls: nullcontext()),
        {"p": SimpleNamespace(outage=lambda: None)},
        lambda environment: None,
        plan,
        lambda record: None,
        account=RunAccount(RunLimits()),
        on_limit=lambda limit: None,
    )
    playing = asyncio.create_task(dispatcher.run())
    while not begun:
        await asyncio.sleep(0)
    dispatcher.stop()
    async with asyncio.timeout(30):
        await playing
    assert begun[0] < 300


async def test_an_attempt_that_a_dead_process_left_on_a_server_is_played_from_its_beginning(
    tmp_path, monkeypatch
):
    run_id = UUID(int=7)
    monkeypatch.setattr(runs.uuid, "uuid4", lambda: run_id)
    key = {"environment": "maze", "item_id": "maze_1000000", "sample": 0, "policy": "expert"}
    async with serving(environments=("maze",), execution={}) as server:
        (address,) = server.addresses
        async with aio.make("maze", target=address) as maze:
            reset = pb.Reset(environment="maze", item_id=key["item_id"])
            record_id = seeds.episode_id(run_id.hex, **key, attempt=1)
            left = RemoteEpisode(maze.connection, record_id, reset)
            await left.reset()
            await left.step("move right")
            config = RunConfig(
                environments=("maze",),
                policies=parse_policies("expert"),
                items=(key["item_id"],),
                fleet=FleetConfig(servers=(address,)),
            )
            outcome = await runs.run(
                config, tmp_path / "run", resume=False, console=Console(quiet=True)
            )
    assert outcome.complete and outcome.failed == 0
    with RunReader.open(tmp_path / "run") as reader:
        assert [it.episode_id for it in reader.summaries()] == [record_id]
