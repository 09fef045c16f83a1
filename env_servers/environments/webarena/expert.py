"""The scripted expert: follows the plan of a task on the pages that it sees.

Off the plan it goes back to the start of the task and begins again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from env_servers.environments.webarena.browsing import Seen
from env_servers.environments.webarena.observation.rectangles import WINDOW_HEIGHT
from env_servers.environments.webarena.observation.tree import Element
from env_servers.environments.webarena.templates.plan import (
    Answer,
    ClickOn,
    Keys,
    Move,
    Open,
    TypeInto,
)
from env_servers.sdk import InvalidOption

__all__ = ["Follower"]

_MOST_SCROLLS: Final = 40
"""For one move; the longest pages of the sites have some thirty windows."""


@dataclass(slots=True)
class Follower:
    """How far an episode has followed the plan of its task."""

    start: str
    """Where the task begins."""
    plan: Sequence[Move]
    _done: int = 0
    _lost: bool = False
    _scrolls: int = 0
    _expected: str = ""
    _advances: bool = False

    def look(self, seen: Seen) -> None:
        """See the page on which the next action is going to be taken."""
        if self._lost:
            self._expected, self._advances = f"goto [{self.start}]", False
            return
        self._expected, self._advances = self._next(seen)

    @property
    def action(self) -> str:
        """The native action that the plan has next.

        Raises:
            InvalidOption: The plan names what is nowhere on the page.
        """
        if not self._expected:
            rest = self.plan[self._done : self._done + 1]
            raise InvalidOption(f"the plan of this task does not go on from here: {rest}")
        return self._expected

    def note(self, action: str) -> None:
        """Hear what was done on the page that was seen."""
        if action == self._expected:
            self._lost = False
            self._done += self._advances
            self._scrolls = 0 if self._advances else self._scrolls + 1
        else:
            self._lost, self._done, self._scrolls = True, 0, 0

    def _next(self, seen: Seen) -> tuple[str, bool]:
        """Return the next action, and whether it is the move itself; empty = there is none."""
        if self._done == len(self.plan):
            return "", False
        match self.plan[self._done]:
            case ClickOn(role, name, nth):
                return self._reach(seen, role, name, nth, "click [{}]")
            case TypeInto(role, name, text, enter, nth):
                form = f"type [{{}}] [{text}] [{int(enter)}]"
                return self._reach(seen, role, name, nth, form)
            case Keys(keys):
                return f"press [{keys}]", True
            case Open(url):
                return f"goto [{url}]", True
            case Answer(text):
                return f"stop [{text}]", True

    def _reach(self, seen: Seen, role: str, name: str, nth: int, form: str) -> tuple[str, bool]:
        found = [each for each in seen.tree.elements.values() if _is(each, role, name)]
        if nth < len(found):
            element = found[nth]
            assert element.rectangle is not None, "a tree of the window has rectangles"
            height = element.rectangle.centre[1]
            if 0 <= height < WINDOW_HEIGHT:
                return form.format(element.element_id), True
            return f"scroll [{'up' if height < 0 else 'down'}]", False
        if self._scrolls >= _MOST_SCROLLS:
            return "", False
        return "scroll [down]", False


def _is(element: Element, role: str, name: str) -> bool:
    _, _, line = element.line.partition("] ")
    head = f"{role} {name!r}"
    return line == head or line.startswith(f"{head} ")
