"""`python -m orchestrator.replay`: play a run's recorded actions again and compare every answer.

Proves that records are reproducible: the same item, seed and actions must give the same
observations, rewards and state hashes. Exit status 1 where any step differs.
"""

from __future__ import annotations

import asyncio
import json as json_text
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from agent_runtime.episode import RemoteEpisode, Transition
from agent_runtime.errors import AgentRuntimeError
from agent_runtime.judgements import give_back, judgements_of
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.episode.v1 import episode_pb2
from orchestrator.client import ClientConfig, connection_options
from orchestrator.command_line import ObservationOptions, make_console, run_command, run_loop
from orchestrator.errors import UsageError
from orchestrator.fleet import Fleet, FleetConfig
from orchestrator.manifest import is_own
from orchestrator.object_storage import locate_run
from orchestrator.store import RunReader
from orchestrator.trust import check_environments

__all__ = [
    "Replay",
    "ReplayReport",
    "find_difference",
    "main",
    "recorded_reset",
    "recorded_transitions",
    "replay_episodes",
]

_SHOWN = 5
"""Differences that are printed in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Play a run's recorded actions again and compare every answer."""

    run: tyro.conf.Positional[str]
    """The run: a folder, or a name below runs/."""
    env: str = ""
    """Only this environment."""
    episodes: int = 0
    """At most so many episodes; 0 = all."""
    concurrency: int = 256
    """Episodes that are live at once."""
    trust_run: bool = False
    """Also serve environments that a stranger's run names and that are packages of this folder."""
    json: bool = False
    """Print the report as JSON on stdout."""
    fleet: Annotated[FleetConfig, tyro.conf.arg(name="")] = field(default_factory=FleetConfig)
    client: ClientConfig = field(default_factory=ClientConfig)
    observation: Annotated[ObservationOptions, tyro.conf.arg(name="")] = field(
        default_factory=ObservationOptions
    )


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A step that came out otherwise."""

    episode_id: str
    item_id: str
    seq: int
    field: str
    recorded: str
    replayed: str


@dataclass(slots=True)
class ReplayReport:
    """What a replay found."""

    episodes: Counter[str] = field(default_factory=Counter[str])
    steps: Counter[str] = field(default_factory=Counter[str])
    identical: Counter[str] = field(default_factory=Counter[str])
    mismatches: list[Mismatch] = field(default_factory=list[Mismatch])

    @property
    def exact(self) -> bool:
        """Every step came out as recorded."""
        return self.steps == self.identical and not self.mismatches


async def replay_episodes(
    records: Iterable[episode_pb2.Episode], fleet: Fleet, *, concurrency: int
) -> ReplayReport:
    """Replay records on a fleet's servers; raises AgentRuntimeError when those fail."""
    report = ReplayReport()
    source = iter(records)

    async def work(number: int) -> None:
        for count, record in enumerate(source):
            await _replay(record, fleet, f"replay-{number}-{count}", report)

    async with asyncio.TaskGroup() as group:
        for number in range(concurrency):
            group.create_task(work(number))
    return report


async def _replay(
    record: episode_pb2.Episode, fleet: Fleet, episode_id: str, report: ReplayReport
) -> None:
    place = await fleet.acquire(record.environment)
    live = RemoteEpisode(place.connection, episode_id, recorded_reset(record))
    report.episodes[record.environment] += 1
    try:
        recorded = iter(record.steps)
        async for transition in recorded_transitions(live, record):
            step = next(recorded)
            report.steps[record.environment] += 1
            difference = find_difference(record, step, transition)
            if difference is None:
                report.identical[record.environment] += 1
            else:
                report.mismatches.append(difference)
    finally:
        live.close()
        place.release()


def recorded_reset(record: episode_pb2.Episode, *, profile: str = "") -> pb.Reset:
    """Return the command that opens the episode of a record again; `profile`: another than its."""
    reset = pb.Reset(
        environment=record.environment,
        item_id=record.item_id,
        seed=record.seed,
        action_format=record.action_format,
        profile=profile or record.profile,
        images=bool(record.images),
    )
    if record.HasField("options"):
        reset.options.CopyFrom(record.options)
    for step in record.steps:
        give_back(reset, judgements_of(step.info))
    return reset


