"""From what a model wrote to one native action, by the environment's own grammar.

It reads the three action formats. A reply that cannot be read is a `Rejected` with the text that
the agent is to see: never an exception, never an evaluation of its content.
"""

from __future__ import annotations

import ast
import json
import re
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from env_servers.sdk.types import ActionFormat, Advice

__all__ = [
    "Grammar",
    "Parameter",
    "Rejected",
    "ReplyReader",
    "Verb",
    "read_first_action",
    "read_last_action",
    "read_single_action",
]

INVALID_ACTION: Final = "Invalid Action.\n\n"
"""The original's answer to an unreadable function call; the last observation follows it."""
SEVERAL_ACTIONS: Final = (
    "Error: Only one 'Action' is allowed per response. Please adjust your response."
)
MAX_CODE_CHARS: Final = 65_536
"""Longest code that is parsed: the parser needs seconds for a megabyte of `*a,*a,...`."""


class Rejected(NamedTuple):
    """A reply that is no action; `message` is shown to the agent."""

    message: str
    repeat_observation: bool = False
    """Append the last observation to the message."""


type_names: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "any": (),
}

_UNRENDERABLE: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What literals and templates raise over arguments that nobody foresaw, such as 1e400 or 9**9999
digits."""

ReplyReader = Callable[[str], "str | Rejected"]

END_MARK: Final = "</s>"
"""How the models of the original's time end a reply where their server leaves it in the text."""

_SINGLE_ACTION = re.compile(r"Action:\s*([^\n]*)")
_NOT_WORDS = re.compile(r"[^A-Za-z0-9, ]+")
_SPACES = re.compile(r"\s+")
_PYTHON_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
_SURROGATES = re.compile("[\ud800-\udfff]")
_parse_lock = threading.Lock()
"""`catch_warnings` swaps process-wide state, and environments may run in threads: two that overlap
would restore each other's filters. Parsing holds the GIL anyway, so nobody waits longer."""


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


# Not strict: models write raw line breaks into the strings of their thoughts.
_JSON = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)


def _parse_expression(code: str) -> ast.expr:
    """Parse without warnings: an agent's invalid escape is no matter for the server's log."""
    with _parse_lock, warnings.catch_warnings(action="ignore"):
        return ast.parse(code, filename="<agent reply>", mode="eval").body


def read_last_action(reply: str) -> str | Rejected:
    """Return everything after the last `Action:`, stripped; without one the empty action."""
    _, marker, action = reply.rpartition("Action:")
    return action.strip() if marker else ""


def read_first_action(reply: str) -> str | Rejected:
    """Return what stands between the first `Action:` and the next; without one the whole reply."""
    parts = reply.split("Action:", 2)
    return (parts[1] if len(parts) > 1 else reply).strip()


def read_single_action(reply: str) -> str | Rejected:
    """Return the first line after the only `Action:`, reduced to letters, digits and commas.

    Several `Action:` are rejected; none is the empty action, as in the original.
    """
    actions = _SINGLE_ACTION.findall(reply)
    if len(actions) > 1:
        return Rejected(SEVERAL_ACTIONS)
    if not actions:
        return ""
    return _SPACES.sub(" ", _NOT_WORDS.sub("", actions[0])).strip()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a verb."""

    name: str
    type: str = "string"
    """A JSON type name, or `any`."""
    description: str = ""
    required: bool = True
    enum: tuple[str, ...] = ()
    items: str = ""
    """JSON type of an array's items."""

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the argument."""
        schema: dict[str, Any] = {} if self.type == "any" else {"type": self.type}
        if self.description:
            schema["description"] = self.description
        if self.enum:
            schema["enum"] = list(self.enum)
        if self.items:
            schema["items"] = {"type": self.items}
        return schema

    def check(self, value: object) -> None:
        """Raise ValueError unless the value has the declared type."""
        if self.type == "any":
            return
        expected = type_names[self.type]
        wrong_bool = isinstance(value, bool) and bool not in expected
        if wrong_bool or not isinstance(value, expected):
            raise ValueError(f"argument {self.name} must be of type {self.type}")
        if self.items and isinstance(value, list):
            for item in cast("list[object]", value):
                Parameter(self.name, self.items).check(item)
        if self.enum and value not in self.enum:
            raise ValueError(f"argument {self.name} must be one of {', '.join(self.enum)}")


@dataclass(frozen=True, slots=True)
class Verb:
    """A native action as a function: a name, typed parameters, and the text it renders to."""

    name: str
    description: str
    template: str | Callable[[Mapping[str, Any]], str]
    """A format string over the parameters, or a function of the arguments."""
    parameters: tuple[Parameter, ...] = ()

    def render(self, arguments: Mapping[str, Any]) -> str:
        """Return the native action; ValueError for missing, unknown or mistyped arguments."""
        parameters = {parameter.name: parameter for parameter in self.parameters}
        for name, value in arguments.items():
            if name not in parameters:
                raise ValueError(f"{self.name} has no argument {name}")
            parameters[name].check(value)
        for parameter in self.parameters:
            if parameter.required and parameter.name not in arguments:
                raise ValueError(f"{self.name} needs the argument {parameter.name}")
        if isinstance(self.template, str):
            return self.template.format_map(arguments)
        return self.template(arguments)

    def schema(self) -> dict[str, Any]:
        """Return the verb as an OpenAI-style tool declaration."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": {
                    "type": "object",
                    "properties": {p.name: p.schema() for p in self.parameters},
                    "required": [p.name for p in self.parameters if p.required],
                    "additionalProperties": False,
                },
            },
        }


