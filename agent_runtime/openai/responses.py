"""OpenAI's Responses API as data, used without state: the server keeps nothing of an episode.

An answer is a list of items: reasoning, messages, function calls. With the next request goes what
the model said: its items as they came where reasoning is sent back (encrypted, from servers that do
not show it), else its messages and calls alone, without the ids that tie them to reasoning which is
left out. The API takes no seed and no stop strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, cast

import orjson

from agent_runtime.conversation import CHAT_ROLES, Message
from agent_runtime.errors import (
    PolicyError,
    PolicyMisbehaved,
    PolicyOverloaded,
    PolicyRejected,
    PolicyUnavailable,
    Trouble,
)
from agent_runtime.images import Image
from agent_runtime.openai.answer import (
    Answer,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    optional_text,
    reported_version,
)
from agent_runtime.openai.config import OpenAIOptions
from agent_runtime.sampling import FinishReason, Sampling

__all__ = ["ResponsesApi"]

_ENCRYPTED: Final = "reasoning.encrypted_content"


class ResponsesApi:
    """How one episode speaks with a server; holds no state."""

    path: ClassVar[str] = "/responses"

    def __init__(
        self, model: str, sampling: Sampling, options: OpenAIOptions, tools: Sequence[Any]
    ) -> None:
        """`tools` are declared where there are any; only then function calls are read."""
        self._model = model
        self._sampling = sampling
        self._options = options
        self._tools = [_flat(tool) for tool in tools]

    def request(self, turns: Sequence[Turn], seed: int) -> dict[str, Any]:
        """Return the body that asks for the next reply."""
        sampling, options = self._sampling, self._options
        body: dict[str, Any] = {
            "model": self._model,
            "input": [item for turn in turns for item in _items(turn)],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_output_tokens": sampling.max_new_tokens,
            "store": False,
        }
        if sampling.top_k != -1:  # not OpenAI's own, but of vLLM
            body["top_k"] = sampling.top_k
        if options.send_reasoning:
            body["include"] = [_ENCRYPTED]
        if options.reasoning_summary:
            body["reasoning"] = {"summary": "auto"}
        return body | options.tool_fields(self._tools)

    def read(self, body: Mapping[str, Any], turn: int) -> Answer:
        """Read the answer of a turn of the episode.

        Raises:
            PolicyError: It is none, with a trouble where it may be better the next time; or it
                says that the server failed, or refused the conversation.
        """
        finish = _finish(body)
        items = _output(body)
        if not items and finish is FinishReason.STOP:
            raise PolicyMisbehaved("the reply has no output", trouble=Trouble.INVALID)
        text = "".join(_text(item) for item in items if item.get("type") == "message")
        thoughts = [_thought(item) for item in items if item.get("type") == "reasoning"]
        calls = [
            ToolCall.read(item.get("call_id"), item, spare_id=f"call_{turn}_{number}")
            for number, item in enumerate(items)
            if self._tools and item.get("type") == "function_call"
        ]
        return Answer(
            text=text,
            calls=tuple(calls),
            finish=finish,
            usage=Usage.read(body.get("usage"), "input_tokens", "output_tokens"),
            version=reported_version(body),
            reasoning="\n\n".join(thought for thought in thoughts if thought),
            said=tuple(items) if self._options.send_reasoning else _plain(items, text, calls),
            items=tuple(map(_json, items)),
        )


def _flat(tool: Any) -> dict[str, Any]:
    """Return a function as this API declares it; strict schemas would be other functions."""
    declared = cast("dict[str, Any]", tool)
    return {"type": "function", "strict": False, **declared.get("function", {})}


def _items(turn: Turn) -> Sequence[Mapping[str, Any]]:
    match turn:
        case Answer():
            return turn.said
        case ToolResult(call, text, images):
            output = _content(text, images)
            return [{"type": "function_call_output", "call_id": call.id, "output": output}]
        case Message():
            return [{"role": CHAT_ROLES[turn.role], "content": _content(turn.text, turn.images)}]


def _content(text: str, images: Sequence[Image]) -> str | list[Mapping[str, Any]]:
    """Return what was told, in parts where images were shown with it."""
    if not images:
        return text
    told: list[Mapping[str, Any]] = [{"type": "input_text", "text": text}] if text else []
    return told + [{"type": "input_image", "image_url": image.data_url} for image in images]


def _plain(
    items: Sequence[Mapping[str, Any]], text: str, calls: Sequence[ToolCall]
) -> tuple[Mapping[str, Any], ...]:
    """Return what the model said without what it thought."""
    said: list[Mapping[str, Any]] = []
    if text or not calls:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        # Models that name the phase of their messages want it back.
        phases = [item["phase"] for item in items if isinstance(item.get("phase"), str)]
        said.append(message | {"phase": phases[-1]} if phases else message)
    said += [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        for call in calls
    ]
    return tuple(said)


def _finish(body: Mapping[str, Any]) -> FinishReason:
    """Read how the response ended; raises PolicyError where there is none."""
    status = body.get("status")
    if status in (None, "completed"):
        return FinishReason.STOP
    if status == "failed":
        raise _failure(body.get("error"))
    if status != "incomplete":
        text = f"the response has the status {status!r}: it is none yet"
        raise PolicyMisbehaved(text, trouble=Trouble.INVALID)
    details = body.get("incomplete_details")
    reason = cast("dict[str, Any]", details).get("reason") if isinstance(details, dict) else None
    if reason == "content_filter":
        raise PolicyRejected("the server's content filter refused the conversation")
    if reason != "max_output_tokens":
        raise PolicyMisbehaved(f"the response is incomplete, for the reason {reason!r}")
    return FinishReason.LENGTH


def _failure(error: object) -> PolicyError:
    details = cast("dict[str, object]", error) if isinstance(error, dict) else {}
    code, message = str(details.get("code")), str(details.get("message"))[:500]
    text = f"the response failed: {code}: {message}"
    if code == "rate_limit_exceeded":
        return PolicyOverloaded(text)
    if code == "server_error":
        return PolicyUnavailable(text, trouble=Trouble.ERROR)
    return PolicyRejected(text)


def _output(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    output: object = body.get("output")
    items = cast("list[object]", output) if isinstance(output, list) else None
    if items is None or not all(isinstance(item, dict) for item in items):
        text = "the reply's output is no list of items"
        raise PolicyMisbehaved(text, trouble=Trouble.INVALID)
    return cast("list[dict[str, Any]]", items)


def _text(message: Mapping[str, Any]) -> str:
    """Return a message's text; a refusal counts as text."""
    return "".join(optional_text(part, "text", "refusal")[1] for part in _parts(message, "content"))


def _thought(reasoning: Mapping[str, Any]) -> str:
    """Return the text of the reasoning where the server shows it, else its summary."""
    parts = _parts(reasoning, "content") or _parts(reasoning, "summary")
    return "\n\n".join(optional_text(part, "text")[1] for part in parts)


def _parts(item: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    parts: object = item.get(name)
    if parts is None:
        return []
    if not isinstance(parts, list):
        raise PolicyMisbehaved(f"the {name} of an output item is no list")
    entries = cast("list[object]", parts)
    if not all(isinstance(part, dict) for part in entries):
        raise PolicyMisbehaved(f"the {name} of an output item has parts that are no objects")
    return cast("list[dict[str, Any]]", entries)


def _json(item: Mapping[str, Any]) -> str:
    try:
        return orjson.dumps(item).decode()
    except TypeError as error:  # nested deeper than it can be written
        raise PolicyMisbehaved(f"an output item cannot be kept: {error}") from None
