"""How a conversation begins, per action format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from env_servers.environments.webarena.grammar import GRAMMAR
from env_servers.sdk import ActionFormat, ConversationStart

__all__ = ["CONVERSATION_STARTS"]

_TASK: Final = """\
You work in a web browser for somebody who tells you an objective. After every action you see the \
open tabs, the accessibility tree of what the window shows, the address, the objective and your \
previous action. Every element begins with its number in brackets, which actions refer to.

The homepage at http://homepage.com lists the sites that can be visited; no other site can be \
reached.
"""
_ACTIONS: Final = """
Actions on the page:
click [id]: click on an element.
type [id] [text] [0 or 1]: click on an element and type; with 1, Enter is pressed afterwards.
hover [id]: move the mouse over an element.
press [keys]: press keys together, for example Control+v.
scroll [down] or scroll [up]: scroll by the height of the window.

Tabs and addresses:
new_tab: open a blank tab.
tab_focus [number]: go to a tab.
close_tab: close the current tab.
goto [url]: open an address.
go_back and go_forward: move in the history of the tab.

The end:
stop [answer]: when you believe that the objective is reached. Give the answer where one is asked \
for, and N/A where the objective cannot be reached.
"""
_FUNCTION: Final = """
Answer every time with one JSON object and nothing else. Its keys are "thought" (your reasoning, \
a string), "function_name" and "arguments" (an object). The functions are:
{functions}
"""
_CODE: Final = """
Answer every time with one fenced Python block that holds your reasoning as a comment and then \
exactly one call with named arguments. The functions, as JSON schemas, are:
{functions}
"""
_REACT: Final = """
Take one action at a time, and only one that the current observation allows. Think first, then end \
with "In summary, the next action I will perform is" and the action between triple backticks, for \
example ```click [1234]```. Give nothing after stop.
"""

CONVERSATION_STARTS: Final[Mapping[ActionFormat, ConversationStart]] = {
    ActionFormat.REACT: ConversationStart(_TASK + _ACTIONS + _REACT),
    ActionFormat.FUNCTION_CALLING: ConversationStart(
        _TASK + _FUNCTION.format(functions=GRAMMAR.functions_json())
    ),
    ActionFormat.CODE_AS_ACTION: ConversationStart(
        _TASK + _CODE.format(functions=GRAMMAR.functions_json())
    ),
}
