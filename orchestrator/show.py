"""Command: a run's summary, its episodes, or one episode, on the terminal.

    python -m orchestrator.show RUN                     summary table
    python -m orchestrator.show RUN --list              one line per episode
    python -m orchestrator.show RUN --episode ID        one episode, by the start of its id
    python -m orchestrator.show RUN --item ITEM         the episodes of one item

Works on live runs, too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from google.protobuf.json_format import MessageToDict
from rich.console import Console
from rich.text import Text

from agentgym.episode.v1 import episode_pb2
from orchestrator.command_line import run_command
from orchestrator.errors import UsageError
from orchestrator.records import EpisodeSummary
from orchestrator.rendering import as_plain_text, as_renderable, visible
from orchestrator.report import as_data, as_table
from orchestrator.run_folder import find_run
from orchestrator.statistics import summarise_run
from orchestrator.store import RunReader

__all__ = ["ShowOptions", "main"]

_LIMIT = 4000
"""Characters of a message that are shown without `--full`."""
_FILE_WIDTH = 120


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """Show a run, its episodes, or one of them."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run, or its name within `--runs`."""
    runs: Path = Path("runs")
    """Where runs are looked up by name."""
    episode: str | None = None
    """Show the episode whose id begins like this; earlier attempts have ids, too."""
    item: str | None = None
    """Show the episodes of this item."""
    sample: int | None = None
    """With --item: only this sample."""
    list: bool = False
    """List the episodes, one line each."""
    full: bool = False
    """Show long messages whole."""
    plain: bool = False
    """No colours."""
    json: bool = False
    """Print JSON: the summary as one list, episodes as one object per line."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    return run_command(ShowOptions, _show, argv, program="agentgym-show")


def _show(options: ShowOptions) -> int:
    console = Console(no_color=options.plain, highlight=False)
    if not console.is_terminal:
        # A file or a pipe has no width of its own: do not squeeze the table into 80 columns.
        console.width = max(console.width, _FILE_WIDTH)
    with RunReader.open(find_run(options.run, options.runs)) as run:
        if options.episode is not None or options.item is not None:
            for episode in _chosen(run, options):
                _show_episode(console, episode, options)
        elif options.list:
            _list_episodes(console, run, options)
        else:
            _show_summary(console, run, options)
    return 0


def _chosen(run: RunReader, options: ShowOptions) -> Iterator[episode_pb2.Episode]:
    if options.episode is not None:
        yield run.get_by_id(options.episode)
        return

    def is_asked_for(summary: EpisodeSummary) -> bool:
        return summary.item_id == options.item and options.sample in (None, summary.sample)

    any_shown = False
    for episode in run.episodes(is_asked_for):
        any_shown = True
        yield episode
    if not any_shown:
        items = sorted({summary.item_id for summary in run.summaries()})
        some = [*items[:5], "..."] if len(items) > 5 else items
        raise UsageError(f"the run has no such episode of item {options.item!r}", valid=some)


def _show_episode(console: Console, episode: episode_pb2.Episode, options: ShowOptions) -> None:
    limit = None if options.full else _LIMIT
    if options.json:
        _print_plain(json.dumps(MessageToDict(episode, preserving_proto_field_name=True)))
    elif options.plain:
        _print_plain(as_plain_text(episode, limit=limit))
    else:
        console.print(as_renderable(episode, limit=limit))


def _list_episodes(console: Console, run: RunReader, options: ShowOptions) -> None:
    for summary in run.summaries():
        outcome = (
            f"failed: {summary.fault} {summary.reason}" if summary.failed else summary.stop_reason
        )
        reward = "-" if summary.reward is None else f"{summary.reward:g}"
        if options.json:
            _print_plain(json.dumps({name: getattr(summary, name) for name in summary.__slots__}))
        else:
            line = (
                f"{summary.episode_id[:12]}  {summary.environment}  {summary.item_id}  "
                f"#{summary.sample}  {summary.policy}  "
                f"reward {reward}  {summary.rounds} rounds  {outcome}"
            )
            console.print(
                Text(visible(line), style="red" if summary.failed else ""), soft_wrap=True
            )


def _show_summary(console: Console, run: RunReader, options: ShowOptions) -> None:
    statistics = summarise_run(run.summaries())
    if options.json:
        _print_plain(json.dumps(as_data(statistics), indent=2))
        return
    manifest = run.manifest
    session = manifest.sessions[-1]
    console.print(
        Text(
            f"{manifest.run_id}: policy {manifest.policy}, seed {manifest.run_seed}, "
            f"begun {manifest.created}, started {len(manifest.sessions)} times, "
            f"version {session.code_version} ({session.git_commit or 'no commit known'})"
        )
    )
    console.print(as_table(statistics))


def _print_plain(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


if __name__ == "__main__":
    sys.exit(main())
