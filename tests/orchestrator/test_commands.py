import json
import shlex
import sqlite3
import subprocess
import sys

import pytest

from orchestrator import audit, export, show
from orchestrator.run_folder import DATABASE_FILE
from orchestrator.store import RunStore
from tests.orchestrator.records import (
    build_episode,
    build_failed,
    build_manifest,
    build_session,
)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "runs" / "first"
    with RunStore.create(folder, build_manifest(), build_session()) as store:
        store.append_all([build_episode("maze_1"), build_episode("maze_2"), build_failed("maze_3")])
    return folder


def test_export_writes_a_file_and_says_what_it_left_out(folder, tmp_path, capsys):
    out = tmp_path / "out.json"
    arguments = ["first", "--runs", str(folder.parent), "--format", "agenttraj", "--out", str(out)]
    assert export.main(arguments) == 0
    assert len(json.loads(out.read_text())) == 2
    assert "2 episodes, 1 left out" in capsys.readouterr().err
    assert export.main(arguments) == 2
    assert "exists" in capsys.readouterr().err
    assert export.main([*arguments, "--overwrite", "--include-failed"]) == 0
    assert len(json.loads(out.read_text())) == 3


def test_export_filters_by_flags(folder, tmp_path):
    out = tmp_path / "out.jsonl"
    arguments = [str(folder), "--format", "messages", "--out", str(out)]
    assert export.main([*arguments, "--environment", "maze", "--min-reward", "2"]) == 0
    assert out.read_text() == ""


@pytest.mark.parametrize(
    ("arguments", "valid"),
    [
        (["--format", "csv", "--out", "x"], "sharegpt"),
        (["--format", "messages", "--out", "x", "--environment", "chess"], "valid: maze"),
        (["--format", "messages", "--out", "/nowhere/x"], "no folder /nowhere"),
        (["--format", "messages"], "--out"),
    ],
)
def test_usage_errors_end_with_2_and_name_what_is_valid(folder, arguments, valid, capsys):
    assert export.main([str(folder), *arguments]) == 2
    told = capsys.readouterr().err
    assert valid in told
    assert "Traceback" not in told


def test_an_unknown_run_ends_with_2_and_names_the_runs(folder, capsys):
    for command in (show, audit):
        assert command.main(["second", "--runs", str(folder.parent)]) == 2
        assert "runs here: first" in capsys.readouterr().err


def test_a_corrupt_run_is_explained_without_a_traceback(folder, capsys):
    (folder / DATABASE_FILE).write_bytes(b"junk" * 100)
    assert show.main([str(folder)]) == 1
    told = capsys.readouterr().err
    assert "no SQLite database" in told
    assert "Traceback" not in told


