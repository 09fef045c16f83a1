"""A new environment works as it was written, and nothing is overwritten to make it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib

import pytest

from env_servers.cli.check import Check
from env_servers.cli.new import ScaffoldError, create
from env_servers.sdk import SdkError, environment_names, load_environment
from env_servers.sdk.contract import run_contract
from env_servers.sdk.registry import ENTRY_POINT_GROUP


@pytest.fixture
def fresh_modules(monkeypatch):
    """What a test imports from its own folder is forgotten after it."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.usefixtures("fresh_modules")
def test_a_new_environment_keeps_the_contract_at_once(tmp_path, monkeypatch):
    create("fresh_game", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    report = run_contract("fresh_game")
    assert report.passed, report.text()
    assert load_environment("fresh_game").__name__ == "FreshGame"


def test_its_own_tests_pass_under_plain_pytest(tmp_path):
    create("tested_game", tmp_path)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tested_game"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "failed" not in done.stdout


def test_the_environment_file_is_short(tmp_path):
    scaffold = create("short_game", tmp_path)
    environment = scaffold.files[0]
    assert environment.name == "environment.py"
    assert len(environment.read_text().splitlines()) <= 90


def test_every_file_and_the_next_steps_carry_the_name(tmp_path):
    scaffold = create("named_game", tmp_path)
    assert scaffold.root == tmp_path / "named_game"
    assert {file.relative_to(scaffold.root).as_posix() for file in scaffold.files} == {
        "__init__.py",
        "environment.py",
        "README.md",
        "tests/__init__.py",
        "tests/test_named_game.py",
    }
    for text in [file.read_text() for file in scaffold.files if file.stat().st_size]:
        assert "named_game" in text
        assert "$" not in text
    assert "python -m env_servers check named_game" in scaffold.next_steps


def test_a_project_can_be_installed_by_its_entry_point(tmp_path):
    scaffold = create("packed_game", tmp_path, project=True)
    assert scaffold.root == tmp_path / "packed_game"
    project = tomllib.loads((scaffold.root / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][ENTRY_POINT_GROUP] == {"packed_game": "packed_game"}
    assert project["name"] == "packed-game"
    assert (scaffold.root / "packed_game" / "environment.py").exists()
    assert 'serve", "packed_game"' in (scaffold.root / "Dockerfile").read_text()
    assert "pip install -e ." in scaffold.next_steps


@pytest.mark.usefixtures("fresh_modules")
def test_a_game_that_its_expert_does_not_always_win_says_how_often(tmp_path, monkeypatch, capsys):
    scaffold = create("hard_game", tmp_path)
    code = scaffold.files[0].read_text()
    scaffold.files[0].write_text(code.replace("max_rounds=12", "max_rounds=4"))
    monkeypatch.syspath_prepend(tmp_path)
    assert Check(name="hard_game").run() == 1
    assert "--expert-success" in capsys.readouterr().out
    assert Check(name="hard_game", expert_success=0.05).run() == 0
    with pytest.raises(SdkError, match="--expert-success 60"):
        Check(name="hard_game", expert_success=60).run()


def test_an_existing_folder_or_file_is_left_alone(tmp_path):
    create("old_game", tmp_path)
    readme = tmp_path / "old_game" / "README.md"
    readme.write_text("mine")
    (tmp_path / "a_file").write_text("mine too")
    for name in ("old_game", "a_file"):
        with pytest.raises(ScaffoldError, match="exists already"):
            create(name, tmp_path)
    assert readme.read_text() == "mine"
    assert (tmp_path / "a_file").read_text() == "mine too"


@pytest.mark.parametrize(
    "name", ["", "MyEnv", "my-env", "my.env", "../up", "1st", "_x", "é", "class", "x" * 41, "a b"]
)
def test_impossible_names_are_refused_with_the_rule(tmp_path, name):
    with pytest.raises(ScaffoldError, match=r"lower-case letter|exists"):
        create(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [*environment_names(), "json", "pytest", "env_servers"])
def test_names_that_would_hide_something_are_refused(tmp_path, name):
    with pytest.raises(ScaffoldError, match="exists already"):
        create(name, tmp_path)


def test_a_folder_that_cannot_be_made_is_an_error_with_its_reason(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ScaffoldError, match="cannot create"):
        create("some_game", tmp_path / "file")
