"""From the protobuf fields of a command to checked values; refuses what the server does not take.

Nothing here touches an episode: the same command always parses to the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.sdk import ActionFormat, Advisor
from env_servers.server import errors
from env_servers.server.config import ServerLimits
from env_servers.server.inputs import Action, Reply, StepInput, ToolCall
from env_servers.server.instance import ResetSpec
from env_servers.server.journal import journal_size
from env_servers.server.runners import Host
from env_servers.server.table import MAX_ID_BYTES

__all__ = ["CONTROL_BODIES", "STEP_BODIES", "CommandParser"]

STEP_BODIES = frozenset({"action", "reply", "tool_call"})
"""Bodies of a command that steps."""
CONTROL_BODIES = frozenset({"attach", "cancel", "heartbeat", "close"})
"""Verbs that never wait; they need no credit, so that a client with none left can still act."""


class CommandParser:
    """Reads commands for the environments of one server, within its limits."""

    def __init__(self, hosts: Mapping[str, Host], limits: ServerLimits) -> None:
        self._hosts = hosts
        self._limits = limits
        self._max_bytes = limits.max_text_bytes
        # A text of at most this many characters fits whatever they are: UTF-8 takes 4 bytes each
        # at most. It spares the hot path from encoding every action twice.
        self._short_text = limits.max_text_bytes // 4

    def step_input(self, command: pb.Command, body: str, reset: ResetSpec) -> StepInput:
        """Return the input of a step command; raises CommandError."""
        if body == "action":
            text = command.action
            if len(text) > self._short_text:
                self._check_text(text)
            return Action(text)
        if body == "reply" and not command.action_format:
            text = command.reply
            if len(text) > self._short_text:
                self._check_text(text)
            return Reply(reset.action_format, text)  # a format that the reset was checked for
        return self._checked(_read_input(body, command, reset.action_format), reset.environment)

    def reset_spec(self, reset: pb.Reset) -> ResetSpec:
        """Return how an episode is to begin; raises CommandError."""
        name = reset.environment
        if not name and len(self._hosts) == 1:
            name = next(iter(self._hosts))
        host = self._hosts.get(name)
        if host is None:
            raise errors.unknown_environment(name, self._hosts)
        spec = host.spec
        profile = reset.profile or spec.profiles[0]
        if profile not in spec.profiles:
            raise errors.unknown_profile(name, profile, spec.profiles)
        action_format = reset.action_format or int(next(iter(spec.conversation_starts)))
        self._check_format(name, action_format)
        self._check_size(len(reset.item_id) + reset.options.ByteSize())
        return ResetSpec(
            name,
            reset.item_id,
            reset.seed,
            profile,
            ActionFormat(action_format),
            _read_options(reset),
            reset.images,
        )

    def journal(self, command: pb.Command, reset: ResetSpec) -> list[StepInput]:
        """Return the inputs that a rebuild plays; raises CommandError."""
        entries = command.reset.journal
        if command.seq != len(entries):
            raise errors.invalid_argument(
                "seq", f"a reset opens at seq {len(entries)}, the number of its journal entries"
            )
        if len(entries) > self._limits.max_journal:
            raise errors.invalid_argument(
                "journal", f"a journal may have {self._limits.max_journal} entries"
            )
        if entries and not self._hosts[reset.environment].spec.deterministic:
            raise errors.not_deterministic(reset.environment, "no journal rebuilds its episodes")
        journal: list[StepInput] = []
        for seq, entry in enumerate(entries, start=1):
            body = entry.input.WhichOneof("input")
            if body is None:
                raise errors.invalid_argument("journal", f"journal entry {seq} has no input")
            step_input = _read_input(body, entry.input, reset.action_format)
            journal.append(self._checked(step_input, reset.environment))
        if journal_size(journal) > self._limits.max_journal_bytes:
            raise errors.journal_too_long(self._limits.max_journal_bytes)
        return journal

    def advisor(self, environment: str, number: int) -> Advisor:
        """Return the scripted player that a consultation names; raises CommandError."""
        if number not in Advisor.__members__.values():
            raise errors.invalid_argument("advisor", "an advisor must be named")
        if number == Advisor.EXPERT and not self._hosts[environment].spec.has_expert:
            raise errors.lacks_capability(f"{environment} has no expert", "EXPERT")
        return Advisor(number)

    def episode_id(self, episode_id: str) -> str:
        """Return the id of an episode to open; raises CommandError."""
        if not 1 <= len(episode_id.encode()) <= MAX_ID_BYTES:
            raise errors.invalid_argument("episode_id", f"episode_id has 1 to {MAX_ID_BYTES} bytes")
        return episode_id

    def lease(self, lease_ms: int) -> float:
        """Return a lease in seconds, within the server's bounds."""
        return min(lease_ms / 1000 or self._limits.default_lease, self._limits.max_lease)

    def _checked(self, step_input: StepInput, environment: str) -> StepInput:
        match step_input:
            case Action(text):
                self._check_text(text)
            case Reply(action_format, text):
                self._check_format(environment, action_format)
                self._check_text(text)
            case ToolCall(name, arguments_json):
                self._check_text(name)
                self._check_text(arguments_json)
        return step_input

    def _check_text(self, text: str) -> None:
        if len(text) > self._short_text:
            self._check_size(len(text.encode()))

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise errors.text_too_long(self._max_bytes)

    def _check_format(self, environment: str, action_format: int) -> None:
        formats = self._hosts[environment].spec.conversation_starts
        if action_format not in formats:
            valid = [supported.name for supported in formats]
            raise errors.unsupported_action_format(environment, action_format, valid)


def _read_input(
    body: str, source: pb.Command | types_pb2.ActionInput, default_format: int
) -> StepInput:
    if body == "action":
        return Action(source.action)
    if body == "reply":
        return Reply(source.action_format or default_format, source.reply)
    return ToolCall(source.tool_call.name, source.tool_call.arguments_json)


def _read_options(reset: pb.Reset) -> Mapping[str, Any]:
    if not reset.HasField("options"):
        return {}
    try:
        return MessageToDict(reset.options)
    except ValueError as error:  # JSON has no NaN and no infinity
        raise errors.invalid_argument("options", f"options: {error}") from error
