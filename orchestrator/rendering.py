"""One episode as a person reads it: turns, reasoning, actions, rewards, outcome, timings.

In colour and as plain text. What a model or an environment wrote is shown as text only: it can
neither style the page nor send control sequences to the terminal.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator.formats.messages import role_name
from orchestrator.records import blamed, fault_name, stop_reason_name
from orchestrator.terminal import visible
from orchestrator.turns import call_of_turn, reply_places

__all__ = [
    "as_plain_text",
    "as_renderable",
    "describe_episode",
    "describe_outcome",
    "describe_parent",
    "describe_turn",
    "label_spans",
]

_LABEL: Final = re.compile(r"^[ \t]*(Thought|Action):", re.MULTILINE)
_STYLES: Final = {"Thought": "italic cyan", "Action": "bold green"}
_ROLE_STYLES: Final = {"system": "magenta", "user": "blue", "assistant": "yellow"}
_PLAIN_WIDTH: Final = 100


def as_renderable(
    episode: episode_pb2.Episode, *, limit: int | None = None, turn: int | None = None
) -> RenderableType:
    """Return the episode for a rich console.

    Args:
        episode: The record.
        limit: Characters of a message that are shown; None = all.
        turn: Only this turn, 0 for what stands before the first reply; None = all.
    """
    parts: list[RenderableType] = [describe_episode(episode)]
    parts.extend(part for at, part in _turns(episode, limit) if turn in (None, at))
    parts.append(Rule(style="dim"))
    parts.append(describe_outcome(episode))
    return Group(*parts)


def as_plain_text(
    episode: episode_pb2.Episode, *, limit: int | None = None, turn: int | None = None
) -> str:
    """Return the same as plain text without any colour code."""
    console = Console(
        file=io.StringIO(), width=_PLAIN_WIDTH, color_system=None, force_terminal=False
    )
    with console.capture() as captured:
        console.print(as_renderable(episode, limit=limit, turn=turn), soft_wrap=False)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def describe_episode(episode: episode_pb2.Episode) -> Text:
    """Return in two lines which episode it is."""
    heading = Text(visible(f"{episode.environment} {episode.item_id}"), style="bold")
    facts = [
        f"sample {episode.sample}",
        f"attempt {episode.attempt}",
        f"policy {episode.policy}",
        f"seed {episode.seed}",
        f"split {episode.split}" if episode.split else "",
        f"category {episode.category}" if episode.category else "",
        f"profile {episode.profile}" if episode.profile else "",
        f"episode {episode.episode_id}",
        describe_parent(episode),
    ]
    heading.append("\n" + visible(", ".join(fact for fact in facts if fact)), style="dim")
    return heading


def describe_parent(episode: episode_pb2.Episode) -> str:
    """Return where a branch goes off; empty = it is none."""
    if not episode.HasField("parent"):
        return ""
    parent = episode.parent
    return f"branch of episode {parent.episode_id} of run {parent.run_id} at turn {parent.turn}"


def _turns(episode: episode_pb2.Episode, limit: int | None) -> Iterator[tuple[int, RenderableType]]:
    """Yield what is shown with the turn that it belongs to: a reply, and what was said to it."""
    turn, replies = 0, set(reply_places(episode))
    for at, message in enumerate(episode.messages):
        name, is_reply = role_name(message.role), at in replies
        turn += is_reply
        call = call_of_turn(episode, turn) if is_reply else None
        if call is not None:
            for part in _reasoning(call.reasoning, turn, limit):
                yield turn, part
        title = f"{name} - turn {turn}{_player(episode, turn, call)}" if is_reply else name
        yield turn, Rule(Text(title), align="left", style=_ROLE_STYLES[name], characters="-")
        yield turn, _message_text(message, limit)
        if message.images:
            yield turn, Text(describe_images(message, episode.images), style="dim")
        note = describe_turn(episode, turn - 1) if is_reply else ""
        if note:
            yield turn, Text(note, style="dim")


def _player(episode: episode_pb2.Episode, turn: int, call: episode_pb2.Generation | None) -> str:
    """Return who replied, where it is not the episode's policy alone."""
    if turn <= episode.parent.turn:
        return " of the parent"
    return f" by {visible(call.policy)}" if call is not None and call.policy else ""


