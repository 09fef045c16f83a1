"""How replies become native actions, in the three action formats.

The `react` format is the original's own: the action stands between triple backticks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from env_servers.environments.webarena.actions import (
    Action,
    Click,
    Goto,
    Hover,
    Press,
    Scroll,
    Stop,
    TabFocus,
    Type,
    parse_action,
)
from env_servers.sdk import Advice, Grammar, Parameter, Rejected, Verb

__all__ = ["GRAMMAR", "NO_ACTION", "read_fenced_action", "write_fenced_action"]

NO_ACTION: Final = (
    "Cannot parse action from response. Your action should be inside triple backticks (```). "
    "Please adjust accordingly."
)
"""The original client's answer, for which the server is not asked."""

_FENCED: Final = re.compile(r"```((?:.|\n)*?)```")


def read_fenced_action(reply: str) -> str | Rejected:
    """Return what stands between the first triple backticks and the next, stripped."""
    match = _FENCED.search(reply)
    return match[1].strip() if match else Rejected(NO_ACTION)


def write_fenced_action(advice: Advice) -> str:
    """Return advice as a reply in the original's form."""
    return (
        f"Let's think step-by-step. {advice.thought} In summary, the next action I will "
        f"perform is ```{advice.action}```"
    )


_ELEMENT: Final = Parameter("element_id", "integer", "the number in brackets before the element")


def _type(arguments: Mapping[str, Any]) -> str:
    enter = int(arguments.get("press_enter", True))
    return f"type [{arguments['element_id']}] [{arguments['content']}] [{enter}]"


_VERBS: Final = (
    Verb("click", "Click on an element.", "click [{element_id}]", (_ELEMENT,)),
    Verb(
        "type",
        "Type text into an element, then press Enter unless told not to.",
        _type,
        (
            _ELEMENT,
            Parameter("content", description="what to type"),
            Parameter("press_enter", "boolean", "whether Enter follows", required=False),
        ),
    ),
    Verb("hover", "Move the mouse over an element.", "hover [{element_id}]", (_ELEMENT,)),
    Verb(
        "press",
        "Press keys together.",
        "press [{key_comb}]",
        (Parameter("key_comb", description="for example Control+a"),),
    ),
    Verb(
        "scroll",
        "Scroll the page by the height of the window.",
        "scroll [{direction}]",
        (Parameter("direction", enum=("down", "up")),),
    ),
    Verb("new_tab", "Open a blank tab and go to it.", "new_tab"),
    Verb(
        "tab_focus",
        "Go to a tab.",
        "tab_focus [{tab_index}]",
        (Parameter("tab_index", "integer", "the tab's number, from 0"),),
    ),
    Verb("close_tab", "Close the current tab.", "close_tab"),
    Verb(
        "goto",
        "Open an address.",
        "goto [{url}]",
        (Parameter("url", description="the whole address, with its scheme"),),
    ),
    Verb("go_back", "Go to the page before this one.", "go_back"),
    Verb("go_forward", "Undo a go_back.", "go_forward"),
    Verb(
        "stop",
        "End the task.",
        "stop [{answer}]",
        (Parameter("answer", description="the answer, N/A where the task cannot be done"),),
    ),
)


def _arguments(action: Action) -> Mapping[str, Any]:
    match action:
        case Click(element_id) | Hover(element_id):
            return {"element_id": int(element_id)}
        case Type(element_id, text):
            return {
                "element_id": int(element_id),
                "content": text.removesuffix("\n"),
                "press_enter": text.endswith("\n"),
            }
        case Press(keys):
            return {"key_comb": keys}
        case Scroll(direction):
            return {"direction": direction.value}
        case TabFocus(number):
            return {"tab_index": number}
        case Goto(url):
            return {"url": url}
        case Stop(answer):
            return {"answer": answer}
        case _:
            return {}


_NAMES: Final[Mapping[type, str]] = {
    Click: "click",
    Hover: "hover",
    Type: "type",
    Press: "press",
    Scroll: "scroll",
    TabFocus: "tab_focus",
    Goto: "goto",
    Stop: "stop",
}


def _express(text: str) -> tuple[str, Mapping[str, Any]]:
    """A native action as a call; raises UnreadableAction."""
    action = parse_action(text)
    return _NAMES.get(type(action), text.split("[")[0].split()[0]), _arguments(action)


GRAMMAR: Final = Grammar(
    verbs=_VERBS,
    read_react=read_fenced_action,
    express=_express,
    write_react=write_fenced_action,
)
