"""Episode records: their key, the columns by which they are looked up, their stored bytes.

A record is stored as deterministic protobuf in a zstd frame with a checksum, so that damage shows
when it is read. `check` holds what every stored record fulfils.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final, Literal, NamedTuple, cast

import zstandard
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import DecodeError

from agent_runtime.images import IMAGE_TYPES, MAX_RECORDED_BYTES
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import InvalidEpisode

__all__ = [
    "RECORD_SCHEMA",
    "SCORING_FAULT",
    "EpisodeKey",
    "EpisodeSummary",
    "RecordDamaged",
    "blamed",
    "check",
    "decode",
    "encode",
    "enum_name",
    "episode_key",
    "fault_name",
    "parse_fault",
    "play_differences",
    "record_digest",
    "stop_reason_name",
    "summarise",
]

RECORD_SCHEMA: Final = 1
"""The only `Episode.schema_version` that this program reads and writes."""
SCORING_FAULT: Final = "SCORING"
"""What is to blame where a finished episode has no score in another scoring than its own."""
_COMPRESSION_LEVEL: Final = 3
_TOO_LARGE: Final = 1 << 63
"""The database's integers are smaller."""
_MAX_BYTES: Final = 1 << 30
"""Of a record; the header of a damaged frame may claim any size, and would get the memory."""
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class RecordDamaged(ValueError):
    """When stored bytes are no record; caught where the folder is known."""


class EpisodeKey(NamedTuple):
    """What a run plays once: at most one record of a run has a given key."""

    environment: str
    item_id: str
    sample: int
    policy: str


class EpisodeSummary(NamedTuple):
    """The columns of one record; None = absent, which is never a stand-in for 0.

    A tuple, because a run writes and reads one for each record.
    """

    episode_id: str
    environment: str
    item_id: str
    sample: int
    policy: str
    category: str
    split: str
    attempt: int
    reward: float | None
    score: float | None
    success: bool | None
    stop_reason: str
    """A StopReason without its prefix, for example `GOAL_REACHED`."""
    fault: str | None
    """A Fault without its prefix; None = the episode did not fail."""
    reason: str | None
    """`EpisodeError.reason`; None = the episode did not fail."""
    retriable: bool | None
    rounds: int
    """Environment transitions without the reset."""
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    """None where the price of any call is unknown."""
    started_unix_ms: int
    ended_unix_ms: int
    environment_seconds: float
    policy_seconds: float

    @property
    def key(self) -> EpisodeKey:
        """The key of the record."""
        return EpisodeKey(self.environment, self.item_id, self.sample, self.policy)

    @property
    def failed(self) -> bool:
        """Whether the episode ended by an error, so that it has no reward."""
        return self.fault is not None

    @property
    def outcome(self) -> Literal["success", "loss", "unjudged", "failed"]:
        """How it ended: solved or not, judged by nothing, or failed, so that nobody knows."""
        if self.failed:
            return "failed"
        return "unjudged" if self.success is None else "success" if self.success else "loss"

    @property
    def ending(self) -> str:
        """Why it ended: the reason of a failure, or a stop reason."""
        return (self.reason or "") if self.failed else self.stop_reason


def episode_key(episode: episode_pb2.Episode) -> EpisodeKey:
    """Return the key of a record."""
    return EpisodeKey(episode.environment, episode.item_id, episode.sample, episode.policy)


def check(episode: episode_pb2.Episode, *, run_id: str) -> None:
    """Raise InvalidEpisode where a record must not enter a run's store."""
    steps = list(episode.steps)  # each element that is asked for is made anew, so only once
    problem = (
        _identity_problem(episode, run_id)
        or _outcome_problem(episode)
        or _figure_problem(episode, steps)
        or _image_problem(episode, steps)
    )
    if problem:
        raise InvalidEpisode(f"episode {episode.episode_id or '(no id)'}: {problem}")


