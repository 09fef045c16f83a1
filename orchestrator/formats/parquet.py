"""Parquet: one row per episode with everything that the record holds, for data frames.

Conversations, steps, generations and token segments are lists of structs. Of a segment, `ids`,
`mask` (true = sampled, hence trained on), `origins`, `logprobs` and `generations` have one entry
per token. `images` of messages and steps are places in the row's own `images`. Options and step
infos are JSON texts, because their shape varies. pyarrow is imported
when the first file is opened, never before.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from google.protobuf.struct_pb2 import Struct, Value

from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import ExtraMissing
from orchestrator.formats.base import EpisodeWriter, dump_json
from orchestrator.formats.messages import role_name
from orchestrator.records import enum_name, fault_name, stop_reason_name, summarise

__all__ = ["ROW", "ParquetWriter"]

_GROUP_BYTES: Final = 64 << 20
_GROUP_ROWS: Final = 4096
"""A row group ends at either bound: that much is in memory at once."""

# Types are names of pyarrow's factories; a list holds one type, a mapping is a struct.
_MESSAGE: Final = {"role": "string", "text": "string", "sampled": "bool_", "images": ["uint32"]}
_STEP: Final = {
    "seq": "uint64",
    "input_kind": "string",
    "input": "string",
    "parsed_action": "string",
    "observation": "string",
    "reward": "float64",
    "score": "float64",
    "terminated": "bool_",
    "truncated": "bool_",
    "stop_reason": "string",
    "state_hash": "binary",
    "info_json": "string",
    "images": ["uint32"],
}
_GENERATION: Final = {
    "turn": "uint32",
    "finish_reason": "string",
    "prompt_tokens": "uint64",
    "completion_tokens": "uint64",
    "cached_tokens": "uint64",
    "sampling_seed": "uint64",
    "seconds": "float64",
    "policy_version": "string",
    "cost_usd": "float64",
    "reasoning": "string",
    "reasoning_tokens": "uint64",
    "cache_write_tokens": "uint64",
    "output_items": ["string"],
    "same_completion": "bool_",
    "from_cache": "bool_",
    "policy": "string",
}
_SPAN: Final = {"start": "uint32", "end": "uint32", "version": "uint32"}
_SEGMENT: Final = {
    "ids": ["uint32"],
    "mask": ["bool_"],
    "origins": ["uint8"],
    "logprobs": ["float32"],
    "entropies": ["float32"],
    "generations": ["uint32"],
    "policy_versions": ["string"],
    "version_spans": [_SPAN],
    "fork_reason": "string",
}
_ERROR: Final = {
    "reason": "string",
    "message": "string",
    "fault": "string",
    "retriable": "bool_",
    "at_seq": "uint64",
}
_IMAGE: Final = {"media_type": "string", "content": "binary"}
_PARENT: Final = {"run_id": "string", "episode_id": "string", "turn": "uint32"}
ROW: Final[Mapping[str, Any]] = {
    "run_id": "string",
    "episode_id": "string",
    "environment": "string",
    "environment_version": "string",
    "environment_digest": "string",
    "item_id": "string",
    "category": "string",
    "split": "string",
    "sample": "uint32",
    "attempt": "uint32",
    "seed": "uint64",
    "action_format": "string",
    "profile": "string",
    "options_json": "string",
    "policy": "string",
    "parent": _PARENT,
    "messages": [_MESSAGE],
    "steps": [_STEP],
    "images": [_IMAGE],
    "generations": [_GENERATION],
    "token_segments": [_SEGMENT],
    "reward": "float64",
    "score": "float64",
    "success": "bool_",
    "terminated": "bool_",
    "truncated": "bool_",
    "stop_reason": "string",
    "error": _ERROR,
    "rounds": "uint32",
    "prompt_tokens": "uint64",
    "completion_tokens": "uint64",
    "cost_usd": "float64",
    "started_unix_ms": "uint64",
    "ended_unix_ms": "uint64",
    "environment_seconds": "float64",
    "policy_seconds": "float64",
}
"""Columns of a row."""


class ParquetWriter(EpisodeWriter):
    """Writes row groups of bounded size."""

    keeps_images = True

    def __init__(self, path: Path) -> None:
        try:
            self._arrow: Any = importlib.import_module("pyarrow")
            parquet: Any = importlib.import_module("pyarrow.parquet")
        except ModuleNotFoundError as error:
            raise ExtraMissing("the parquet format", extra="parquet") from error
        self._schema = self._arrow.schema(list(self._struct(ROW)))
        self._file = parquet.ParquetWriter(str(path), self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0

    def write(self, episode: episode_pb2.Episode) -> None:
        self._rows.append(_row(episode))
        self._bytes += episode.ByteSize()
        if self._bytes >= _GROUP_BYTES or len(self._rows) >= _GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        if self._rows:
            self._file.write_table(self._arrow.Table.from_pylist(self._rows, self._schema))
        self._rows = []
        self._bytes = 0

    def _type(self, shape: Any) -> Any:
        if isinstance(shape, str):
            return getattr(self._arrow, shape)()
        if isinstance(shape, Mapping):
            return self._struct(shape)
        return self._arrow.list_(self._type(shape[0]))

    def _struct(self, shape: Any) -> Any:
        return self._arrow.struct([(name, self._type(field)) for name, field in shape.items()])


def _row(episode: episode_pb2.Episode) -> dict[str, Any]:
    summary = summarise(episode)
    row = {name: getattr(episode, name) for name in ROW if name in _PLAIN}
    row |= {
        name: getattr(summary, name)
        for name in ("reward", "score", "success", "stop_reason", "rounds", "prompt_tokens")
    }
    row |= {
        "completion_tokens": summary.completion_tokens,
        "cost_usd": summary.cost_usd,
        "action_format": enum_name(types_pb2.ActionFormat, episode.action_format),
        "options_json": _json(episode.options) if episode.HasField("options") else None,
        "messages": [
            {
                "role": role_name(message.role),
                "text": message.text,
                "sampled": message.sampled,
                "images": list(message.images),
            }
            for message in episode.messages
        ],
        "steps": [_step(step) for step in episode.steps],
        "images": [{name: getattr(image, name) for name in _IMAGE} for image in episode.images],
        "generations": [_generation(generation) for generation in episode.generations],
        "token_segments": [_segment(segment) for segment in episode.token_segments],
        "error": _error(episode.error) if episode.HasField("error") else None,
        "parent": _parent(episode.parent) if episode.HasField("parent") else None,
    }
    return row


_PLAIN: Final = frozenset(
    name
    for name, shape in ROW.items()
    if isinstance(shape, str)
    and name in episode_pb2.Episode.DESCRIPTOR.fields_by_name
    and name not in {"action_format", "reward", "score", "success", "stop_reason"}
)
"""Columns that are fields of the record as they stand."""


def _step(step: episode_pb2.Step) -> dict[str, Any]:
    kind = step.input.WhichOneof("input")
    sent: Any = getattr(step.input, kind) if kind else None
    if kind == "tool_call":
        sent = dump_json({"name": sent.name, "arguments_json": sent.arguments_json})
    return {
        "seq": step.seq,
        "input_kind": kind,
        "input": sent,
        "parsed_action": _optional(step, "parsed_action"),
        "observation": step.observation,
        "reward": _optional(step, "reward"),
        "score": _optional(step, "score"),
        "terminated": step.terminated,
        "truncated": step.truncated,
        "stop_reason": stop_reason_name(step.stop_reason),
        "state_hash": step.state_hash,
        "info_json": _json(step.info) if step.HasField("info") else None,
        "images": list(step.images),
    }


def _generation(call: episode_pb2.Generation) -> dict[str, Any]:
    row = {name: getattr(call, name) for name in _GENERATION}
    return row | {
        "cost_usd": _optional(call, "cost_usd"),
        "output_items": list(call.output_items),
    }


def _segment(segment: episode_pb2.TokenSegment) -> dict[str, Any]:
    return {
        "ids": list(segment.ids),
        "mask": [origin == episode_pb2.TOKEN_ORIGIN_SAMPLED for origin in segment.origins],
        "origins": list(segment.origins),
        "logprobs": list(segment.logprobs),
        "entropies": list(segment.entropies),
        "generations": list(segment.generations),
        "policy_versions": list(segment.policy_versions),
        "version_spans": _spans(segment.version_spans),
        "fork_reason": segment.fork_reason,
    }


def _spans(spans: Iterable[episode_pb2.VersionSpan]) -> list[dict[str, int]]:
    return [{"start": span.start, "end": span.end, "version": span.version} for span in spans]


def _error(error: episode_pb2.EpisodeError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in _ERROR} | {"fault": fault_name(error.fault)}


def _parent(parent: episode_pb2.Parent) -> dict[str, Any]:
    return {name: getattr(parent, name) for name in _PARENT}


def _optional(message: episode_pb2.Step | episode_pb2.Generation, field: Any) -> Any:
    return getattr(message, field) if message.HasField(field) else None


def _json(value: Struct) -> str:
    return dump_json({name: _plain(entry) for name, entry in sorted(value.fields.items())})


def _plain(value: Value) -> Any:
    """Return a Struct's value as plain data; what JSON cannot hold (NaN, inf) as its name."""
    match value.WhichOneof("kind"):
        case "struct_value":
            fields = value.struct_value.fields
            return {name: _plain(entry) for name, entry in sorted(fields.items())}
        case "list_value":
            return [_plain(entry) for entry in value.list_value.values]
        case "number_value":
            number = value.number_value
            return number if math.isfinite(number) else str(number)
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case _:
            return None
