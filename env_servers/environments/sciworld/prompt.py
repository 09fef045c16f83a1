"""How SciWorld introduces itself, and how replies become native actions.

Contains the opening messages of the three action formats, in this project's own words, and the
grammar.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from env_servers.sdk import ActionFormat, ConversationStart, Grammar, Parameter, Verb

__all__ = ["CONVERSATION_STARTS", "GRAMMAR", "expressible"]

_OBJECT: Final = Parameter("object", description="A thing, as the observations call it.")


def _target(description: str) -> Parameter:
    return Parameter("target", description=description)


def _one(name: str, words: str, description: str) -> Verb:
    return Verb(name, description, f"{words} {{object}}", (_OBJECT,))


def _two(name: str, words: str, between: str, description: str, target: str) -> Verb:
    template = f"{words} {{object}} {between} {{target}}"
    return Verb(name, description, template, (_OBJECT, _target(target)))


def _render_use(arguments: Mapping[str, Any]) -> str:
    if "target" in arguments:
        return f"use {arguments['object']} on {arguments['target']}"
    return f"use {arguments['object']}"


VERBS: Final = (
    Verb("look_around", "Describe the room.", "look around"),
    _one("look_at", "look at", "Describe a thing closely."),
    _one("look_in", "look in", "Tell what is inside a container."),
    _one("examine", "examine", "Describe a thing closely."),
    _one("read", "read", "Read a recipe, a note or a book."),
    _one("open", "open", "Open a door or a container."),
    _one("close", "close", "Close a door or a container."),
    Verb(
        "go_to",
        "Walk to a neighbouring place whose door is open.",
        "go to {place}",
        (Parameter("place", description="Name of the place."),),
    ),
    _one("pick_up", "pick up", "Take a thing into the inventory."),
    _one("put_down", "put down", "Leave a thing of the inventory here."),
    _one("drop", "drop", "The same as put_down."),
    _two("move", "move", "to", "Put a thing into a container.", "The container."),
    _two("pour", "pour", "into", "Empty a container into another.", "Where it goes."),
    _two("dunk", "dunk", "into", "Dip a container into a liquid.", "The liquid's container."),
    _one("mix", "mix", "Let the contents of a container react."),
    _one("activate", "activate", "Switch a device on."),
    _one("deactivate", "deactivate", "Switch a device off."),
    Verb(
        "use",
        "Use a device or tool, perhaps on another thing.",
        _render_use,
        (_OBJECT, Parameter("target", description="What it is used on.", required=False)),
    ),
    _two("connect", "connect", "to", "Join two electrical terminals.", "The other terminal."),
    _one("disconnect", "disconnect", "Take a component off its circuit."),
    _one("focus_on", "focus on", "Say that this is the thing that the task is about."),
    _one("eat", "eat", "Eat food."),
    _one("flush", "flush", "Flush a toilet."),
    Verb("wait", "Let ten moments pass.", "wait"),
    Verb("wait_once", "Let one moment pass.", "wait1"),
    Verb("inventory", "List what you carry.", "inventory"),
    Verb("task", "Repeat the task.", "task"),
    Verb("reset_task", "Start counting the task's progress anew.", "reset task"),
    _one("teleport_to", "teleport to", "Be in another place at once, where that is allowed."),
    Verb(
        "choose",
        "Answer a question that lists numbered possibilities.",
        "{number}",
        (Parameter("number", "integer", "The number of the possibility meant."),),
    ),
)
"""Names, arguments and the native actions that they render to."""

_RULES: Final = """\
You take part in science lessons that play in a house with ten places: kitchen, bathroom, hallway, \
living room, bedroom, workshop, art studio, greenhouse, foundry, and the outside. The first \
message states your task and describes where you are. Act step by step; after every action you \
read what it brought about.

These are the actions. Write the name of a thing instead of OBJ and of a place instead of LOC:
- look around; look at OBJ; look in OBJ; examine OBJ; read OBJ
- open OBJ; close OBJ; go to LOC
- pick up OBJ; put down OBJ; move OBJ to OBJ; inventory
- pour OBJ into OBJ; dunk OBJ into OBJ; mix OBJ
- activate OBJ; deactivate OBJ; use OBJ; use OBJ on OBJ
- connect OBJ to OBJ; disconnect OBJ
- focus on OBJ: declares the thing that the task is about. Do it when the task says so, and only \
with the right thing: a wrong one ends the task as failed.
- eat OBJ; flush OBJ
- wait: ten moments pass; wait1: one moment passes
- task: repeats the task

Doors must be open before you can go through. Where several things fit your words you are shown a \
numbered list; answer with nothing but the number that you mean.
"""

_REACT: Final = """
Write every answer like this, with one action:

Thought:
what you think about the situation

Action:
one action
"""

_FUNCTION: Final = """
Write every answer as one JSON object without anything around it. "thought" holds your reasoning, \
"function_name" one of the functions below, and "arguments" an object with its arguments:

{functions}

For example:
{{"thought": "The kitchen should have a stove.", "function_name": "go_to", "arguments": \
{{"place": "kitchen"}}}}
{{"thought": "I measure how warm it is.", "function_name": "use", "arguments": \
{{"object": "thermometer", "target": "water"}}}}
"""

_CODE: Final = """
Write every answer as one fenced Python block: your reasoning as a comment, and under it exactly \
one call of these functions:

{functions}

For example:
```python
# The kitchen should have a stove.
go_to(place="kitchen")
```
"""


def _listed(string: str, integer: str) -> str:
    """Return the functions' signatures, one a line."""
    kinds = {"string": string, "integer": integer}
    lines: list[str] = []
    for verb in VERBS:
        arguments = ", ".join(
            f"{p.name}: {kinds[p.type]}{'' if p.required else ' (optional)'}"
            for p in verb.parameters
        )
        lines.append(f"- {verb.name}({arguments}): {verb.description}")
    return "\n".join(lines)


CONVERSATION_STARTS: Final[Mapping[ActionFormat, ConversationStart]] = {
    ActionFormat.REACT: ConversationStart(_RULES + _REACT),
    ActionFormat.FUNCTION_CALLING: ConversationStart(
        _RULES + _FUNCTION.format(functions=_listed("string", "integer"))
    ),
    ActionFormat.CODE_AS_ACTION: ConversationStart(
        _RULES + _CODE.format(functions=_listed("str", "int"))
    ),
}

_PATTERNS: Final = tuple(
    (verb.name, re.compile(pattern))
    for verb in VERBS
    for pattern in (
        (r"use (?P<object>.+?) on (?P<target>.+)", r"use (?P<object>.+)")
        if verb.name == "use"
        else (re.sub(r"\{(\w+)\}", r"(?P<\1>.+?)", str(verb.template)),)
    )
)


def _express(action: str) -> tuple[str, Mapping[str, Any]]:
    """A scripted player's action as a function call; raises ValueError where there is none."""
    if action.isascii() and action.isdigit() and str(int(action[:9])) == action:
        return "choose", {"number": int(action)}
    for name, pattern in _PATTERNS:
        if name != "choose" and (match := pattern.fullmatch(action)):
            return name, match.groupdict()
    raise ValueError(f"no function says {action!r:.100}")


def expressible(action: str) -> bool:
    """Return whether every action format can say it."""
    try:
        _express(action)
    except ValueError:
        return False
    return True


GRAMMAR: Final = Grammar(verbs=VERBS, express=_express, drops_end_mark=True)
