"""`python -m benchmark.fidelity --data FOLDER`: replay AgentTraj-L through the real servers.

Prints, per environment, how many recorded observations come out identical, and writes the result
with every kind of mismatch.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agent_runtime.channel import ConnectionOptions
from agent_runtime.episode import RemoteEpisode, Transition
from agentgym.env.v1 import environment_pb2 as pb
from benchmark.fidelity import webarena
from benchmark.fidelity.recordings import SOURCES, Recording, Source, read_recordings
from benchmark.manifest import read_manifest
from orchestrator.command_line import make_console, run_command, run_loop
from orchestrator.errors import UsageError
from orchestrator.fleet import Fleet, FleetConfig

__all__ = ["Fidelity", "Score", "main"]

RESULTS = Path(__file__).parent.parent / "results"
WEBARENA = "webarena"
"""Not a conversation: scenarios on recorded pages."""
_SHOWN = 3
_CONCURRENCY = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """Replay recorded conversations through the real servers."""

    data: Path | None = None
    """Folder of official data files; default: AGENTGYM_DATA."""
    env: str = ",".join(SOURCES)
    """Environments, separated by commas; webarena, too, which needs a browser."""
    save: bool = True
    """Write benchmark/results/fidelity.json."""


@dataclass(slots=True)
class Score:
    """What came out for one environment."""

    episodes: int = 0
    exact_episodes: int = 0
    steps: int = 0
    """Recorded observations after the first one of each episode."""
    identical: int = 0
    first: int = 0
    """First observations that are identical."""
    ended_as_recorded: int = 0
    """Episodes that end with the recording's last reply and reward."""
    mismatches: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    by_recorded_calls: dict[str, int] = field(default_factory=dict[str, int])
    """Where replies of services are looked up: identical steps by what an episode may look up."""

    def add(self, recording: Recording, seen: Sequence[Transition]) -> None:
        """Count a recording that was played; `seen` is the reset and one step per reply."""
        texts = [transition.text for transition in seen]
        same = [
            number < len(texts)
            and recording.canonical(texts[number]) == recording.canonical(recorded)
            for number, recorded in enumerate(recording.observations)
        ]
        self.episodes += 1
        self.first += same[0]
        self.steps += len(same) - 1
        self.identical += sum(same[1:])
        self.exact_episodes += all(same)
        self.ended_as_recorded += _ended_as_recorded(recording, seen)
        if not all(same):
            number = same.index(False)
            self.mismatches.append(
                {
                    "item_id": recording.item_id,
                    "at": number,
                    "reply": recording.replies[number - 1] if number else "",
                    "recorded": recording.observations[number],
                    "replayed": texts[number] if number < len(texts) else "(the episode had ended)",
                }
            )


async def score(source: Source, data: Path, fleet: Fleet) -> Score:
    """Replay all recordings of an environment; looked-up replies as often as they are counted."""
    if not source.recorded_calls:
        return await _score(source.environment, read_recordings(source, data), fleet)
    scores: dict[str, Score] = {}
    for calls in source.recorded_calls:
        recordings = (
            replace(recording, options={**recording.options, "recorded_calls": calls})
            for recording in read_recordings(source, data)
        )
        scores[calls] = await _score(source.environment, recordings, fleet, calls)
    result = scores[source.recorded_calls[0]]
    result.by_recorded_calls = {calls: found.identical for calls, found in scores.items()}
    return result


async def _score(
    environment: str, recordings: Iterator[Recording], fleet: Fleet, prefix: str = "all"
) -> Score:
    result = Score()

    async def work(number: int) -> None:
        for count, recording in enumerate(recordings):
            episode_id = f"{environment}-{prefix}-{number}-{count}"
            await _replay(environment, recording, episode_id, fleet, result)

    async with asyncio.TaskGroup() as group:
        for number in range(_CONCURRENCY):
            group.create_task(work(number))
    return result


