"""What there is: a line for each environment, and everything about one."""

import dataclasses
import io

from rich.console import Console

from env_servers.__main__ import main
from env_servers.cli.list import describe_environments, print_environments
from env_servers.environments.echo.environment import EchoEnvironment
from env_servers.sdk import EnvironmentUnavailable

NAMES = ["echo", "maze", "sciworld", "searchqa", "wordle"]
"""The widest in each column among them."""


def written(show, names, width=80):
    console = Console(width=width, file=io.StringIO(), record=True)
    show(names, None, console)
    return console.export_text()


def test_the_table_has_one_line_of_80_columns_for_each_environment_and_cuts_nothing():
    text = written(print_environments, NAMES)
    lines = [line.rstrip() for line in text.splitlines()]
    assert max(map(len, lines)) <= 80
    assert "…" not in text
    for name in NAMES:
        assert sum(line.split()[:1] == [name] for line in lines) == 1
    assert " ".join(next(line for line in lines if " maze " in line).split()) == (
        "maze 2,000 200 25 - 15 success rate inline"
    )


def test_everything_about_one_fits_80_columns_too():
    text = written(describe_environments, ["wordle", "babyai"])
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    said = " ".join(text.split())
    assert "train_open 1,748, eval_open 300, official_train 955, official_eval 25" in said
    assert "profiles agentgym, fixed" in said


def test_it_is_said_whether_an_environment_draws_pictures(monkeypatch):
    maze = " ".join(written(describe_environments, ["maze"]).split())
    assert "pictures drawn for people images none" in maze
    echo = " ".join(written(describe_environments, ["echo"]).split())
    assert "images by an option, for agents" in echo
    spec = dataclasses.replace(EchoEnvironment.spec, has_views=False)
    monkeypatch.setattr(EchoEnvironment, "spec", spec)
    assert "pictures none" in " ".join(written(describe_environments, ["echo"]).split())


def test_what_is_not_installed_says_what_it_needs_and_hides_nothing(monkeypatch):
    def load_tasks(_config):
        raise EnvironmentUnavailable("it needs an engine: install it")

    monkeypatch.setattr(EchoEnvironment, "load_tasks", load_tasks)
    for show in (print_environments, describe_environments):
        text = written(show, ["echo", "maze"])
        assert "echo: it needs an engine: install it" in text and "maze" in text


def test_the_command_prints_80_columns_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["list", "echo", "maze"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 40 < max(map(len, lines)) <= 80
