"""The import contracts break when their rule is broken: tried on a copy of the packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("importlinter", reason="needs the extra `dev`")

REPOSITORY = Path(__file__).resolve().parents[2]
SETTINGS: Mapping[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))[
    "tool"
]["importlinter"]
CONTRACTS: Mapping[str, Mapping[str, Any]] = {it["name"]: it for it in SETTINGS["contracts"]}
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of everything that the contracts are about."""
    folder = tmp_path_factory.mktemp("tree")
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    only_code = shutil.ignore_patterns("__pycache__", "*.safetensors", "results", "words", "*.txt")
    for package in SETTINGS["root_packages"]:
        source = REPOSITORY / package
        if not source.exists():
            source = REPOSITORY / "gen" / package
        shutil.copytree(source, folder / package, ignore=only_code)
    return folder


def verdicts(tree: Path) -> dict[str, bool]:
    """Return whether each contract is kept in the tree."""
    finished = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "500", "NO_COLOR": "1"},
    )
    lines = [line.strip() for line in finished.stdout.splitlines()]
    found = {name: line for name in CONTRACTS for line in lines if line.startswith(f"{name} ")}
    assert set(found) == set(CONTRACTS), finished.stdout + finished.stderr
    return {name: "KEPT" in line for name, line in found.items()}


def file_of(tree: Path, module: str) -> Path:
    """Return the file of a module, or of the package."""
    path = tree.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def broken_by(tree: Path, importer: str, imported: str) -> set[str]:
    """Return the contracts that one more import breaks."""
    file = file_of(tree, importer)
    before = file.read_text("utf-8")
    try:
        file.write_text(f"{before}\nimport {imported}\n", "utf-8")
        return {name for name, kept in verdicts(tree).items() if not kept}
    finally:
        file.write_text(before, "utf-8")


def forbidden_import(contract: Mapping[str, Any]) -> tuple[str, str]:
    """Return an import (importer, imported) that the contract forbids."""
    if contract["type"] == "forbidden":
        return contract["source_modules"][0], contract["forbidden_modules"][0]
    if contract["type"] == "layers":
        return contract["layers"][-1].split(" | ")[0], contract["layers"][0].split(" | ")[0]
    first, *rest = contract["modules"]
    if first.endswith(".*"):
        return first.replace("*", "maze"), first.replace("*", "wordle")
    return first, rest[0]


def test_an_environment_that_imports_another_breaks_the_contract(tree: Path) -> None:
    importer = "env_servers.environments.maze.environment"
    imported = "env_servers.environments.wordle.tasks"
    assert broken_by(tree, importer, imported) == {"no environment imports another"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, it in CONTRACTS.items() if it["type"] != "acyclic_siblings"]
)
def test_every_contract_breaks_where_its_rule_is_broken(tree: Path, name: str) -> None:
    assert name in broken_by(tree, *forbidden_import(CONTRACTS[name]))