def _identity_problem(episode: episode_pb2.Episode, run_id: str) -> str:
    if episode.schema_version != RECORD_SCHEMA:
        return f"schema version {episode.schema_version}, this program writes {RECORD_SCHEMA}"
    if episode.run_id != run_id:
        return f"it belongs to run {episode.run_id!r}, not to {run_id!r}"
    if not (episode.episode_id and episode.environment and episode.item_id and episode.policy):
        named = ("episode_id", "environment", "item_id", "policy")
        return f"{next(it for it in named if not getattr(episode, it))} is empty"
    if episode.attempt < 1:
        return "attempts count from 1"
    if max(episode.started_unix_ms, episode.ended_unix_ms) >= _TOO_LARGE:
        return "its times are beyond 63 bits"
    return ""


def _outcome_problem(episode: episode_pb2.Episode) -> str:
    for field, value in (("reward", episode.reward), ("score", episode.score)):
        if not math.isfinite(value):
            return f"{field} is not finite"
    if episode.HasField("error"):
        for field in ("reward", "score", "success"):
            if episode.HasField(field):
                return f"it failed and has a {field}: a failure is never a result"
    return ""


def _figure_problem(episode: episode_pb2.Episode, steps: Sequence[episode_pb2.Step]) -> str:
    calls = [(it.prompt_tokens, it.completion_tokens, it.cost_usd) for it in episode.generations]
    if sum(call[0] for call in calls) >= _TOO_LARGE:
        return "its prompt_tokens are beyond 63 bits"
    if sum(call[1] for call in calls) >= _TOO_LARGE:
        return "its completion_tokens are beyond 63 bits"
    figures = [episode.environment_seconds, episode.policy_seconds]
    figures += [step.seconds for step in steps]
    figures += [call[2] for call in calls]
    if not all(map(math.isfinite, figures)):
        return "its seconds or costs are not finite"
    return ""


def _image_problem(episode: episode_pb2.Episode, steps: Sequence[episode_pb2.Step]) -> str:
    images = episode.images
    if any(image.media_type not in IMAGE_TYPES for image in images):
        return f"its images are {', '.join(sorted({image.media_type for image in images}))}"
    if (size := sum(len(image.content) for image in images)) > MAX_RECORDED_BYTES:
        return f"its images have {size:,} bytes; at most {MAX_RECORDED_BYTES:,}"
    shown = [part.images for part in (*episode.messages, *steps)]
    places = [place for some in shown if some for place in some]
    return "it shows images that it does not have" if max(places, default=-1) >= len(images) else ""


def summarise(episode: episode_pb2.Episode) -> EpisodeSummary:
    """Return the columns of a record."""
    has = episode.HasField
    error = episode.error if has("error") else None
    calls = list(episode.generations)
    return EpisodeSummary(
        episode.episode_id,
        episode.environment,
        episode.item_id,
        episode.sample,
        episode.policy,
        episode.category,
        episode.split,
        episode.attempt,
        reward=episode.reward if has("reward") else None,
        score=episode.score if has("score") else None,
        success=episode.success if has("success") else None,
        stop_reason=stop_reason_name(episode.stop_reason),
        fault=fault_name(error.fault) if error is not None else None,
        reason=error.reason if error is not None else None,
        retriable=error.retriable if error is not None else None,
        rounds=max(len(episode.steps) - 1, 0),
        prompt_tokens=sum([call.prompt_tokens for call in calls]),
        completion_tokens=sum([call.completion_tokens for call in calls]),
        cost_usd=_cost(calls),
        started_unix_ms=episode.started_unix_ms,
        ended_unix_ms=episode.ended_unix_ms,
        environment_seconds=episode.environment_seconds,
        policy_seconds=episode.policy_seconds,
    )


def _cost(generations: Sequence[episode_pb2.Generation]) -> float | None:
    costs = [call.cost_usd for call in generations if call.HasField("cost_usd")]
    return math.fsum(costs) if costs and len(costs) == len(generations) else None


