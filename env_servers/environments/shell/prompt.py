"""How the environment introduces itself, and how replies become native actions.

A native action is a bash command as it is, or `submit` alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from env_servers.sdk import (
    ActionFormat,
    Advice,
    ConversationStart,
    Grammar,
    Parameter,
    Rejected,
    Verb,
)

__all__ = ["CONVERSATION_STARTS", "GRAMMAR", "SUBMIT"]

SUBMIT: Final = "submit"

_RULES: Final = """\
You work in a folder of files on a Linux machine. The next message says what to do there. You \
give one bash command at a time and see what it prints. Each command starts in the folder with a \
new shell: files stay, variables and running programs do not. There is no network. When everything \
is as it was asked for, hand your work in; that ends the task.
"""

_REACT: Final = """
Answer in this form, with one command:

Thought: your reasoning

Action:
wc -l *.txt

Hand in by the action submit.
"""

_FUNCTION: Final = """
Answer with one JSON object and nothing else. Its keys are "thought" (your reasoning, a string), \
"function_name" and "arguments" (an object). The functions are:

- run(command: string)
- submit()

For example:
{"thought": "I count the lines.", "function_name": "run", "arguments": {"command": "wc -l *.txt"}}
"""

_CODE: Final = """
Answer with one fenced Python block that holds your reasoning as a comment and then exactly one \
call. The functions are:

- run(command: str)
- submit()

For example:
```python
# I count the lines.
run(command="wc -l *.txt")
```
"""

CONVERSATION_STARTS: Final[Mapping[ActionFormat, ConversationStart]] = {
    ActionFormat.REACT: ConversationStart(_RULES + _REACT),
    ActionFormat.FUNCTION_CALLING: ConversationStart(_RULES + _FUNCTION),
    ActionFormat.CODE_AS_ACTION: ConversationStart(_RULES + _CODE),
}

_FENCED: Final = re.compile(r"```(?:bash|sh|shell)?[ \t]*\n(.*)\n```", re.DOTALL)


def _read_react(reply: str) -> str | Rejected:
    """Return what follows the last `Action:`, without a fence around it; without one nothing."""
    _, marker, action = reply.rpartition("Action:")
    if not marker:
        return ""
    fenced = _FENCED.fullmatch(action.strip())
    return (fenced[1] if fenced else action).strip()


def _write_react(advice: Advice) -> str:
    return f"Thought: {advice.thought}\n\nAction:\n{advice.action}"


def _express(action: str) -> tuple[str, Mapping[str, Any]]:
    return (SUBMIT, {}) if action == SUBMIT else ("run", {"command": action})


GRAMMAR: Final = Grammar(
    verbs=(
        Verb(
            "run",
            "Run a bash command in the folder and see what it prints.",
            "{command}",
            (Parameter("command", description="One command, of one or more lines."),),
        ),
        Verb(SUBMIT, "Hand the folder in; that ends the task.", SUBMIT),
    ),
    read_react=_read_react,
    express=_express,
    write_react=_write_react,
)
