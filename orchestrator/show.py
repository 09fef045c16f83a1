"""Command: a run's summary, its episodes, or one episode, on the terminal.

    python -m orchestrator.show RUN                     summary table
    python -m orchestrator.show RUN --list              one line per episode
    python -m orchestrator.show RUN --outcome failed    those of them that ended so
    python -m orchestrator.show RUN --episode ID        one episode, by the start of its id
    python -m orchestrator.show RUN --item ITEM         the episodes of one item
    python -m orchestrator.show RUN --episode ID --turn 3 --picture
                                                        one turn, drawn by its environment
    python -m orchestrator.show RUN --scores NAME       any of these by a scoring of the run

Works on live runs, too.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from google.protobuf.json_format import MessageToDict
from rich.console import Console
from rich.text import Text

from agentgym.episode.v1 import episode_pb2
from orchestrator.command_line import run_command
from orchestrator.errors import EpisodesMissing, RecordCorrupt, UsageError
from orchestrator.manifest import is_own
from orchestrator.object_storage import locate_run
from orchestrator.records import EpisodeSummary, blamed
from orchestrator.rendering import as_plain_text, as_renderable
from orchestrator.report import as_data, print_report, read_report
from orchestrator.run_list import imported_from, name_some, played_from
from orchestrator.scorings.comparison import (
    comparison_data,
    print_comparison,
    read_comparison,
)
from orchestrator.scorings.judgement import describe_judgement, judgement_data, rescored
from orchestrator.scorings.table import EpisodeScore, ScoresReader, scoring_names
from orchestrator.servers import FleetConfig
from orchestrator.statistics import MissingRule
from orchestrator.store import RunReader
from orchestrator.terminal import TerminalConsole, visible
from orchestrator.trust import check_environments
from orchestrator.turn_picture import draw_turn
from orchestrator.turns import reply_places

__all__ = ["ShowOptions", "main"]

_LIMIT = 4000
"""Characters of a message that are shown without `--full`."""
_FILE_WIDTH = 120


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """Show a run, its episodes, or one of them."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run, its name within `--runs`, or a URL such as s3://BUCKET/RUN."""
    runs: Path = Path("runs")
    """Where runs are looked up by name."""
    episode: str | None = None
    """Show the episode whose id begins like this; earlier attempts have ids, too."""
    item: str | None = None
    """Show the episodes of this item."""
    sample: int | None = None
    """With --item: only this sample."""
    turn: int | None = None
    """Of an episode only this turn, a reply with what came of it; 0 = what stands before the first
    reply."""
    picture: bool = False
    """With --episode and --turn: draw the state after that turn, as far as the environment can draw
    in text. The recorded actions are played again on a server, which these start or name:"""
    fleet: Annotated[FleetConfig, tyro.conf.arg(name="")] = field(default_factory=FleetConfig)
    trust_run: bool = False
    """With --picture of a stranger's run: also serve an environment that is a package of this
    folder."""
    list: bool = False
    """List the episodes, one line each; each of the following asks for it, too."""
    environment: str | None = None
    """Only episodes of this environment."""
    policy: str | None = None
    """Only episodes of this policy."""
    outcome: Literal["success", "loss", "unjudged", "failed"] | None = None
    """Only episodes that succeeded, that did not, that nothing judged, or that failed (whose end
    nobody knows)."""
    reason: str | None = None
    """Only episodes that ended for this reason: of a failure, or a stop reason."""
    min_rounds: int | None = None
    """Only episodes of at least so many rounds."""
    max_rounds: int | None = None
    """Only episodes of at most so many rounds."""
    min_score: float | None = None
    """Only episodes with at least this score."""
    max_score: float | None = None
    """Only episodes with at most this score."""
    attempts: bool = False
    """The failed attempts that were played again, in place of the episodes."""
    scores: str | None = None
    """Judge by this scoring (python -m orchestrator.rescore) in place of the records: summary, list
    and filters; beside an episode, how it was judged."""
    page: int | None = None
    """Only this page of the list, from 1."""
    page_size: int = 50
    """Lines of a page."""
    missing: MissingRule = "bounds"
    """What missing episodes count as in the summary: bounds shows what the figures are if all of
    them fail and if all succeed; fail counts them as failures; drop leaves them out; error gives no
    figures and ends with status 1."""
    full: bool = False
    """Show long messages whole."""
    plain: bool = False
    """No colours."""
    json: bool = False
    """Print JSON: the summary as one object, episodes as one object per line."""

    @property
    def lists(self) -> bool:
        """Whether episodes are listed."""
        return self.list or self.attempts or self.page is not None or any(_filters(self))

    def accepts(self, summary: EpisodeSummary) -> bool:
        """Whether an episode is to be listed."""
        return all(passes(summary) for passes in _filters(self) if passes is not None)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    return run_command(ShowOptions, _show, argv, program="agentgym-show")