async def recorded_transitions(
    live: RemoteEpisode, record: episode_pb2.Episode
) -> AsyncGenerator[Transition]:
    """Play what was recorded on a live episode, and yield what comes of it, the reset first."""
    for step in record.steps:
        kind = step.input.WhichOneof("input")
        if kind is None:
            yield await live.reset()
        elif kind == "reply":
            yield await live.step_reply(step.input.reply, step.input.action_format)
        elif kind == "action":
            yield await live.step(step.input.action)
        else:
            call = step.input.tool_call
            yield await live.step_call(call.name, call.arguments_json)


def find_difference(
    record: episode_pb2.Episode, step: episode_pb2.Step, now: Transition
) -> Mismatch | None:
    """Return the first field in which a step came out otherwise; None = it is the same."""
    reward = step.reward if step.HasField("reward") else None
    for name, old, new in (
        ("observation", step.observation, now.text),
        ("reward", reward, now.reward),
        ("terminated", step.terminated, now.terminated),
        ("truncated", step.truncated, now.truncated),
        ("state_hash", step.state_hash.hex(), now.state_hash.hex()),
    ):
        if old != new:
            return Mismatch(record.episode_id, record.item_id, step.seq, name, str(old), str(new))
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0 when every step is identical, 1 when not."""
    return run_command(Replay, _act, argv, program="python -m orchestrator.replay")


def _act(config: Replay) -> int:
    config.observation.configure()
    folder = locate_run(config.run)
    console = make_console(stderr=config.json)
    with RunReader.open(folder) as reader:
        environments = sorted({summary.environment for summary in reader.summaries()})
        if config.env and config.env not in environments:
            raise UsageError(f"the run has no environment {config.env!r}", valid=environments)
        selected = [config.env] if config.env else environments
        if not (config.trust_run or config.env or config.fleet.running or is_own(folder)):
            check_environments(selected)
        report = run_loop(_replay_run(config, reader, selected))
    _print(report, console)
    if config.json:
        sys.stdout.write(json_text.dumps(_as_data(report), indent=2) + "\n")
    return 0 if report.exact else 1


async def _replay_run(config: Replay, reader: RunReader, environments: list[str]) -> ReplayReport:
    async with Fleet(environments, config.fleet, connection_options(config.client)) as fleet:
        records = reader.episodes(lambda summary: summary.environment in environments)
        selected = (
            record
            for count, record in enumerate(records)
            if not config.episodes or count < config.episodes
        )
        try:
            return await replay_episodes(selected, fleet, concurrency=config.concurrency)
        except* AgentRuntimeError as group:
            raise group.exceptions[0] from None


def _print(report: ReplayReport, console: Console) -> None:
    table = Table("environment", "episodes", "steps replayed", "steps identical")
    for name in sorted(report.episodes):
        steps, same = report.steps[name], report.identical[name]
        share = f"{same} ({100 * same / steps:.2f} %)" if steps else "-"
        table.add_row(name, str(report.episodes[name]), str(steps), share)
    console.print(table)
    for mismatch in report.mismatches[:_SHOWN]:
        console.print(
            f"{mismatch.item_id} (episode {mismatch.episode_id}) seq {mismatch.seq}: "
            f"{mismatch.field} differs\n"
            f"  recorded: {mismatch.recorded!r}\n  replayed: {mismatch.replayed!r}",
            markup=False,
            highlight=False,
        )
    if len(report.mismatches) > _SHOWN:
        console.print(f"... and {len(report.mismatches) - _SHOWN} more")


def _as_data(report: ReplayReport) -> dict[str, object]:
    return {
        "exact": report.exact,
        "environments": {
            name: {
                "episodes": report.episodes[name],
                "steps": report.steps[name],
                "identical": report.identical[name],
            }
            for name in sorted(report.episodes)
        },
        "mismatches": len(report.mismatches),
    }


if __name__ == "__main__":
    sys.exit(main())
