import json
import shutil
from contextlib import ExitStack
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from orchestrator import errors, export, show
from orchestrator.config import RunConfig, parse_policies
from orchestrator.fleet import FleetConfig
from orchestrator.manifest import MANIFEST_FILE, read_manifest
from orchestrator.records import episode_key, summarise
from orchestrator.run import run as play
from orchestrator.run_folder import DATABASE_FILE, SHARDS_FOLDER
from orchestrator.store import RunReader, RunStore
from orchestrator.viewer.opened_run import OpenedRun
from tests.orchestrator.records import (
    build_episode,
    build_failed,
    build_manifest,
    build_session,
)


def open_shard(folder, name) -> RunStore:
    return RunStore.open_shard(folder, name, build_session(command=("worker", name)))


def write_shard(folder, name, *episodes):
    with open_shard(folder, name) as shard:
        shard.append_all(episodes)


def test_a_run_is_the_union_of_its_store_and_its_shards(store, folder):
    episodes = [build_episode(f"maze_{at}") for at in range(6)]
    store.append_all(episodes[:2])
    write_shard(folder, "w0", *episodes[2:4])
    write_shard(folder, "w1", *episodes[4:])
    with RunReader.open(folder) as run:
        assert list(run.episodes()) == episodes
        assert list(run.summaries()) == [summarise(episode) for episode in episodes]
        assert [run.get(episode_key(episode)) for episode in episodes] == episodes
        assert run.get_by_id(episodes[5].episode_id) == episodes[5]
        assert run.finished_keys() == {episode_key(episode) for episode in episodes}
        assert run.count() == 6
        assert run.verify() == []


def test_a_shard_is_a_run_of_the_same_id(store, folder):
    write_shard(folder, "w0", build_episode())
    with RunReader.open(folder / SHARDS_FOLDER / "w0") as shard:
        assert shard.count() == 1
        assert shard.manifest.run_id == store.manifest.run_id
        assert [session.command for session in shard.manifest.sessions] == [("worker", "w0")]
    write_shard(folder, "w0", build_episode("maze_2"))
    assert len(read_manifest(folder / SHARDS_FOLDER / "w0").sessions) == 2


def test_what_comes_while_a_run_is_read_is_there_for_the_next_call(store, folder):
    with RunReader.open(folder) as run:
        before = run.version()
        with open_shard(folder, "w0") as shard:
            assert run.count() == 0
            assert (seen := run.version()) != before
            shard.append_all([build_episode("maze_1")])
            assert run.version() != seen
            assert run.count() == 1
        write_shard(folder, "w1", build_episode("maze_2"))
        assert [it.item_id for it in run.summaries()] == ["maze_1", "maze_2"]


def test_an_attempt_that_failed_gives_way_to_another_shards(folder, store):
    failed, again = build_failed(attempt=1), build_failed(attempt=2)
    write_shard(folder, "w0", failed)
    key = episode_key(failed)
    with RunReader.open(folder) as run:
        write_shard(folder, "w1", again)
        assert run.failed_keys()[key].attempt == 2
        assert list(run.episodes(superseded=True)) == [failed]
        done = build_episode(attempt=3)
        store.append_all([done])
        assert run.failed_keys() == {}
        assert list(run.episodes()) == [done] == [run.get(key)]
        assert list(run.episodes(superseded=True)) == [failed, again]
        assert run.get_by_id(failed.episode_id) == failed
        assert (run.count(), run.verify()) == (1, [])


def ended(episode, unix_ms):
    episode.ended_unix_ms = unix_ms
    return episode


def test_of_two_that_came_to_an_end_the_first_is_read_and_a_contradiction_is_told(store, folder):
    late, early = ended(build_episode(), 2_000), ended(build_episode(), 1_000)
    write_shard(folder, "w0", late)
    write_shard(folder, "w1", early)
    with RunReader.open(folder) as run:
        assert list(run.episodes()) == [early]
        assert list(run.episodes(superseded=True)) == []
        assert run.get_by_id(late.episode_id) == early
        assert run.verify() == []
        write_shard(folder, "w2", ended(build_episode(reward=0.5, attempt=2), 3_000))
        assert list(run.episodes()) == [early]
        (problem,) = run.verify()
        assert "shards/w0 and shards/w2 have other steps, reward, score" in problem
        assert problem.startswith("maze maze_1 0 scripted was played to an end twice")
        assert problem.endswith("shards/w1 is read")