def _show(options: ShowOptions) -> int:
    _check(options)
    console = TerminalConsole(no_color=options.plain, highlight=False)
    if not console.is_terminal:
        # A file or a pipe has no width of its own: do not squeeze the table into 80 columns.
        console.width = max(console.width, _FILE_WIDTH)
    with (
        RunReader.open(locate_run(options.run, options.runs)) as run,
        _open_scores(run, options) as scores,
    ):
        if options.episode is not None or options.item is not None:
            judged = {} if scores is None else scores.latest()
            for episode in _chosen(run, options):
                _check_turn(episode, options)
                _show_episode(console, episode, options)
                if options.picture:
                    _show_picture(console, run, episode, options)
                if scores is not None:
                    _show_judgement(console, scores, judged.get(episode.episode_id), options)
        elif options.lists:
            return _list_episodes(console, run, options, scores)
        elif scores is not None:
            return _show_comparison(console, run, scores, options)
        else:
            return _show_summary(console, run, options)
    return 0


def _check(options: ShowOptions) -> None:
    """Raise UsageError for what cannot be meant."""
    if options.turn is not None and options.episode is None and options.item is None:
        raise UsageError("--turn is of an episode: name it by --episode or --item")
    if options.turn is not None and options.json:
        raise UsageError("--json prints whole records: leave --turn out")
    if options.picture and (options.turn is None or options.episode is None):
        raise UsageError("--picture is of one turn of one episode: give --episode and --turn")


def _open_scores(
    run: RunReader, options: ShowOptions
) -> ScoresReader | contextlib.nullcontext[None]:
    if options.scores is None:
        return contextlib.nullcontext()
    return ScoresReader.open(run, options.scores)


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
        _print_plain(as_plain_text(episode, limit=limit, turn=options.turn))
    else:
        console.print(as_renderable(episode, limit=limit, turn=options.turn))


def _check_turn(episode: episode_pb2.Episode, options: ShowOptions) -> None:
    replies = len(reply_places(episode))
    if options.turn is not None and not 0 <= options.turn <= replies:
        raise UsageError(f"the episode has no turn {options.turn}: 0 to {replies} were played")


def _show_picture(
    console: Console, run: RunReader, episode: episode_pb2.Episode, options: ShowOptions
) -> None:
    """Draw the state after a turn; says which views there are where none is text."""
    assert options.turn is not None
    if not (options.trust_run or options.fleet.running or is_own(run.folder)):
        check_environments([episode.environment])
    views = draw_turn(episode, options.turn, options.fleet)
    for view in views:
        if view.media_type == "text/plain":
            console.print(Text(f"{view.title} ({view.name})", style="bold"), soft_wrap=True)
            console.print(Text(view.content.decode("utf-8", "replace")), soft_wrap=True)
    others = [f"{it.name} ({it.media_type})" for it in views if it.media_type != "text/plain"]
    if others:
        text = f"not for terminals: {', '.join(others)}"
        console.print(Text(text, style="dim"), soft_wrap=True)


def _show_judgement(
    console: Console, scores: ScoresReader, score: EpisodeScore | None, options: ShowOptions
) -> None:
    detail: Mapping[str, Any] = {} if score is None else scores.detail(score)
    if options.json:
        _print_plain(json.dumps(judgement_data(scores.name, score, detail)))
    else:
        for line in describe_judgement(scores.name, score, detail):
            shown = line if options.full else line[:_LIMIT]
            console.print(Text(visible(shown)), soft_wrap=True)


_Filter = Callable[[EpisodeSummary], bool]


def _filters(options: ShowOptions) -> Iterator[_Filter | None]:
    """Yield what a listed episode has to pass; None = nothing was asked for."""
    yield _equals("environment", options.environment)
    yield _equals("policy", options.policy)
    yield None if options.outcome is None else lambda it: it.outcome == options.outcome
    yield None if options.reason is None else lambda it: it.ending == options.reason
    yield _within("rounds", options.min_rounds, options.max_rounds)
    yield _within("score", options.min_score, options.max_score)


def _equals(column: str, wanted: str | None) -> _Filter | None:
    return None if wanted is None else lambda summary: getattr(summary, column) == wanted


