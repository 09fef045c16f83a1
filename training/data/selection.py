"""Which explored episodes an agent learns from, and how much each one counts.

Owns AgentEvol's rule: an episode is kept where its score is above its environment's threshold, or
it counts by its score (the paper's objective). Invariant: a failed episode is never kept, and the
order of keeping depends on the episodes' keys alone, never on the order in which they ended.

Knows summaries of records and the file that lists what was kept; no run folder and no model.
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
"""Which of several kept episodes of one item stay: the first sample as in the original, the one
with the highest score (then the fewest rounds), or all."""


@dataclass(frozen=True, slots=True)
class SelectedEpisode:
    """One episode to learn from."""

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
        """Where its run has it."""
        return EpisodeKey(self.environment, self.item_id, self.sample, self.policy)


@dataclass(frozen=True, slots=True)
class Selection:
    """What came of one environment's exploration."""

    kept: tuple[SelectedEpisode, ...]
    episodes: int
    """Finished ones that were looked at."""
    confirmed: int
    """Of them, those above the threshold (or of positive weight) before repeats were removed."""
    failed: int
    """Episodes that ended by an error; never a result."""


def score_threshold(environment: str, given: float | None = None) -> float:
    """The score that a kept episode exceeds, in the environment's unit."""
    return THRESHOLDS.get(environment, _USUAL_THRESHOLD) if given is None else given


def score_weight(score: float, perfect: float) -> float:
    """A score's share of a perfect one, from 0 to 1."""
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

    Without `weighted`, those with a score above `threshold` are kept with weight 1. With it, each
    episode of positive score is kept, weighted by its share of `perfect`.
    """
    ordered = sorted(summaries, key=lambda it: (it.environment, it.item_id, it.sample, it.policy))
    finished = [it for it in ordered if not it.failed]
    confirmed: list[tuple[SelectedEpisode, int]] = []
    for summary in finished:
        score = score_or_reward(summary.score, summary.reward)
        if score is None:
            continue
        weight = score_weight(score, perfect) if weighted else float(score > threshold)
        if weight > 0:
            kept = SelectedEpisode(
                summary.episode_id,
                summary.environment,
                summary.item_id,
                summary.sample,
                summary.policy,
                score,
                weight,
            )
            confirmed.append((kept, summary.rounds))
    return Selection(
        kept=_without_repeats(confirmed, repeats),
        episodes=len(finished),
        confirmed=len(confirmed),
        failed=len(ordered) - len(finished),
    )


def write_selection(path: Path, kept: Iterable[SelectedEpisode]) -> None:
    """List what was kept, one JSON object a line, for `data.sources.selection` of a recipe."""
    write_atomically(path, "".join(json.dumps(asdict(it)) + "\n" for it in kept))


def read_selection(path: Path) -> list[SelectedEpisode]:
    """The inverse of `write_selection`; raises DataError."""
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
    if repeats == "all":
        return tuple(kept for kept, _ in confirmed)
    chosen: dict[tuple[str, str], tuple[SelectedEpisode, int]] = {}
    for kept, rounds in confirmed:
        name = (kept.environment, kept.item_id)
        other = chosen.get(name)
        better = (
            other is not None
            and repeats == "best"
            and ((-kept.score, rounds) < (-other[0].score, other[1]))
        )
        if other is None or better:
            chosen[name] = (kept, rounds)
    return tuple(kept for kept, _ in chosen.values())
