"""The page: a section for every committed result, by the room that it lies in."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmark.report.plots import PLOTS
from benchmark.report.tables import circumstances, tables
from env_servers.sdk import BUILT_IN
from env_servers.sdk.registry import display_name

__all__ = ["RESULTS", "make_page"]

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "benchmark" / "results"
_HEADINGS: Final = {
    ".": "The path",
    "environments": "Environments",
    "policy": "Policies and model servers",
    "training": "Training",
    "scale": "Clusters",
}
_INTRODUCTION: Final = """\
# Measurements

Every result that is committed below `benchmark/results`, made into a page by
`python -m benchmark.report`. Each says by which command it was measured, when, at which commit and
on which machine; where the load average was above half the cores, the machine was shared, and
ratios within a run say more than its absolute figures.
"""


def make_page() -> str:
    """Return the page as Markdown with plots in SVG."""
    blocks = [_INTRODUCTION.rstrip()]
    for room, heading in _HEADINGS.items():
        blocks.append(f"## {heading}")
        for path in sorted((RESULTS / room).glob("*.json")):
            blocks += _section(path)
        accounts = sorted((RESULTS / room).glob("*.md"))
        if accounts:
            names = ", ".join(f"`benchmark/results/{_name(path)}`" for path in accounts)
            blocks.append(f"In words and tables: {names}.")
    return "\n\n".join(blocks) + "\n"


def _name(path: Path) -> str:
    return path.relative_to(RESULTS).as_posix()


def _section(path: Path) -> Iterator[str]:
    result: Any = json.loads(path.read_text(encoding="utf-8"))
    yield f"### {_heading(path.stem)}"
    measured = circumstances(result)
    yield f"{_purpose(measured)} `benchmark/results/{_name(path)}`. {measured}".strip()
    for chart in PLOTS.get(_name(path), lambda _: iter(()))(result):
        yield chart.svg()
    yield from tables(result)


def _heading(stem: str) -> str:
    if stem in BUILT_IN:
        return display_name(stem)
    return stem.replace("_", " ").replace("-", " ").capitalize()


def _purpose(measured: str) -> str:
    """Return what the command that measured says of itself; empty where none is known."""
    found = re.search(r"python -m (benchmark[\w.]*)", measured)
    if found is None:
        return ""
    place = ROOT.joinpath(*found[1].split("."))
    file = place / "__main__.py" if place.is_dir() else place.with_suffix(".py")
    if not file.is_file():
        return ""
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    first = " ".join(said.split("\n\n")[0].split())
    purpose = re.sub(r"^`[^`]*`: ", "", first)
    return purpose[:1].upper() + purpose[1:]
