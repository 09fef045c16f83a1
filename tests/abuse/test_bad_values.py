"""One bad value costs one record: the run goes on, and so does its resume."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import resource
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agent_runtime.conversation import Message
from agent_runtime.policies.base import Completion, EpisodeContext, Policy, PolicySession
from agent_runtime.usage import LARGEST_COUNT, read_count
from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.verdicts import expect_error, expect_observation
from orchestrator.config import RunConfig, parse_policies
from orchestrator.fleet import FleetConfig
from orchestrator.records import EpisodeSummary
from orchestrator.retry import RetryPolicy
from orchestrator.run import run
from orchestrator.store import RunReader
from tests.agent_runtime.policies.chat_server import KEY, completion
from tests.agent_runtime.policies.chat_server import serving as serving_model
from tests.env_servers.server.conftest import harness_for
from tests.kit.lying_server import error_event, lying_server
from tests.kit.servers import serving

NO_COUNTS = (2**63, 2**70, -5, True, 1.5, "7", [3])


async def sample(*flags: str | Path, largest_file: int | None = None) -> tuple[int, str]:
    """Play a run by the command line; its exit status and all that it printed.

    `largest_file` is the number of bytes after which writing to a file fails.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orchestrator.sample", *map(str, flags)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        preexec_fn=largest_file
        and (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))),
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

    async with serving_model(answer) as server:
        status, printed = await sample(
            *("--out", tmp_path / "run", "--env", "echo", "--policy", "openai:tiny"),
            *("--openai.base-url", server.url, "--episodes", "20", "--max-rounds", "1"),
            *("--openai.usd-per-million-input", "1", "--openai.usd-per-million-output", "1"),
        )
    assert status == 0, printed
    with RunReader.open(tmp_path / "run") as reader:
        kept = [(it.prompt_tokens, it.completion_tokens, it.cost_usd) for it in reader.summaries()]
    assert kept == [(0, 0, None)] * 20


def summaries(run: Path) -> list[EpisodeSummary]:
    with RunReader.open(run) as reader:
        assert reader.verify() == []
        return list(reader.summaries())


def reasons(run: Path) -> Counter[tuple[str | None, str | None]]:
    return Counter((it.fault, it.reason) for it in summaries(run))


