"""How WebShop introduces itself, and how replies become native actions.

Contains the opening messages of the three action formats, in this project's own words, and the
grammar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from env_servers.environments.webshop.visit import read_action
from env_servers.sdk import (
    ActionFormat,
    ConversationStart,
    Grammar,
    Parameter,
    Rejected,
    Verb,
    read_last_action,
)

__all__ = ["CONVERSATION_STARTS", "GRAMMAR"]

_RULES: Final = """\
You are a customer of an online shop. Every message shows the page that is open, as its visible \
texts joined by [SEP]. At the top stands the instruction: what you are to buy, with which \
properties and options, and what it may cost at most. Find a product that fits, choose the \
options that are asked for, and buy it. Buying ends the task, and how well the purchase fits the \
instruction is your score.

There are two kinds of action:
- search for keywords of your choice: search[keywords]
- click on something that the page shows: click[value]

What you can click on:
- Back to Search, which leads to the search page; < Prev and Next >, which turn pages
- on a result page, a product by its id of ten characters
- on a product's page, the values of its options, Description, Features and Reviews for more \
about it, and Buy Now

Keep to these rules:
- Click only on what the open page offers, written exactly as there. Any other action does nothing.
- A product's page does not show which options you chose; remember your clicks.
- Think about your keywords: a search finds products whose texts share words with them.
"""

_REACT: Final = """
Answer every time in this form, with exactly one action:

Thought:
why you do what comes next

Action:
the action, for example search[red running shoes] or click[Buy Now]
"""

_FUNCTION: Final = """
Answer every time with one JSON object and nothing else. Its keys are "thought" (your reasoning, \
a string), "function_name" and "arguments" (an object). The functions are:

- search(keywords: string)
- click(item: string)

For example:
{"thought": "I look for running shoes first.", "function_name": "search", "arguments": \
{"keywords": "red running shoes"}}
{"thought": "Size and colour are chosen, so I buy.", "function_name": "click", "arguments": \
{"item": "Buy Now"}}
"""

_CODE: Final = """
Answer every time with one fenced Python block that holds your reasoning as a comment and then \
exactly one call. The functions are:

- search(keywords: str)
- click(item: str)

For example:
```python
# I look for running shoes first.
search(keywords="red running shoes")
```
"""

CONVERSATION_STARTS: Final[Mapping[ActionFormat, ConversationStart]] = {
    ActionFormat.REACT: ConversationStart(_RULES + _REACT, "Ok."),
    ActionFormat.FUNCTION_CALLING: ConversationStart(_RULES + _FUNCTION, "Ok."),
    ActionFormat.CODE_AS_ACTION: ConversationStart(_RULES + _CODE, "Ok."),
}


def _read_react(reply: str) -> str | Rejected:
    """What follows the last `Action:`; a reply without it that has an action is taken whole."""
    if "Action:" not in reply and ("search[" in reply or "click[" in reply):
        return reply
    return read_last_action(reply)


def _express(action: str) -> tuple[str, Mapping[str, Any]]:
    """Return a scripted player's action as a function call."""
    verb, argument = read_action(action)
    if verb == "search":
        return "search", {"keywords": argument}
    return "click", {"item": argument}


GRAMMAR: Final = Grammar(
    verbs=(
        Verb(
            "search",
            "Search the shop.",
            "search[{keywords}]",
            (Parameter("keywords", description="What to look for."),),
        ),
        Verb(
            "click",
            "Click on something that the open page shows.",
            "click[{item}]",
            (Parameter("item", description="Its text, for example Buy Now."),),
        ),
    ),
    read_react=_read_react,
    express=_express,
    drops_end_mark=True,
)
