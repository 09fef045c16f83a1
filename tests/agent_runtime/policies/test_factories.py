"""Policies of other people: found by an entry point or in a module, and named when they fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_runtime.errors import PolicyMisconfigured, PolicyRejected
from agent_runtime.policies import POLICY_FORMS, PolicyConfig, PolicySpec, make_policy, policy_code

PARROT = """
from agent_runtime.policies import Completion, Policy, PolicySession

class Parrot(Policy):
    def __init__(self, target, config):
        self.name = f"parrot {target} {config.sampling.max_new_tokens}"

    def open(self, context):
        return ParrotSession()

class ParrotSession(PolicySession):
    async def reply(self, messages, *, turn, seed):
        return Completion(text=messages[-1].text)

def make(target, config):
    return Parrot(target, config)

made = Parrot("", __import__("agent_runtime.policies").policies.PolicyConfig())
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Write a module where Python finds it, and forget it after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write_module(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source)

    yield write_module
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def install(folder: Path, distribution: str, points: str, version: str = "1.2") -> None:
    """What pip leaves behind of a package: its name, its version and its entry points."""
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    )
    (info / "entry_points.txt").write_text(f"[agentgym.policies]\n{points}\n")


def refusal(spec: str) -> str:
    with pytest.raises(PolicyMisconfigured) as caught:
        make_policy(spec, PolicyConfig())
    assert not caught.value.retriable
    return str(caught.value)


@pytest.mark.parametrize(
    ("spec", "target"),
    [
        ("parrots:make", ""),
        ("parrots:Parrot:a:b", "a:b"),
        ("parrots:make:http://h:1/v1", "http://h:1/v1"),
    ],
)
def test_a_module_and_its_factory_are_a_policy(write, spec: str, target: str) -> None:
    write("parrots", PARROT)
    assert make_policy(spec, PolicyConfig()).name == f"parrot {target} 512"
    assert str(PolicySpec.parse(spec)) == spec


def test_a_module_of_a_package_is_found_by_its_dotted_name(write, tmp_path: Path) -> None:
    (tmp_path / "birds").mkdir()
    (tmp_path / "birds" / "__init__.py").touch()
    write("birds/parrots", PARROT)
    assert make_policy("birds.parrots:make", PolicyConfig()).name == "parrot  512"


def test_an_installed_package_offers_policies_by_name(write, tmp_path: Path) -> None:
    write("parrots", PARROT)
    install(tmp_path, "parrot-policies", "polly = parrots:make")
    assert make_policy("polly", PolicyConfig()).name == "parrot  512"
    policy = make_policy("polly:loud", PolicyConfig())
    assert policy.name == "parrot loud 512"
    code = policy_code(PolicySpec.parse("polly:loud"), policy)
    assert (code["module"], code["distribution"]) == ("parrots", "parrot-policies 1.2")
    assert "polly" in refusal("unknown")


def test_names_of_this_package_come_first_and_installed_ones_before_modules(
    write, tmp_path: Path
) -> None:
    write("parrots", PARROT)
    write("expert", "raise RuntimeError")
    write("polly", "raise RuntimeError")
    install(tmp_path, "parrot-policies", "polly = parrots:make\nexpert = parrots:make")
    assert make_policy("polly:make", PolicyConfig()).name == "parrot make 512"
    assert make_policy("expert", PolicyConfig()).name == "expert"
    assert "is to be written expert" in refusal("expert:make")


def test_two_packages_with_one_name_are_named_with_what_to_do(write, tmp_path: Path) -> None:
    write("parrots", PARROT)
    install(tmp_path, "parrots-a", "polly = parrots:make")
    install(tmp_path, "parrots-b", "polly = parrots:Parrot", version="3.0")
    said = refusal("polly")
    assert "parrots-a 1.2 (parrots:make)" in said and "parrots-b 3.0 (parrots:Parrot)" in said
    assert "uninstall" in said and "--policy parrots:" in said


