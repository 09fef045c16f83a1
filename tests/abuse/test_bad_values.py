"""One bad value costs one record: the run goes on, and so does its resume."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.usage import LARGEST_COUNT, read_count
from orchestrator.store import RunReader
from tests.agent_runtime.policies.chat_server import KEY, completion, serving

NO_COUNTS = (2**63, 2**70, -5, True, 1.5, "7", [3])


async def sample(out: Path, *flags: str) -> tuple[int, str]:
    """Play a run by the command line; its exit status and all that it printed."""
    command = (sys.executable, "-m", "orchestrator.sample", "--out", str(out), *flags)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(120):
        printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()


@pytest.mark.parametrize(
    "figure", [*NO_COUNTS, 10**5000, float("nan")], ids=lambda figure: type(figure).__name__
)
def test_a_usage_figure_that_is_no_count_is_absent(figure: object) -> None:
    assert read_count(figure, "prompt_tokens") is None


def test_usage_figures_that_are_counts_are_kept() -> None:
    figures = (0, 1, LARGEST_COUNT)
    assert tuple(read_count(figure, "prompt_tokens") for figure in figures) == figures


async def test_usage_figures_that_are_no_counts_cost_no_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    figures = itertools.cycle(NO_COUNTS)

    def answer(_body: dict[str, Any]) -> dict[str, Any]:
        usage = {"prompt_tokens": next(figures), "completion_tokens": next(figures)}
        return completion() | {"usage": usage}

    async with serving(answer) as server:
        status, printed = await sample(
            *(tmp_path / "run", "--env", "echo", "--policy", "openai:tiny"),
            *("--openai.base-url", server.url, "--episodes", "20", "--max-rounds", "1"),
            *("--openai.usd-per-million-input", "1", "--openai.usd-per-million-output", "1"),
        )
    assert status == 0, printed
    with RunReader.open(tmp_path / "run") as reader:
        kept = [(it.prompt_tokens, it.completion_tokens, it.cost_usd) for it in reader.summaries()]
    assert kept == [(0, 0, None)] * 20
