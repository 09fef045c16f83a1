"""What a server answered, whichever of its APIs was asked; and the turns of a conversation with it.

Reading is strict about what makes a reply (its text, its calls) and lenient about bookkeeping: a
token count that is none is absent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from agent_runtime.conversation import Message
from agent_runtime.errors import PolicyMisbehaved, PolicyMisconfigured, Trouble
from agent_runtime.images import Image
from agent_runtime.sampling import FinishReason
from agent_runtime.usage import read_count

__all__ = [
    "Answer",
    "ToolCall",
    "ToolResult",
    "Turn",
    "Usage",
    "declared_tools",
    "optional_text",
    "reported_version",
    "required_list",
    "required_object",
]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of a reply."""

    id: str
    name: str
    arguments: str
    """As the model wrote them; meant to be a JSON object."""

    def as_action(self, thought: str) -> str:
        """Return the text that environment servers read; broken arguments stay what they are."""
        try:
            arguments = json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            arguments = self.arguments
        call = {"thought": thought, "function_name": self.name, "arguments": arguments}
        return json.dumps(call, ensure_ascii=False)

    @classmethod
    def read(cls, call_id: object, function: Mapping[str, Any], *, spare_id: str) -> ToolCall:
        """Read a call; what is wrong with its arguments is left to the environment to answer.

        Raises PolicyMisbehaved for a call that has no name, or cannot be written down.
        """
        name, arguments = function.get("name"), function.get("arguments")
        if not isinstance(name, str):
            raise PolicyMisbehaved("a tool call without a name")
        if not isinstance(arguments, str):  # some servers send the object itself
            try:
                arguments = json.dumps(arguments or {}, ensure_ascii=False)
            except RecursionError:
                raise PolicyMisbehaved("the arguments of a tool call are nested too deep") from None
        return cls(str(call_id or spare_id), name, arguments)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the environment answered to a tool call."""

    call: ToolCall
    text: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one reply; None where the server gives none that can be."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    """Prompt tokens that the server had in its prompt cache."""
    written: int | None = None
    """Prompt tokens that it put there."""
    reasoning: int | None = None
    """Completion tokens that the model thought with."""

    @classmethod
    def read(cls, usage: object, prompt: str, completion: str) -> Usage:
        """Read an answer's usage, in which the API calls the two counts `prompt`, `completion`."""
        counts = _object(usage)
        details = _object(counts.get(f"{prompt}_details"))
        thought = _object(counts.get(f"{completion}_details")).get("reasoning_tokens")
        return cls(
            prompt=read_count(counts.get(prompt), prompt),
            completion=read_count(counts.get(completion), completion),
            cached=_first_count(
                (details, "cached_tokens"),
                (counts, "prompt_cache_hit_tokens"),  # DeepSeek
                (counts, "cache_read_input_tokens"),  # LiteLLM
            ),
            written=_first_count(
                (details, "cache_write_tokens"),  # OpenRouter
                (counts, "cache_creation_input_tokens"),  # LiteLLM
            ),
            reasoning=read_count(thought, "reasoning_tokens"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One reply of a model."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    finish: FinishReason = FinishReason.STOP
    usage: Usage
    version: str = ""
    """What the server says that answered."""
    reasoning: str = ""
    said: tuple[Mapping[str, Any], ...]
    """The reply as the server wants it back with the next request."""
    items: tuple[str, ...] = ()
    """The output items as JSON, of an API that has them."""


Turn: TypeAlias = Message | Answer | ToolResult
"""What a request is made of: what was told, what the model answered, what its calls came to."""


def declared_tools(tools_json: str) -> list[Any]:
    """Return an environment's functions; raises PolicyMisconfigured where they are no list."""
    try:
        tools = json.loads(tools_json)
    except ValueError:
        tools = None
    if not isinstance(tools, list):
        raise PolicyMisconfigured("the environment's functions are no JSON list")
    return cast("list[Any]", tools)


def required_object(body: Mapping[str, Any], name: str, trouble: Trouble | None) -> dict[str, Any]:
    """Return an object of an answer; raises PolicyMisbehaved with the trouble where it is none."""
    value: object = body.get(name)
    if not isinstance(value, dict):
        raise PolicyMisbehaved(f"the reply has no {name}", trouble=trouble)
    return cast("dict[str, Any]", value)


def required_list(body: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a list of objects that an answer must have, which may be better the next time.

    Raises PolicyMisbehaved.
    """
    value: object = body.get(name)
    if not isinstance(value, list) or not value:
        raise PolicyMisbehaved(f"the reply has no {name}", trouble=Trouble.INVALID)
    entries = cast("list[object]", value)
    if not all(isinstance(entry, dict) for entry in entries):
        raise PolicyMisbehaved(f"the reply's {name} are no objects", trouble=Trouble.INVALID)
    return cast("list[dict[str, Any]]", entries)


def optional_text(body: Mapping[str, Any], *names: str) -> tuple[str, str]:
    """Return the first of these fields that holds a text, as (name, text); else ("", "").

    Raises PolicyMisbehaved for one that is there and holds something else.
    """
    for name in names:
        value: object = body.get(name)
        if value is None:
            continue
        if not isinstance(value, str):
            raise PolicyMisbehaved(f"the reply's {name} is no text")
        return name, value
    return "", ""


def reported_version(body: Mapping[str, Any]) -> str:
    """Return what the server says that answered: weight version, else model and fingerprint."""
    weights = _object(body.get("metadata")).get("weight_version")
    if isinstance(weights, str):
        return weights
    parts = (body.get("model"), body.get("system_fingerprint"))
    return "@".join(part for part in parts if isinstance(part, str) and part)


def _object(value: object) -> Mapping[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _first_count(*places: tuple[Mapping[str, object], str]) -> int | None:
    counts = (read_count(holder.get(name), name) for holder, name in places)
    return next((count for count in counts if count is not None), None)
