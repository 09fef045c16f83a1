"""The figures of `inputs.toml`; measured ones are read from the results that they name."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmark.scale.model import Costs

__all__ = ["RESULTS", "Figure", "Inputs", "read_inputs"]

RESULTS: Final = Path(__file__).parent.parent / "results"
_FILE: Final = Path(__file__).with_name("inputs.toml")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, and where it is from."""

    value: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """All figures, by table and name."""

    figures: Mapping[str, Figure]

    def __getitem__(self, name: str) -> float:
        return self.figures[name].value

    @property
    def workloads(self) -> list[str]:
        """What is played."""
        names = [name.split(".")[1] for name in self.figures if name.startswith("workloads.")]
        return list(dict.fromkeys(names))

    def costs(self, workload: str) -> Costs:
        """Return the costs of a workload."""
        return Costs(
            driver_message=self["costs.driver_message"],
            driver_episode=self["costs.driver_episode"],
            worker_episode=self["costs.worker_episode"],
            worker_turn=self["costs.worker_turn"],
            server_reset=self[f"workloads.{workload}.server_reset"],
            server_step=self[f"workloads.{workload}.server_step"],
            network=self["costs.network"],
        )


def read_inputs() -> Inputs:
    """Read the figures; raises KeyError and FileNotFoundError where a result lacks one."""
    figures: dict[str, Figure] = {}

    def read(table: Mapping[str, Any], name: str) -> None:
        if "value" in table or "file" in table:
            figures[name] = _figure(table)
            return
        for key, value in table.items():
            read(value, f"{name}.{key}" if name else key)

    read(tomllib.loads(_FILE.read_text(encoding="utf-8")), "")
    return Inputs(figures=figures)


def _figure(table: Mapping[str, Any]) -> Figure:
    if "value" in table:
        return Figure(float(table["value"]), f"assumed: {table['why']}")
    result = json.loads((RESULTS / table["file"]).read_text(encoding="utf-8"))
    total = sum(_value(result, path) for path in table["at"])
    value = (1 / total if table.get("inverse") else total) * table.get("times", 1.0)
    return Figure(value, f"benchmark/results/{table['file']}: {' + '.join(table['at'])}")


def _value(result: Any, path: str) -> float:
    for key in path.split("."):
        result = result[key]
    return float(result)