@dataclass(frozen=True, slots=True)
class Grammar:
    """The verbs of an environment and how each action format is read."""

    verbs: tuple[Verb, ...] = ()
    read_react: ReplyReader = read_last_action
    express: Callable[[str], tuple[str, Mapping[str, Any]]] | None = None
    """A native action as (verb, arguments), so that scripted players can speak every format."""
    write_react: Callable[[Advice], str] | None = None
    """A scripted player's advice as a ReAct reply, where the environment has a form of its own."""
    drops_end_mark: bool = False
    """A `</s>` at the very end is no part of the reply, nor are the blanks before it."""
    _by_name: dict[str, Verb] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {verb.name: verb for verb in self.verbs})

    def functions_json(self) -> str:
        """Return the verbs as a JSON list of OpenAI-style tools."""
        return json.dumps([verb.schema() for verb in self.verbs])

    def read(self, reply: str, action_format: ActionFormat) -> str | Rejected:
        """Return one native action, or why there is none."""
        if self.drops_end_mark and reply.endswith(END_MARK):
            reply = reply.removesuffix(END_MARK).rstrip()
        if action_format is ActionFormat.REACT:
            return self.read_react(reply)
        if action_format is ActionFormat.FUNCTION_CALLING:
            return self._read_function_call(reply)
        return self._read_code(reply)

    def read_call(self, name: str, arguments: object) -> str | Rejected:
        """Return the native action of a structured call."""
        verb = self._by_name.get(name)
        if verb is None or not isinstance(arguments, dict):
            return Rejected(INVALID_ACTION, repeat_observation=True)
        try:
            action = verb.render(cast("dict[str, Any]", arguments))
        except _UNRENDERABLE:
            return Rejected(INVALID_ACTION, repeat_observation=True)
        if _SURROGATES.search(action):
            # An escape such as "\ud800" makes text that is no UTF-8 and could never be sent back.
            return Rejected(INVALID_ACTION, repeat_observation=True)
        return action

    def read_call_json(self, name: str, arguments_json: str) -> str | Rejected:
        """Return the native action of a structured call whose arguments are JSON text."""
        try:
            arguments = _JSON.decode(arguments_json.strip() or "{}")
        except (ValueError, RecursionError):
            return Rejected(INVALID_ACTION, repeat_observation=True)
        return self.read_call(name, arguments)

    def write(self, advice: Advice, action_format: ActionFormat) -> str:
        """Return a scripted player's advice as a model would have replied it."""
        if action_format is ActionFormat.REACT and self.write_react is not None:
            return self.write_react(advice)
        if action_format is ActionFormat.REACT or self.express is None:
            return f"Thought:\n{advice.thought}\n\nAction:\n{advice.action}"
        name, arguments = self.express(advice.action)
        if action_format is ActionFormat.FUNCTION_CALLING:
            return json.dumps(
                {"thought": advice.thought, "function_name": name, "arguments": dict(arguments)}
            )
        # A fence inside the block would end it.
        call = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        call = call.replace("```", "\\x60``")
        thought = advice.thought.replace("```", "")
        comment = "".join(f"# {line}\n" for line in thought.splitlines())
        return f"```python\n{comment}{name}({call})\n```"

    def _read_function_call(self, reply: str) -> str | Rejected:
        """The call between the first and the last brace: models fence and preface their JSON."""
        try:
            call: object = _JSON.decode(reply[reply.find("{") : reply.rfind("}") + 1])
        except (ValueError, RecursionError):
            call = None
        if not isinstance(call, dict):
            return Rejected(INVALID_ACTION, repeat_observation=True)
        fields = cast("dict[str, object]", call)
        name = fields.get("function_name")
        if not isinstance(name, str):
            return Rejected(INVALID_ACTION, repeat_observation=True)
        return self.read_call(name, fields.get("arguments") or dict[str, object]())

    def _read_code(self, reply: str) -> str | Rejected:
        """The one call of the fenced block, its arguments taken as literals."""
        block = _PYTHON_BLOCK.search(reply)
        code = (block[1] if block else reply).strip()
        if len(code) > MAX_CODE_CHARS:
            return Rejected(INVALID_ACTION, repeat_observation=True)
        try:
            name, arguments = self._literal_call(_parse_expression(code))
        except (SyntaxError, MemoryError, *_UNRENDERABLE):
            return Rejected(INVALID_ACTION, repeat_observation=True)
        return self.read_call(name, arguments)

    def _literal_call(self, node: ast.expr) -> tuple[str, dict[str, Any]]:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            raise ValueError("not a call of a named function")
        verb = self._by_name.get(node.func.id)
        if verb is None or len(node.args) > len(verb.parameters):
            raise ValueError("unknown function or too many arguments")
        arguments = {
            parameter.name: ast.literal_eval(value)
            for parameter, value in zip(verb.parameters, node.args, strict=False)
        }
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in arguments:
                raise ValueError("starred or repeated argument")
            arguments[keyword.arg] = ast.literal_eval(keyword.value)
        return verb.name, arguments
