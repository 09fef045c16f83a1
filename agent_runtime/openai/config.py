"""What a user may set about OpenAI-compatible servers; flags are generated from it.

Plain data with no heavy imports, so that `--help` is quick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.openai.opening import Opening
from agent_runtime.openai.prompt_cache import PromptCache

__all__ = ["OpenAIOptions"]

_FILE: Final = "@"
"""Before the name of a file that holds the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIOptions:
    """Settings of `openai:MODEL`."""

    base_url: str | None = None
    """Address up to and including /v1; default: $OPENAI_BASE_URL, else OpenAI's own."""
    api_key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key; not needed for a loopback address."""
    api: Literal["chat", "responses", "token_ids"] = "chat"
    """chat: chat completions, which every such server has; responses: OpenAI's Responses API, used
    without state; token_ids: vLLM's completions in token ids with logprobs, to train on."""
    system_prompt: str = ""
    """A system message before the environment's conversation start: a text, or @FILE."""
    prompt_template: str = ""
    """How the instruction is put: a text, or @FILE, in which $instruction stands for it and
    $environment for the environment's name ($$ is a dollar). Default: as it is."""
    send_reasoning: bool = False
    """Send what the model thought in earlier turns back to it; the record keeps it either way."""
    reasoning_summary: bool = False
    """Ask for a summary of what the model thinks, which OpenAI does not show; for responses."""
    native_tools: bool = True
    """With the function_calling format: declare the functions and read tool calls. Off = the
    model writes the JSON itself."""
    tool_choice: Literal["auto", "required"] = "auto"
    """Whether the model may answer without a tool call."""
    parallel_tool_calls: bool = True
    """Whether the model may call several functions in one reply, which are played in turn."""
    prompt_cache: PromptCache = "server"
    """What requests say of the server's prompt cache: nothing; key: the episode as
    prompt_cache_key, which keeps its turns on one machine; breakpoints: cache_control at the first
    user message and the last message."""
    max_images: int | None = None
    """Images of the conversation that a request has, the last ones, for servers that take only so
    many (vLLM's --limit-mm-per-prompt); default: all."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """How the server calls the length limit; reasoning models want max_completion_tokens."""
    stream: bool = False
    """For chat: read replies as they are written, so that they can be watched. The server has to
    count tokens in a stream (`stream_options`), as OpenAI's, vLLM and SGLang do."""
    omit: tuple[str, ...] = ()
    """Fields to leave out of requests, for servers that refuse them: temperature, seed, ..."""
    tokenizer: str | None = None
    """For token_ids: folder or hub name of the tokenizer; default: what the server says that it
    serves."""
    chat_template: Path | None = None
    """For token_ids: a jinja chat template instead of the tokenizer's own."""
    template_date: str | None = None
    """For token_ids: date (YYYY-MM-DD) for templates that print one; default: the day of the
    start."""
    usd_per_million_input: float | None = None
    """Price of a million prompt tokens; with the output price set, costs are recorded."""
    usd_per_million_cached: float | None = None
    """Price of a million cached prompt tokens; default: the input price."""
    usd_per_million_cache_write: float | None = None
    """Price of a million prompt tokens that the server puts into its prompt cache; default: the
    input price."""
    usd_per_million_output: float | None = None
    """Price of a million completion tokens."""

    def __post_init__(self) -> None:
        if self.prompt_cache == "breakpoints" and self.api != "chat":
            raise ValueError("prompt_cache breakpoints are of the API chat")
        if self.stream and self.api != "chat":
            raise ValueError("stream is of the API chat")
        if self.max_images is not None and self.max_images < 1:
            raise ValueError("max_images is at least 1")
        if self.reasoning_summary and self.api != "responses":
            raise ValueError("reasoning_summary is of the API responses")

    def without_omitted(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a request that the server is to get."""
        return {name: value for name, value in request.items() if name not in self.omit}

    def tool_fields(self, tools: Sequence[Any]) -> dict[str, Any]:
        """Return the fields that declare tools, which both APIs call the same; none without any."""
        if not tools:
            return {}
        fields: dict[str, Any] = {"tools": list(tools), "tool_choice": self.tool_choice}
        return fields if self.parallel_tool_calls else fields | {"parallel_tool_calls": False}

    def resolve(self) -> Self:
        """Return the same settings with the texts of the files that are named in them.

        Resolving twice changes nothing. Raises PolicyMisconfigured for a file that cannot be read,
        and for a template that cannot be filled in.
        """
        resolved = replace(
            self,
            system_prompt=_text(self.system_prompt, "system-prompt"),
            prompt_template=_text(self.prompt_template, "prompt-template"),
        )
        resolved.opening()
        return resolved

    def opening(self) -> Opening:
        """Return how conversations begin; of resolved settings. Raises PolicyMisconfigured."""
        return Opening(self.system_prompt, self.prompt_template)


def _text(value: str, flag: str) -> str:
    if not value.startswith(_FILE):
        return value
    path = Path(value.removeprefix(_FILE))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise PolicyMisconfigured(f"--openai.{flag}: cannot read {path}: {error}") from error
    if text.startswith(_FILE):
        raise PolicyMisconfigured(
            f"--openai.{flag}: the text in {path} begins with {_FILE}, which names a file: begin "
            "it with a space"
        )
    return text
