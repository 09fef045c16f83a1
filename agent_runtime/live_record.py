"""An episode while it is played: its record so far, for whoever watches.

Playing an episode writes here what it writes anyway. While nobody watches, that costs some
attributes a turn; nothing is copied before somebody asks, and nothing can be changed from here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from agent_runtime.conversation import Message, normalize_reply
from agent_runtime.draft import Draft
from agent_runtime.images import RecordedImages
from agentgym.episode.v1 import episode_pb2

__all__ = ["LiveRecord", "Seen", "Waiting", "add_messages"]


class Waiting(StrEnum):
    """Whose turn it is."""

    POLICY = "policy"
    ENVIRONMENT = "environment"


@dataclass(slots=True)
class Seen:
    """How much of a record a watcher has: counts of its parts."""

    messages: int = 0
    steps: int = 0
    generations: int = 0
    images: int = 0


class LiveRecord:
    """One episode while it is played. Use it in the event loop's thread."""

    def __init__(self) -> None:
        """Begin with an empty record; `begin` gives the one that is being written."""
        self.record = episode_pb2.Episode()
        """Without its messages, which it gets at its end."""
        self.waits_for = Waiting.ENVIRONMENT
        self._since = 0.0
        self.streams = False
        """Whether its policy tells replies while they are written."""
        self.recorded = False
        """Whether the run has the whole record; said before `end`."""
        self.ended = False
        self.draft = Draft()
        self.changes = 0
        """Counted while somebody watches."""
        self._messages: Sequence[Message] = ()
        self._watchers: set[asyncio.Event] = set()

    @property
    def since_unix_ms(self) -> int:
        """Since when it waits."""
        return int(self._since * 1000)

    def begin(self, record: episode_pb2.Episode, messages: Sequence[Message]) -> None:
        """Show a record and a conversation, which both grow."""
        self.record, self._messages = record, messages

    def wait_for(self, whom: Waiting) -> None:
        """Note whose turn it is now; what was written before is whole."""
        self.waits_for = whom
        self._since = time.time()
        self.draft.clear()
        self._note_change()

    def end(self) -> None:
        """Note that the episode is over."""
        self.ended = True
        self._note_change()

    @contextmanager
    def watched(self) -> Generator[asyncio.Event]:
        """Give an event that is set whenever something changes, until the block ends."""
        changed = asyncio.Event()
        self._watchers.add(changed)
        self.draft.on_change = self._note_change
        try:
            yield changed
        finally:
            self._watchers.discard(changed)
            if not self._watchers:
                self.draft.on_change = None

    def news(self, seen: Seen) -> episode_pb2.Episode | None:
        """Return what was added since, and note it as seen; None = nothing was.

        Such parts merged (`MergeFrom`) in their order are the record's messages, steps and
        generations so far. Of images they tell the types alone: whoever watches gets some
        kilobytes a turn, not megabytes.
        """
        record, messages = self.record, self._messages
        now = Seen(len(messages), len(record.steps), len(record.generations), len(record.images))
        if now == seen:
            return None
        news = episode_pb2.Episode()
        images = RecordedImages(record)
        add_messages(news, messages[seen.messages :], images)
        for image in record.images[seen.images :]:
            news.images.add(media_type=image.media_type)
        news.steps.extend(record.steps[seen.steps :])
        news.generations.extend(record.generations[seen.generations :])
        seen.messages, seen.steps = now.messages, now.steps
        seen.generations, seen.images = now.generations, now.images
        return news

    def _note_change(self) -> None:
        if self._watchers:
            self.changes += 1
            for changed in self._watchers:
                changed.set()


def add_messages(
    record: episode_pb2.Episode, messages: Sequence[Message], images: RecordedImages
) -> None:
    """Add messages to a record, as records hold them; `images` has those of the whole one."""
    add = record.messages.add
    for role, text, sampled, shown in messages:
        # Fields one by one cost less than as keywords, and those that are not set nothing.
        added = add()
        added.role = role  # pyright: ignore[reportAttributeAccessIssue]
        if sampled:
            added.sampled = True
            text = normalize_reply(text)
        added.text = text
        if shown:
            added.images.extend(images.places(shown))