@pytest.mark.parametrize(
    "spec", ["nowhere:make", "no.where:make", "not-a-name:x", "json", "__main__:x"]
)
def test_what_is_nowhere_is_answered_with_the_names_that_there_are(spec: str) -> None:
    said = refusal(spec)
    assert all(form in said for form in POLICY_FORMS) and "MODULE:FACTORY" in said


@pytest.mark.parametrize(
    ("source", "spec", "words"),
    [
        (PARROT, "parrots:mak", ("has no callable 'mak'", "Parrot", "make")),
        (PARROT, "parrots:made", ("has no callable 'made'",)),
        ("def make(target, config): pass", "parrots:make", ("gave None", "has to return")),
        ("def make(target, config): return str", "parrots:make", ("the class str itself",)),
        ("def make(): pass", "parrots:make", ("TypeError", "called with the target")),
        ("def make(t, c):\n  1 / 0", "parrots:make", ("ZeroDivisionError", "parrots.py, line 2")),
        ("import not_there", "parrots:make", ("No module named 'not_there'", "install")),
        ("1 / 0", "parrots:make", ("importing parrots", "ZeroDivisionError", "parrots.py, line 1")),
        ("a b", "parrots:make", ("SyntaxError",)),
        ("raise SystemExit(3)", "parrots:make", ("SystemExit",)),
        ("1 / 0", "parrots.inner:make", ("importing parrots", "ZeroDivisionError")),
    ],
)
def test_code_that_cannot_be_used_is_named_with_what_to_do(
    write, source: str, spec: str, words: tuple[str, ...]
) -> None:
    write("parrots", source)
    said = refusal(spec)
    assert "\n" not in said
    assert all(word in said for word in words), said


def test_an_entry_point_that_fails_at_import_is_named(write, tmp_path: Path) -> None:
    install(tmp_path, "parrot-policies", "polly = not_there:make\nmolly = parrots:nothing")
    write("parrots", PARROT)
    assert "importing not_there raised ModuleNotFoundError" in refusal("polly")
    assert "has no callable 'nothing'" in refusal("molly")


def test_what_a_factory_says_with_a_typed_error_is_left_as_it_is(write) -> None:
    write(
        "parrots",
        "from agent_runtime.errors import PolicyRejected\n"
        "def make(target, config):\n  raise PolicyRejected('no key')",
    )
    with pytest.raises(PolicyRejected, match=r"^no key$"):
        make_policy("parrots:make", PolicyConfig())


def test_code_is_identified_by_the_files_of_the_factory_and_of_the_class(write) -> None:
    write("birds", PARROT)
    write("parrots", "from birds import Parrot\ndef make(t, c): return Parrot(t, c)\n")
    spec = PolicySpec.parse("parrots:make")
    first = policy_code(spec, make_policy(spec, PolicyConfig()))
    assert (first["module"], first["distribution"], len(first["source"])) == ("parrots", "", 64)
    assert policy_code(spec, make_policy(spec, PolicyConfig())) == first
    write("birds", PARROT + "# changed\n")
    assert policy_code(spec, make_policy(spec, PolicyConfig()))["source"] != first["source"]
    expert = PolicySpec("expert")
    assert policy_code(expert, make_policy(expert, PolicyConfig())) == {}


@pytest.mark.slow
def test_a_package_that_pip_installs_is_played_by_its_name(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "parrots.py").write_text(PARROT)
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "parrot-policies"\nversion = "0.4"\n'
        '[project.entry-points."agentgym.policies"]\npolly = "parrots:make"\n'
        '[tool.hatch.build.targets.wheel]\ninclude = ["parrots.py"]\n'
    )
    options = (
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-q",
        "--target",
        tmp_path / "site",
    )
    subprocess.run([sys.executable, "-m", "pip", "install", *options, project], check=True)
    code = (
        f"import sys; sys.path.append({str(tmp_path / 'site')!r})\n"
        "from agent_runtime.policies import *\n"
        "policy = make_policy('polly', PolicyConfig())\n"
        "print(policy.name, policy_code(PolicySpec('polly'), policy)['distribution'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "parrot  512 parrot-policies 0.4\n"