def _reasoning(reasoning: str, turn: int, limit: int | None) -> Iterator[RenderableType]:
    """Yield what the model thought before a reply; the environment never saw it."""
    if reasoning:
        yield Rule(Text(f"reasoning - turn {turn}"), align="left", style="dim", characters="-")
        text, rest = _cut(reasoning, limit)
        text.append(rest)
        text.stylize("dim")
        yield text


def _message_text(message: episode_pb2.Message, limit: int | None) -> Text:
    text, rest = _cut(message.text, limit)
    if message.role == episode_pb2.ROLE_ASSISTANT:
        _highlight(text)
    if rest:
        text.append(rest, style="dim")
    return text


def _cut(text: str, limit: int | None) -> tuple[Text, str]:
    """Return as much of a text as is shown, and what says how much more there is."""
    cut = len(text) - limit if limit is not None and len(text) > limit else 0
    return Text(visible(text[: len(text) - cut])), f" ... {cut} more characters" if cut else ""


def describe_images(message: episode_pb2.Message, images: Sequence[types_pb2.Image]) -> str:
    """Return in a line which images were shown with a message; `images` are the record's."""
    named = (
        f"image {place} ({visible(images[place].media_type)}, {len(images[place].content):,} bytes)"
        for place in message.images
    )
    return f"[{', '.join(named)}]"


def _highlight(text: Text) -> None:
    for label, start, end in label_spans(text.plain):
        text.stylize(_STYLES[label], start, end)


def label_spans(reply: str) -> Iterator[tuple[str, int, int]]:
    """Yield the parts of a reply that have a label, `Thought` or `Action`: name, start, end."""
    labels = list(_LABEL.finditer(reply))
    ends = [label.start() for label in labels[1:]] + [len(reply)]
    for label, end in zip(labels, ends, strict=False):
        yield label.group(1), label.start(), end


def describe_turn(episode: episode_pb2.Episode, turn: int) -> str:
    """Return in a line what came of a turn, from 0; empty = there is nothing to say."""
    notes: list[str] = []
    if turn + 1 < len(episode.steps):
        notes += _step_notes(episode.steps[turn + 1])
    call = call_of_turn(episode, turn + 1)
    if call is not None:
        if call.completion_tokens:
            notes.append(f"{call.prompt_tokens} + {call.completion_tokens} tokens")
        if call.reasoning_tokens:
            notes.append(f"{call.reasoning_tokens} of them reasoning")
        if call.same_completion:
            notes.append("called in the same completion")
        if call.from_cache:
            notes.append("from the response cache")
        if call.seconds:
            notes.append(f"{call.seconds:.2f} s")
        if call.finish_reason not in ("", "stop"):
            notes.append(f"finish: {visible(call.finish_reason)}")
    return ", ".join(notes)


def _step_notes(step: episode_pb2.Step) -> list[str]:
    notes: list[str] = []
    if step.HasField("parsed_action"):
        notes.append(f"parsed: {visible(step.parsed_action)}")
    if step.HasField("reward"):
        notes.append(f"reward {step.reward:g}")
    if step.HasField("score"):
        notes.append(f"score {step.score:g}")
    return notes


def describe_outcome(episode: episode_pb2.Episode) -> Text:
    """Return how an episode ended, and what its time went to."""
    text = Text()
    if episode.HasField("error"):
        error = episode.error
        text.append(
            f"failed: {blamed(fault_name(error.fault))}, {visible(error.reason)}, "
            f"after {error.at_seq} steps"
            f" ({'retriable' if error.retriable else 'not retriable'})\n",
            style="bold red",
        )
        text.append(visible(error.message) + "\n", style="red")
    else:
        style = "bold green" if episode.success else "bold"
        text.append(f"{stop_reason_name(episode.stop_reason)}", style=style)
        for name in ("reward", "score", "success"):
            if episode.HasField(name):
                text.append(f", {name} {_shown(getattr(episode, name))}")
        text.append("\n")
    elapsed = max(episode.ended_unix_ms - episode.started_unix_ms, 0) / 1000
    text.append(
        f"{elapsed:.2f} s in all, {episode.environment_seconds:.2f} s waiting for the environment, "
        f"{episode.policy_seconds:.2f} s for the policy",
        style="dim",
    )
    return text


def _shown(value: float | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}"
