"""OpenAI's chat completions API as data: what is sent, what is read of an answer.

What a model thought comes as `reasoning_content` (DeepSeek, SGLang, vLLM until 0.11) or
`reasoning` (vLLM, OpenRouter) beside the message's content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, cast

from agent_runtime.conversation import CHAT_ROLES, Message
from agent_runtime.errors import PolicyRejected, Trouble
from agent_runtime.images import Image
from agent_runtime.openai.answer import (
    Answer,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    optional_text,
    reported_version,
    required_list,
    required_object,
)
from agent_runtime.openai.config import OpenAIOptions
from agent_runtime.sampling import FinishReason, Sampling

__all__ = ["ChatApi", "content_parts"]

_SEED_MASK: Final = 2**31 - 1
"""Some servers take 32-bit seeds only; the low bits of a derived seed differ just as well."""
_FINISH: Final = {
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "abort": FinishReason.ABORT,
}
_REASONING: Final = ("reasoning_content", "reasoning")


class ChatApi:
    """How one episode speaks with a server; holds no state."""

    path: ClassVar[str] = "/chat/completions"

    def __init__(
        self, model: str, sampling: Sampling, options: OpenAIOptions, tools: Sequence[Any]
    ) -> None:
        """`tools` are declared where there are any; only then tool calls are read."""
        self._model = model
        self._sampling = sampling
        self._options = options
        self._tools = list(tools)

    def request(self, turns: Sequence[Turn], seed: int) -> dict[str, Any]:
        """Return the body that asks for the next reply."""
        sampling, options = self._sampling, self._options
        body: dict[str, Any] = {
            "model": self._model,
            "messages": _messages(turns),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": seed & _SEED_MASK,
            options.max_tokens_field: sampling.max_new_tokens,
        }
        if sampling.top_k != -1:  # not OpenAI's own, but of most other servers
            body["top_k"] = sampling.top_k
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        return body | options.tool_fields(self._tools)

    def read(self, body: Mapping[str, Any], turn: int) -> Answer:
        """Read the answer of a turn of the episode.

        Raises:
            PolicyError: It is none, with a trouble where it may be better the next time; or it
                says that the server's content filter refused the conversation.
        """
        choice = required_list(body, "choices")[0]
        message = required_object(choice, "message", Trouble.INVALID)
        finish = str(choice.get("finish_reason"))
        if finish == "content_filter":
            raise PolicyRejected("the server's content filter refused the conversation")
        _, text = optional_text(message, "content", "refusal")
        field, reasoning = optional_text(message, *_REASONING)
        calls = _calls(message, turn) if self._tools else ()
        said = _said(text, calls)
        if self._options.send_reasoning and reasoning:
            said[field] = reasoning
        return Answer(
            text=text,
            calls=calls,
            finish=_FINISH.get(finish, FinishReason.STOP),
            usage=Usage.read(body.get("usage"), "prompt_tokens", "completion_tokens"),
            version=reported_version(body),
            reasoning=reasoning,
            said=(said,),
        )


def _messages(turns: Sequence[Turn]) -> list[Mapping[str, Any]]:
    """Return the conversation; the API takes images from the user only, and no one between tools.

    So what tools showed follows the last of their results.
    """
    messages: list[Mapping[str, Any]] = []
    shown: list[Image] = []
    for turn in turns:
        if shown and not isinstance(turn, ToolResult):
            messages.append({"role": "user", "content": content_parts("", shown)})
            shown = []
        match turn:
            case Answer():
                messages += turn.said
            case ToolResult(call, text, images):
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
                shown += images
            case Message():
                content = content_parts(turn.text, turn.images) if turn.images else turn.text
                messages.append({"role": CHAT_ROLES[turn.role], "content": content})
    if shown:
        messages.append({"role": "user", "content": content_parts("", shown)})
    return messages


def content_parts(text: str, images: Sequence[Image]) -> list[Mapping[str, Any]]:
    """Return a message's content in parts, as the API has it."""
    told: list[Mapping[str, Any]] = [{"type": "text", "text": text}] if text else []
    shown = [{"type": "image_url", "image_url": {"url": image.data_url}} for image in images]
    return told + shown


def _calls(message: Mapping[str, Any], turn: int) -> tuple[ToolCall, ...]:
    calls: object = message.get("tool_calls")
    if not isinstance(calls, list):
        return ()
    found: list[ToolCall] = []
    for number, entry in enumerate(cast("list[object]", calls)):
        call = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        function = required_object(call, "function", None)
        found.append(ToolCall.read(call.get("id"), function, spare_id=f"call_{turn}_{number}"))
    return tuple(found)


def _said(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    """Return the assistant message in the API's own form."""
    if not calls:
        return {"role": "assistant", "content": text}
    tool_calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in calls
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": tool_calls}
