"""One declaration per tool, from which all follows that an agent is told or may send.

That is the prompt in the three action formats, the JSON function schemas, the checks of arguments
and the grammar.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from env_servers.sdk import ActionFormat, ConversationStart, Grammar, Parameter, Verb
from env_servers.toolkit.tool_calls.line_format import express, read_reply, write_call, write_reply

__all__ = ["CHECK_VALID_ACTIONS", "FINISH", "Tool", "ToolSet"]

_OPENING: Final = """\
You solve a task for a user by calling tools, one call at a time. After every call you are shown \
what it returned. These are the tools, each with its name, what it does, its parameters and what \
it returns:

"""
_REACT: Final = """
Think before each call, in at most three sentences, and write the thought and exactly one call \
in this form, the call on the last line:

Thought: [your thought]

Action: [your action] with Action Input: [your action input]

The input is a dictionary from the names of the parameters to their values, on one line, and {} \
for a tool without parameters. For example:

"""
_FUNCTION: Final = """
Answer every time with one JSON object and nothing else. Its keys are "thought" (at most three \
sentences), "function_name" and "arguments" (an object). For example:

"""
_CODE: Final = """
Answer every time with one fenced Python block that holds your thought as a comment (at most three \
sentences) and then exactly one call with literal arguments. For example:

"""


@dataclass(frozen=True, slots=True)
class Tool:
    """What a tool is called, what it takes, and what it gives."""

    name: str
    description: str
    returns: str
    parameters: tuple[Parameter, ...] = ()
    listed: bool = True
    """Told to agents; a tool that is not listed works all the same."""

    def text(self) -> str:
        """Return the tool as the prompt describes it."""
        signature = ", ".join(parameter.name for parameter in self.parameters)
        lines = [f"Name: {self.name}({signature})", f"Description: {self.description}"]
        if self.parameters:
            lines.append("Parameters:")
        lines += [f"- {p.name} ({_type_note(p)}): {p.description}" for p in self.parameters]
        return "\n".join([*lines, "Returns:", self.returns]) + "\n"

    def verb(self) -> Verb:
        """Return the tool as a function of the grammar."""
        return Verb(self.name, self.description, partial(write_call, self.name), self.parameters)

    def missing(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the first required parameter that is not given."""
        return next(
            (p.name for p in self.parameters if p.required and p.name not in arguments), None
        )

    def bind(self, arguments: Any, *, strictly: bool) -> Mapping[str, Any]:
        """Return the declared arguments of a call.

        Args:
            arguments: Any literal that an agent wrote as the input of the call.
            strictly: Refuse undeclared arguments and other types; otherwise drop and accept them.

        Raises:
            TypeError, KeyError: What the original's subscripts raise, in its words.
            ValueError: Only strictly.
        """
        if not isinstance(arguments, dict):
            if not any(parameter.required for parameter in self.parameters):
                return {}
            raise TypeError(_subscript_error(arguments))
        by_name = cast("dict[str, Any]", arguments)
        missing = self.missing(by_name)
        if missing is not None:
            raise KeyError(missing)
        if strictly:
            self.check(by_name)
            return by_name
        return {p.name: by_name[p.name] for p in self.parameters if p.name in by_name}

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise ValueError unless the arguments are the declared ones, in the declared types."""
        self.verb().render(arguments)


CHECK_VALID_ACTIONS: Final = Tool(
    "check_valid_actions",
    "List the names of all tools that can be called.",
    "The names of the tools.",
)
FINISH: Final = Tool(
    "finish",
    "Hand in the answer and end the task.",
    "The answer as it was handed in.",
    (
        Parameter(
            "answer", "any", "The answer: a string, a number or an array, as the task asks for it."
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools of an environment in the order in which agents are told of them."""

    tools: tuple[Tool, ...]
    hints: tuple[str, ...] = ()
    """Sentences about using them."""
    example: tuple[str, str, Mapping[str, Any]] = ("", "", field(default_factory=dict))
    """(thought, tool, arguments) of a call, for the prompt."""
    _by_name: dict[str, Tool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {tool.name: tool for tool in self.tools})
        if len(self._by_name) != len(self.tools):
            raise ValueError("two tools have one name")

    def get(self, name: str) -> Tool | None:
        """Return the tool of a name, listed or not."""
        return self._by_name.get(name)

    def names(self) -> list[str]:
        """Return the names of the listed tools, in order."""
        return [tool.name for tool in self.tools if tool.listed]

    def grammar(self) -> Grammar:
        """Return the listed tools as functions, and the original's line for ReAct."""
        return Grammar(
            verbs=tuple(tool.verb() for tool in self.tools if tool.listed),
            read_react=read_reply,
            express=express,
            write_react=write_reply,
        )

    def conversation_starts(self) -> Mapping[ActionFormat, ConversationStart]:
        """Return the opening messages of the three action formats."""
        described = "\n".join(tool.text() for tool in self.tools if tool.listed)
        rules = _OPENING + described + "".join(f"\n{hint}" for hint in self.hints) + "\n"
        thought, tool, arguments = self.example
        line = f"Thought: {thought}\n\n{write_call(tool, arguments)}\n"
        call = {"thought": thought, "function_name": tool, "arguments": dict(arguments)}
        literals = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        code = f"```python\n# {thought}\n{tool}({literals})\n```\n"
        return {
            ActionFormat.REACT: ConversationStart(rules + _REACT + line, "Ok."),
            ActionFormat.FUNCTION_CALLING: ConversationStart(
                rules + _FUNCTION + json.dumps(call) + "\n", "Ok."
            ),
            ActionFormat.CODE_AS_ACTION: ConversationStart(rules + _CODE + code, "Ok."),
        }


def _subscript_error(value: object) -> str:
    """Return what Python 3.10 says of `value["name"]`; the original's agents were shown it."""
    kind = type(value).__name__
    if isinstance(value, list | tuple):
        return f"{kind} indices must be integers or slices, not str"
    if isinstance(value, str):
        return "string indices must be integers"
    return f"'{kind.lstrip('_').lower()}' object is not subscriptable"


def _type_note(parameter: Parameter) -> str:
    note = parameter.type if parameter.type != "any" else "string, number or array"
    if parameter.enum:
        note += ", one of " + " | ".join(parameter.enum)
    return f"Type: {note}" + ("" if parameter.required else ", optional")
