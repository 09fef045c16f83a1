"""ATIF trajectories, versions 1.0 to 1.8, as records.

An agent's step is a reply and what came of it. What `orchestrator.export` writes into `extra`
(rewards, scores, states, the token ledger) is read back; other programs' `extra`, and whatever else
a record has no place for, is left out and counted.
Source: https://harborframework.com/docs/trajectory-format
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

import msgspec
from google.protobuf.json_format import ParseDict, ParseError

from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator.formats.atif import RECORD_FIELDS
from orchestrator.formats.base import dump_json
from orchestrator.imports.base import EntryReader, Source, add_step, begin_record

__all__ = ["AtifReader"]

_VERSION: Final = re.compile(r"ATIF-v1\.[0-8](\.[0-9]+)?")
_DERIVED: Final = frozenset({"final_metrics", "step_id"})
"""Follows from what is kept."""
_OURS_DERIVED: Final = frozenset(
    {"agent.version", "extra.episode_id", "extra.policy", "extra.rounds"}
    | {"steps.metrics.completion_token_ids", "steps.metrics.logprobs"}
)
"""The same where an export of ours wrote it."""


class _Agent(msgspec.Struct):
    name: str


class _Part(msgspec.Struct):
    type: str
    text: str = ""


class _ToolCall(msgspec.Struct):
    function_name: str
    tool_call_id: str = ""
    arguments: dict[str, Any] = {}


class _Result(msgspec.Struct):
    content: str | list[_Part] | None = None
    source_call_id: str | None = None


class _Observation(msgspec.Struct):
    results: list[_Result] = []


class _Metrics(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


class _Step(msgspec.Struct):
    source: Literal["system", "user", "agent"]
    message: str | list[_Part] = ""
    timestamp: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_ToolCall] | None = None
    observation: _Observation | None = None
    metrics: _Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = None
    extra: dict[str, Any] | None = None


class _StepExtra(msgspec.Struct):
    """What an export of ours adds to an agent's step."""

    action: str | None = None
    reward: float | None = None
    score: float | None = None
    state_hash: str = ""


class _Trajectory(msgspec.Struct):
    schema_version: str
    agent: _Agent
    steps: list[_Step]
    session_id: str | None = None
    trajectory_id: str | None = None
    extra: dict[str, Any] | None = None


class _Extra(msgspec.Struct):
    """What an export of ours adds to a trajectory."""

    begun: str
    environment: str
    item_id: str
    stop_reason: str
    sample: int = 0
    category: str = ""
    split: str = ""
    reward: float | None = None
    score: float | None = None
    success: bool | None = None
    fault: str | None = None
    record: dict[str, Any] = {}
    """`orchestrator.formats.atif.RECORD_FIELDS`."""


class AtifReader(EntryReader):
    """Reads objects whose `schema_version` is ATIF's."""

    def accepts(self, entry: Any) -> bool:
        version = cast("dict[str, Any]", entry).get("schema_version") if _is_object(entry) else None
        return isinstance(version, str) and version.startswith("ATIF")

    def to_episode(self, number: int, entry: Any, source: Source) -> episode_pb2.Episode:
        if not self.accepts(entry):
            raise ValueError("it is no ATIF trajectory: `schema_version` is not ATIF's")
        fields = cast("dict[str, Any]", entry)
        if not _VERSION.fullmatch(fields["schema_version"]):
            raise ValueError(f"{fields['schema_version']} is not read: ATIF-v1.0 to ATIF-v1.8 are")
        trajectory = msgspec.convert(fields, _Trajectory)
        ours = _own_extra(trajectory)
        episode = begin_record(
            ours.environment if ours else source.environment,
            (ours.item_id if ours else trajectory.trajectory_id or trajectory.session_id)
            or f"entry-{number}",
            trajectory.agent.name or source.policy,
        )
        episode.episode_id = trajectory.trajectory_id or source.episode_id(number)
        if ours:
            _take_over(episode, ours)
        _Conversation(episode, trajectory, is_ours=ours is not None).add(source.left_out)
        if ours:
            _take_over_outcome(episode, ours)
        _set_times(episode, trajectory, ours)
        _count_left_out(fields, ours is not None, source.left_out)
        return episode


def _own_extra(trajectory: _Trajectory) -> _Extra | None:
    """Return what an export of ours added; None = another program wrote the trajectory."""
    extra = trajectory.extra or {}
    if not {"begun", "environment", "item_id", "stop_reason"} <= extra.keys():
        return None
    return msgspec.convert(extra, _Extra)


def _take_over(episode: episode_pb2.Episode, ours: _Extra) -> None:
    episode.sample, episode.category, episode.split = ours.sample, ours.category, ours.split
    if unknown := sorted(ours.record.keys() - set(RECORD_FIELDS)):
        raise ValueError(f"`extra.record` has {unknown[0]!r}, which no export of ours writes there")
    try:
        ParseDict(ours.record, episode)
    except ParseError as error:
        raise ValueError(f"`extra.record` is no part of a record ({error})") from error


def _take_over_outcome(episode: episode_pb2.Episode, ours: _Extra) -> None:
    for name in ("reward", "score", "success"):
        value = getattr(ours, name)
        if value is not None:
            setattr(episode, name, value)
    try:
        reason = types_pb2.StopReason.Value(f"STOP_REASON_{ours.stop_reason}")
    except ValueError as error:
        raise ValueError(f"there is no stop reason {ours.stop_reason!r}") from error
    episode.stop_reason = cast("types_pb2.StopReason", reason)
    if ours.fault is not None and not episode.HasField("error"):
        raise ValueError("it failed and does not say how: `extra.record` has no `error`")
    if episode.steps:
        last = episode.steps[-1]
        last.terminated, last.truncated = episode.terminated, episode.truncated


