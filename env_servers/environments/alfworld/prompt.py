"""How the household introduces itself, and how replies become native actions.

Contains the opening messages of the three action formats, in this project's own words, and the
grammar.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from env_servers.sdk import (
    ActionFormat,
    ConversationStart,
    Grammar,
    Parameter,
    Verb,
    read_last_action,
)

__all__ = ["CONVERSATION_STARTS", "GRAMMAR"]

_RULES: Final = """\
You live in a text world: a household in which you have to carry out one task. The first message \
describes the room, states the task and lists the actions that are available at that moment. \
After each of your actions you are told what came of it.

What you can do, where R stands for a receptacle such as "fridge 1" and O for an object such as \
"apple 2":
- go to R
- open R, close R
- take O from R, put O in/on R (some households say: move O to R)
- clean O with R, heat O with R, cool O with R
- use O, for example a lamp; slice O with O
- examine R, examine O
- inventory, look

Keep in mind:
- You see what lies in or on a receptacle once you have gone there, and in a closed one once you \
have opened it.
- You can carry one object at a time, and you work on the object that you carry: clean it at a \
sinkbasin, heat it with a microwave, cool it with a fridge.
- Write objects and receptacles with their numbers, exactly as you were told them.
- "Nothing happens." means that the action was not possible. Try another one.
"""

_REACT: Final = """
Answer every time in one of these two forms, with exactly one action. Think first where it helps:

Thought:
why you do what comes next

Action:
the action

or act directly:

Action:
the action
"""

_SIGNATURES: Final = """\
- goto(recep)
- take(obj, recep)
- put(obj, recep)
- move(obj, recep): for households that say "move O to R"
- open(recep)
- close(recep)
- toggle(obj)
- use(obj)
- heat(obj, recep)
- cool(obj, recep)
- clean(obj, recep)
- slice(obj, tool)
- examine(recep): a receptacle, or an object that you carry
- inventory()
- look()
"""

_FUNCTION: Final = f"""
Answer every time with one JSON object and nothing else. Its keys are "thought" (your reasoning, \
a string), "function_name" and "arguments" (an object of strings). The functions are:

{_SIGNATURES}
For example:
{{"thought": "Cups are often kept in cabinets, so I look there first.", "function_name": "goto", \
"arguments": {{"recep": "cabinet 3"}}}}
"""

_CODE: Final = f"""
Answer every time with one fenced Python block that holds your reasoning as a comment and then \
exactly one call. All arguments are strings. The functions are:

{_SIGNATURES}
For example:

```python
# Cups are often kept in cabinets, so I look there first.
goto(recep="cabinet 3")
```
"""

CONVERSATION_STARTS: Final[Mapping[ActionFormat, ConversationStart]] = {
    ActionFormat.REACT: ConversationStart(_RULES + _REACT),
    ActionFormat.FUNCTION_CALLING: ConversationStart(_RULES + _FUNCTION),
    ActionFormat.CODE_AS_ACTION: ConversationStart(_RULES + _CODE),
}

_PATTERNS: Final = tuple(
    (name, re.compile(pattern, re.DOTALL))
    for name, pattern in (
        ("goto", r"go to (?P<recep>.*)"),
        ("take", r"take (?P<obj>.*) from (?P<recep>.*)"),
        ("put", r"put (?P<obj>.*) in/on (?P<recep>.*)"),
        ("move", r"move (?P<obj>.*) to (?P<recep>.*)"),
        ("open", r"open (?P<recep>.*)"),
        ("close", r"close (?P<recep>.*)"),
        ("toggle", r"toggle (?P<obj>.*)"),
        ("use", r"use (?P<obj>.*)"),
        ("heat", r"heat (?P<obj>.*) with (?P<recep>.*)"),
        ("cool", r"cool (?P<obj>.*) with (?P<recep>.*)"),
        ("clean", r"clean (?P<obj>.*) with (?P<recep>.*)"),
        ("slice", r"slice (?P<obj>.*) with (?P<tool>.*)"),
        ("examine", r"examine (?P<recep>.*)"),
        ("inventory", r"inventory"),
    )
)


def _express(action: str) -> tuple[str, Mapping[str, Any]]:
    """Return a scripted player's action as a function call."""
    for name, pattern in _PATTERNS:
        if match := pattern.fullmatch(action):
            return name, match.groupdict()
    return "look", {}


def _examine(arguments: Mapping[str, Any]) -> str:
    by = arguments.get("obj", "")
    return f"examine {arguments['recep']} with {by}" if by else f"examine {arguments['recep']}"


_OBJ: Final = Parameter("obj", description="An object with its number, for example apple 2.")
_RECEP: Final = Parameter("recep", description="A receptacle with its number.")
_BY: Final = Parameter("obj", description="By which object.", required=False)
_TOOL: Final = Parameter("tool", description="A knife with its number.")

GRAMMAR: Final = Grammar(
    verbs=(
        Verb("goto", "Go to a receptacle.", "go to {recep}", (_RECEP,)),
        Verb("take", "Take an object.", "take {obj} from {recep}", (_OBJ, _RECEP)),
        Verb("put", "Put what you carry somewhere.", "put {obj} in/on {recep}", (_OBJ, _RECEP)),
        Verb("move", "Put what you carry somewhere.", "move {obj} to {recep}", (_OBJ, _RECEP)),
        Verb("open", "Open a receptacle and see into it.", "open {recep}", (_RECEP,)),
        Verb("close", "Close a receptacle.", "close {recep}", (_RECEP,)),
        Verb("toggle", "Switch an object.", "toggle {obj}", (_OBJ,)),
        Verb("heat", "Heat what you carry.", "heat {obj} with {recep}", (_OBJ, _RECEP)),
        Verb("cool", "Cool what you carry.", "cool {obj} with {recep}", (_OBJ, _RECEP)),
        Verb("clean", "Clean what you carry.", "clean {obj} with {recep}", (_OBJ, _RECEP)),
        Verb("slice", "Slice an object with a knife.", "slice {obj} with {tool}", (_OBJ, _TOOL)),
        Verb("examine", "Look closely.", _examine, (_RECEP, _BY)),
        Verb("inventory", "See what you carry.", "inventory"),
        Verb("look", "See where you are.", "look"),
        Verb("use", "Use an object, for example a lamp.", "use {obj}", (_OBJ,)),
    ),
    read_react=read_last_action,
    express=_express,
    drops_end_mark=True,
)