async def test_outcomes_that_are_no_numbers_fail_their_own_episodes_and_no_resume(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    items = ",".join(f"echo_{1_000_000 + number}" for number in range(20))
    flags = ("--env", "odd_values", "--policy", "expert", "--items", items)
    failed = {("ENVIRONMENT", "ENVIRONMENT_CRASHED"): 4}
    async with serving(environments=("tests.abuse.odd_values",), execution={}) as server:
        servers = ("--servers", server.addresses[0])
        status, printed = await sample("--out", run, *flags, *servers)
        assert status == 1, printed
        assert "Traceback" not in printed
        assert reasons(run) == {(None, None): 16, **failed}
        status, printed = await sample("--resume", run, "--json")
    assert status == 1, printed
    assert "Traceback" not in printed
    assert reasons(run) == {(None, None): 16, **failed}
    # Scores of 1e308 have a mean, although they have no sum.
    (result,) = json.loads(printed[printed.index("{") :])["results"]
    assert result["score_bounds"] == pytest.approx([4 * (1e308 / 20), 8 * (1e308 / 20)])


def not_a_number(event: pb.Event) -> pb.Event:
    if event.seq == 1:
        event.reward = float("nan")
    return event


def unknown_environment(event: pb.Event) -> pb.Event:
    if event.HasField("observation"):
        return error_event(event, "UNKNOWN_ENVIRONMENT", fault="AGENT")
    return event


def gap_in_words(event: pb.Event) -> pb.Event:
    if event.seq == 1:
        return error_event(event, "SEQ_GAP", fault="AGENT", expected="the one before")
    return event


@pytest.mark.parametrize(
    ("lie", "fault", "reason"),
    [
        (not_a_number, "ENVIRONMENT", "OUTCOME_NOT_FINITE"),
        (unknown_environment, "INFRASTRUCTURE", "UNKNOWN_ENVIRONMENT"),
        (gap_in_words, "AGENT", "SEQ_GAP"),
    ],
)
async def test_what_a_server_says_wrongly_fails_the_episode_it_is_about(
    tmp_path: Path, lie: Callable[[pb.Event], pb.Event], fault: str, reason: str
) -> None:
    async with serving() as honest, lying_server(honest.addresses[0], lie=lie) as address:
        config = RunConfig(
            environments=("echo",),
            episodes=5,
            policies=parse_policies("expert"),
            fleet=FleetConfig(servers=(address,)),
            retry=RetryPolicy(max_attempts=1),
        )
        console = Console(file=io.StringIO())
        await run(config, tmp_path / "run", resume=False, console=console)
    assert reasons(tmp_path / "run") == {(fault, reason): 5}


async def test_a_full_disk_ends_the_run_in_one_sentence_and_a_resume_goes_on(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    flags = ("--env", "echo", "--policy", "expert", "--episodes", "100", "--concurrency", "4")
    status, printed = await sample("--out", run, *flags, largest_file=80_000)
    assert status == 1, printed
    assert "Traceback" not in printed
    (told,) = [line for line in printed.splitlines() if line.startswith("error:")]
    assert "was stored before is safe" in told
    kept = len(summaries(run))
    assert 0 < kept < 100
    status, printed = await sample("--resume", run)
    assert status == 0, printed
    assert len(summaries(run)) == 100


class Boaster(Policy):
    """Says that its replies were as many tokens as it is told to say."""

    def __init__(self, tokens: Any) -> None:
        self.name = "boaster"
        self._tokens = tokens

    def open(self, context: EpisodeContext) -> PolicySession:
        return BoasterSession(self._tokens if context.item_id.endswith("7") else 1)


class BoasterSession(PolicySession):
    def __init__(self, tokens: Any) -> None:
        self._tokens = tokens

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        return Completion(text="Action:\nsomething", completion_tokens=self._tokens)


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [(2**63, "RECORD_INVALID"), (-1, "EPISODE_BROKEN"), ("many", "EPISODE_BROKEN")],
)
async def test_a_record_that_cannot_be_made_or_stored_is_a_failed_record_of_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: Any, reason: str
) -> None:
    monkeypatch.setattr("orchestrator.run.make_policy", lambda *_: Boaster(tokens))
    items = tuple(f"echo_{1_000_000 + number}" for number in range(20))
    async with serving() as server:
        config = RunConfig(
            environments=("echo",),
            items=items,
            policies=parse_policies("expert"),
            fleet=FleetConfig(servers=tuple(server.addresses)),
            retry=RetryPolicy(max_attempts=1),
        )
        console = Console(file=io.StringIO())
        outcome = await run(config, tmp_path / "run", resume=False, console=console)
    assert (outcome.finished, outcome.failed) == (18, 2)
    assert reasons(tmp_path / "run") == {(None, None): 18, ("INFRASTRUCTURE", reason): 2}


async def test_a_disk_that_is_full_from_the_start_is_one_sentence(tmp_path: Path) -> None:
    flags = ("--env", "echo", "--policy", "expert", "--episodes", "3")
    status, printed = await sample("--out", tmp_path / "run", *flags, largest_file=100)
    assert status == 1, printed
    assert "Traceback" not in printed
    assert "error:" in printed


async def test_options_that_python_calls_equal_are_different_openings() -> None:
    async with serving() as server, harness_for(server.addresses[0]) as harness:
        play = await harness.play(length=1)
        other = pb.Command()
        other.CopyFrom(play.open_command)
        other.reset.options.update({"length": True})
        expect_error(await play.stream.ask(other), "SEQ_CONFLICT")
        expect_observation(await play.stream.ask(play.open_command))
