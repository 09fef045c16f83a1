"""Answers as OpenAI-compatible servers give them, by API: OpenAI's chat completions and responses,
and vLLM's completions with `return_token_ids`, by their documentation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = [
    "chat_completion",
    "chat_pieces",
    "load_tokenizer",
    "response",
    "token_completion",
    "unanswered_calls",
]


def chat_completion(body: dict[str, Any], reply: Any) -> dict[str, Any]:
    """A text, or the fields of the message."""
    fields = {"content": reply} if isinstance(reply, str) else reply
    message = {"role": "assistant", "content": None, **fields}
    prompt = _size(body["messages"])
    usage = {"prompt_tokens": prompt, "completion_tokens": _size(fields)}
    return {
        "id": "chatcmpl-fake",
        "created": 1_700_000_000,
        "object": "chat.completion",
        "model": body.get("model", "fake"),
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage | {"total_tokens": sum(usage.values())},
    }


def chat_pieces(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """A chat completion as the events of a stream, texts by eight characters; counts come last."""
    (choice,) = answer["choices"]
    message = choice["message"]
    common = {name: answer[name] for name in ("id", "model")} | {"object": "chat.completion.chunk"}
    deltas: list[dict[str, Any]] = [{"role": "assistant"}]
    # Thoughts come first.
    for name, text in sorted(message.items(), key=lambda it: "reasoning" not in it[0]):
        if isinstance(text, str) and name != "role":
            deltas += [{name: text[at : at + 8]} for at in range(0, len(text), 8)]
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        named = {**function, "arguments": ""}
        deltas.append({"tool_calls": [{**call, "index": index, "function": named}]})
        for at in range(0, len(function["arguments"]), 8):
            piece = {"arguments": function["arguments"][at : at + 8]}
            deltas.append({"tool_calls": [{"index": index, "function": piece}]})
    ends = [None] * len(deltas) + [choice["finish_reason"]]
    events = [
        {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": end}], "usage": None}
        for delta, end in zip([*deltas, {}], ends, strict=True)
    ]
    return [*events, {**common, "choices": [], "usage": answer["usage"]}]


def response(body: dict[str, Any], reply: Any) -> dict[str, Any]:
    """A text, the output items, or fields of the whole response."""
    items = reply
    if isinstance(reply, str):
        part = {"type": "output_text", "text": reply, "annotations": []}
        items = [{"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}]
    fields: dict[str, Any] = reply if isinstance(reply, dict) else {"output": items}
    usage = {
        "input_tokens": _size(body["input"]),
        "input_tokens_details": {"cached_tokens": 1},
        "output_tokens": _size(fields),
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    answer = {"id": "resp_1", "object": "response", "model": body["model"], "status": "completed"}
    return {**answer, "error": None, "incomplete_details": None, "usage": usage, **fields}


def token_completion(body: dict[str, Any], ids: Sequence[int], text: str) -> dict[str, Any]:
    """The ids of a reply and the first stop token, cut at the length that was asked for."""
    assert body["return_token_ids"] is True
    sampled = [*ids, *body["stop_token_ids"][:1]][: body["max_tokens"]]
    finish = "stop" if len(sampled) > len(ids) else "length"
    logprobs = {
        "text_offset": [0] * len(sampled),
        "token_logprobs": [-(number + 1) / 16 for number in range(len(sampled))],
        "tokens": [""] * len(sampled),
        "top_logprobs": [{"": 0.0}] * len(sampled),
    }
    choice = {
        "index": 0,
        "text": text,
        "logprobs": logprobs,
        "finish_reason": finish,
        "stop_reason": None,
        "token_ids": sampled,
        "prompt_logprobs": None,
        "prompt_token_ids": body["prompt"],
    }
    usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(sampled)}
    return {
        "id": "cmpl-fake",
        "object": "text_completion",
        "model": body["model"],
        "choices": [choice],
        "usage": usage | {"total_tokens": sum(usage.values()), "prompt_tokens_details": None},
    }


def unanswered_calls(body: dict[str, Any]) -> list[str]:
    """The tool calls of a conversation that nothing right after them answers."""
    left: list[str] = []
    for entry in body.get("messages") or body.get("input") or ():
        if entry.get("role") == "tool":
            left.remove(entry["tool_call_id"])
        elif entry.get("type") == "function_call_output":
            left.remove(entry["call_id"])
        elif entry.get("type") == "function_call":
            left.append(entry["call_id"])
        elif left:
            return left
        left += [call["id"] for call in entry.get("tool_calls") or ()]
    return left


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a model's folder; the library is needed for token ids only."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def _size(value: Any) -> int:
    return len(json.dumps(value)) // 4
