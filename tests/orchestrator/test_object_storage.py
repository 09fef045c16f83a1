import contextlib
import shutil
import socket
import subprocess
import time
import urllib.request
import uuid
from pathlib import Path

import pytest

from orchestrator import audit, compare, errors, export, fetch, forget_shards, put, show
from orchestrator.object_storage import fetch_run, locate_run, put_run, runs_cache
from orchestrator.records import episode_key
from orchestrator.run_folder import SHARDS_FOLDER
from orchestrator.store import RunReader, RunStore
from tests.orchestrator.records import build_episode, build_manifest, build_session

pytest.importorskip("obstore", reason="the extra object-storage is not installed")
EPISODES = [build_episode(f"maze_{at}") for at in range(4)]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "runs" / "first"
    with RunStore.create(folder, build_manifest(), build_session()) as store:
        store.append_all(EPISODES[:2])
        add_shard(folder, "w0", *EPISODES[2:])
        store.note_shards(["w0"])
    return folder


def add_shard(folder, name, *episodes):
    with RunStore.open_shard(folder, name, build_session()) as shard:
        shard.append_all(episodes)


@pytest.fixture(params=["memory", "file"])
def url(request, tmp_path):
    place = f"/{uuid.uuid4().hex}" if request.param == "memory" else tmp_path / "storage"
    return f"{request.param}://{place}/first"


def sent(run, url):
    return {store.name for store in put_run(run, url) if store.sent}


def test_a_run_is_put_store_by_store_and_read_by_its_url(run, url):
    assert sent(run, url) == {"w0", ""}
    copy = locate_run(url)
    with RunReader.open(copy) as reader:
        assert list(reader.episodes()) == EPISODES
        assert reader.verify() == []
    assert copy.name == "first"
    assert copy.is_relative_to(runs_cache())


def test_what_is_there_is_not_sent_again_and_what_grew_replaces_it(run, url, tmp_path):
    put_run(run, url)
    before = fetch_run(url)
    assert sent(run, url) == set()
    assert fetch_run(url) == before
    add_shard(run, "w1", build_episode("maze_9"))
    add_shard(run, "w0", build_episode("maze_8"))
    assert sent(run, url) == {"w0", "w1"}
    with RunReader.open(fetch_run(url)) as reader:
        assert (reader.count(), reader.verify()) == (6, [])
    with RunReader.open(before) as reader:
        assert reader.count() == 4
    stored = [it.name for it in (tmp_path / "storage").rglob("*episodes.sqlite")]
    assert len(stored) in (0, 3), "what nobody names any more is removed"


def test_a_run_that_is_played_is_put_as_of_one_moment(run, url):
    with RunStore.resume(run, build_manifest(), build_session()) as store:
        store.append_all([build_episode("maze_7")])
        put_run(run, url)
    with RunReader.open(fetch_run(url)) as reader:
        assert reader.get(episode_key(build_episode("maze_7"))) is not None
        assert reader.loss() == []


def test_a_fetched_run_goes_on(run, url, tmp_path, capsys):
    assert put.main([str(run), url]) == 0
    assert "shard w0" in capsys.readouterr().out
    assert fetch.main([url, str(tmp_path / "again")]) == 0
    with RunStore.resume(tmp_path / "again", build_manifest(), build_session()) as store:
        store.append_all([build_episode("maze_7")])
        assert store.count() == 5
    with RunReader.open(fetch_run(url)) as reader:
        assert reader.count() == 4


def test_commands_take_a_url(run, url, tmp_path, capsys):
    put_run(run, url)
    assert show.main([url, "--list"]) == 0
    assert "maze_3" in capsys.readouterr().out
    out = tmp_path / "out.jsonl"
    assert export.main([url, "--out", str(out), "--format", "sharegpt"]) == 0
    assert len(out.read_text().splitlines()) == 4
    assert audit.main([url, "--out", str(tmp_path / "certificate.json")]) == 0
    assert audit.main([url]) == 2
    assert compare.main([str(run), url]) == 0


def test_what_is_not_there_is_told(run, url, tmp_path):
    with pytest.raises(errors.RemoteRunNotFound, match=r"no run is there: .*orchestrator\.put"):
        fetch_run(url)
    put_run(run, url)
    other = tmp_path / "other"
    RunStore.create(other, build_manifest(run_id="run-2"), build_session()).close()
    with pytest.raises(errors.UsageError, match="has run 'run-1', not 'run-2'"):
        put_run(other, url)
    with pytest.raises(errors.RunExists):
        fetch_run(url, run)
    with pytest.raises(errors.UsageError, match="cannot be opened"):
        fetch_run("nothing://bucket/run")


def test_a_file_that_was_changed_there_is_not_read(run, tmp_path):
    put_run(run, f"file://{tmp_path}/storage")
    (database,) = (tmp_path / "storage").glob("*-episodes.sqlite")
    database.write_bytes(database.read_bytes() + b"x")
    with pytest.raises(
        errors.ObjectStorageError, match=r"episodes\.sqlite is not what store\.json"
    ):
        fetch_run(f"file://{tmp_path}/storage")


def test_a_lost_shard_can_be_forgotten(run, capsys):
    shutil.rmtree(run / SHARDS_FOLDER / "w0")
    with pytest.raises(errors.ShardMissing):
        RunReader.open(run)
    assert forget_shards.main([str(run), "w0"]) == 0
    with RunReader.open(run) as reader:
        assert reader.count() == 2
    assert forget_shards.main([str(run), "w0"]) == 2
    assert "the run names no such shard" in capsys.readouterr().err


@pytest.fixture
def s3(monkeypatch):
    """A server that speaks S3, with the bucket `bucket`."""
    program = shutil.which("moto_server")
    if program is None:
        pytest.skip("no S3 server: moto_server, of moto, is not on the PATH")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([program, "-p", str(port)], **quiet) as server:
        try:
            make_bucket(f"{address}/bucket")
            yield "s3://bucket/runs/first"
        finally:
            server.terminate()


def make_bucket(address):
    for _ in range(300):
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(urllib.request.Request(address, method="PUT")).close()
        time.sleep(0.1)
    raise TimeoutError(address)


@pytest.mark.slow
def test_a_run_lies_on_s3(run, s3, monkeypatch):
    assert sent(run, s3) == {"w0", ""}
    add_shard(run, "w1", build_episode("maze_9"))
    assert sent(run, s3) == {"w1"}
    with RunReader.open(locate_run(s3)) as reader:
        assert (reader.count(), reader.verify()) == (5, [])
    with pytest.raises(errors.RemoteRunNotFound, match="no run is there"):
        fetch_run("s3://bucket/nothing")
    for use in (fetch_run, lambda url: put_run(Path(run), url)):
        with pytest.raises(errors.BucketMissing, match="no such bucket: make it"):
            use("s3://nowhere/run")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(errors.CredentialsRefused, match="AWS_ACCESS_KEY_ID"):
        fetch_run("s3://another/run")
