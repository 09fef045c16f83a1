"""Logs of Inspect (`.eval`, or `.json`), a sample of an epoch as a record.

Inspect's own library reads the files. A sample of one of our tasks (`agentgym/NAME`) becomes an
episode of that environment; one of another task has the task's name for an environment.
Source: https://inspect.aisi.org.uk/eval-logs.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec

from agent_runtime.extras import install_command
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import EntryUnreadable, UsageError
from orchestrator.formats.base import dump_json
from orchestrator.imports.base import EntryReader, Source, add_step, begin_record

__all__ = ["InspectReader"]

_OURS: Final = "agentgym/"
"""What names of our tasks begin with."""
_ROLES: Final[Mapping[str, episode_pb2.Role]] = MappingProxyType(
    {"system": episode_pb2.ROLE_SYSTEM, "assistant": episode_pb2.ROLE_ASSISTANT}
)
"""A user's is that of everything else: tools answer as environments do."""
_LIMITS: Final[Mapping[str, types_pb2.StopReason]] = MappingProxyType(
    {
        "context": types_pb2.STOP_REASON_CONTEXT_EXHAUSTED,
        "time": types_pb2.STOP_REASON_TIME_LIMIT,
        "working": types_pb2.STOP_REASON_TIME_LIMIT,
        "message": types_pb2.STOP_REASON_MAX_ROUNDS,
        "turn": types_pb2.STOP_REASON_MAX_ROUNDS,
        "token": types_pb2.STOP_REASON_TOKEN_LIMIT,
        "cost": types_pb2.STOP_REASON_COST_LIMIT,
    }
)
"""Why an episode was cut off; other limits have no reason of ours."""
_GRADES: Final[Mapping[str, float]] = MappingProxyType({"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0})
"""Inspect's letters: correct, partly, incorrect, no answer."""
_LEFT_OUT: Final = ("choices", "description", "files", "sandbox", "setup", "timelines")
"""What a sample may say and no record has."""


class _Part(msgspec.Struct):
    type: str
    text: str = ""
    reasoning: str = ""


class _Call(msgspec.Struct):
    function: str
    arguments: dict[str, Any] = {}


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Part]
    id: str = ""
    source: str = ""
    tool_calls: list[_Call] = []


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_cache_read: int = 0
    reasoning_tokens: int = 0


class _Choice(msgspec.Struct):
    message: _Message
    stop_reason: str = ""


class _Output(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    time: float = 0.0


class _Event(msgspec.Struct):
    event: str
    output: _Output | None = None


class _Score(msgspec.Struct):
    value: Any = None
    metadata: dict[str, Any] = {}


class _Error(msgspec.Struct):
    message: str


class _Limit(msgspec.Struct):
    type: str


class _Sample(msgspec.Struct):
    id: str | int
    epoch: int
    messages: list[_Message] = []
    input: str | list[_Message] = ""
    events: list[_Event] = []
    scores: dict[str, _Score] = {}
    metadata: dict[str, Any] = {}
    uuid: str = ""
    started_at: str = ""
    completed_at: str = ""
    error: _Error | None = None
    limit: _Limit | None = None


class _Entry(msgspec.Struct):
    """A sample, with what the log says of all of them."""

    task: str
    model: str
    args: dict[str, Any]
    """Of the task."""
    sample: _Sample


class InspectReader(EntryReader):
    """Reads the samples of logs; needs the extra `inspect`."""

    suffix = ".eval"

    def accepts(self, entry: Any) -> bool:
        return isinstance(entry, dict) and {"eval", "samples", "version"} <= entry.keys()

    def entries(self, path: Path) -> Iterator[Any]:
        log = _library()
        try:
            header = log.read_eval_log(str(path), header_only=True).eval
            told: dict[str, Any] = {"task": header.task, "model": header.model}
            told["args"] = header.task_args or {}
            # A log that was interrupted has fewer samples than it was to have.
            samples = log.read_eval_log_samples(
                str(path), all_samples_required=False, resolve_attachments="full"
            )
            for sample in samples:
                yield {**told, "sample": sample.model_dump(mode="json", exclude_none=True)}
        except Exception as error:  # boundary: the library does not say what it raises
            raise EntryUnreadable(path, f"Inspect cannot read it ({error!r})") from error

    def to_episode(self, number: int, entry: Any, source: Source) -> episode_pb2.Episode:
        read = msgspec.convert(entry, _Entry)
        sample = read.sample
        ours = read.task.startswith(_OURS)
        environment = "" if ours else source.environment
        episode = begin_record(
            environment or read.task.rpartition("/")[2],
            str(sample.id),
            read.model or source.policy,
        )
        episode.episode_id = sample.uuid or source.episode_id(number)
        episode.sample = max(sample.epoch - 1, 0)
        if ours:
            episode.split = str(read.args.get("split") or "")
            episode.category = str(sample.metadata.get("category", ""))
        _add_conversation(episode, sample, source)
        _add_outcome(episode, sample, source, is_ours=ours)
        _set_times(episode, sample)
        source.left_out.update(name for name in _LEFT_OUT if entry["sample"].get(name))
        return episode


def _library() -> Any:
    try:
        return import_module("inspect_ai.log")
    except ImportError as error:
        raise UsageError(
            f"logs of Inspect are read by its own library: {install_command('inspect')}"
        ) from error


def _add_conversation(episode: episode_pb2.Episode, sample: _Sample, source: Source) -> None:
    """Add messages, policy calls, the reset, and a step for each reply."""
    given = {it.id for it in sample.input} if isinstance(sample.input, list) else set[str]()
    calls = _calls(sample)
    reply: _Message | None = None
    said, shown = "", list[str]()
    for message in sample.messages:
        text = _text(message, source)
        sampled = message.role == "assistant" and (
            message.source == "generate" if message.source else message.id not in given
        )
        episode.messages.add(
            role=_ROLES.get(message.role, episode_pb2.ROLE_USER), text=text, sampled=sampled
        )
        if sampled:
            _add_played(episode, reply, said, shown)
            _add_generation(episode, message, calls.get(message.id))
            reply, said, shown = message, text, []
        elif message.role not in _ROLES:
            # The reset shows what was said last before the first reply: what precedes is told.
            shown = [*(shown if episode.steps or reply else ()), text]
    _add_played(episode, reply, said, shown)


def _add_played(
    episode: episode_pb2.Episode, reply: _Message | None, said: str, shown: list[str]
) -> None:
    step = add_step(episode, "\n".join(shown), said)
    if reply is None:
        return
    if len(reply.tool_calls) == 1:
        step.input.tool_call.name = reply.tool_calls[0].function
        step.input.tool_call.arguments_json = dump_json(reply.tool_calls[0].arguments)
    elif reply.tool_calls:
        step.parsed_action = dump_json(
            [{"name": it.function, "arguments": it.arguments} for it in reply.tool_calls]
        )


def _calls(sample: _Sample) -> dict[str, _Output]:
    """Return the models' answers by the id of the message that each gave."""
    outputs = [it.output for it in sample.events if it.event == "model" and it.output]
    return {it.choices[0].message.id: it for it in outputs if it.choices}


def _add_generation(
    episode: episode_pb2.Episode, message: _Message, output: _Output | None
) -> None:
    call = episode.generations.add(
        turn=sum(it.sampled for it in episode.messages) - 1, reasoning=_reasoning(message)
    )
    if output is None:
        return
    call.seconds = output.time
    call.finish_reason = "length" if output.choices[0].stop_reason == "max_tokens" else "stop"
    if output.usage is not None:
        call.prompt_tokens = output.usage.input_tokens
        call.completion_tokens = output.usage.output_tokens
        call.cached_tokens = output.usage.input_tokens_cache_read
        call.reasoning_tokens = output.usage.reasoning_tokens


def _reasoning(message: _Message) -> str:
    if isinstance(message.content, str):
        return ""
    return "\n".join(it.reasoning for it in message.content if it.type == "reasoning")


def _text(message: _Message, source: Source) -> str:
    """Return what a message says; parts that are no text are counted."""
    content = message.content
    if isinstance(content, str):
        return content
    kept = ("text", "reasoning")
    source.left_out.update(f"parts of type {it.type}" for it in content if it.type not in kept)
    return "\n".join(it.text for it in content if it.type == "text")


def _add_outcome(
    episode: episode_pb2.Episode, sample: _Sample, source: Source, *, is_ours: bool
) -> None:
    if sample.error is not None:
        episode.error.reason = "INSPECT_SAMPLE_ERROR"
        episode.error.message = sample.error.message
        episode.error.at_seq = max(len(episode.steps) - 1, 0)
        return
    if sample.limit is not None:
        episode.truncated = True
        episode.stop_reason = _LIMITS.get(sample.limit.type, types_pb2.STOP_REASON_UNSPECIFIED)
    scores = list(sample.scores.items())
    if not scores:
        return
    source.left_out.update("further scorers" for _ in scores[1:])
    score = scores[0][1]
    if is_ours and isinstance(score.value, dict):
        _add_own_score(episode, score)
        return
    figure = _figure(score.value)
    if score.value is None or figure != figure:
        return  # the scorer said that there is none
    if figure is None:
        source.left_out["scores that are no single figure"] += 1
        return
    episode.score = figure
    if score.value in ("C", "I") or isinstance(score.value, bool):
        episode.success = figure == 1.0


def _add_own_score(episode: episode_pb2.Episode, score: _Score) -> None:
    """Take over what `agent_runtime.adapters.inspect_tasks` writes."""
    value = cast("dict[str, float]", score.value)
    episode.score = float(value["score"])
    episode.success = value["success"] >= 1.0
    episode.terminated = score.metadata.get("terminated") is True
    episode.truncated = episode.truncated or not episode.terminated
    last = episode.steps[-1]
    last.score, last.terminated = episode.score, episode.terminated
    last.truncated = score.metadata.get("truncated") is True


def _figure(value: Any) -> float | None:
    if isinstance(value, str):
        return _GRADES.get(value)
    return float(value) if isinstance(value, bool | int | float) else None


def _set_times(episode: episode_pb2.Episode, sample: _Sample) -> None:
    for name, text in (("started", sample.started_at), ("ended", sample.completed_at)):
        if text:
            moment = datetime.fromisoformat(text)
            setattr(episode, f"{name}_unix_ms", round(moment.timestamp() * 1000))
