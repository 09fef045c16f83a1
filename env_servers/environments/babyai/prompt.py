"""What an agent is told before it plays BabyAI, and how its replies are read.

Contains the wording of the instruction and the action grammars of the original's two versions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from env_servers.sdk import (
    ActionFormat,
    ConversationStart,
    Grammar,
    Parameter,
    Verb,
    read_first_action,
    read_single_action,
)

__all__ = ["CONVERSATION_STARTS", "GRAMMAR", "GRAMMAR_2024"]

_TASK: Final = """\
You control a robot in a world of square cells. The world has one or more rooms, and doors join \
them. You are given a goal, such as reaching, opening, fetching or moving a thing. After each of \
your replies you are shown the part of the world that lies in front of the robot; it sees at most \
six steps ahead and three to each side, not through walls or shut doors, and it remembers nothing, \
so turn around to find what you miss.

Things carry a colour and a number, for example "red ball 2". Number 1 is the nearest of its kind \
in the current view, so numbers change when the robot moves."""

_ACTIONS: Final = """\
Choose one of these actions per reply:
- turn left, turn right: a quarter turn on the spot
- move forward: one step ahead
- go to <thing> <number>: walk up to a visible thing and face it
- pickup <thing> <number>: walk up to a key, ball or box and take it; the robot has one hand
- drop: put down what the robot carries, into the free cell ahead
- go through <door> <number>: walk into the doorway of an open door
- toggle and go through <door> <number>: open a closed door and step into the doorway; a locked \
door needs the key of its colour in the robot's hand
- toggle: open the shut door directly ahead without moving
- check available actions: list what is possible now
A door's name includes its state, for example "go through blue open door 1" or "toggle and go \
through grey closed door 2"."""

_REACT: Final = """\
Write every reply in this form:
Thought:
<why you do it>

Action:
<one action>"""

_FUNCTIONS: Final = """\
Call one of these functions per reply. In the JSON schemas below, `thing` and `door` are names \
without the number.
{functions}

Write every reply as one JSON object with nothing around it:
{{"thought": "<why you do it>", "function_name": "<function>", "arguments": {{<its arguments>}}}}"""

_CODE: Final = """\
Call one of these Python functions per reply, with literal arguments; `thing` and `door` are names \
without the number.
{signatures}

Write every reply as one fenced block with your reasons as comments above a single call:
```python
# <why you do it>
<function>(<arguments>)
```"""

_THING: Final = Parameter("thing", description='colour and kind, such as "red ball"')
_DOOR: Final = Parameter("door", description='colour, state and kind, such as "red closed door"')
_NUMBER: Final = Parameter("number", "integer", "number of that name in the current view")

_VERBS: Final = (
    Verb("turn_left", "Turn a quarter to the left.", "turn left"),
    Verb("turn_right", "Turn a quarter to the right.", "turn right"),
    Verb("move_forward", "Go one step ahead.", "move forward"),
    Verb("go_to", "Walk up to a thing or door.", "go to {thing} {number}", (_THING, _NUMBER)),
    Verb("pickup", "Walk up to a thing, take it.", "pickup {thing} {number}", (_THING, _NUMBER)),
    Verb("drop", "Put down what is carried.", "drop"),
    Verb(
        "go_through",
        "Walk into the doorway of an open door.",
        "go through {door} {number}",
        (_DOOR, _NUMBER),
    ),
    Verb(
        "toggle_and_go_through",
        "Open a shut door, with its key if locked, and step into the doorway.",
        "toggle and go through {door} {number}",
        (_DOOR, _NUMBER),
    ),
    Verb("toggle", "Open the shut door directly ahead.", "toggle"),
    Verb("check_available_actions", "List what is possible now.", "check available actions"),
)

_CALL: Final = re.compile(
    r"(?P<verb>go to|pickup|go through|toggle and go through) (?P<name>.+) (?P<number>[0-9]+)"
)


def _express(action: str) -> tuple[str, Mapping[str, Any]]:
    """Return a native action as a function call."""
    match = _CALL.fullmatch(action)
    if match is None:
        return action.replace(" ", "_"), {}
    argument = "door" if match["verb"].endswith("go through") else "thing"
    arguments = {argument: match["name"], "number": int(match["number"])}
    return match["verb"].replace(" ", "_"), arguments


def _signature(verb: Verb) -> str:
    names = {"string": "str", "integer": "int"}
    arguments = ", ".join(f"{p.name}: {names[p.type]}" for p in verb.parameters)
    return f"{verb.name}({arguments})  # {verb.description}"


GRAMMAR: Final = Grammar(verbs=_VERBS, read_react=read_single_action, express=_express)
GRAMMAR_2024: Final = replace(GRAMMAR, read_react=read_first_action, drops_end_mark=True)

CONVERSATION_STARTS: Final[Mapping[ActionFormat, ConversationStart]] = {
    ActionFormat.REACT: ConversationStart(f"{_TASK}\n\n{_ACTIONS}\n\n{_REACT}"),
    ActionFormat.FUNCTION_CALLING: ConversationStart(
        f"{_TASK}\n\n{_FUNCTIONS.format(functions=GRAMMAR.functions_json())}"
    ),
    ActionFormat.CODE_AS_ACTION: ConversationStart(
        f"{_TASK}\n\n{_CODE.format(signatures=chr(10).join(map(_signature, _VERBS)))}"
    ),
}