async def _replay(
    environment: str, recording: Recording, episode_id: str, fleet: Fleet, result: Score
) -> None:
    place = await fleet.acquire(environment)
    reset = pb.Reset(environment=environment, item_id=recording.item_id)
    reset.options.update(recording.options)
    live = RemoteEpisode(place.connection, episode_id, reset)
    try:
        seen = [await live.reset()]
        for reply in recording.replies:
            if seen[-1].ended:
                break
            seen.append(await live.step_reply(reply))
    finally:
        live.close()
        place.release()
    result.add(recording, seen)


def _ended_as_recorded(recording: Recording, seen: Sequence[Transition]) -> bool:
    last = seen[-1]
    if not last.ended or (len(seen) <= len(recording.replies) and not recording.plays_on):
        return False
    return (last.reward or 0) > 0 if recording.reward is None else last.reward == recording.reward


async def _run(names: Sequence[str], data: Path) -> dict[str, Score]:
    async with Fleet(names, FleetConfig(data=data), ConnectionOptions()) as fleet:
        return {name: await score(SOURCES[name], data, fleet) for name in names}


def _act(config: Fidelity) -> int:
    data = config.data or Path(os.environ.get("AGENTGYM_DATA", ""))
    names = config.env.split(",")
    unknown = sorted(set(names) - {*SOURCES, WEBARENA})
    if unknown:
        raise UsageError(f"no recordings of {unknown[0]!r}", valid=(*SOURCES, WEBARENA))
    conversations = [name for name in names if name != WEBARENA]
    if conversations and not (data / "agenttraj_l").is_dir():
        raise UsageError(f"no folder agenttraj_l in {data}: give --data or AGENTGYM_DATA")
    if WEBARENA in names and not webarena.has_recordings(data):
        raise UsageError(f"no scenarios of webarena in {data}: give --data or AGENTGYM_DATA")
    scores = run_loop(_run(conversations, data)) if conversations else {}
    found = _as_data(scores)
    console = make_console()
    if scores:
        _print(scores, console)
    if WEBARENA in names:
        found["environments"][WEBARENA] = run_loop(webarena.replay_all(data, console))
    if config.save:
        _save(found)
    return 0


def _save(found: dict[str, Any]) -> None:
    """Write the results; those of environments that were not replayed stay."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "fidelity.json"
    if path.is_file():
        before = json.loads(path.read_text(encoding="utf-8"))["environments"]
        found["environments"] = {**before, **found["environments"]}
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _print(scores: dict[str, Score], console: Console) -> None:
    table = Table(
        "environment", "episodes", "first obs.", "steps identical / replayed", "ended as recorded"
    )
    for name, score in scores.items():
        share = 100 * score.identical / score.steps if score.steps else 0.0
        table.add_row(
            name,
            str(score.episodes),
            f"{score.first} / {score.episodes}",
            f"{score.identical} / {score.steps} ({share:.2f} %)" if score.steps else "-",
            f"{score.ended_as_recorded} / {score.episodes}",
        )
    console.print(table)
    for name, score in scores.items():
        if calls := score.by_recorded_calls:
            console.print(
                f"{name}, identical steps of {score.steps} by the recorded calls that an episode "
                f"may look up: {', '.join(f'{which}: {n}' for which, n in calls.items())}"
            )
    for name, score in scores.items():
        for mismatch in score.mismatches[:_SHOWN]:
            console.print(f"{name}: {mismatch}", markup=False, highlight=False)


def _as_data(scores: dict[str, Score]) -> dict[str, Any]:
    return {
        "manifest": read_manifest().as_json(),
        "environments": {
            name: {
                "episodes": score.episodes,
                "first_observations_identical": score.first,
                "steps": score.steps,
                "steps_identical": score.identical,
                "episodes_identical": score.exact_episodes,
                "episodes_ended_as_recorded": score.ended_as_recorded,
                "mismatching_episodes": len(score.mismatches),
                "items_that_differ": dict(Counter(m["item_id"] for m in score.mismatches)),
                **(
                    {"steps_identical_by_recorded_calls": score.by_recorded_calls}
                    if score.by_recorded_calls
                    else {}
                ),
            }
            for name, score in scores.items()
        },
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; prints a table and writes the result."""
    return run_command(Fidelity, _act, argv, program="python -m benchmark.fidelity")


if __name__ == "__main__":
    sys.exit(main())
