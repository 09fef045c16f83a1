"""The native actions: from their text to typed values, and how a step says what was done.

Pure. What the original accepts is accepted, what it refuses is refused in its words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NoReturn

__all__ = [
    "Action",
    "Click",
    "CloseTab",
    "Direction",
    "GoBack",
    "GoForward",
    "Goto",
    "Hover",
    "NewTab",
    "Press",
    "Scroll",
    "Stop",
    "TabFocus",
    "Type",
    "UnreadableAction",
    "describe_action",
    "parse_action",
]


class UnreadableAction(ValueError):
    """A text is no action; the message is what the agent is shown."""


class Direction(Enum):
    """Where the page is scrolled to, by one height of the window."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Click:
    """Click at the centre of an element."""

    element_id: str


@dataclass(frozen=True, slots=True)
class Hover:
    """Move the mouse to the centre of an element."""

    element_id: str


@dataclass(frozen=True, slots=True)
class Type:
    """Click at an element, then type; a line break presses Enter."""

    element_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Press:
    """Press keys together, such as `Control+a`."""

    keys: str


@dataclass(frozen=True, slots=True)
class Scroll:
    """Scroll the page by the height of the window."""

    direction: Direction


@dataclass(frozen=True, slots=True)
class NewTab:
    """Open a blank tab, which becomes the current one."""


@dataclass(frozen=True, slots=True)
class TabFocus:
    """Make a tab the current one."""

    number: int


@dataclass(frozen=True, slots=True)
class CloseTab:
    """Close the current tab."""


@dataclass(frozen=True, slots=True)
class Goto:
    """Open an address in the current tab."""

    url: str


@dataclass(frozen=True, slots=True)
class GoBack:
    """Go back in the tab's history."""


@dataclass(frozen=True, slots=True)
class GoForward:
    """Go forward in the tab's history."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the episode with an answer."""

    answer: str


Action = (
    Click
    | Hover
    | Type
    | Press
    | Scroll
    | NewTab
    | TabFocus
    | CloseTab
    | Goto
    | GoBack
    | GoForward
    | Stop
)

_CLICK: Final = re.compile(r"click ?\[(\d+)\]")
_HOVER: Final = re.compile(r"hover ?\[(\d+)\]")
_TYPE: Final = re.compile(r"type ?\[(\d+)\] ?\[(.+)\] ?\[(\d+)\]")
_PRESS: Final = re.compile(r"press ?\[(.+)\]")
_SCROLL: Final = re.compile(r"scroll ?\[?(up|down)\]?")
_GOTO: Final = re.compile(r"goto ?\[(.+)\]")
_TAB_FOCUS: Final = re.compile(r"tab_focus ?\[(\d+)\]")
_STOP: Final = re.compile(r"stop ?\[(.+)\]")
_LONGEST_TAB_NUMBER: Final = 18
"""Digits; int() refuses thousands of them."""

_KEY_NAMES: Final = (
    *("Enter", "Tab", "Meta", "Backspace", "Delete", "Escape"),
    *("ArrowDown", "End", "ArrowLeft", "Home", "Insert", "PageDown", "PageUp", "ArrowRight"),
    *("ArrowUp", "Minus", "Equal", "Backslash", "Backquote"),
    *(f"F{number}" for number in range(1, 13)),
)
_KEYS: Final = {name.lower(): name for name in _KEY_NAMES}


def parse_action(text: str) -> Action:
    """Return the action of a native text; raises UnreadableAction in the original's words."""
    text = text.strip()
    if not text:
        # The original takes the first of no words.
        raise UnreadableAction("list index out of range")
    verb = text.split("[", 1)[0].strip() if "[" in text else text.split()[0]
    reader = _READERS.get(verb)
    if reader is None:
        raise UnreadableAction(f"Invalid action {text}")
    return reader(text)


def _argument(pattern: re.Pattern[str], verb: str, text: str) -> str:
    match = pattern.search(text)
    if match is None:
        _refuse(verb, text)
    return match[1]


