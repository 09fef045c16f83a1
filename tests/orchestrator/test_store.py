import asyncio
import os
import resource
import shutil
import sqlite3
import subprocess
import sys

import pytest

from agentgym.env.v1 import types_pb2
from orchestrator import audit, errors, export, show
from orchestrator.manifest import read_manifest
from orchestrator.records import RecordDamaged, decode, encode, episode_key
from orchestrator.run_folder import DATABASE_FILE
from orchestrator.store import RunReader, RunStore
from tests.orchestrator.records import (
    build_episode,
    build_failed,
    build_manifest,
    build_session,
)


def resume(folder, **changes) -> RunStore:
    return RunStore.resume(folder, build_manifest(**changes), build_session())


async def test_what_was_appended_is_read_back_as_it_was(store):
    episodes = [build_episode(f"maze_{at}", sample=sample) for at in range(3) for sample in (0, 1)]
    for episode in episodes:
        await store.append(episode)
    assert list(store.episodes()) == episodes
    assert store.count() == 6
    assert store.get(episode_key(episodes[3])) == episodes[3]
    assert store.finished_keys() == {episode_key(episode) for episode in episodes}
    assert store.verify() == []


async def test_an_append_is_visible_to_others_when_it_returns(store, folder):
    with RunReader.open(folder) as other:
        assert other.count() == 0
        await store.append(build_episode())
        assert other.count() == 1


async def test_a_thousand_concurrent_appends_are_all_kept(store):
    episodes = [build_episode(f"maze_{at}", tokens=False) for at in range(1000)]
    await asyncio.gather(*(store.append(episode) for episode in episodes))
    assert store.finished_keys() == {episode_key(episode) for episode in episodes}


