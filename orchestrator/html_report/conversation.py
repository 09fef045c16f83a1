"""One episode of a report: its turns, as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree import ElementTree

from agent_runtime.images import IMAGE_TYPES, Image, shown_images
from agentgym.episode.v1 import episode_pb2
from orchestrator.formats.messages import role_name
from orchestrator.html_report.elements import Content, element
from orchestrator.records import EpisodeSummary
from orchestrator.rendering import (
    describe_episode,
    describe_outcome,
    describe_turn,
    label_spans,
)
from orchestrator.terminal import visible
from orchestrator.turns import call_of_turn, reply_places

__all__ = ["MESSAGE_CHARS", "conversation", "outcome_cell"]

MESSAGE_CHARS: Final = 20_000
"""Of a message; the rest is counted."""
_IMAGE_BYTES: Final = 1024 * 1024
"""Of an episode's images; the rest is counted."""


def conversation(episode: episode_pb2.Episode) -> ElementTree.Element:
    """Return an episode that can be folded away; its id is an address within the page."""
    title, facts = describe_episode(episode).plain.split("\n", 1)
    return element(
        "details",
        element("summary", title),
        element("p", facts, class_="note"),
        *_turns(episode),
        element("pre", describe_outcome(episode).plain, class_="note"),
        id=episode.episode_id,
        class_="episode",
        open="open",
    )


def outcome_cell(summary: EpisodeSummary) -> ElementTree.Element:
    """Return in words how an episode ended."""
    if summary.failed:
        return element("span", f"failed: {summary.reason}", class_="bad")
    return element("span", summary.stop_reason, class_="good" if summary.success else "plain")


def _turns(episode: episode_pb2.Episode) -> Iterator[ElementTree.Element]:
    turn, replies, room = 0, set(reply_places(episode)), _IMAGE_BYTES
    for at, message in enumerate(episode.messages):
        role, is_reply = role_name(message.role), at in replies
        parts: list[Content] = [
            element("div", f"{role}, turn {turn + 1}" if is_reply else role, class_="role")
        ]
        call = call_of_turn(episode, turn + 1) if is_reply else None
        if call is not None:
            parts += _reasoning(call.reasoning)
        parts.append(element("pre", *_pieces(message.text, is_reply)))
        images = shown_images(message, episode.images)
        shown, room = _images(images, room)
        parts += shown
        if is_reply:
            parts.append(element("div", describe_turn(episode, turn), class_="note"))
            turn += 1
        yield element("div", *parts, class_=f"message {role}")


def _images(images: Sequence[Image], room: int) -> tuple[list[Content], int]:
    """Return images as far as there is room, what says of the others, and the room that is left."""
    parts: list[Content] = []
    left_out = 0
    for image in images:
        if image.media_type in IMAGE_TYPES and len(image.content) <= room:
            room -= len(image.content)
            parts.append(element("img", src=image.data_url, alt="image of the observation"))
        else:
            left_out += 1
    if left_out:
        parts.append(element("div", f"{left_out} images are not shown here", class_="note"))
    return parts, room


def _reasoning(text: str) -> list[Content]:
    """Return what the model thought before a reply; the environment never saw it."""
    if not text:
        return []
    return [element("div", "reasoning", class_="role"), element("pre", _cut(text), class_="dim")]


def _pieces(said: str, is_reply: bool) -> Iterator[Content]:
    """Yield the text of a message; of a reply, thoughts and actions apart."""
    text = _cut(visible(said))
    at = 0
    for label, start, end in label_spans(text) if is_reply else ():
        yield text[at:start]
        yield element("span", text[start:end], class_=label.lower())
        at = end
    yield text[at:]


def _cut(text: str) -> str:
    more = len(text) - MESSAGE_CHARS
    return text if more <= 0 else f"{text[:MESSAGE_CHARS]} ... {more} more characters"