STORES = ("", "a", "b")
PLAYED = st.lists(
    st.tuples(
        st.sampled_from(STORES),
        st.integers(0, 2),  # item
        st.integers(1, 3),  # attempt
        st.booleans(),  # failed
        st.integers(1, 3),  # when it ended
    ),
    max_size=12,
)


def standing(rows):
    """The rule, said again: of (failed, attempt, ended, id, store) what came to an end first, else
    the last failure."""
    done = [row for row in rows if not row[0]]
    if done:
        return min(done, key=lambda row: row[2:])
    return min(rows, key=lambda row: (-row[1], *row[2:])) if rows else None


@settings(max_examples=12, deadline=None)
@given(played=PLAYED, looks=st.sets(st.integers(0, 11), max_size=4))
def test_whatever_shards_hold_each_key_has_one_record(tmp_path_factory, played, looks):
    folder = tmp_path_factory.mktemp("runs") / "run"
    with ExitStack() as stack:
        stores = {"": RunStore.create(folder, build_manifest(), build_session())}
        stores |= {name: open_shard(folder, name) for name in STORES[1:]}
        for it in stores.values():
            stack.enter_context(it)
        reader = stack.enter_context(RunReader.open(folder))
        followed = OpenedRun(folder)
        stack.callback(followed.close)
        for at, (name, item, attempt, failed, when) in enumerate(played):
            build = build_failed if failed else build_episode
            episode = ended(build(f"maze_{item}", attempt=attempt), when)
            try:
                stores[name].append_all([episode])
            except errors.DuplicateEpisode:
                continue
            if at in looks:
                followed.refresh()
        check_union(reader)
        followed.refresh()
        assert {it.key: it for it in followed.records()} == {
            it.key: it for it in reader.summaries()
        }


def check_union(reader):
    rows, attempts = {}, set()
    for name in STORES:
        alone = reader.stores()[name]
        for _, it in alone.summaries():
            row = (it.failed, it.attempt, it.ended_unix_ms, it.episode_id, name)
            rows.setdefault(it.key, []).append(row)
            if it.failed:
                attempts.add(it.episode_id)
        attempts |= {it.episode_id for _, it in alone.summaries(superseded=True)}
    expected = {key: standing(found) for key, found in rows.items()}
    given = {
        it.key: (it.failed, it.attempt, it.ended_unix_ms, it.episode_id)
        for it in reader.summaries()
    }
    assert given == {key: row[:4] for key, row in expected.items()}
    records = list(reader.episodes())
    assert [summarise(it) for it in records] == list(reader.summaries())
    assert len(records) == len(given) == reader.count()
    assert all(reader.get(episode_key(it)) == it for it in records)
    assert reader.finished_keys() == {key for key, row in expected.items() if not row[0]}
    assert {key: it.attempt for key, it in reader.failed_keys().items()} == {
        key: row[1] for key, row in expected.items() if row[0]
    }
    superseded = [it.episode_id for it in reader.summaries(superseded=True)]
    assert len(superseded) == len(set(superseded))
    assert set(superseded) == attempts - {row[3] for row in expected.values()}
    assert [it.episode_id for it in reader.episodes(superseded=True)] == superseded


def test_a_resume_has_what_the_shards_have_and_writes_beside_it(folder):
    RunStore.create(folder, build_manifest(), build_session()).close()
    first, failed = build_episode("maze_1"), build_failed("maze_2")
    write_shard(folder, "w0", first, failed)
    with RunStore.resume(folder, build_manifest(), build_session()) as store:
        assert store.finished_keys() == {episode_key(first)}
        assert store.failed_keys()[episode_key(failed)].attempt == 1
        assert store.manifest.shards == ("w0",)
        store.append_all([build_episode("maze_2", attempt=2)])
    with RunReader.open(folder) as run:
        assert [(it.item_id, it.attempt) for it in run.summaries()] == [
            ("maze_2", 2),
            ("maze_1", 1),
        ]
        assert [it.item_id for it in run.summaries(superseded=True)] == ["maze_2"]


def test_a_shard_that_the_run_names_must_be_there(store, folder):
    write_shard(folder, "w0", build_episode())
    store.note_shards(["w0"])
    store.close()
    assert read_manifest(folder).shards == ("w0",)
    shutil.rmtree(folder / SHARDS_FOLDER / "w0")
    with pytest.raises(errors.ShardMissing, match=r"1 of its shards .*\(w0\): copy them there"):
        RunReader.open(folder)
    with pytest.raises(errors.ShardMissing, match="w0"):
        RunStore.resume(folder, build_manifest(), build_session())


