"""How TextCraft introduces itself, and how replies become native actions.

Contains the opening messages of the three action formats, in this project's own words, and the
grammars of the original's two versions.
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
    read_single_action,
)

__all__ = ["CONVERSATION_STARTS", "GRAMMAR", "GRAMMAR_2024"]

_RULES: Final = """\
You are crafting items in Minecraft. The first message lists crafting commands, each written as \
"craft [item] using [ingredients]", and names the item that you have to craft in the end. Some of \
the commands may be of no use to you. After each of your actions you are told what happened.

Three kinds of action exist:
- take a basic material, any amount at once, for example: get 3 sugar cane
- craft an item from what you carry, for example: craft 3 paper using 3 sugar cane
- look at what you carry: inventory

Keep to these rules:
- State the amount of every item, also when it is 1.
- Only materials that no command produces can be taken. Everything else has to be crafted first.
- One craft action carries out one listed command exactly once, with its own amounts. Repeat it \
when you need more.
- Some commands name a kind of thing, such as "planks" or "wool". In your action, name one \
particular item of that kind which you carry, such as "birch planks".
- Do not invent crafting commands, and say nothing of where a material comes from.
"""

_REACT: Final = """
Answer every time in this form, with exactly one action:

Thought:
why you do what comes next

Action:
the action
"""

_FUNCTION: Final = """
Answer every time with one JSON object and nothing else. Its keys are "thought" (your reasoning, \
a string), "function_name" and "arguments" (an object). The functions are:

- get(item: string, count: integer)
- craft(item: string, count: integer, ingredients: object from item name to amount)
- inventory()

For example:
{"thought": "Paper needs three pieces of sugar cane, and I have none.", "function_name": "get", \
"arguments": {"item": "sugar cane", "count": 3}}
{"thought": "Now I can make the paper.", "function_name": "craft", "arguments": {"item": "paper", \
"count": 3, "ingredients": {"sugar cane": 3}}}
"""

_CODE: Final = """
Answer every time with one fenced Python block that holds your reasoning as a comment and then \
exactly one call. The functions are:

- get(item: str, count: int)
- craft(item: str, count: int, ingredients: dict[str, int])
- inventory()

For example:
```python
# Paper needs three pieces of sugar cane, and I have them now.
craft(item="paper", count=3, ingredients={"sugar cane": 3})
```
"""

CONVERSATION_STARTS: Final[Mapping[ActionFormat, ConversationStart]] = {
    ActionFormat.REACT: ConversationStart(_RULES + _REACT),
    ActionFormat.FUNCTION_CALLING: ConversationStart(_RULES + _FUNCTION),
    ActionFormat.CODE_AS_ACTION: ConversationStart(_RULES + _CODE),
}

_CRAFT: Final = re.compile(r"craft (?:([0-9]+) )?(.*) using (.*)")
_GET: Final = re.compile(r"get ([0-9]+) (.*)")
_COUNTED: Final = re.compile(r"([0-9]+) (.*)")
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9, ]+")


def _render_craft(arguments: Mapping[str, Any]) -> str:
    parts: list[str] = []
    for item, count in arguments["ingredients"].items():
        if not isinstance(item, str) or not isinstance(count, int) or isinstance(count, bool):
            raise ValueError("ingredients map item names to integers")
        parts.append(f"{count} {item}")
    return f"craft {arguments.get('count', 1)} {arguments['item']} using {', '.join(parts)}"


def _read_as_in_2024(reply: str) -> str:
    """Return all that follows the last `Action:`, as one line without breaks or special signs.

    Without an `Action:` that is the whole reply. What follows `Instruction:` was made up by the
    model and does not count.
    """
    text = reply.split("Instruction:", 1)[0].rpartition("Action:")[2]
    return " ".join(_NOT_PLAIN.sub("", text).split())


def _express(action: str) -> tuple[str, Mapping[str, Any]]:
    """Return a scripted player's action as a function call."""
    if match := _CRAFT.fullmatch(action):
        parts = [_COUNTED.fullmatch(part.strip()) for part in match[3].split(",")]
        ingredients = {part[2]: int(part[1]) for part in parts if part}
        return "craft", {
            "item": match[2],
            "count": int(match[1] or 1),
            "ingredients": ingredients,
        }
    if match := _GET.fullmatch(action):
        return "get", {"item": match[2], "count": int(match[1])}
    return "inventory", {}


_ITEM: Final = Parameter("item", description="Item name, for example birch planks.")

GRAMMAR: Final = Grammar(
    verbs=(
        Verb(
            "get",
            "Take an amount of a basic material.",
            "get {count} {item}",
            (_ITEM, Parameter("count", "integer", "How many.")),
        ),
        Verb(
            "craft",
            "Carry out one crafting command once, with what you carry.",
            _render_craft,
            (
                _ITEM,
                Parameter("count", "integer", "How many the command makes.", required=False),
                Parameter("ingredients", "object", "From item name to amount."),
            ),
        ),
        Verb("inventory", "Look at what you carry.", "inventory"),
    ),
    read_react=read_single_action,
    express=_express,
)
GRAMMAR_2024: Final = replace(GRAMMAR, read_react=_read_as_in_2024)
