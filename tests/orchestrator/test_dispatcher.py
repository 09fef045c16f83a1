from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace

from orchestrator.dispatcher import Dispatcher
from orchestrator.records import EpisodeKey
from orchestrator.retry import RetryBudget, RetryPolicy
from orchestrator.run_limits import RunAccount, RunLimits
from orchestrator.scheduler import Limits, Scheduler


async def test_a_run_ends_that_is_stopped_before_its_episodes_have_begun():
    keys = [EpisodeKey("maze", f"maze_{number}", 0, "p") for number in range(3)]
    retries = RetryBudget(RetryPolicy(budget=math.inf))
    scheduler = Scheduler(keys, limits=Limits(total=2), retries=retries, endless=True)
    dispatcher = Dispatcher(
        scheduler,
        SimpleNamespace(failure=None, on_failure=[], on_change=[], capacities=dict),
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
