"""Every environment package has the same rooms, so that whoever knows one finds a way in all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import env_servers.environments
from env_servers.sdk import BUILT_IN, EnvironmentUnavailable, load_environment

ENVIRONMENTS = Path(env_servers.environments.__path__[0])
ROOMS = {
    "environment.py": "the game: reset and step",
    "tasks.py": "item ids, splits and sources",
    "prompt.py": "conversation starts and action formats",
    "expert.py": "the scripted solver",
    "README.md": "facts: source, licences, quirks",
}


def test_every_package_is_registered_and_every_registered_one_is_there() -> None:
    packages = {path.parent.name for path in ENVIRONMENTS.glob("*/__init__.py")}
    assert packages == set(BUILT_IN)


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("name", BUILT_IN)
def test_every_environment_has_every_room(name: str, room: str) -> None:
    path = ENVIRONMENTS / name / room
    assert path.is_file(), f"{name} has no {room} ({ROOMS[room]})"
    assert path.read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_room_says_what_it_is_for(name: str) -> None:
    for room in ROOMS:
        if room.endswith(".py"):
            tree = ast.parse((ENVIRONMENTS / name / room).read_text(encoding="utf-8"))
            assert ast.get_docstring(tree), f"{name}/{room}"


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_environment_class_lives_in_its_room(name: str) -> None:
    try:
        environment = load_environment(name)
    except EnvironmentUnavailable as error:
        pytest.skip(str(error))
    assert environment.__module__ == f"env_servers.environments.{name}.environment"
