"""What the original's tools answered: call -> reply pairs from official data.

Two sources are read where they are there: AgentTraj-L's conversations
(`agenttraj_l/<name>.jsonl.gz`), which tell the task of a call, and `tools/derived_<name>_io.jsonl`,
pairs without it. A call is found by its tool and values.
"""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Self

from env_servers.sdk import EnvironmentUnavailable
from env_servers.toolkit.tool_calls.backends import (
    ALL_CALLS,
    OTHER_TASKS,
    RECORDED,
    Backend,
    NotRecorded,
    Reply,
    Session,
    ToolError,
)
from env_servers.toolkit.tool_calls.line_format import Unreadable, call_key, read_call
from env_servers.toolkit.tool_calls.official import FOLDER, MalformedFile, read_objects
from env_servers.toolkit.tool_calls.payload import ToolTask

__all__ = [
    "Exchange",
    "RecordedBackend",
    "RecordedSession",
    "Recording",
    "parse_reply",
    "parse_value",
    "read_conversations",
]

OBSERVATION: Final = "Observation: "
PROMPT: Final = "\nGive me one action."
_ERROR: Final = "ERROR | "


class Exchange(NamedTuple):
    """One step of a recorded conversation."""

    tool: str
    arguments: Any
    reply: str | None
    """What the tool returned, as text; None = the conversation ends with the call."""


@dataclass(slots=True)
class Recording:
    """Replies by call, of one environment."""

    by_call: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Different replies to a call, in the order of the files."""
    by_item: dict[int, dict[str, list[str]]] = field(
        default_factory=dict[int, dict[str, list[str]]]
    )
    """Replies to a call within an official task, in the order of the conversation."""
    conversations: dict[int, list[Exchange]] = field(default_factory=dict[int, list[Exchange]])
    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    """All that have a reply, each different one once."""

    @classmethod
    def read(cls, data_dir: Path, name: str) -> Recording | None:
        """Return an environment's recording, or None where there is none; raises MalformedFile."""
        recording = cls()
        for item, exchanges in read_conversations(data_dir, name):
            recording.conversations[item] = exchanges
            for exchange in exchanges:
                recording.add(exchange, item)
        path = data_dir / FOLDER / f"derived_{name}_io.jsonl"
        if path.is_file():
            with path.open(encoding="utf-8") as lines:
                for exchange in _pairs(path, iter(lines)):
                    recording.add(exchange)
        return recording if recording.by_call else None

    def add(self, exchange: Exchange, item: int | None = None) -> None:
        """Keep an exchange, of an official task or of an unknown one."""
        key = call_key(exchange.tool, exchange.arguments)
        if key is None or exchange.reply is None:
            return
        replies = self.by_call.setdefault(key, [])
        if exchange.reply not in replies:
            replies.append(exchange.reply)
            self.exchanges.append(exchange)
        if item is not None:
            self.by_item.setdefault(item, {}).setdefault(key, []).append(exchange.reply)

    def without(self, item: int) -> Recording:
        """Return what the conversations of other tasks tell.

        Pairs are left out, for they may stem from this task's conversation.
        """
        others = Recording()
        for other, exchanges in self.conversations.items():
            if other != item:
                others.conversations[other] = exchanges
                for exchange in exchanges:
                    others.add(exchange, other)
        return others

    def find(self, item: int, tool: str, arguments: object, times: int = 0) -> str | None:
        """Return the reply to a call: of this task, for the `times`-th time, else of any task."""
        key = call_key(tool, arguments)
        if key is None:
            return None
        own = self.by_item.get(item, {}).get(key)
        if own:
            return own[min(times, len(own) - 1)]
        replies = self.by_call.get(key)
        return replies[0] if replies else None


def read_conversations(data_dir: Path, name: str) -> Iterator[tuple[int, list[Exchange]]]:
    """(official id, exchanges) of AgentTraj-L's conversations; none without the file."""
    path = data_dir / "agenttraj_l" / f"{name}.jsonl.gz"
    if not path.is_file():
        return
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, entry in read_objects(path, iter(lines)):
                yield _conversation(path, number, entry)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise EnvironmentUnavailable(f"cannot read {path}: {error}") from error


def _conversation(path: Path, line: int, entry: Mapping[str, Any]) -> tuple[int, list[Exchange]]:
    try:
        item = int(entry["item_id"].rpartition("_")[2])
    except (KeyError, AttributeError, ValueError) as error:
        raise MalformedFile(path, line, "item_id", repr(error)) from error
    try:
        turns = [turn["value"] for turn in entry["conversations"]][3:]
        exchanges = [
            _exchange(reply, turns[number + 1] if number + 1 < len(turns) else None)
            for number, reply in enumerate(turns)
            if number % 2 == 0
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise MalformedFile(path, line, "conversations", repr(error)) from error
    return item, [exchange for exchange in exchanges if exchange is not None]


def _exchange(reply: str, observation: str | None) -> Exchange | None:
    call = read_call(reply)
    if isinstance(call, Unreadable):
        return None
    if observation is not None:
        observation = observation.removeprefix(OBSERVATION).removesuffix(PROMPT)
    return Exchange(call.tool, call.arguments, observation)


def _pairs(path: Path, lines: Iterator[str]) -> Iterator[Exchange]:
    for number, entry in read_objects(path, lines):
        try:
            texts = [observation["text"] for observation in entry["observations"]]
            arguments = _literal(entry["input"])
            tool = entry["tool"]
        except (KeyError, TypeError) as error:
            raise MalformedFile(path, number, "tool, input, observations", repr(error)) from error
        for text in texts:
            yield Exchange(tool, arguments, text)


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return parse_value(text)


def parse_value(text: str) -> Any:
    """Return the value whose `str` a recorded text is; the text itself where it is no literal."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def parse_reply(text: str) -> Reply:
    """Return a recorded text as a reply; raises ToolError for a recorded error."""
    if text.startswith(_ERROR):
        raise ToolError(text.removeprefix(_ERROR))
    refused = text.startswith(("Error:", '{"error"', '{"reason"'))
    return Reply(text if refused else parse_value(text), ok=not refused)


class RecordedSession(Session):
    """Answers from a recording; some tools are answered by another session."""

    def __init__(
        self,
        recording: Recording,
        task: ToolTask,
        own: Session | None = None,
        own_tools: Collection[str] = (),
    ) -> None:
        self.recording = recording
        self.task = task
        self.own = own
        self.own_tools = own_tools
        self.times: dict[str, int] = {}
        """How often a call was made."""

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        if self.own is not None and tool in self.own_tools:
            return self.own.call(tool, arguments)
        key = call_key(tool, arguments) or ""
        times = self.times.get(key, 0)
        text = self.recording.find(self.task.index, tool, arguments, times)
        if text is None:
            raise NotRecorded(tool, dict(arguments))
        self.times[key] = times + 1
        return self.value(tool, parse_reply(text))

    def value(self, tool: str, reply: Reply) -> Reply:
        """Return a reply as it counts for subgoals; the default compares the value itself."""
        return reply

    def fork(self) -> Self:
        own = self.own.fork() if self.own is not None else None
        copy = type(self)(self.recording, self.task, own, self.own_tools)
        copy.times.update(self.times)
        return copy


class RecordedBackend(Backend):
    """Opens sessions on a recording."""

    name: ClassVar[str] = RECORDED

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def open(self, task: ToolTask) -> Session:
        return RecordedSession(self.recording, task)

    def knowing(self, calls: str, task: ToolTask) -> Self:
        if calls == ALL_CALLS:
            return self
        others = self.recording.without(task.index) if calls == OTHER_TASKS else Recording()
        return type(self)(others)
