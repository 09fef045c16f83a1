"""What the documentation says of files, links, rules and flags is true."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
READMES = sorted(
    page
    for package in ("agent_runtime", "benchmark", "env_servers", "training")
    for page in (REPOSITORY / package).rglob("*.md")
)
"""Pages of the packages themselves."""
PAGES = sorted(
    [*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md"), *(REPOSITORY / "examples").glob("*.md")]
)
ROOMS = (
    ".github",
    "agent_runtime",
    "benchmark",
    "deploy",
    "docs",
    "env_servers",
    "examples",
    "gen",
    "orchestrator",
    "protos",
    "recipes",
    "tests",
    "training",
)
PATH = re.compile(rf"`((?:{'|'.join(map(re.escape, ROOMS))})/[\w./<>-]*)`")
ROOT_FILE = re.compile(r"`([\w.-]+\.(?:toml|yml|yaml|txt|md|json|py))`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(
    r"python -m ((?:env_servers|orchestrator|agent_runtime|training|benchmark)[\w.]*)([^`\n|]*)"
)
FLAG = re.compile(r"(?<=\s)--[a-z][\w.-]*")


def page_id(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def exists(path: str) -> bool:
    """Whether a path of the repository is there; `<name>` stands for any name."""
    return any(REPOSITORY.glob(re.sub(r"<[\w-]+>", "*", path.rstrip("/"))))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    missing = [path for path in PATH.findall(page.read_text("utf-8")) if not exists(path)]
    assert missing == []


@pytest.mark.parametrize("page", READMES, ids=page_id)
def test_every_module_that_a_package_speaks_of_exists(page: Path) -> None:
    names = re.findall(r"`([\w/-]+\.(?:py|toml|proto))`", page.read_text("utf-8"))
    missing = [name for name in names if not (exists(name) or any(page.parent.rglob(name)))]
    assert [name for name in missing if not any(REPOSITORY.glob(f"*/**/{name}"))] == []


# ---------------------------------------------------------------------------- where to add what


@cache
def places() -> dict[str, list[str]]:
    """The files that the architecture page names for each kind of addition."""
    text = (DOCS / "architecture.md").read_text("utf-8")
    section = text.split("\n## Where to add what\n")[1].split("\n## ")[0]
    files: defaultdict[str, list[str]] = defaultdict(list)
    for line in section.splitlines():
        if line.startswith("### "):
            heading = line.removeprefix("### ")
        elif entry := re.match(r"\d+\. `([^`]+)`", line):
            files[heading].append(entry[1])
    return dict(files)


@pytest.mark.parametrize(
    "addition", ["A policy", "An environment", "A stop reason", "An export format"]
)
def test_a_newcomer_is_told_which_files_to_touch(addition: str) -> None:
    files = places()[addition]
    assert len(files) >= 3
    assert [path for path in files if not exists(path)] == []


def test_all_that_can_be_added_names_files_that_exist() -> None:
    missing = {
        addition: [path for path in files if not exists(path)]
        for addition, files in places().items()
    }
    assert not any(missing.values()), missing


# ---------------------------------------------------------------------------- import contracts


def test_every_import_contract_is_a_rule_of_the_page_and_every_rule_a_contract() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    contracts = [it["name"] for it in project["tool"]["importlinter"]["contracts"]]
    text = (DOCS / "architecture.md").read_text("utf-8")
    table = text.split("| contract | why |\n")[1].split("\n\n")[0]
    rules = [row.split(" | ")[0].removeprefix("| ") for row in table.splitlines()[1:]]
    assert sorted(rules) == sorted(contracts)


# ---------------------------------------------------------------------------- links


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as Markdown renderers make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in plain}


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=page_id)
def test_every_link_between_files_resolves(page: Path) -> None:
    for target in LINK.findall(page.read_text("utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), f"{target} is not there"
        if anchor:
            assert anchor in anchors(file), f"{target}: {file.name} has no such heading"


# ---------------------------------------------------------------------------- commands


def commands() -> Iterator[tuple[str, str]]:
    """Each command of the documentation as the program whose help describes it, and a flag."""
    for page in [*PAGES, *READMES]:
        for module, rest in COMMAND.findall(page.read_text("utf-8").replace("\\\n", " ")):
            rest = rest.split(" #")[0]
            words = rest.split()
            program = module
            if module == "env_servers":
                if not words or not words[0].isalpha():
                    continue
                program += f" {words[0]}"
            if module.startswith("env_servers.environments."):
                continue  # tools of single environments, which take no flags
            yield program, ""
            for flag in FLAG.findall(rest.split("&&")[0]):
                yield program, flag


@cache
def help_text(program: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-m", *program.split(), "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
    )
    assert finished.returncode == 0, f"python -m {program} --help\n{finished.stderr}"
    return re.sub(r"\x1b\[[0-9;]*m", "", finished.stdout)


def flags_by_program() -> dict[str, set[str]]:
    flags: defaultdict[str, set[str]] = defaultdict(set)
    for program, flag in commands():
        flags[program].add(flag)
    return {program: flags[program] - {"", "--help"} for program in sorted(flags)}


def needs_torch(program: str) -> bool:
    return program.startswith(("training.", "benchmark.training", "benchmark.policy.embedded"))


FLAGS = flags_by_program()


def check_flags(program: str) -> None:
    text = help_text(program)
    known = set(re.findall(r"--[a-zA-Z][\w.-]*", text))
    # A recipe's help lists its keys; each is a flag, too.
    known |= {f"--{key}" for key in re.findall(r"^ +([a-z][\w.]*): ", text, re.MULTILINE)}
    flags = {re.sub(r"\.\d+\.", ".N.", flag) for flag in FLAGS[program]}
    assert flags - known == set()


@pytest.mark.parametrize("program", [it for it in FLAGS if not needs_torch(it)])
def test_the_documented_flags_of_a_command_exist(program: str) -> None:
    check_flags(program)


@pytest.mark.torch
@pytest.mark.parametrize("program", [it for it in FLAGS if needs_torch(it)])
def test_the_documented_flags_of_a_training_exist(program: str) -> None:
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("peft") is None:
        pytest.skip("the extra `train` is not installed")
    check_flags(program)