async def test_a_cancelled_append_is_still_carried_out(store):
    task = asyncio.create_task(store.append(build_episode()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    store.close()
    with RunReader.open(store.folder) as reader:
        assert reader.count() == 1


async def test_a_finished_episode_is_never_stored_twice(store):
    await store.append(build_episode(reward=1.0))
    with pytest.raises(errors.DuplicateEpisode, match="finished"):
        await store.append(build_episode(reward=0.0, attempt=2))
    assert [episode.reward for episode in store.episodes()] == [1.0]


async def test_appending_the_same_record_again_changes_nothing(store):
    await store.append(build_episode())
    await store.append(build_episode())
    assert store.count() == 1


async def test_a_later_attempt_supersedes_a_failed_one_and_nothing_is_lost(store):
    first, second = build_failed(attempt=1), build_failed(attempt=2)
    third = build_episode(attempt=3)
    await store.append(first)
    assert store.finished_keys() == set()
    failed = store.failed_keys()[episode_key(first)]
    assert (failed.attempt, failed.failure.retriable) == (1, True)
    assert failed.failure.fault == types_pb2.FAULT_POLICY
    await store.append(second)
    await store.append(third)
    assert list(store.episodes()) == [third]
    assert list(store.episodes(superseded=True)) == [first, second]
    assert [it.attempt for it in store.episodes(superseded=True)] == [1, 2]
    assert store.failed_keys() == {}
    assert store.verify() == []


async def test_an_earlier_attempt_never_replaces_a_later_one(store):
    await store.append(build_failed(attempt=2))
    with pytest.raises(errors.DuplicateEpisode, match="attempt 2"):
        await store.append(build_episode(attempt=1))


async def test_a_later_attempt_under_the_failed_one_s_id_changes_nothing(store):
    first, again = build_failed(attempt=1), build_episode(attempt=2)
    again.episode_id = first.episode_id
    await store.append(first)
    with pytest.raises(errors.DuplicateEpisode, match="is taken"):
        await store.append(again)
    assert list(store.episodes()) == [first]
    assert list(store.episodes(superseded=True)) == []
    assert store.verify() == []


async def test_an_id_of_a_superseded_attempt_is_taken(store):
    first, other = build_failed(attempt=1), build_episode("maze_2")
    other.episode_id = first.episode_id
    await store.append(first)
    await store.append(build_episode(attempt=2))
    with pytest.raises(errors.DuplicateEpisode, match="is taken"):
        await store.append(other)
    assert store.count() == 1


def test_a_record_is_stored_whose_loop_has_ended(store):
    loop = asyncio.new_event_loop()
    appending = loop.create_task(store.append(build_episode("maze_1")))
    loop.call_soon(loop.stop)
    loop.run_forever()
    appending.cancel()
    loop.run_until_complete(asyncio.gather(appending, return_exceptions=True))
    loop.close()
    store.append_all([build_episode("maze_2")])
    assert store.count() == 2


async def test_a_bad_record_of_a_batch_fails_alone(store):
    twin = build_episode("maze_2")
    twin.episode_id = build_episode("maze_1").episode_id
    outcomes = await asyncio.gather(
        store.append(build_episode("maze_1")),
        store.append(twin),
        store.append(build_episode("maze_3")),
        return_exceptions=True,
    )
    assert [type(it) for it in outcomes] == [type(None), errors.DuplicateEpisode, type(None)]
    assert store.count() == 2


def spoil(**fields):
    episode = build_failed() if fields.pop("failed", False) else build_episode()
    for name, value in fields.items():
        setattr(episode, name, value)
    return episode


def spoil_calls(**fields):
    episode = build_episode()
    for call in episode.generations:
        for name, value in fields.items():
            setattr(call, name, value)
    return episode


def spoil_images(media_type, *, place=0):
    episode = build_episode()
    episode.images.add(media_type=media_type, content=b"GIF")
    episode.steps[0].images[:] = [place]
    return episode


@pytest.mark.parametrize(
    ("episode", "problem"),
    [
        (spoil(failed=True, reward=0.0), "failed and has a reward"),
        (spoil(reward=float("nan")), "not finite"),
        (spoil(score=float("inf")), "not finite"),
        (spoil(run_id="other"), "belongs to run 'other'"),
        (spoil(schema_version=2), "schema version 2"),
        (spoil(item_id=""), "item_id is empty"),
        (spoil(attempt=0), "count from 1"),
        (spoil(ended_unix_ms=2**64 - 1), "63 bits"),
        (spoil(policy_seconds=float("nan")), "not finite"),
        (spoil_calls(completion_tokens=2**62), "63 bits"),
        (spoil_calls(cost_usd=float("inf")), "not finite"),
        (spoil_images("image/svg+xml"), "its images are image/svg"),
        (spoil_images("image/png", place=1), "images that it does not have"),
    ],
)
async def test_a_record_that_breaks_an_invariant_is_refused(store, episode, problem):
    with pytest.raises(errors.InvalidEpisode, match=problem):
        await store.append(episode)
    assert store.count() == 0


async def test_the_end_of_the_disk_is_reported_and_the_store_goes_on(store):
    await store.append(build_episode("maze_1"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    written = (store.folder / f"{DATABASE_FILE}-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (written, limits[1]))
    try:
        with pytest.raises(errors.StoreWriteFailed, match=r"not stored .*before is safe"):
            await store.append(build_episode("maze_2"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    await store.append(build_episode("maze_2"))
    assert store.count() == 2


async def test_what_the_database_refuses_of_one_record_is_one_refused_record(store):
    with sqlite3.connect(store.folder / DATABASE_FILE) as other:
        other.execute(
            "CREATE TRIGGER picky BEFORE INSERT ON episodes WHEN NEW.item_id = 'maze_50' "
            "BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )
    episodes = [build_episode(f"maze_{number}", tokens=False) for number in range(100)]
    outcomes = await asyncio.gather(*map(store.append, episodes), return_exceptions=True)
    (refused,) = [it for it in outcomes if it is not None]
    assert isinstance(refused, errors.InvalidEpisode)
    assert "not this one" in str(refused)
    assert store.count() == 99
    assert store.verify() == []


def test_closing_waits_for_what_was_submitted_and_then_refuses_more(store):
    pending = [store.submit(build_episode(f"maze_{at}")) for at in range(100)]
    store.close()
    assert all(it.done() for it in pending)
    with pytest.raises(errors.StoreWriteFailed, match="closed"):
        store.submit(build_episode())
    with RunReader.open(store.folder) as reader:
        assert reader.count() == 100


def test_an_episode_is_found_by_the_start_of_its_id(store):
    episodes = [build_episode(f"maze_{at}") for at in range(40)]
    superseded = build_failed("maze_99")
    store.append_all([*episodes, superseded, build_episode("maze_99", attempt=2)])
    assert store.get_by_id(episodes[0].episode_id[:20]) == episodes[0]
    assert store.get_by_id(superseded.episode_id) == superseded
    with pytest.raises(errors.UsageError, match="more than one"):
        store.get_by_id("")
    with pytest.raises(errors.UsageError, match="valid: "):
        store.get_by_id("no such id")


def test_iteration_stops_at_what_was_there_when_it_began(store):
    store.append_all(build_episode(f"maze_{at}") for at in range(3))
    reading = store.episodes()
    next(reading)
    store.append_all([build_episode("maze_77")])
    assert len(list(reading)) == 2


def test_only_accepted_records_are_decoded(store):
    store.append_all(build_episode(f"maze_{at}", reward=float(at)) for at in range(4))
    found = store.episodes(lambda summary: summary.reward == 2)
    assert [it.item_id for it in found] == ["maze_2"]


def test_a_resumed_run_goes_on_and_notes_its_session(store, folder):
    store.append_all([build_episode("maze_1")])
    store.close()
    with resume(folder) as again:
        assert again.finished_keys() == {episode_key(build_episode("maze_1"))}
        again.append_all([build_episode("maze_2")])
    assert len(read_manifest(folder).sessions) == 2
    with RunReader.open(folder) as reader:
        assert reader.count() == 2


def test_a_resume_with_another_configuration_names_the_fields_and_changes_nothing(store, folder):
    store.close()
    before = contents(folder)
    with pytest.raises(errors.RunMismatch) as caught:
        resume(folder, run_seed=8, sampling={"temperature": 0.5, "stop": ["</s>"]})
    assert [tuple(it) for it in caught.value.differences] == [
        ("run_seed", "7", "8"),
        ("sampling.temperature", "1.0", "0.5"),
    ]
    assert caught.value.exit_code == 2
    assert contents(folder) == before


def test_a_second_writer_is_refused_by_the_first_one_s_pid(store, folder):
    with pytest.raises(errors.RunLocked, match=f"process {os.getpid()} ") as caught:
        resume(folder)
    assert caught.value.pid == os.getpid()
    script = (
        "import sys; from pathlib import Path\n"
        "from tests.orchestrator.records import build_manifest, build_session\n"
        "from orchestrator.store import RunStore\n"
        "RunStore.resume(Path(sys.argv[1]), build_manifest(), build_session())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=False
    )
    assert f"process {os.getpid()} on" in done.stderr
    store.close()
    resume(folder).close()


def test_a_live_run_can_be_read_by_another_process(store, folder):
    store.append_all([build_episode()])
    script = (
        "import sys; from pathlib import Path; from orchestrator.store import RunReader\n"
        "print(RunReader.open(Path(sys.argv[1])).count())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "1"


def test_verify_finds_a_record_that_was_tampered_with(store, folder):
    store.append_all([build_episode("maze_1"), build_episode("maze_2"), build_episode("maze_3")])
    better = encode(build_episode("maze_2", reward=2.0))
    with sqlite3.connect(folder / DATABASE_FILE) as other:
        other.execute("UPDATE episodes SET record = ? WHERE item_id = 'maze_2'", (better,))
        other.execute("UPDATE episodes SET record = substr(record, 1, 90) WHERE item_id = 'maze_3'")
    found = store.verify()
    assert len(found) == 2
    assert "disagree with the record: reward, score" in found[0]
    assert "damaged" in found[1]
    with pytest.raises(errors.RecordCorrupt, match="its record is not the one") as caught:
        list(store.episodes())
    assert caught.value.episode_id == build_episode("maze_2").episode_id


CHANGES = {
    "lying columns": "UPDATE episodes SET reward = 0.25, score = 0.25 WHERE item_id = 'maze_2'",
    "a record of another run": "UPDATE episodes SET record = x'00' WHERE item_id = 'maze_2'",
    "a value of another type": "UPDATE episodes SET rounds = 'many' WHERE item_id = 'maze_2'",
}


def write_three(folder) -> None:
    with RunStore.create(folder, build_manifest(), build_session()) as store:
        store.append_all(build_episode(f"maze_{at}") for at in (1, 2, 3))


def change(folder, sql: str) -> None:
    if sql == CHANGES["a record of another run"]:
        stranger = build_episode("maze_2", run_id="run-2")
        sql = sql.replace("x'00'", f"x'{encode(stranger).hex()}'")
    with sqlite3.connect(folder / DATABASE_FILE) as other:
        other.execute(sql)


@pytest.mark.parametrize("sql", CHANGES.values(), ids=CHANGES.keys())
def test_every_reader_notices_a_row_that_is_not_as_it_was_written(folder, sql, tmp_path, capsys):
    write_three(folder)
    change(folder, sql)
    changed = build_episode("maze_2").episode_id
    out = tmp_path / "out.jsonl"
    assert export.main([str(folder), "--format", "messages", "--out", str(out)]) == 1
    assert changed in capsys.readouterr().err
    assert not out.exists()
    assert audit.main([str(folder)]) == 1
    assert changed[:12] in capsys.readouterr().out
    assert show.main([str(folder), "--episode", changed[:12]]) == 1
    assert f"row 2, episode {changed}" in capsys.readouterr().err
    with RunReader.open(folder) as run:
        assert run.get(episode_key(build_episode("maze_3"))) == build_episode("maze_3")


@pytest.mark.parametrize("name", ["lying columns", "a value of another type"])
def test_a_tolerant_reader_names_a_row_with_lying_columns_and_reads_the_others(
    folder, name, capsys
):
    write_three(folder)
    change(folder, CHANGES[name])
    changed = build_episode("maze_2").episode_id
    assert show.main([str(folder), "--list"]) == 1
    told = capsys.readouterr()
    assert f"episode {changed}" in told.err
    assert "maze_1" in told.out
    assert "maze_3" in told.out
    assert show.main([str(folder)]) == 1
    assert "DAMAGED, and counted as missing" in capsys.readouterr().out
    before = contents(folder)
    with pytest.raises(errors.RecordCorrupt, match=changed):
        resume(folder)
    assert contents(folder) == before


def crash_without_its_log(folder, *, keep: int) -> None:
    """Write three records and die; of the write-ahead log only what `keep` took is left."""
    script = (
        "import os, shutil, sys; from pathlib import Path\n"
        "from orchestrator.store import RunStore\n"
        "from tests.orchestrator.records import build_episode, build_manifest, build_session\n"
        "folder, keep = Path(sys.argv[1]), int(sys.argv[2])\n"
        "store = RunStore.create(folder, build_manifest(), build_session())\n"
        "log = folder / 'episodes.sqlite-wal'\n"
        "for at in range(3):\n"
        "    store.append_all([build_episode(f'maze_{at}')])\n"
        "    if at + 1 == keep: shutil.copy(log, folder.parent / 'kept')\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(folder), str(keep)], check=True)
    shutil.copy(folder.parent / "kept", folder / "episodes.sqlite-wal")
    (folder / "episodes.sqlite-shm").unlink()


def test_a_lost_end_of_the_log_is_found_by_audit_show_and_a_resume(folder, capsys):
    crash_without_its_log(folder, keep=1)
    assert audit.main([str(folder)]) == 1
    assert "the last 2 of 3 stored records are gone" in capsys.readouterr().out
    assert show.main([str(folder)]) == 1
    assert "the last 2 of 3 stored records are gone" in capsys.readouterr().out
    with pytest.raises(errors.StoreCorrupt, match=r"delete episodes\.tally"):
        resume(folder)
    (folder / "episodes.tally").unlink()
    with resume(folder) as again:
        again.append_all(build_episode(f"maze_{at}") for at in (1, 2))
        assert again.verify() == []


def test_a_killed_writer_loses_no_row_and_nothing_is_reported_as_lost(folder):
    crash_without_its_log(folder, keep=3)
    with RunReader.open(folder) as run:
        assert (run.count(), run.verify()) == (3, [])


def test_a_row_that_was_deleted_is_found(folder, capsys):
    write_three(folder)
    change(folder, "DELETE FROM episodes WHERE item_id = 'maze_2'")
    assert audit.main([str(folder)]) == 1
    assert "has 2 rows in place of 3" in capsys.readouterr().out


def test_values_that_sqlite_gives_back_otherwise_do_not_break_a_checksum(store):
    episode = build_episode(reward=-0.0)
    store.append_all([episode])
    assert [summary.reward for summary in store.summaries()] == [0.0]
    assert list(store.episodes()) == [episode]


def test_a_record_that_claims_to_be_huge_is_damaged():
    claimed = bytearray(encode(build_episode()))
    claimed[4:5] = b"\xe4"  # eight bytes of content size follow
    claimed[5:6] = b"\xff" * 8
    with pytest.raises(RecordDamaged, match="size"):
        decode(bytes(claimed))


def contents(folder) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