class _Conversation:
    """The steps of a trajectory, added to a record."""

    def __init__(
        self, episode: episode_pb2.Episode, trajectory: _Trajectory, *, is_ours: bool
    ) -> None:
        self._episode = episode
        self._steps = trajectory.steps
        self._is_ours = is_ours

    def add(self, left_out: Counter[str]) -> None:
        """Add messages, steps and policy calls."""
        if self._is_ours and self._episode.HasField("error") and len(self._steps) == 1:
            return  # it failed before anything was said, which the format cannot express
        shown = ""
        for step in self._steps:
            text = _text(step.message, left_out)
            if step.source != "agent":
                system = step.source == "system"
                role = episode_pb2.ROLE_SYSTEM if system else episode_pb2.ROLE_USER
                self._episode.messages.add(role=role, text=text)
                shown = shown if system else text
            elif step.llm_call_count == 0 or (step.is_copied_context and not self._is_ours):
                self._say(text, sampled=False)
                self._observe(step, left_out)
            else:
                if not self._episode.steps:
                    add_step(self._episode, shown)
                self._reply(step, text, left_out)
        if not self._episode.steps:
            add_step(self._episode, shown)

    def _say(self, text: str, *, sampled: bool) -> None:
        self._episode.messages.add(role=episode_pb2.ROLE_ASSISTANT, text=text, sampled=sampled)

    def _observe(self, step: _Step, left_out: Counter[str]) -> str:
        """Add what came of a step to the conversation, and return it."""
        if step.observation is None:
            return ""
        text = "\n".join(_text(it.content or "", left_out) for it in step.observation.results)
        self._episode.messages.add(role=episode_pb2.ROLE_USER, text=text)
        return text

    def _reply(self, step: _Step, text: str, left_out: Counter[str]) -> None:
        inherited = bool(step.is_copied_context)
        self._say(text, sampled=not inherited)
        if not self._is_ours:
            self._add_call(step)
        observed = self._observe(step, left_out)
        if self._is_ours and step.observation is None:
            return  # it was never played
        played = add_step(self._episode, observed, text)
        calls = step.tool_calls or []
        if len(calls) == 1:
            played.input.tool_call.name = calls[0].function_name
            played.input.tool_call.arguments_json = dump_json(calls[0].arguments)
        elif calls:  # an action of ours is one call: these are kept as what was understood
            played.parsed_action = dump_json(
                [{"name": it.function_name, "arguments": it.arguments} for it in calls]
            )
        if self._is_ours:
            _add_result(played, msgspec.convert(step.extra or {}, _StepExtra))

    def _add_call(self, step: _Step) -> None:
        episode = self._episode
        metrics = step.metrics
        if metrics is None and step.reasoning_content is None and not step.llm_call_count:
            return
        call = episode.generations.add(
            turn=sum(message.sampled for message in episode.messages) - 1,
            reasoning=step.reasoning_content or "",
        )
        if metrics is not None:
            call.prompt_tokens = metrics.prompt_tokens or 0
            call.completion_tokens = metrics.completion_tokens or 0
            call.cached_tokens = metrics.cached_tokens or 0
            if metrics.cost_usd is not None:
                call.cost_usd = metrics.cost_usd


def _add_result(played: episode_pb2.Step, extra: _StepExtra) -> None:
    if extra.action is not None:
        played.parsed_action = extra.action
    if extra.reward is not None:
        played.reward = extra.reward
    if extra.score is not None:
        played.score = extra.score
    played.state_hash = bytes.fromhex(extra.state_hash)


def _text(content: str | list[_Part], left_out: Counter[str]) -> str:
    """Return the text of a message; parts that are none are counted."""
    if isinstance(content, str):
        return content
    left_out.update(f"parts of type {part.type}" for part in content if part.type != "text")
    return "\n".join(part.text for part in content if part.type == "text")


def _set_times(episode: episode_pb2.Episode, trajectory: _Trajectory, ours: _Extra | None) -> None:
    times = [_milliseconds(step.timestamp) for step in trajectory.steps if step.timestamp]
    if ours:
        times.insert(0, _milliseconds(ours.begun))
    if times:
        episode.started_unix_ms = min(times)
        episode.ended_unix_ms = max(*times, episode.ended_unix_ms)


def _milliseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _count_left_out(fields: Mapping[str, Any], is_ours: bool, left_out: Counter[str]) -> None:
    """Count fields that no record has; `fields` have been found to be a trajectory."""
    found = Counter(_unknown("", fields, _Trajectory))
    found.update(_unknown("agent.", fields["agent"], _Agent))
    if is_ours:
        found.update(_unknown("extra.", fields["extra"], _Extra))
    elif fields.get("extra"):
        found["extra"] += 1
    for step in fields["steps"]:
        found.update(_unknown("steps.", step, _Step))
        found.update(_unknown("steps.metrics.", step.get("metrics") or {}, _Metrics))
        found["steps.extra"] += bool(step.get("extra")) and not is_ours
        observation = cast("dict[str, Any]", step.get("observation") or {})
        for result in observation.get("results", ()):
            found.update(_unknown("steps.observation.results.", result, _Result))
    for name in _OURS_DERIVED if is_ours else ():
        del found[name]
    left_out.update(+found)


def _unknown(prefix: str, fields: Mapping[str, Any], kept: type[msgspec.Struct]) -> Iterator[str]:
    for name, value in fields.items():
        if value is not None and name not in kept.__struct_fields__ and name not in _DERIVED:
            yield prefix + name


def _is_object(entry: Any) -> bool:
    return isinstance(entry, dict)
