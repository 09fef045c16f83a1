"""From a conversation to token ids, by the model's own chat template.

One promise: text that a policy sampled is never tokenised again. The first prompt is rendered
whole; for each later turn only the tokens *after* the reply are computed (end of turn, next
message, generation prompt). They are found by rendering the conversation with a marker in the
reply's place and encoding what follows the marker, so any template works without a table of its
delimiters. A template that renders earlier turns differently than before (it drops thoughts, moves
the system prompt) cannot be followed by appending: the conversation is then `Retokenized` as a
whole, and callers must fork.

`agent_runtime.huggingface` loads real models' templates and tokenizers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import PolicyMisconfigured

__all__ = [
    "ChatRenderer",
    "Continuation",
    "Rendered",
    "Retokenized",
    "Template",
    "TemplateRenderer",
    "Tokenizer",
]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A whole conversation up to the point where the policy speaks."""

    text: str
    """What the template gave; the next `extend` compares with it."""
    ids: list[int]


@dataclass(frozen=True, slots=True)
class Continuation:
    """What follows a sampled reply, up to the point where the policy speaks again."""

    text: str
    """The whole conversation as the template gives it now."""
    end_of_turn: list[int]
    """Ends the reply where the policy did not (after a length stop); else empty."""
    context: list[int]
    """The later messages and the generation prompt."""


@dataclass(frozen=True, slots=True)
class Retokenized:
    """A whole conversation whose earlier turns the template renders differently than before."""

    text: str
    ids: list[int]
    """The whole conversation, tokenised anew."""
    reason: str
    """`template_rewrote_reply` or `template_rewrote_history`."""


class ChatRenderer(ABC):
    """A chat template with its tokenizer."""

    @property
    @abstractmethod
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end a reply; a sampled one belongs to the reply's ids, not to its text."""

    @abstractmethod
    def begin(self, messages: Sequence[Message]) -> Rendered:
        """Render the first prompt.

        Raises:
            PolicyMisconfigured: The template refuses the messages.
        """

    @abstractmethod
    def extend(
        self, before: str, messages: Sequence[Message], *, reply: int, sampled: Sequence[int]
    ) -> Continuation | Retokenized:
        """Render the prompt that follows a prompt and the reply to it.

        Args:
            before: Text of the previous prompt.
            messages: The whole conversation now.
            reply: Index of the newest assistant message.
            sampled: The tokens of that message.

        Raises:
            PolicyMisconfigured: The template refuses the messages.
        """

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Decode sampled ids, special tokens left out."""


class Tokenizer(Protocol):
    """What a `TemplateRenderer` needs of a tokenizer."""

    def encode(self, text: str) -> list[int]:
        """Ids of text; special tokens written in it count as such, none are added."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids without special tokens."""
        ...

    def is_special(self, token_id: int) -> bool:
        """Whether the id is a control token."""
        ...


_CONTEXT_CHARACTERS = 32
"""Characters before a reply that are tokenised with it: only what touches it can change how its
first word is cut."""

Template = Callable[[Sequence[Message]], str]
"""Renders a conversation with the generation prompt at its end."""


