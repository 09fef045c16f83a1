import json
import sqlite3

import pytest

from orchestrator import errors
from orchestrator.run_folder import DATABASE_FILE, find_run, run_names
from orchestrator.store import RunReader, RunStore
from tests.orchestrator.records import build_episode, build_manifest, build_session
from tests.orchestrator.test_store import contents, resume


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "run"
    with RunStore.create(folder, build_manifest(), build_session()) as store:
        store.append_all(build_episode(f"maze_{at}") for at in range(50))
    return folder


def refuse(folder, error: type[Exception], match: str) -> None:
    """Both ways of opening refuse, and nothing in the folder changes."""
    before = contents(folder)
    for opening in (RunReader.open, resume):
        with pytest.raises(error, match=match) as caught:
            opening(folder)
        assert "nothing was changed" in str(caught.value)
        assert contents(folder) == before


def test_a_closed_run_leaves_no_side_files(folder):
    assert sorted(contents(folder)) == [
        "episodes.sqlite",
        "episodes.tally",
        "manifest.json",
        "writer.lock",
    ]


def test_a_folder_without_a_manifest_is_foreign(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    refuse(tmp_path, errors.ForeignFolder, "has no manifest.json")


def test_another_program_s_manifest_is_foreign(folder):
    (folder / "manifest.json").write_text('{"name": "my web app"}')
    refuse(folder, errors.ForeignFolder, "another program's")


def test_another_program_s_database_is_foreign(folder):
    (folder / DATABASE_FILE).unlink()
    with sqlite3.connect(folder / DATABASE_FILE) as other:
        other.execute("CREATE TABLE photos (id)")
    other.close()
    refuse(folder, errors.ForeignFolder, "another program's database")


@pytest.mark.parametrize("text", ["", "{", "[1, 2", "\x00\xff", "[" * 100_000])
def test_a_broken_manifest_is_corrupt(folder, text):
    (folder / "manifest.json").write_text(text, encoding="latin-1")
    refuse(folder, errors.StoreCorrupt, "no JSON")


def test_an_incomplete_manifest_is_corrupt(folder):
    path = folder / "manifest.json"
    document = json.loads(path.read_text())
    del document["run_seed"]
    path.write_text(json.dumps(document))
    refuse(folder, errors.StoreCorrupt, "incomplete.*run_seed")


def test_a_newer_layout_is_refused_as_such(folder):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 99}))
    refuse(folder, errors.LayoutUnsupported, "layout 99")


def test_a_newer_database_layout_is_refused_as_such(folder):
    with sqlite3.connect(folder / DATABASE_FILE) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()
    refuse(folder, errors.LayoutUnsupported, "layout 99")


def test_a_missing_database_is_corrupt(folder):
    (folder / DATABASE_FILE).unlink()
    refuse(folder, errors.StoreCorrupt, "missing")


def test_a_database_that_is_none_is_corrupt(folder):
    (folder / DATABASE_FILE).write_bytes(b"junk" * 1000)
    refuse(folder, errors.StoreCorrupt, "no SQLite database")


def test_a_truncated_database_is_corrupt(folder):
    path = folder / DATABASE_FILE
    path.write_bytes(path.read_bytes()[:5000])
    refuse(folder, errors.StoreCorrupt, "damaged|opened|read")


def test_damaged_pages_are_found_before_anything_is_written(folder):
    path = folder / DATABASE_FILE
    data = bytearray(path.read_bytes())
    data[8192:] = b"\xa5" * (len(data) - 8192)
    path.write_bytes(data)
    before = contents(folder)
    with pytest.raises(errors.StoreCorrupt):
        resume(folder)
    assert contents(folder) == before


def test_a_database_of_another_run_is_corrupt(folder, tmp_path):
    other = tmp_path / "other"
    RunStore.create(other, build_manifest(run_id="run-2"), build_session()).close()
    (folder / DATABASE_FILE).write_bytes((other / DATABASE_FILE).read_bytes())
    refuse(folder, errors.StoreCorrupt, "another run")


def test_a_new_run_never_takes_a_used_folder(folder, tmp_path):
    before = contents(folder)
    with pytest.raises(errors.RunExists):
        RunStore.create(folder, build_manifest(), build_session())
    assert contents(folder) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(errors.ForeignFolder):
        RunStore.create(tmp_path / "mine", build_manifest(), build_session())
    with pytest.raises(errors.ForeignFolder, match="a file"):
        RunStore.create(tmp_path / "mine" / "notes.txt", build_manifest(), build_session())


def test_a_new_run_may_take_an_empty_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    RunStore.create(tmp_path / "empty", build_manifest(), build_session()).close()
    assert run_names(tmp_path) == ["empty"]


def test_a_failed_creation_leaves_nothing(tmp_path):
    unwritable = build_manifest(config={"limit": float("nan")})
    with pytest.raises(ValueError):
        RunStore.create(tmp_path / "run", unwritable, build_session())
    assert list(tmp_path.iterdir()) == []


def test_runs_are_found_by_path_or_name_and_the_valid_names_are_told(folder, tmp_path):
    assert find_run(str(folder)) == folder
    assert find_run("run", tmp_path) == folder
    with pytest.raises(errors.RunNotFound, match="runs here: run") as caught:
        find_run("nope", tmp_path)
    assert caught.value.exit_code == 2


def test_a_run_on_a_read_only_medium_can_be_read(folder):
    folder.chmod(0o555)
    try:
        with RunReader.open(folder) as reader:
            assert reader.count() == 50
    finally:
        folder.chmod(0o755)


def test_a_manifest_of_wrong_types_is_corrupt(folder):
    path = folder / "manifest.json"
    document = json.loads(path.read_text())
    document["environments"][0]["name"] = {}
    path.write_text(json.dumps(document))
    refuse(folder, errors.StoreCorrupt, "is incomplete")


def test_a_database_whose_damage_is_no_text_is_corrupt(folder):
    path = folder / DATABASE_FILE
    path.write_bytes(
        path.read_bytes().replace(b"CREATE TABLE episodes", b"CREATE TABLE epi\xfeodes")
    )
    refuse(folder, errors.StoreCorrupt, DATABASE_FILE)