def encode(episode: episode_pb2.Episode) -> bytes:
    """Return the stored bytes of a record; equal records give equal bytes."""
    return _thread.compressor.compress(episode.SerializeToString(deterministic=True))


class _Thread(threading.local):
    """What encodes in one thread: no two may use a compressor at once, and to make one is dear."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL, write_checksum=True)


_thread: Final = _Thread()


def decode(stored: bytes) -> episode_pb2.Episode:
    """Return the record of stored bytes; raises RecordDamaged."""
    try:
        size = zstandard.get_frame_parameters(stored).content_size
        if size > _MAX_BYTES:  # an unknown size is the largest of all
            raise RecordDamaged("its size is unknown, or larger than that of any record")
        episode = episode_pb2.Episode.FromString(zstandard.ZstdDecompressor().decompress(stored))
    except (zstandard.ZstdError, DecodeError) as error:
        raise RecordDamaged(str(error)) from error
    if episode.schema_version != RECORD_SCHEMA:
        raise RecordDamaged(f"unknown record schema version {episode.schema_version}")
    return episode


def record_digest(episode: episode_pb2.Episode) -> bytes:
    """Return the SHA-256 of a record, however it is compressed."""
    return hashlib.sha256(episode.SerializeToString(deterministic=True)).digest()


def play_differences(first: episode_pb2.Episode, second: episode_pb2.Episode) -> list[str]:
    """Return in what two records of one key differ that was played: names of fields.

    Which attempt it was, when, and how long it took is not of it, nor what calls cost.
    """
    one, other = _without_seconds(first), _without_seconds(second)
    return [name for name in _PLAYED if getattr(one, name) != getattr(other, name)]


_PLAYED: Final = (
    *("seed", "messages", "steps", "reward", "score", "success"),
    *("terminated", "truncated", "stop_reason"),
)


def _without_seconds(episode: episode_pb2.Episode) -> episode_pb2.Episode:
    timeless = episode_pb2.Episode()
    timeless.CopyFrom(episode)
    for step in timeless.steps:
        step.ClearField("seconds")
    return timeless


@lru_cache(maxsize=256)
def stop_reason_name(value: types_pb2.StopReason) -> str:
    """Return a stop reason's name, for example `GOAL_REACHED`."""
    return enum_name(types_pb2.StopReason, value)


@lru_cache(maxsize=256)
def fault_name(value: types_pb2.Fault) -> str:
    """Return a fault's name, for example `POLICY`."""
    return enum_name(types_pb2.Fault, value)


def blamed(fault: str | None) -> str:
    """Return who a fault blames, in words: AGENT is whoever asked a server for something wrong.

    That is the client, never the model, whose bad replies are observations and no faults.
    """
    return _BLAMED.get(fault or "", f"unknown ({fault})")


_BLAMED: Final = {
    "AGENT": "caller's request",
    "ENVIRONMENT": "environment",
    "POLICY": "policy",
    "INFRASTRUCTURE": "infrastructure",
    SCORING_FAULT: "scoring",
}


def parse_fault(name: str) -> types_pb2.Fault:
    """Return the fault of a name that `fault_name` gave; unspecified where there is none."""
    try:
        return cast("types_pb2.Fault", types_pb2.Fault.Value(f"FAULT_{name}"))
    except ValueError:
        return types_pb2.FAULT_UNSPECIFIED


def enum_name(kind: EnumTypeWrapper, value: int) -> str:
    """Return the name of an enum's value without the prefix that protobuf wants.

    `STOP_REASON_GOAL_REACHED` is `GOAL_REACHED`; a value that this program does not know is its
    number, because a newer one may have written it.
    """
    try:
        return kind.Name(value).removeprefix(_enum_prefix(kind.DESCRIPTOR.name))
    except ValueError:
        return str(value)


@cache
def _enum_prefix(name: str) -> str:
    """Return what protobuf puts before the values of an enum: its name, as `STOP_REASON_`."""
    return f"{_WORD_START.sub('_', name).upper()}_"
