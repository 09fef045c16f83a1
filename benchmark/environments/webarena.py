"""`python -m benchmark.environments.webarena`: what a browser per worker costs.

Measures, over every process of it: the CPU of an observation by the size of the page, of a step
that clicks and opens a page, of a reset; and the memory of many windows in one browser. CPU is
user and system time of Python, Playwright's driver and Chromium together.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import psutil
import tyro
from rich.console import Console
from rich.table import Table

from benchmark.manifest import read_manifest
from env_servers.environments.webarena.addresses import Addresses
from env_servers.environments.webarena.browser.gate import Door, Request
from env_servers.environments.webarena.browser.shared_browser import SharedBrowser
from env_servers.environments.webarena.browsing import AGENTGYM, Browsing
from orchestrator.command_line import run_loop

__all__ = ["Benchmark", "main"]

RESULTS: Final = Path(__file__).parent.parent / "results" / "environments"
_HOST: Final = "pages.test"
_MIB: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """What WebArena's browser costs."""

    windows: int = 60
    """Windows that are open at once, for their memory."""
    repeats: int = 20
    sizes: tuple[int, ...] = (250, 3000)
    """Nodes of the pages that are observed, roughly."""
    save: bool = True
    """Write benchmark/results/environments/webarena.json."""


@dataclass(frozen=True, slots=True)
class _Answer:
    body: bytes
    status: int = 200
    headers: Sequence[tuple[str, str]] = (("Content-Type", "text/html; charset=utf-8"),)


async def _respond(request: Request) -> _Answer:
    """A list of links; each one and its text are about five nodes."""
    nodes = int(parse_qs(urlsplit(request.url).query).get("nodes", ["250"])[0])
    rows = "".join(
        f"<li><a href='/?nodes={nodes}&page={row}'>Product number {row}</a> <b>$ {row}.50</b></li>"
        for row in range(nodes // 8)
    )
    page = f"<!DOCTYPE html><title>List</title><h1>{request.url}</h1><ul>{rows}</ul>"
    return _Answer(page.encode())


def _cpu(processes: Sequence[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def _tree() -> list[psutil.Process]:
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def _memory() -> int:
    total = 0
    for process in _tree():
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total


@contextmanager
def _measured(found: dict[str, Any], name: str, count: int) -> Iterator[None]:
    before, began = _cpu(_tree()), time.perf_counter()
    yield
    found[name] = {
        "cpu_s": (_cpu(_tree()) - before) / count,
        "wall_s": (time.perf_counter() - began) / count,
    }


async def _repeat(count: int, call: Callable[[], Awaitable[object]]) -> None:
    for _ in range(count):
        await call()


async def _open(browser: SharedBrowser, nodes: int) -> Browsing:
    window = await browser.open_window(Door({_HOST}, _respond))
    browsing = Browsing(window, Addresses({}), "Look", AGENTGYM)
    await browsing.open([f"http://{_HOST}/?nodes={nodes}"])
    return browsing


async def _measure(config: Benchmark) -> dict[str, Any]:
    found: dict[str, Any] = {}
    browser = SharedBrowser()
    try:
        for nodes in config.sizes:
            browsing = await _open(browser, nodes)
            answer = await browsing.current.send("Accessibility.getFullAXTree")
            name = f"observation of {len(answer['nodes'])} nodes"
            with _measured(found, name, config.repeats):
                await _repeat(config.repeats, lambda b=browsing: b.step("scroll [up]"))
            await browsing.window.close()
        browsing = await _open(browser, 250)
        with _measured(found, "click that opens a page", config.repeats):
            await _repeat(config.repeats, lambda: _click(browsing))
        await browsing.window.close()
        before, opened = _memory(), list[Browsing]()
        with _measured(found, "reset", config.windows):
            for _ in range(config.windows):
                opened.append(await _open(browser, 250))
        found["memory"] = {
            "windows": config.windows,
            "all_mib": _memory() / _MIB,
            "per_window_mib": (_memory() - before) / _MIB / config.windows,
        }
        with _measured(found, "step of all windows at once", config.windows):
            await asyncio.gather(*(_click(each) for each in opened))
    finally:
        await browser.close()
    return found


async def _click(browsing: Browsing) -> None:
    link = next(n for n, line in browsing.shown.items() if " link " in line)
    await browsing.step(f"click [{link}]")


def _print(found: dict[str, Any], console: Console) -> None:
    table = Table("what", "CPU s", "wall s")
    for name, each in found.items():
        if "cpu_s" in each:
            table.add_row(name, f"{each['cpu_s']:.3f}", f"{each['wall_s']:.3f}")
    console.print(table)
    memory = found["memory"]
    console.print(
        f"{memory['windows']} windows: {memory['all_mib']:.0f} MiB with Python and the browser, "
        f"{memory['per_window_mib']:.1f} MiB per window"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; prints tables and writes the result."""
    config = tyro.cli(Benchmark, args=argv, prog="python -m benchmark.environments.webarena")
    found = run_loop(_measure(config))
    _print(found, Console())
    if config.save:
        RESULTS.mkdir(parents=True, exist_ok=True)
        result = {"manifest": read_manifest().as_json(), "config": asdict(config), **found}
        path = RESULTS / "webarena.json"
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
