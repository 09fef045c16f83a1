"""How SearchQA introduces itself, and how replies become native actions.

Contains the opening messages of the three action formats and the text before a question, in this
project's own words, and the grammar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from env_servers.environments.searchqa.protocol import ANSWER, SEARCH, act, read_move
from env_servers.sdk import (
    ActionFormat,
    Advice,
    ConversationStart,
    Grammar,
    Parameter,
    Verb,
)

__all__ = ["CONVERSATION_STARTS", "GRAMMAR", "first_observation"]

_TASK: Final = """\
You answer questions with the help of a search engine over a large collection of passages. In \
every turn you do one of two things: you search, or you give your final answer. What a search \
finds is shown to you in the next message, between <information> and </information>. Search as \
often as you need, look for one thing at a time, and do not make up what you could look up.

A final answer is as short as it can be: a name, a year, a number, yes or no, without a sentence \
around it.
"""

_REACT: Final = """
Begin every turn with your reasoning between <think> and </think>. Then, if something is missing, \
write a query between <search> and </search> and stop there; never write the information yourself. \
When you know the answer, write it between <answer> and </answer>, for example \
<answer> Beijing </answer>.
"""

_FUNCTION: Final = """
Answer every time with one JSON object and nothing else. Its keys are "thought" (your reasoning, \
a string), "function_name" and "arguments" (an object). The functions are:

- search(query: string)
- answer(answer: string)

For example:
{"thought": "First I need the author of the book.", "function_name": "search", "arguments": \
{"query": "author of The Glass Ladder"}}
{"thought": "The passage names the capital.", "function_name": "answer", "arguments": \
{"answer": "Beijing"}}
"""

_CODE: Final = """
Answer every time with one fenced Python block that holds your reasoning as a comment and then \
exactly one call. The functions are:

- search(query: str)
- answer(answer: str)

For example:
```python
# First I need the author of the book.
search(query="author of The Glass Ladder")
```
"""

CONVERSATION_STARTS: Final[Mapping[ActionFormat, ConversationStart]] = {
    ActionFormat.REACT: ConversationStart(_TASK + _REACT, "Ok."),
    ActionFormat.FUNCTION_CALLING: ConversationStart(_TASK + _FUNCTION, "Ok."),
    ActionFormat.CODE_AS_ACTION: ConversationStart(_TASK + _CODE, "Ok."),
}

_REMINDER: Final = (
    "Think first. Where knowledge is missing, search for it and wait for the information before "
    "you go on. When you are sure, give the final answer, short and without explanation."
)


def first_observation(question: str) -> str:
    """Return what a reset shows: the rules in short, and the question."""
    return f"{_REMINDER}\n\n Question: {question.strip()}"


def _read_react(reply: str) -> str:
    """Return the reply without a thought at its start, unless that thought has tags that count."""
    text = reply.lstrip()
    if not text.startswith("<think>"):
        return reply
    thought, closed, rest = text.partition("</think>")
    if not closed or f"<{SEARCH}>" in thought or f"<{ANSWER}>" in thought:
        return reply
    return rest.strip()


def _write_react(advice: Advice) -> str:
    return f"<think> {advice.thought} </think>\n\n{advice.action}"


def _express(action: str) -> tuple[str, Mapping[str, Any]]:
    """Return a scripted player's action as a function call."""
    verb, content = read_move(action)
    if verb == ANSWER:
        return "answer", {"answer": content}
    return "search", {"query": content}


GRAMMAR: Final = Grammar(
    verbs=(
        Verb(
            "search",
            "Search the collection of passages.",
            lambda arguments: act(SEARCH, arguments["query"]),
            (Parameter("query", description="What to look for."),),
        ),
        Verb(
            "answer",
            "Give the final answer.",
            lambda arguments: act(ANSWER, arguments["answer"]),
            (Parameter("answer", description="As short as possible."),),
        ),
    ),
    read_react=_read_react,
    express=_express,
    write_react=_write_react,
)
