import asyncio
import gc
import logging

import pytest

from agent_runtime.supervision import Supervisor, cancel_tasks, supervise


async def die(error: Exception) -> None:
    await asyncio.sleep(0)
    raise error


async def test_a_task_that_dies_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture):
    task = supervise(die(KeyError("lease")), "renew leases")
    await asyncio.wait([task])
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "background task died" in record.getMessage()
    assert "renew leases" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


async def test_what_depends_on_a_task_is_told_of_its_death():
    failures: list[BaseException] = []
    error = ValueError("x")
    task = supervise(die(error), "watch", on_failure=failures.append)
    await asyncio.wait([task])
    assert failures == [error]


async def test_cancellation_is_no_failure(caplog: pytest.LogCaptureFixture):
    failures: list[BaseException] = []
    task = supervise(asyncio.sleep(60), "sleep", on_failure=failures.append)
    await asyncio.sleep(0)
    await cancel_tasks(task)
    assert task.cancelled()
    assert failures == []
    assert caplog.records == []


async def test_a_task_that_ends_is_no_failure(caplog: pytest.LogCaptureFixture):
    failures: list[BaseException] = []
    task = supervise(asyncio.sleep(0, "done"), "sleep", on_failure=failures.append)
    assert await task == "done"
    assert (failures, caplog.records) == ([], [])


async def test_a_supervised_task_survives_garbage_collection():
    done = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0.01)
        done.set()

    supervise(work(), "work")
    gc.collect()
    await asyncio.wait_for(done.wait(), 30)


async def test_cancelling_a_task_that_died_raises_nothing():
    task = supervise(die(OSError("x")), "watch")
    await asyncio.sleep(0.01)
    await cancel_tasks(task, None)
    assert task.done()


async def test_cancelling_tasks_passes_the_callers_own_cancellation_on():
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(0.05)
                return

    inner = supervise(stubborn(), "stubborn")
    await asyncio.sleep(0)
    outer = asyncio.create_task(cancel_tasks(inner))
    await asyncio.sleep(0.01)
    outer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await outer
    await inner


async def test_a_supervisor_ends_its_tasks_together():
    supervisor = Supervisor()
    tasks = [supervisor.start(asyncio.sleep(60), f"sleep {number}") for number in range(3)]
    await asyncio.sleep(0)
    await supervisor.close()
    assert all(task.cancelled() for task in tasks)


async def test_a_supervisor_reports_any_of_its_tasks():
    failures: list[BaseException] = []
    supervisor = Supervisor(failures.append)
    error = RuntimeError("x")
    supervisor.start(die(error), "a")
    supervisor.start(asyncio.sleep(0), "b")
    await supervisor.finish()
    assert failures == [error]
