"""The file of a report: written as it comes, one conversation at a time."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import RecordCorrupt
from orchestrator.formats import EpisodeWriter
from orchestrator.html_report.conversation import MESSAGE_CHARS, conversation, outcome_cell
from orchestrator.html_report.elements import Content, element, render, table
from orchestrator.html_report.summary import summary_sections
from orchestrator.records import EpisodeSummary
from orchestrator.report import sum_up
from orchestrator.store import RunReader

__all__ = ["HtmlReportWriter"]

_STYLE: Final = "style.css"


class HtmlReportWriter(EpisodeWriter):
    """Writes what a run comes to, then the conversations that it is given.

    The figures are of the whole run, whatever conversations are shown.
    """

    keeps_images = True

    def __init__(
        self,
        path: Path,
        run: RunReader,
        accept: Callable[[EpisodeSummary], bool],
        limit: int = 0,
        *,
        judged: Callable[[EpisodeSummary], EpisodeSummary] = lambda summary: summary,
        scores: str = "",
    ) -> None:
        """Write all but the conversations.

        Args:
            path: The new file.
            run: What is reported of.
            accept: Which conversations follow.
            limit: How many of them at most; 0 = all.
            judged: Gives a record the outcome that the report shows.
            scores: Name of the scoring that `judged` is of; empty = the recorded outcomes.
        """
        damage: list[str] = []

        def on_damage(error: RecordCorrupt) -> None:
            damage.append(error.problem)

        recorded = list(run.summaries(on_damage=on_damage))
        superseded = list(run.summaries(superseded=True, on_damage=on_damage))
        records = [judged(record) for record in recorded]
        accepted = [it for it, record in zip(records, recorded, strict=True) if accept(record)]
        report = sum_up(run, records, superseded, damage)
        shown = accepted[:limit] if limit else accepted
        self._stream = path.open("w", encoding="utf-8", newline="\n")
        self._stream.write('<!DOCTYPE html>\n<html lang="en">\n')
        self._stream.write(render(_head(f"Run {run.folder.resolve().name}")) + "\n<body>\n<main>\n")
        for section in summary_sections(report, run.manifest, records, run.plan(), scores):
            self._write(section)
        for part in _contents(shown, len(accepted), len(records)):
            self._write(part)

    def write(self, episode: episode_pb2.Episode) -> None:
        self._write(conversation(episode))

    def close(self) -> None:
        self._stream.write("</main>\n</body>\n</html>\n")
        self._stream.close()

    def _write(self, part: ElementTree.Element) -> None:
        self._stream.write(render(part) + "\n")


def _head(title: str) -> ElementTree.Element:
    style = (files(__package__ or "") / _STYLE).read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", style),
    )


def _contents(
    shown: Sequence[EpisodeSummary], accepted: int, recorded: int
) -> Iterator[ElementTree.Element]:
    """Yield what leads to the conversations: how many of how many, and a line for each."""
    said = f"{len(shown)} of {recorded} recorded episodes"
    if accepted < recorded:
        said += f", of which {accepted} passed the filters"
    if len(shown) < accepted:
        said += f"; the first {len(shown)} by --limit"
    said += f". Messages are cut at {MESSAGE_CHARS:,} characters."
    yield element("h2", "Conversations")
    yield element("p", said, class_="note")
    headings = ("environment", "item", "policy", "outcome", "sample", "score", "rounds")
    yield table(headings, [_line(summary) for summary in shown], numbers=3)


def _line(summary: EpisodeSummary) -> list[Content]:
    return [
        summary.environment,
        element("a", summary.item_id, href=f"#{summary.episode_id}"),
        summary.policy,
        outcome_cell(summary),
        str(summary.sample),
        "-" if summary.score is None else f"{summary.score:g}",
        str(summary.rounds),
    ]
