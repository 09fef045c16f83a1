"""How BIRD introduces itself, and how replies become native actions.

Contains the opening messages of the three action formats, in this project's own words, and the
grammar.
"""

from __future__ import annotations

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

__all__ = ["CONVERSATION_STARTS", "DESCRIBE", "GRAMMAR", "ROUNDS_RULES", "SUBMIT"]

SUBMIT: Final = "submit"
DESCRIBE: Final = "describe"
_FENCE: Final = "```"
_SQL_FENCE: Final = "```sql"

_RULES: Final = """\
You work with a SQLite database. The next message describes its tables and asks a question about \
what is stored in them. Find one SQL statement whose result answers the question, and nothing \
else: the rows that it returns are compared with the right ones.

First think it through: say which tables and columns matter, how they are connected, and why your \
statement is right. Then give the statement.

Keep to these rules:
- Exactly one statement, on one line, without comments.
- Only reading is allowed.
- Unless the next message gives you several rounds, you have one try.
"""

_REACT: Final = """
Answer in this form:

Thought: your reasoning

Action: ```sql
SELECT name FROM city WHERE country = 'Norway';
```
"""

_FUNCTION: Final = """
Answer with one JSON object and nothing else. Its keys are "thought" (your reasoning, a string), \
"function_name" and "arguments" (an object). The function is:

- run_sql(sql: string)

For example:
{"thought": "City has the country as a column.", "function_name": "run_sql", "arguments": \
{"sql": "SELECT name FROM city WHERE country = 'Norway';"}}
"""

_CODE: Final = """
Answer with one fenced Python block that holds your reasoning as a comment and then exactly one \
call. The function is:

- run_sql(sql: str)

For example:
```python
# City has the country as a column.
run_sql(sql="SELECT name FROM city WHERE country = 'Norway';")
```
"""

ROUNDS_RULES: Final = """\
You have {rounds} rounds. In each you do one of the following, in the place of the statement:
- run a SQL statement and see its first rows, or what is wrong with it
- describe TABLE, to see a table's columns and a few of its rows
- submit SQL, to hand in your answer; submit alone hands in the last statement that gave a result
Handing in ends the task. Without that, the last round ends it without success. Functions for the \
last two are describe(table) and submit(sql).\
"""
"""Part of the first observation of `multi_turn`."""

CONVERSATION_STARTS: Final[Mapping[ActionFormat, ConversationStart]] = {
    ActionFormat.REACT: ConversationStart(_RULES + _REACT, "Ok."),
    ActionFormat.FUNCTION_CALLING: ConversationStart(_RULES + _FUNCTION, "Ok."),
    ActionFormat.CODE_AS_ACTION: ConversationStart(_RULES + _CODE, "Ok."),
}


def _read_react(reply: str) -> str | Rejected:
    """Return what stands between the last ```sql and the next fence; else all before a fence."""
    return reply.rpartition(_SQL_FENCE)[2].partition(_FENCE)[0].strip()


def _write_react(advice: Advice) -> str:
    return f"Thought: {advice.thought}\n\nAction: {_SQL_FENCE}\n{advice.action}\n{_FENCE}"


def _express(action: str) -> tuple[str, Mapping[str, Any]]:
    """Return a scripted player's action as a function call."""
    verb, _, rest = action.partition(" ")
    if verb == SUBMIT:
        return SUBMIT, {"sql": rest}
    if verb == DESCRIBE:
        return DESCRIBE, {"table": rest}
    return "run_sql", {"sql": action}


GRAMMAR: Final = Grammar(
    verbs=(
        Verb(
            "run_sql",
            "Run a SQL statement; where there is one round only, it is the answer.",
            "{sql}",
            (Parameter("sql", description="One statement that reads."),),
        ),
        Verb(
            DESCRIBE,
            "See a table's columns and a few rows; only where there are several rounds.",
            f"{DESCRIBE} {{table}}",
            (Parameter("table", description="Its name."),),
        ),
        Verb(
            SUBMIT,
            "Hand in the answer; only where there are several rounds.",
            f"{SUBMIT} {{sql}}",
            (Parameter("sql", description="The statement whose result is the answer."),),
        ),
    ),
    read_react=_read_react,
    express=_express,
    write_react=_write_react,
)
