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

__all__ = ["StepClock", "describe_branches", "describe_episodes"]

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
    played = [
        (episode, reward, *_surprise(episode))
        for episode, reward in zip(episodes, rewards, strict=True)
    ]
    figures = _figures(played)
    for name, numbers in sorted(by_environment.items()):
        own = _figures([played[it] for it in numbers])
        figures |= {f"env/{name}/{key}": value for key, value in own.items()}
    return figures


def describe_branches(branches: Sequence[episode_pb2.Episode]) -> dict[str, float]:
    """Return what a step's branches are and cost: `branches`, `branch_states`, `branch_tokens`.

    The tokens are those that were sampled for them. Nothing where none were played.
    """
    if not branches:
        return {}
    states = {(it.parent.episode_id, it.parent.turn) for it in branches}
    tokens = sum(call.completion_tokens for it in branches for call in it.generations)
    return {"branches": len(branches), "branch_states": len(states), "branch_tokens": tokens}


def _figures(played: Sequence[tuple[episode_pb2.Episode, float, int, float]]) -> dict[str, float]:
    """Return the figures of episodes, each with its reward, sampled tokens and their surprise."""
    if not played:
        return {"episodes": 0}
    episodes = [episode for episode, *_ in played]
    calls = [call for episode in episodes for call in episode.generations]
    tokens = sum(count for _, _, count, _ in played)
    figures = {
        "reward": _mean(reward for _, reward, _, _ in played),
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
        figures["entropy"] = sum(surprise for *_, surprise in played) / tokens
    return figures


def _surprise(episode: episode_pb2.Episode) -> tuple[int, float]:
    """Return the number of sampled tokens, and the sum of -log p over them."""
    tokens, total = 0, 0.0
    for segment in episode.token_segments:
        sampled = np.array(segment.origins, np.int64) == episode_pb2.TOKEN_ORIGIN_SAMPLED
        tokens += int(sampled.sum())
        total -= float(np.array(segment.logprobs, np.float32)[sampled].sum(dtype=np.float64))
    return tokens, total


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
