"""Workers that are not heard of, and drivers that are not: leases end, and nobody plays on."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from orchestrator import errors
from orchestrator.ray_cluster.worker import LeaseWatch
from orchestrator.ray_cluster.workplace import wait_for_workers
from orchestrator.ray_config import RayConfig
from orchestrator.store import RunStore
from tests.orchestrator.ray_cluster.small_runs import (
    begin,
    config,
    gated,
    records,
    serving_maze,
    shard_counts,
    until_stored,
)
from tests.orchestrator.records import build_episode, build_manifest, build_session


async def test_a_worker_that_is_silent_for_its_lease_is_ended_and_others_play_what_it_held(
    host, tmp_path
) -> None:
    cluster = host()
    folder = tmp_path / "run"
    async with serving_maze() as fleet:
        settings = config(
            fleet,
            policies=gated(tmp_path),
            concurrency=2,
            cluster=RayConfig(address="local", ray_workers=1, ray_lease=1.0),
        )
        playing = await begin(settings, folder)
        await until_stored(folder, tmp_path, 1)
        hung = cluster.workers()[0]

        async def never(*_: object) -> None:  # it hangs, and its connection stays
            await hung._dead
            raise asyncio.CancelledError

        hung.made.exchange = never
        while not hung.dead:
            assert not playing.done()
            await asyncio.sleep(0.05)
        (tmp_path / "open").touch()
        outcome = await playing
    assert outcome.complete and len(records(folder)) == 24 == sum(shard_counts(folder))
    log = (folder / "logs" / "run.jsonl").read_text().splitlines()
    lost = [it for it in map(json.loads, log) if it["event"] == "worker lost"]
    assert [it["reason"] for it in lost] == ["it is silent"]


def test_a_worker_that_nobody_asks_for_a_lease_ends_its_process() -> None:
    ended = threading.Event()
    LeaseWatch(0.01, on_end=ended.set)
    assert ended.wait(60)


def test_a_lease_that_is_given_back_ends_nothing() -> None:
    ended = threading.Event()
    watch = LeaseWatch(3600.0, on_end=ended.set)
    watch.renew()
    watch.close()
    assert not ended.is_set()


async def test_a_resume_waits_for_workers_of_the_session_before_and_names_one_that_goes_on(
    tmp_path,
) -> None:
    folder = tmp_path / "run"
    with RunStore.create(folder, build_manifest(), build_session()) as store:
        shard = RunStore.open_shard(folder, "w0", build_session())
        shard.append_all([build_episode()])
        store.note_shards(["w0"])
        with pytest.raises(errors.RunLocked, match=r"w0: process \d+ on .* is writing") as caught:
            await wait_for_workers(store, lease=0.05)
        assert caught.value.exit_code == 1
        waiting = asyncio.create_task(wait_for_workers(store, lease=600.0))
        await asyncio.sleep(0)
        assert not waiting.done()
        shard.close()
        await waiting
        assert store.count() == 1