def test_show_prints_the_summary(folder, capsys):
    assert show.main([str(folder), "--plain"]) == 0
    text = capsys.readouterr().out
    assert "run-1: policy scripted" in text
    assert "1 x policy: POLICY_UNAVAILABLE (1 given up)" in text
    assert "the model's server went away" in text
    assert f"--episode {build_failed('maze_3').episode_id[:12]}" in text
    assert show.main([str(folder), "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)["results"]
    assert (row["finished"], row["successes"], row["failures"]) == (2, 2, {"POLICY": 1})


def test_show_prints_one_episode_by_id_or_item(folder, capsys):
    episode = build_episode("maze_2")
    assert show.main([str(folder), "--episode", episode.episode_id[:10], "--plain"]) == 0
    by_id = capsys.readouterr().out
    assert show.main([str(folder), "--item", "maze_2", "--sample", "0", "--plain"]) == 0
    assert capsys.readouterr().out == by_id
    assert "Action: move left" in by_id
    assert show.main([str(folder), "--item", "maze_2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["item_id"] == "maze_2"


def test_a_list_without_a_match_says_what_there_is(folder, capsys):
    assert show.main([str(folder), "--reason", "NOSUCH"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("0 episodes of 3, which have --environment maze; --policy scripted; ")
    assert "--reason GOAL_REACHED, POLICY_UNAVAILABLE" in told
    assert show.main([str(folder), "--attempts"]) == 0
    assert "there are none" in capsys.readouterr().out


def test_a_command_that_is_shown_can_be_pasted_whatever_the_folder_is_called(folder, capsys):
    spaced = folder.rename(folder.parent / "a first run")
    assert show.main([str(spaced), "--plain"]) == 0
    shown = next(it for it in capsys.readouterr().out.splitlines() if "orchestrator.show" in it)
    _, _, _, *arguments = shlex.split(shown)
    assert show.main([*arguments, "--plain"]) == 0
    assert "the model's server went away" in capsys.readouterr().out


def test_show_lists_episodes(folder, capsys):
    assert show.main([str(folder), "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3:] == ["3 episodes"]
    assert "failed: policy, POLICY_UNAVAILABLE" in lines[2]
    assert show.main([str(folder), "--list", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["reward"] for row in rows] == [1.0, 1.0, None]


@pytest.mark.parametrize(
    ("flags", "items"),
    [
        (["--outcome", "failed"], ["maze_3"]),
        (["--outcome", "success", "--min-rounds", "2"], ["maze_1", "maze_2"]),
        (["--outcome", "loss"], []),
        (["--reason", "POLICY_UNAVAILABLE"], ["maze_3"]),
        (["--reason", "GOAL_REACHED", "--policy", "scripted"], ["maze_1", "maze_2"]),
        (["--max-score", "0.5"], []),
        (["--min-score", "0.5", "--max-rounds", "2"], ["maze_1", "maze_2"]),
        (["--environment", "wordle"], []),
        (["--page", "2", "--page-size", "2"], ["maze_3"]),
        (["--attempts"], []),
    ],
)
def test_show_lists_what_passes_its_filters(folder, flags, items, capsys):
    assert show.main([str(folder), *flags, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["item_id"] for row in rows] == items


def test_show_names_items_where_one_is_unknown(folder, capsys):
    assert show.main([str(folder), "--item", "maze_77"]) == 2
    assert "maze_1, maze_2, maze_3" in capsys.readouterr().err


def test_a_sound_run_gets_its_certificate(folder, capsys):
    assert audit.main([str(folder)]) == 0
    assert "audit passed: 3 episodes" in capsys.readouterr().out
    certificate = json.loads((folder / "audit.json").read_text())
    assert certificate["passed"] is True
    assert (certificate["episodes"], certificate["failed_episodes"]) == (3, 1)
    assert set(certificate["checks"].values()) == {0}
    assert len(certificate["records_sha256"]) == 64


def test_a_run_with_a_bad_record_fails_its_audit(folder, capsys):
    bad = build_episode("maze_9")
    bad.seed += 1
    with RunStore.resume(folder, build_manifest(), build_session()) as store:
        store.append_all([bad])
    assert audit.main([str(folder)]) == 1
    assert "seeds" in capsys.readouterr().out
    certificate = json.loads((folder / "audit.json").read_text())
    assert certificate["checks"]["seeds"] == 1
    assert certificate["findings"][0]["episode_id"] == bad.episode_id


def test_a_damaged_store_fails_its_audit(folder, tmp_path):
    with sqlite3.connect(folder / DATABASE_FILE) as other:
        other.execute("UPDATE episodes SET reward = 9 WHERE item_id = 'maze_1'")
    out = tmp_path / "certificate.json"
    assert audit.main([str(folder), "--out", str(out)]) == 1
    certificate = json.loads(out.read_text())
    assert (certificate["passed"], certificate["checks"]["store"]) == (False, 1)


def test_the_same_records_have_the_same_digest_in_any_order(folder, tmp_path):
    other = tmp_path / "runs" / "other"
    with RunStore.create(other, build_manifest(), build_session()) as store:
        store.append_all([build_failed("maze_3"), build_episode("maze_2"), build_episode("maze_1")])
    digests = set()
    for run in (folder, other):
        assert audit.main([str(run)]) == 0
        digests.add(json.loads((run / "audit.json").read_text())["records_sha256"])
    assert len(digests) == 1


def test_importing_the_package_imports_nothing_heavy():
    script = (
        "import importlib, pkgutil, sys, orchestrator, orchestrator.formats\n"
        "for package in (orchestrator, orchestrator.formats):\n"
        "    for module in pkgutil.iter_modules(package.__path__):\n"
        "        importlib.import_module(f'{package.__name__}.{module.name}')\n"
        "print(sorted({'torch', 'pyarrow', 'numpy', 'env_servers'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_run_without_a_cluster_imports_nothing_of_ray_and_nothing_heavy(tmp_path):
    script = (
        "import sys\n"
        "from orchestrator import sample\n"
        "flags = ['--env', 'maze', '--policy', 'expert', '--episodes', '1', '--out', sys.argv[1]]\n"
        "status = sample.main(flags)\n"
        "heavy = {'numpy', 'pyarrow', 'ray', 'torch', 'transformers'}\n"
        "print(status, sorted({it.partition('.')[0] for it in sys.modules} & heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "0 []"
