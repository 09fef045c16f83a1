"""Environments are found by name, and a name that is none is an error that helps."""

from __future__ import annotations

import pytest

from env_servers.sdk import (
    BUILT_IN,
    EnvironmentUnavailable,
    UnknownEnvironment,
    environment_names,
    load_environment,
)


def test_built_in_environments_are_listed_sorted():
    names = environment_names()
    assert names == sorted(names)
    assert set(BUILT_IN) <= set(names)


def test_a_built_in_environment_is_loaded_by_name():
    assert load_environment("echo").spec.name == "echo"


@pytest.mark.parametrize("name", ["no_such", "", "a.b", "../echo", "__main__", "json", "x" * 5000])
def test_other_names_are_unknown_and_the_error_lists_what_exists(name):
    with pytest.raises(UnknownEnvironment, match="echo") as raised:
        load_environment(name)
    assert len(str(raised.value)) < 500


def test_a_package_in_the_working_folder_is_found(tmp_path, monkeypatch):
    package = tmp_path / "found_here"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from env_servers.environments.echo import EchoEnvironment as environment\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert load_environment("found_here") is load_environment("echo")


def test_a_missing_engine_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "needs_engine.py").write_text("import engine_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EnvironmentUnavailable, match="install engine_that_is_not_there"):
        load_environment("needs_engine")


def test_a_mistyped_import_inside_a_package_is_not_blamed_on_the_installation(
    tmp_path, monkeypatch
):
    package = tmp_path / "mistyped"
    package.mkdir()
    (package / "__init__.py").write_text("from mistyped.enviroment import environment\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EnvironmentUnavailable, match="own package does not have"):
        load_environment("mistyped")