def _refuse(verb: str, text: str) -> NoReturn:
    raise UnreadableAction(f"Invalid {verb} action {text}")


def _read_type(text: str) -> Type:
    if not text.endswith(("[0]", "[1]")):
        text += " [1]"
    match = _TYPE.search(text)
    if match is None:
        _refuse("type", text)
    element_id, typed, enter = match.groups()
    for character in typed:
        if not _typable(character):
            # The original looks characters up in a table; this is a KeyError's text.
            raise UnreadableAction(repr(character))
    return Type(element_id, typed + ("\n" if enter == "1" else ""))


def _typable(character: str) -> bool:
    return "\x20" <= character <= "\x7f" or "\x81" <= character <= "\u03e7"


def _read_press(text: str) -> Press:
    keys = _argument(_PRESS, "press", text).split("+")
    return Press("+".join(_KEYS.get(key.lower(), key) for key in keys))


def _read_tab_focus(text: str) -> TabFocus:
    number = _argument(_TAB_FOCUS, "tab_focus", text)
    return TabFocus(int(number[:_LONGEST_TAB_NUMBER]))


def _read_stop(text: str) -> Stop:
    match = _STOP.search(text)
    return Stop(match[1] if match else "")


_READERS: Final[Mapping[str, Callable[[str], Action]]] = {
    "click": lambda text: Click(_argument(_CLICK, "click", text)),
    "hover": lambda text: Hover(_argument(_HOVER, "hover", text)),
    "type": _read_type,
    "press": _read_press,
    "scroll": lambda text: Scroll(Direction(_argument(_SCROLL, "scroll", text))),
    "goto": lambda text: Goto(_argument(_GOTO, "goto", text)),
    "new_tab": lambda text: NewTab(),
    "go_back": lambda text: GoBack(),
    "go_forward": lambda text: GoForward(),
    "tab_focus": _read_tab_focus,
    "close_tab": lambda text: CloseTab(),
    "stop": _read_stop,
}

_BLANKS: Final = re.compile(r"\s+")


def describe_action(action: Action, lines: Mapping[str, str]) -> str:
    """Return what a step is called afterwards; `lines` of the observation that was acted on.

    Keys are element ids, values whole lines without indentation.
    """
    if isinstance(action, Click):
        return _describe_on("click", f"click [{action.element_id}]", action.element_id, lines)
    if isinstance(action, Hover):
        return _describe_on("hover", f"hover [{action.element_id}]", action.element_id, lines)
    if isinstance(action, Type):
        shown = f"type [{action.element_id}] [{action.text}]".replace("\n", " ")
        return _describe_on("type", shown, action.element_id, lines)
    return _describe_page_action(action)


def _describe_page_action(
    action: (Press | Scroll | NewTab | TabFocus | CloseTab | Goto | GoBack | GoForward | Stop),
) -> str:
    match action:
        case Press(keys):
            return f"press [{keys}]"
        case Scroll(direction):
            return f"scroll [{direction.value}]"
        case Goto(url):
            return f"goto [{url}]"
        case TabFocus(number):
            return f"page_focus [{number}]"
        case Stop(answer):
            return f"stop [{answer}]"
        case NewTab() | CloseTab() | GoBack() | GoForward():
            return _PLAIN[type(action)]


_PLAIN: Final[Mapping[type, str]] = {
    NewTab: "new_tab",
    CloseTab: "close_tab",
    GoBack: "go_back",
    GoForward: "go_forward",
}


def _describe_on(verb: str, shown: str, element_id: str, lines: Mapping[str, str]) -> str:
    line = lines.get(element_id)
    if line is None:
        return (
            f'Attempt to perfom "{verb}" on element "[{element_id}]" but no matching element '
            "found. Please check the observation more carefully."
        )
    content = _BLANKS.sub(" ", line.partition("]")[2]).strip()
    return f"{shown} where [{element_id}] is {content}"
