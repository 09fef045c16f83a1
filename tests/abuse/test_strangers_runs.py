"""A stranger's run folder is read, and never obeyed: it runs nothing and writes nowhere else."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym.episode.v1 import episode_pb2
from orchestrator import export, replay, sample, show
from orchestrator.audit import main as audit
from orchestrator.manifest import Manifest
from orchestrator.store import RunStore
from tests.orchestrator.records import (
    build_episode,
    build_failed,
    build_manifest,
    build_session,
)

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e[/bold]"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("recorded") / "run"
    flags = ["--env", "maze", "--policy", "expert", "--episodes", "1", "--spawn", "1"]
    assert sample.main([*flags, "--out", str(run)]) == 0
    return run


@pytest.fixture
def run(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "stranger"))


def edit_manifest(run: Path, change: Callable[[dict], None]) -> None:
    path = run / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def every_command(run: Path, out: Path) -> dict[str, int]:
    return {
        "show": show.main([str(run)]),
        "list": show.main([str(run), "--list"]),
        "export": export.main([str(run), "--format", "messages", "--out", str(out)]),
        "audit": audit([str(run)]),
        "replay": replay.main([str(run), "--spawn", "1"]),
        "resume": sample.main(["--resume", str(run)]),
    }


@pytest.mark.parametrize(
    "name",
    ["manifest.json", "episodes.sqlite", "writer.lock", "logs", "logs/run.jsonl"],
)
def test_links_in_the_folder_lead_nowhere(
    run: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A resume once emptied whatever `writer.lock` was a link to."""
    victim = tmp_path / "victim"
    shutil.move(run / name, victim)
    (run / name).symlink_to(victim)
    before = victim.read_bytes() if victim.is_file() else sorted(victim.iterdir())
    assert set(every_command(run, tmp_path / "out").values()) == {1}
    assert before == (victim.read_bytes() if victim.is_file() else sorted(victim.iterdir()))
    assert f"{name} is a link" in " ".join(capsys.readouterr().err.split())


def test_the_folder_itself_may_be_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run)
    assert show.main([str(tmp_path / "link")]) == 0


def test_a_pipe_in_place_of_a_file_holds_nobody_up(run: Path, tmp_path: Path) -> None:
    (run / "writer.lock").unlink()
    os.mkfifo(run / "writer.lock")
    assert sample.main(["--resume", str(run)]) == 1
    assert stat.S_ISFIFO((run / "writer.lock").stat().st_mode)


@pytest.mark.parametrize(
    "program",
    [
        "CREATE TRIGGER t AFTER INSERT ON episodes BEGIN DELETE FROM episodes; END",
        "CREATE VIEW v AS SELECT zeroblob(1000000000)",
        "ALTER TABLE episodes RENAME TO hidden; CREATE VIEW episodes AS SELECT * FROM hidden",
    ],
)
def test_a_database_that_is_a_program_is_refused(run: Path, program: str) -> None:
    connection = sqlite3.connect(run / "episodes.sqlite")
    connection.executescript(program)
    connection.close()
    assert show.main([str(run)]) == 1
    assert sample.main(["--resume", str(run)]) == 1


def made_by_a_stranger(folder: Path, manifest: Manifest, *episodes: episode_pb2.Episode) -> Path:
    """A run whose records are as whole as any, and whose manifest this user did not sign."""
    session = build_session(code_version=ESCAPES, started=ESCAPES)
    with RunStore.create(folder, manifest, session) as store:
        store.append_all(episodes)
    edit_manifest(folder, lambda document: document.pop("signature"))
    return folder


def test_control_sequences_do_not_reach_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_id = f"id{ESCAPES}"
    names = {"environment": f"maze{ESCAPES}", "policy": f"expert{ESCAPES}", "run_id": run_id}
    failed = build_failed(f"maze_2{ESCAPES}", **names)
    failed.error.reason = failed.error.message = ESCAPES
    played = build_episode(f"maze_1{ESCAPES}", replies=(ESCAPES, ESCAPES), **names)
    manifest = build_manifest(run_id=run_id, policy=ESCAPES)
    run = made_by_a_stranger(tmp_path / "run", manifest, played, failed)
    every_command(run, tmp_path / "out")
    for item in (played.item_id, failed.item_id, "nosuch"):
        show.main([str(run), "--item", item])
        show.main([str(run), "--item", item, "--plain"])
    shown = capfd.readouterr()
    for text in (shown.out, shown.err):
        assert "\\x1b" in text
        assert not set("\x1b\x07\x9b\u202e") & set(text)
        assert "Traceback" not in text


@pytest.mark.parametrize(
    ("path", "value", "flag"),
    [
        (("fleet", "server_options"), ["--address-file", "victim"], "--server-options"),
        (("fleet", "servers"), ["192.0.2.1:1"], "--servers"),
        (("agent", "openai", "api_key_env"), "AWS_SECRET_ACCESS_KEY", "--openai.api-key-env"),
        (("serve", "python"), "/tmp/evil", "--serve.python"),
    ],
)
def test_a_resume_does_not_follow_a_strangers_manifest(
    run: Path,
    path: tuple[str, ...],
    value: object,
    flag: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def change(manifest: dict) -> None:
        section = manifest["sessions"][-1]["settings"]
        for name in path[:-1]:
            section = section[name]
        section[path[-1]] = value

    edit_manifest(run, change)
    assert sample.main(["--resume", str(run)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "somebody else began this run" in said and flag in said and "--trust-run" in said
    assert not Path("victim").exists()


def test_a_resume_follows_what_its_user_repeats_or_trusts(run: Path) -> None:
    def change(manifest: dict) -> None:
        manifest["sessions"][-1]["settings"]["fleet"]["server_options"] = ["--threads", "2"]

    edit_manifest(run, change)
    asked = ["--resume", str(run)]
    assert sample.main(asked) == 2
    assert sample.main([*asked, "--server-options=--threads", "2"]) == 0
    assert sample.main(asked) == 0, "since then it is this user's own"
    edit_manifest(run, change)
    edit_manifest(run, lambda manifest: manifest.update(created="yesterday"))
    assert sample.main(asked) == 2
    assert sample.main([*asked, "--trust-run"]) == 0


def test_a_package_beside_the_run_is_not_imported(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(manifest: dict) -> None:
        manifest["config"]["environments"] = ["stranger"]

    edit_manifest(run, change)
    played = made_by_a_stranger(
        tmp_path / "played", build_manifest(), build_episode(environment="stranger")
    )
    (run / "__init__.py").write_text("open('victim', 'w')")
    monkeypatch.chdir(tmp_path)
    for command in (
        lambda: replay.main([str(played)]),
        lambda: sample.main(["--resume", str(run)]),
    ):
        assert command() == 2
        assert "would be imported" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "victim").exists()
