"""Recorded episodes as an algorithm of reinforcement learning reads them: ids, logprobs, versions.

Every sampled token must have the logprob with which it was sampled and the version of the weights
that sampled it. A record that lacks either is refused, never patched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agentgym.episode.v1 import episode_pb2
from training.data.sequences import Provenance, TokenSequence, make_sequence
from training.errors import LogprobsMissing

__all__ = ["TokenAges", "Trajectory", "WeightVersions", "newest_step", "read_trajectories"]

_STEP: Final = re.compile(r"(?:(?P<run>[0-9a-f]+)-[0-9a-f]+-)?step-(?P<step>\d+)")


@dataclass(frozen=True, slots=True)
class WeightVersions:
    """How a training names its weights: `RUN-SESSION-step-N`.

    Engines keep prompts' keys and values by the name of the weights, beyond the end of a training.
    So no two weights may have one name: not those of two trainings, nor those of one that was
    resumed, whose steps may come out otherwise.
    """

    run_id: str = ""
    """Of the training, in hexadecimal digits."""
    session: str = ""
    """Of the process that names them, in hexadecimal digits; another one after each start."""
    others: Mapping[str, int] = field(default_factory=dict[str, int])
    """Steps of weights that have names of another kind, by name."""

    def name(self, step: int) -> str:
        """Return the name of the weights after a number of steps."""
        return f"{self.run_id}-{self.session}-step-{step}"

    def step(self, version: str) -> int | None:
        """Return the step of weights by their name; None = they are not of this training.

        Any session of the training will do. Records of earlier releases say `step-N` alone.
        """
        if version in self.others:
            return self.others[version]
        match = _STEP.fullmatch(version)
        if match is None or match["run"] not in (self.run_id, None):
            return None
        return int(match["step"])


_UNNAMED: Final = WeightVersions()


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One ledger segment of an episode."""

    sequence: TokenSequence
    """Ids, targets and logprobs; targets are the sampled tokens that are fresh enough."""
    stale: int
    """Sampled tokens that are no targets, because the weights have moved on too far."""
    turns: NDArray[np.int64]
    """[targets]: the turn of the episode in which each was sampled, from 0."""
    ages: NDArray[np.int64]
    """[targets]: steps since the weights that sampled each."""


@dataclass(frozen=True, slots=True)
class TokenAges:
    """How many steps old the weights were that sampled the tokens of a step; None = no tokens."""

    mean: float | None
    max: int | None

    @classmethod
    def of(cls, ages: Sequence[NDArray[np.int64]]) -> TokenAges:
        """Return them of all tokens together."""
        tokens = np.concatenate([np.zeros(0, np.int64), *ages])
        return cls(float(tokens.mean()), int(tokens.max())) if len(tokens) else cls(None, None)


def newest_step(episode: episode_pb2.Episode, versions: WeightVersions) -> int | None:
    """Return the step of the newest weights that sampled a token of an episode.

    None = the record does not say so of every token; `read_trajectories` says why.
    """
    names = {name for segment in episode.token_segments for name in segment.policy_versions}
    steps = [versions.step(name) for name in names]
    known = [step for step in steps if step is not None]
    return max(known) if known and len(known) == len(steps) else None


def read_trajectories(
    episode: episode_pb2.Episode,
    *,
    step: int = 0,
    max_off_policy_steps: int = 0,
    versions: WeightVersions = _UNNAMED,
) -> list[Trajectory]:
    """The segments of an episode that hold sampled tokens.

    Tokens of weights that are more than `max_off_policy_steps` updates older than those of `step`
    are no targets. Raises LogprobsMissing where the record has no token ids, no logprobs, or
    versions that `versions` does not know.
    """
    if not episode.token_segments:
        raise LogprobsMissing(
            f"episode {episode.episode_id} was played by {episode.policy!r}, which records text "
            "only: sample it with embedded, sglang, or vLLM and --openai.api token_ids",
            field="token_segments",
        )
    trajectories: list[Trajectory] = []
    for number, segment in enumerate(episode.token_segments):
        sampled = np.array(segment.origins, np.int64) == episode_pb2.TOKEN_ORIGIN_SAMPLED
        if not sampled.any():
            continue
        logprobs = _logprobs(episode, segment, sampled)
        ages = step - _sampling_steps(episode, segment, sampled, versions)
        fresh = sampled & (ages <= max_off_policy_steps)
        origin = Provenance(
            source=episode.run_id,
            name=episode.episode_id,
            environment=episode.environment,
            item_id=episode.item_id,
            sample=episode.sample,
            segment=number,
            policy=episode.policy,
        )
        sequence = make_sequence(np.array(segment.ids, np.uint32), fresh, logprobs, origin)
        if sequence is not None:
            stale = int(sampled.sum() - fresh.sum())
            calls = np.array(segment.generations, np.int64)[: len(sequence)][sequence.mask] - 1
            turns = np.array([call.turn for call in episode.generations], np.int64)[calls]
            of_targets = ages[: len(sequence)][sequence.mask]
            trajectories.append(Trajectory(sequence, stale, turns, of_targets))
    return trajectories


def _logprobs(
    episode: episode_pb2.Episode, segment: episode_pb2.TokenSegment, sampled: NDArray[np.bool_]
) -> NDArray[np.float32]:
    logprobs = np.array(segment.logprobs, np.float32)
    if len(logprobs) != len(sampled) or not np.isfinite(logprobs).all():
        raise LogprobsMissing(
            f"episode {episode.episode_id} has {len(logprobs)} logprobs for {len(sampled)} "
            "tokens, or some that are no numbers: sample it again with logprobs",
            field="token_segments.logprobs",
        )
    if not logprobs[sampled].any():
        raise LogprobsMissing(
            f"all logprobs of episode {episode.episode_id} are 0: its engine recorded none; "
            "sample it again with logprobs",
            field="token_segments.logprobs",
        )
    return logprobs


def _sampling_steps(
    episode: episode_pb2.Episode,
    segment: episode_pb2.TokenSegment,
    sampled: NDArray[np.bool_],
    versions: WeightVersions,
) -> NDArray[np.int64]:
    """Return the step of the weights that sampled each token, [n]; 0 for tokens of others."""
    steps = np.where(sampled, -1, 0)
    for span in segment.version_spans:
        sampled_at = versions.step(segment.policy_versions[span.version])
        steps[span.start : span.end] = -1 if sampled_at is None else sampled_at
    steps[~sampled] = 0
    if steps.min() < 0:
        raise LogprobsMissing(
            f"episode {episode.episode_id} does not say which weights sampled its tokens "
            f"(versions: {', '.join(segment.policy_versions) or 'none'}): play it with the "
            "weights that are to learn",
            field="token_segments.policy_versions",
        )
    return steps