def _within(column: str, low: float | None, high: float | None) -> _Filter | None:
    """Return whether a column is within bounds, which what is absent never is."""
    if low is None and high is None:
        return None

    def passes(summary: EpisodeSummary) -> bool:
        value = getattr(summary, column)
        if value is None:
            return False
        return (low is None or value >= low) and (high is None or value <= high)

    return passes


def _list_episodes(
    console: Console, run: RunReader, options: ShowOptions, scores: ScoresReader | None
) -> int:
    damage: list[RecordCorrupt] = []
    everything = list(run.summaries(superseded=options.attempts, on_damage=damage.append))
    if scores is not None:
        latest = scores.latest()
        everything = [rescored(summary, latest.get(summary.episode_id)) for summary in everything]
    listed = [summary for summary in everything if options.accepts(summary)]
    shown = listed
    if options.page is not None:
        if options.page < 1 or options.page_size < 1:
            raise UsageError("--page and --page-size count from 1")
        first = (options.page - 1) * options.page_size
        shown = listed[first : first + options.page_size]
    for summary in shown:
        if options.json:
            _print_plain(json.dumps(summary._asdict()))
        else:
            line = Text(visible(_line(summary)), style="red" if summary.failed else "")
            console.print(line, soft_wrap=True)
    if not options.json:
        pages = (
            "" if options.page is None else f" (page {options.page} of {_pages(options, listed)})"
        )
        console.print(Text(f"{len(listed)} episodes{pages}", style="dim"))
        if not listed:
            console.print(Text(visible(_what_there_is(everything)), style="dim"), soft_wrap=True)
    for error in damage:
        Console(file=sys.stderr, soft_wrap=True).print(
            Text(visible(f"damaged: {error.problem}"), style="red")
        )
    return 1 if damage else 0


def _what_there_is(summaries: Sequence[EpisodeSummary]) -> str:
    """Say by which values a list of these episodes can be narrowed."""
    values: dict[str, set[str]] = {
        "environment": {summary.environment for summary in summaries},
        "policy": {summary.policy for summary in summaries},
        "outcome": {summary.outcome for summary in summaries},
        "reason": {summary.ending for summary in summaries},
    }
    there = "; ".join(f"--{name} {', '.join(sorted(found))}" for name, found in values.items())
    return f"of {len(summaries)}, which have {there}" if summaries else "there are none"


def _pages(options: ShowOptions, listed: Sequence[EpisodeSummary]) -> int:
    return max(1, -(-len(listed) // options.page_size))


def _line(summary: EpisodeSummary) -> str:
    outcome = (
        f"failed: {blamed(summary.fault)}, {summary.reason}"
        if summary.failed
        else summary.stop_reason
    )
    reward = "-" if summary.reward is None else f"{summary.reward:g}"
    return (
        f"{summary.episode_id[:12]}  {summary.environment}  {summary.item_id}  "
        f"#{summary.sample}  {summary.policy}  "
        f"reward {reward}  {summary.rounds} rounds  {outcome}"
    )


def _show_comparison(
    console: Console, run: RunReader, scores: ScoresReader, options: ShowOptions
) -> int:
    comparison = read_comparison(run, scores, missing=options.missing)
    if options.json:
        _print_plain(json.dumps(comparison_data(comparison), indent=2))
    else:
        print_comparison(console, comparison)
    if options.missing == "error" and not comparison.complete:
        raise EpisodesMissing(f"{run.folder}: {comparison.missing} episodes have no new score")
    return 0


def _show_summary(console: Console, run: RunReader, options: ShowOptions) -> int:
    report = read_report(run, missing=options.missing)
    if options.json:
        _print_plain(json.dumps(as_data(report), indent=2))
    else:
        manifest = run.manifest
        session, origin = manifest.sessions[-1], played_from(manifest)
        files = imported_from(manifest)
        console.print(
            Text(
                f"{manifest.run_id}: policy {manifest.policy}, seed {manifest.run_seed}, "
                f"{f'played on from {origin}, ' if origin else ''}"
                f"{f'imported from {name_some(files)}, ' if files else ''}"
                f"begun {manifest.created}, started {len(manifest.sessions)} times, "
                f"version {session.code}"
            )
        )
        print_report(console, report)
        if names := scoring_names(run.folder):
            text = f"judged anew (--scores NAME shows it): {', '.join(names)}"
            console.print(Text(text), soft_wrap=True)
    if options.missing == "error" and not report.complete:
        raise EpisodesMissing(f"{run.folder}: {report.missing} episodes are missing")
    return 1 if report.damage else 0


def _print_plain(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


if __name__ == "__main__":
    sys.exit(main())
