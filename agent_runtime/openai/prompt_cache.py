"""What a request says of its server's prompt cache; it never changes what is answered.

`prompt_cache_key` is OpenAI's: requests of one key go to one machine, which has their common
beginning. `cache_control` marks a text up to which a server is to cache (Anthropic's models behind
OpenRouter, LiteLLM and others).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, cast

__all__ = ["PromptCache", "with_prompt_cache"]

PromptCache: TypeAlias = Literal["server", "key", "breakpoints"]
_KEY_CHARACTERS: Final = 32
"""OpenAI refuses more than 64."""


def with_prompt_cache(
    body: Mapping[str, Any], kind: PromptCache, episode_id: str
) -> Mapping[str, Any]:
    """Return a request that says how its prompt is to be cached.

    Breakpoints are the first user message, which the episodes of an environment share, and the
    last message, which the next turn shares.
    """
    match kind:
        case "server":
            return body
        case "key":
            digest = hashlib.sha256(episode_id.encode()).hexdigest()
            return {**body, "prompt_cache_key": digest[:_KEY_CHARACTERS]}
        case "breakpoints":
            messages = [dict(message) for message in cast("list[dict[str, Any]]", body["messages"])]
            first = next((each for each in messages if each["role"] == "user"), messages[-1])
            for message in (first, messages[-1]):
                _mark(message)
            return {**body, "messages": messages}


def _mark(message: dict[str, Any]) -> None:
    content: Any = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if parts:
        message["content"] = [*parts[:-1], {**parts[-1], "cache_control": {"type": "ephemeral"}}]
