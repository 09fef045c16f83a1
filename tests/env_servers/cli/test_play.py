"""A person, or a pipe, plays an environment line by line."""

from __future__ import annotations

import dataclasses
import io

import pytest
import tyro
from rich.console import Console

from env_servers.cli.play import PlayConfig, PlayResult, play
from env_servers.environments.echo.environment import EchoEnvironment
from env_servers.sdk import InvalidOption, UnknownEnvironment, UnknownItem, UnknownSplit


@pytest.fixture
def session(monkeypatch):
    """Plays echo with the given lines as standard input; returns the result and what was shown."""

    def run(*lines, **config):
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        shown = io.StringIO()
        console = Console(file=shown, width=80, highlight=False)
        config = {"name": "echo", "options": ("observation_bytes=200",), **config}
        return play(PlayConfig(**config), console), shown.getvalue()

    return run


def test_lines_are_actions_until_the_input_ends(session):
    result, shown = session("hello", "you there")
    assert result == PlayResult("echo_1000000", 2, None, ended=False, solved=False)
    assert "Step 1, you said: 'hello'" in shown
    assert "> you there" in shown
    assert "2 steps, not scored, left" in shown


def test_the_game_ends_the_session(session):
    result, shown = session("a", "b", "c", "d", options=("length=3",))
    assert result == PlayResult("echo_1000000", 3, 1.0, ended=True, solved=True)
    assert "score 1, over: goal reached" in shown
    assert "you said: 'd'" not in shown


def test_images_are_named(session):
    _, shown = session("a", options=("images=2",))
    assert shown.count("[images, which a terminal does not show: image/png, image/png]") == 2


def test_quit_ends_the_session(session):
    result, shown = session("a", "/quit", "b")
    assert result.steps == 1
    assert "you said: 'b'" not in shown


def test_the_expert_is_asked_without_acting_and_obeyed_on_request(session):
    result, shown = session("/expert", "/do", "/random")
    assert "and does: message 1" in shown
    assert "Step 1, you said: 'message 1'" in shown
    assert "Step 2, you said: 'number " in shown
    assert result.steps == 2


def test_restart_begins_the_task_again(session):
    result, shown = session("a", "/restart", "b")
    assert result.steps == 1
    assert "Step 1, you said: 'b'" in shown


def test_help_and_rules_are_shown_and_unknown_commands_are_no_actions(session):
    result, shown = session("/help", "/rules", "/jump", "")
    assert "/restart" in shown
    assert "You talk to an echo" in shown
    assert "There is no command /jump" in shown
    assert result.steps == 0


def test_what_is_typed_is_neither_markup_nor_a_terminal_escape(session):
    _, shown = session("[bold]loud[/bold] [/nothing]", "\x1b[31mred")
    assert "'[bold]loud[/bold] [/nothing]'" in shown
    assert "\x1b" not in shown


def test_watching_the_expert_solves_the_task(session):
    result, shown = session(expert=True, options=("length=4",))
    assert (result.steps, result.solved) == (4, True)
    assert "> message 4" in shown


def test_watching_stops_at_max_rounds(session):
    result, _ = session(expert=True, options=("length=0",))
    assert (result.steps, result.ended) == (20, False)


def test_a_person_is_told_where_an_evaluation_would_end(session):
    _, shown = session(*["go"] * 21, options=("length=0",))
    assert shown.count("An evaluation would end here") == 1


def test_item_and_split_choose_the_task(session):
    assert session(item="echo_1000042")[0].item_id == "echo_1000042"
    assert session(split="eval")[0].item_id == "echo_1010000"


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"name": "no_such"}, UnknownEnvironment),
        ({"item": "echo_5"}, UnknownItem),
        ({"split": "test"}, UnknownSplit),
        ({"profile": "odd"}, InvalidOption),
        ({"options": ("size=3",)}, InvalidOption),
        ({"options": ("size",)}, InvalidOption),
    ],
)
def test_what_does_not_exist_is_a_typed_error(session, config, error):
    with pytest.raises(error):
        session(**config)


def test_the_command_line_is_generated_from_the_config():
    config = tyro.cli(
        PlayConfig, args=["echo", "--item", "echo_1000001", "--options", "length=3", "--expert"]
    )
    assert config == PlayConfig("echo", "echo_1000001", options=("length=3",), expert=True)


def test_a_state_is_drawn_as_text_where_it_can_be(session):
    _, shown = session("/picture", name="maze", options=())
    assert "Map and way: image/svg+xml, no text; the viewer shows it." in shown
    assert "# #G# #" in shown


def test_an_environment_without_pictures_says_so(session, monkeypatch):
    spec = dataclasses.replace(EchoEnvironment.spec, has_views=False)
    monkeypatch.setattr(EchoEnvironment, "spec", spec)
    assert "echo draws no pictures." in session("/picture")[1]