class TemplateRenderer(ChatRenderer):
    """A chat template over any tokenizer; the delta logic lives here."""

    def __init__(self, template: Template, tokenizer: Tokenizer, end_ids: Sequence[int]) -> None:
        self._template = template
        self._tokenizer = tokenizer
        self._end_of_turn = self._probe_end_of_turn()
        stops = [*end_ids, *([] if self._end_of_turn is None else [self._end_of_turn])]
        self._stop_ids = tuple(dict.fromkeys(stops))

    @property
    def stop_ids(self) -> tuple[int, ...]:
        return self._stop_ids

    def begin(self, messages: Sequence[Message]) -> Rendered:
        text = self._template(messages)
        return Rendered(text, self._tokenizer.encode(text))

    def extend(
        self, before: str, messages: Sequence[Message], *, reply: int, sampled: Sequence[int]
    ) -> Continuation | Retokenized:
        text = self._template(messages)
        head, tail = self._around_reply(messages, reply)
        reason = _rewrite_reason(before, text, head, tail, messages[reply].text)
        if reason:
            return Retokenized(text, self._tokenizer.encode(text), reason)
        following = self._tokenizer.encode(tail.lstrip())
        if self._end_of_turn is None or following[:1] != [self._end_of_turn]:
            return Continuation(text, [], self._encode_after(head + messages[reply].text, tail))
        ended = sampled[-1:] == [self._end_of_turn]
        return Continuation(text, [] if ended else following[:1], following[1:])

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids)

    def reply_ids(self, before: str, messages: Sequence[Message]) -> list[int]:
        """Tokenise the last of the messages as a policy would have sampled it.

        For replies that no policy sampled here: what was sampled has its ids already.

        Args:
            before: Text of the prompt that it answers.
            messages: The conversation, ending with the reply.

        Returns:
            The ids of the reply where it stands, then the one that ends the turn.

        Raises:
            PolicyMisconfigured: The template refuses the messages.
        """
        reply = len(messages) - 1
        text = self._template(messages)
        _, tail = self._around_reply(messages, reply)
        follows = text.startswith(before) and text.endswith(tail)
        written = text[len(before) : len(text) - len(tail)] if follows else messages[reply].text
        ids = self._encode_after(before[-_CONTEXT_CHARACTERS:], written)
        return ids + list(self._stop_ids[:1] if self._end_of_turn is None else [self._end_of_turn])

    def _around_reply(self, messages: Sequence[Message], reply: int) -> tuple[str, str]:
        """Find what the template puts before and after the reply of this index."""
        marker = _marker(messages)
        marked = list(messages)
        marked[reply] = marked[reply]._replace(text=marker)
        head, separator, tail = self._template(marked).rpartition(marker)
        if not separator:
            raise PolicyMisconfigured("the chat template leaves out the newest reply")
        return head, tail

    def _encode_after(self, before: str, tail: str) -> list[int]:
        """Tokenise `tail` where it follows `before`.

        Some tokenizers put a space before the first word of a text, so a tail alone would get one.
        Where the last token of `before` would have merged with the tail, the tail stands alone.
        """
        start = self._tokenizer.encode(before)
        whole = self._tokenizer.encode(before + tail)
        joined = whole[: len(start)] == start
        return whole[len(start) :] if joined else self._tokenizer.encode(tail)

    def _probe_end_of_turn(self) -> int | None:
        """Find the control token with which the template ends a reply; None = it uses none."""
        probe = [
            Message(Role.USER, "a"),
            Message(Role.ASSISTANT, "b"),
            Message(Role.USER, "c"),
        ]
        _, tail = self._around_reply(probe, 1)
        first = self._tokenizer.encode(tail.lstrip())[:1]
        return first[0] if first and self._tokenizer.is_special(first[0]) else None


def _marker(messages: Sequence[Message]) -> str:
    """Make a word that occurs in no message and that templates have no reason to change."""
    number = 0
    while any(f"REPLYMARKER{number}X" in message.text for message in messages):
        number += 1
    return f"REPLYMARKER{number}X"


def _rewrite_reason(before: str, text: str, head: str, tail: str, reply: str) -> str:
    """Say why `text` does not continue `before` with this reply; empty when it does.

    Templates that only trim white space around a reply, or put a space before it, do not rewrite
    it: the sampled ids stay as they are.
    """
    if head.rstrip() != before.rstrip() or not text.startswith(head):
        return "template_rewrote_history"
    body_end = len(text) - len(tail)
    if body_end < len(head) or not text.endswith(tail):
        return "template_rewrote_reply"
    return "" if text[len(head) : body_end].strip() == reply.strip() else "template_rewrote_reply"
