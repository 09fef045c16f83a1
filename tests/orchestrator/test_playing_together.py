"""Runs of several environments as one pool of episodes, each in its own folder."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from rich.console import Console

from agent_runtime.policies import PolicyConfig, Sampling
from orchestrator.config import RunConfig, parse_policies
from orchestrator.errors import UsageError
from orchestrator.fleet import FleetConfig
from orchestrator.run import RunSpec, run, run_many
from orchestrator.store import RunReader


def config(environment: str, **changes) -> RunConfig:
    values = {
        "environments": (environment,),
        "policies": parse_policies("expert"),
        "split": "train",
        "episodes": 6,
        "concurrency": 8,
        "fleet": FleetConfig(spawn=1),
        **changes,
    }
    return RunConfig(**values)


def said(folder: Path) -> dict[str, list[str]]:
    """What was said in each episode of a run, by item."""
    with RunReader.open(folder) as reader:
        return {it.item_id: [message.text for message in it.messages] for it in reader.episodes()}


def test_each_of_the_runs_is_as_if_it_was_played_alone(tmp_path: Path) -> None:
    quiet = Console(quiet=True)
    names = ("maze", "wordle")
    specs = [RunSpec(config(it), tmp_path / it) for it in names]
    outcomes = asyncio.run(run_many(specs, console=quiet))
    for name, outcome in zip(names, outcomes, strict=True):
        assert outcome.complete and (outcome.finished, outcome.planned) == (6, 6)
        assert list(outcome.described) == [name]
        alone = tmp_path / f"{name}-alone"
        asyncio.run(run(config(name), alone, resume=False, console=quiet))
        assert said(outcome.folder) == said(alone)
        with RunReader.open(alone) as one, RunReader.open(outcome.folder) as other:
            assert one.manifest.environments == other.manifest.environments
            assert one.manifest.config == other.manifest.config


def test_runs_that_were_cut_off_together_go_on_together_or_alone(tmp_path: Path) -> None:
    quiet = Console(quiet=True)
    first = RunSpec(config("maze", items=("maze_1000000", "maze_1000001")), tmp_path / "maze")
    asyncio.run(run_many([first], console=quiet))
    both = [
        RunSpec(first.config, first.folder, resume=True),
        RunSpec(config("wordle"), tmp_path / "wordle"),
    ]
    outcomes = asyncio.run(run_many(both, console=quiet))
    assert [(it.finished, it.planned) for it in outcomes] == [(2, 2), (6, 6)]


def test_what_cannot_be_played_together_is_refused(tmp_path: Path) -> None:
    twice = [RunSpec(config("maze"), tmp_path / "a"), RunSpec(config("maze"), tmp_path / "b")]
    with pytest.raises(UsageError, match="have maze in common"):
        asyncio.run(run_many(twice, console=Console(quiet=True)))
    agent = PolicyConfig(sampling=Sampling(temperature=0.5))
    other = [
        RunSpec(config("maze"), tmp_path / "a"),
        RunSpec(config("wordle", agent=agent), tmp_path),
    ]
    with pytest.raises(UsageError, match="the same policies"):
        asyncio.run(run_many(other, console=Console(quiet=True)))
    assert not (tmp_path / "a").exists()
