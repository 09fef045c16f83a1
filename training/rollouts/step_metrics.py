"""What a training step's episodes were like: figures for its log, together and by environment.

Pure. Keys of an environment are `env/NAME/…`, seconds of the step's parts `seconds/PART`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

import numpy as np

from agentgym.episode.v1 import episode_pb2

__all__ = ["StepClock", "describe_episodes"]

_CUT: frozenset[str] = frozenset({"length", "context"})
"""Why replies end that their author did not end."""


def describe_episodes(
    episodes: Sequence[episode_pb2.Episode], rewards: Sequence[float]
) -> dict[str, float]:
    """Return the figures of a step's episodes.

    Args:
        episodes: Played with a token ledger.
        rewards: Of each, divided by its environment's perfect score.

    Returns:
        `reward`, `episodes`, and means per episode: `turns`, `reply_tokens` (sampled ones),
        `truncated` (1 where a limit ended it), `policy_seconds` and `environment_seconds` (waiting
        for either); `cut_replies`, the share of replies that reached max_new_tokens or the end of
        the context; `entropy` of the policy that sampled, in nats per token: the mean of -log p of
        what it drew, which is an unbiased estimate. Once for all, and by environment. What there is
        nothing to compute from is left out.
    """
    by_environment: defaultdict[str, list[int]] = defaultdict(list)
    for number, episode in enumerate(episodes):
        by_environment[episode.environment].append(number)
    figures = _figures(episodes, rewards)
    for name, numbers in sorted(by_environment.items()):
        own = _figures([episodes[it] for it in numbers], [rewards[it] for it in numbers])
        figures |= {f"env/{name}/{key}": value for key, value in own.items()}
    return figures


def _figures(episodes: Sequence[episode_pb2.Episode], rewards: Sequence[float]) -> dict[str, float]:
    if not episodes:
        return {"episodes": 0}
    calls = [call for episode in episodes for call in episode.generations]
    surprises = [it for episode in episodes for it in _surprises(episode)]
    tokens = sum(len(it) for it in surprises)
    figures = {
        "reward": _mean(rewards),
        "episodes": len(episodes),
        "turns": _mean(len(episode.generations) for episode in episodes),
        "reply_tokens": tokens / len(episodes),
        "truncated": _mean(episode.truncated for episode in episodes),
        "policy_seconds": _mean(episode.policy_seconds for episode in episodes),
        "environment_seconds": _mean(episode.environment_seconds for episode in episodes),
    }
    if calls:
        figures["cut_replies"] = _mean(call.finish_reason in _CUT for call in calls)
    if tokens:
        total = sum(float(it.sum(dtype=np.float64)) for it in surprises)
        figures["entropy"] = total / tokens
    return figures


def _surprises(episode: episode_pb2.Episode) -> Iterable[np.ndarray]:
    """Yield -log p of the sampled tokens of each segment."""
    for segment in episode.token_segments:
        sampled = np.array(segment.origins, np.int64) == episode_pb2.TOKEN_ORIGIN_SAMPLED
        yield -np.array(segment.logprobs, np.float32)[sampled]


def _mean(values: Iterable[float]) -> float:
    every = list(values)
    return sum(every) / len(every)


class StepClock:
    """Wall time of the parts of steps."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[int, str], float] = {}

    @contextmanager
    def measure(self, step: int, part: str) -> Generator[None]:
        """Add what is done meanwhile to a part of a step."""
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - began
            self._seconds[step, part] = self._seconds.get((step, part), 0.0) + spent

    def take(self, step: int) -> dict[str, float]:
        """Return `seconds/PART` of a step, and forget it."""
        mine = [key for key in self._seconds if key[0] == step]
        return {f"seconds/{part}": self._seconds.pop((at, part)) for at, part in mine}
