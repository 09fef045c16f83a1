"""Which episodes an agent learns from, and how much each one counts.

AgentEvol's rule: an episode is selected where its score is above its environment's threshold, or it
counts by its score (the paper's objective). A failed episode is never selected, and the order
depends on the episodes' keys alone, never on the order in which they ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from agent_runtime.scores import score_or_reward
from orchestrator.atomic_file import write_atomically
from orchestrator.records import EpisodeKey, EpisodeSummary
from training.errors import DataError

__all__ = [
    "THRESHOLDS",
    "Repeats",
    "SelectedEpisode",
    "Selection",
    "read_selection",
    "score_threshold",
    "score_weight",
    "select",
    "write_selection",
]

THRESHOLDS: Final[Mapping[str, float]] = {"babyai": 0.0, "sciworld": 99.0}
"""The original's thresholds where they are not the usual one."""
_USUAL_THRESHOLD: Final = 0.99

Repeats = Literal["first", "best", "all"]
"""Which of several selected episodes of one item stay: the first sample as in the original, the one
with the highest score (then the fewest rounds), or all."""


@dataclass(frozen=True, slots=True)
class SelectedEpisode:
    """One episode to learn from: a line of a selection file."""

    episode_id: str
    environment: str
    item_id: str
    sample: int
    policy: str
    score: float
    weight: float
    """What its tokens count in the loss; 1 unless weighted by score."""

    @property
    def key(self) -> EpisodeKey:
        """Its key in its run."""
        return EpisodeKey(self.environment, self.item_id, self.sample, self.policy)


@dataclass(frozen=True, slots=True)
class Selection:
    """What is learned from of one environment's episodes."""

    selected: tuple[SelectedEpisode, ...]
    episodes: int
    """Finished ones that were looked at."""
    confirmed: int
    """Of them, those above the threshold (or of positive weight) before repeats were removed."""
    failed: int
    """Episodes that ended by an error; never a result."""


def score_threshold(environment: str, threshold: float | None = None) -> float:
    """Return the score that a selected episode exceeds, in the environment's unit.

    `threshold` is that of the recipe; None = the original's.
    """
    return THRESHOLDS.get(environment, _USUAL_THRESHOLD) if threshold is None else threshold


def score_weight(score: float, perfect: float) -> float:
    """Return a score's share of a perfect one, from 0 to 1."""
    return min(max(score / perfect, 0.0), 1.0)


def select(
    summaries: Iterable[EpisodeSummary],
    *,
    threshold: float,
    weighted: bool = False,
    perfect: float = 1.0,
    repeats: Repeats = "first",
) -> Selection:
    """Filter one environment's episodes, or weight them.

    Args:
        summaries: Its episodes, in any order.
        threshold: Without `weighted`, a selected episode scores above it and counts 1.
        weighted: Select every episode of positive score, weighted by its share of `perfect`.
        perfect: The score of a perfect episode.
        repeats: Which of several selected episodes of one item stay.
    """
    ordered = sorted(summaries, key=_episode_key)
    finished = [summary for summary in ordered if not summary.failed]
    confirmed: list[tuple[SelectedEpisode, int]] = []
    for summary in finished:
        score = score_or_reward(summary.score, summary.reward)
        if score is None:
            continue
        weight = score_weight(score, perfect) if weighted else float(score > threshold)
        if weight > 0:
            confirmed.append((_selected(summary, score, weight), summary.rounds))
    return Selection(
        selected=_without_repeats(confirmed, repeats),
        episodes=len(finished),
        confirmed=len(confirmed),
        failed=len(ordered) - len(finished),
    )


def _episode_key(summary: EpisodeSummary) -> tuple[str, str, int, str]:
    return summary.environment, summary.item_id, summary.sample, summary.policy


def _selected(summary: EpisodeSummary, score: float, weight: float) -> SelectedEpisode:
    return SelectedEpisode(
        episode_id=summary.episode_id,
        environment=summary.environment,
        item_id=summary.item_id,
        sample=summary.sample,
        policy=summary.policy,
        score=score,
        weight=weight,
    )


def write_selection(path: Path, episodes: Iterable[SelectedEpisode]) -> None:
    """Write a selection, one JSON object a line, for `data.sources.selection` of a recipe."""
    write_atomically(path, "".join(json.dumps(asdict(episode)) + "\n" for episode in episodes))


def read_selection(path: Path) -> list[SelectedEpisode]:
    """Return what `write_selection` wrote; raises DataError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [SelectedEpisode(**json.loads(line)) for line in lines if line]
    except (OSError, ValueError, TypeError) as error:
        raise DataError(
            f"{path} is no selection: {error}", field="data.sources.selection"
        ) from error


def _without_repeats(
    confirmed: list[tuple[SelectedEpisode, int]], repeats: Repeats
) -> tuple[SelectedEpisode, ...]:
    """Return one episode per item, or all; the numbers are the episodes' rounds."""
    if repeats == "all":
        return tuple(episode for episode, _ in confirmed)
    by_item: dict[tuple[str, str], tuple[SelectedEpisode, int]] = {}
    for episode, rounds in confirmed:
        item = (episode.environment, episode.item_id)
        other = by_item.get(item)
        better = (
            other is not None
            and repeats == "best"
            and ((-episode.score, rounds) < (-other[0].score, other[1]))
        )
        if other is None or better:
            by_item[item] = (episode, rounds)
    return tuple(episode for episode, _ in by_item.values())