def test_another_runs_shard_is_refused(store, folder, tmp_path):
    other = tmp_path / "runs" / "other"
    RunStore.create(other, build_manifest(run_id="run-2"), build_session()).close()
    open_shard(other, "w0").close()
    shutil.copytree(other / SHARDS_FOLDER, folder / SHARDS_FOLDER)
    for read in (RunReader.open, lambda folder: open_shard(folder, "w0")):
        with pytest.raises(
            errors.ForeignShard, match=r"w0: .*shard of run 'run-2', not of 'run-1'"
        ):
            read(folder)


def test_a_shard_of_a_newer_program_is_refused_by_its_name(store, folder):
    open_shard(folder, "w0").close()
    path = folder / SHARDS_FOLDER / "w0" / MANIFEST_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 99}))
    with pytest.raises(errors.LayoutUnsupported, match=r"w0: manifest\.json has layout 99"):
        RunReader.open(folder)


def test_a_shard_has_one_writer_and_a_name(store, folder):
    with open_shard(folder, "w0"), pytest.raises(errors.RunLocked):
        open_shard(folder, "w0")
    for name in ("", "../other", ".hidden", "a/b", "+"):
        with pytest.raises(errors.UsageError, match="is no shard's name"):
            open_shard(folder, name)


def test_a_link_is_no_shard(store, folder, tmp_path):
    open_shard(folder, "w0").close()
    (folder / SHARDS_FOLDER / "w0").rename(tmp_path / "elsewhere")
    (folder / SHARDS_FOLDER / "w0").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(errors.ForeignFolder, match="w0 is a link"):
        RunReader.open(folder)


def test_what_a_shard_lost_is_told_with_its_name(store, folder):
    write_shard(folder, "w0", build_episode("maze_1"), build_episode("maze_2"))
    shard = folder / SHARDS_FOLDER / "w0"
    before = (shard / DATABASE_FILE).read_bytes()
    write_shard(folder, "w0", build_episode("maze_3"))
    (shard / DATABASE_FILE).write_bytes(before)
    with RunReader.open(folder) as run:
        assert [it.partition(":")[0] for it in run.loss()] == ["shards/w0"]
    store.close()
    with pytest.raises(errors.StoreCorrupt, match="w0: the last 1 of 3"):
        RunStore.resume(folder, build_manifest(), build_session())


async def test_a_run_that_shards_began_is_resumed_by_one_process(tmp_path):
    quiet = Console(quiet=True)
    config = RunConfig(
        environments=("maze",),
        policies=parse_policies("expert"),
        split="train",
        episodes=4,
        fleet=FleetConfig(spawn=1),
    )
    await play(config, tmp_path / "calm", resume=False, console=quiet)
    with RunReader.open(tmp_path / "calm") as calm:
        recorded, plan = list(calm.episodes()), calm.plan()
        manifest = replace(calm.manifest, sessions=())
        session = calm.manifest.sessions[0]
    with RunStore.create(tmp_path / "cut", manifest, session) as store:
        store.begin_playing(plan)
        for number, record in enumerate(recorded[:3]):
            write_shard(tmp_path / "cut", f"w{number}", record)
    outcome = await play(config, tmp_path / "cut", resume=True, console=quiet)
    assert (outcome.finished, outcome.planned, outcome.complete) == (4, 4, True)
    with RunReader.open(tmp_path / "cut") as resumed:
        assert [it.count() for it in resumed.stores().values()] == [1, 1, 1, 1]
        for record in recorded:
            again = resumed.get(episode_key(record))
            assert [it.state_hash for it in again.steps] == [it.state_hash for it in record.steps]
        assert resumed.verify() == []


def test_commands_read_a_run_with_shards(store, folder, tmp_path, capsys):
    store.append_all([build_episode("maze_1")])
    write_shard(folder, "w0", build_episode("maze_2"), build_failed("maze_3"))
    store.close()
    assert show.main([str(folder), "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(f"maze_{number}" in shown for number in (1, 2, 3))
    out = tmp_path / "out.html"
    assert export.main([str(folder), "--out", str(out), "--format", "html"]) == 0
    assert "maze_2" in out.read_text()
