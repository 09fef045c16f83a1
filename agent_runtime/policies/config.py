"""What a user may set about policies; command line flags are generated from it.

Plain data with no heavy imports, so that `--help` is quick. Unknown keys are errors of whoever
reads them; impossible values raise ValueError here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.openai.config import OpenAIOptions
from agent_runtime.request_retry import RequestRetry
from agent_runtime.sampling import Sampling

__all__ = ["OpenAIOptions", "PolicyConfig", "SGLangOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SGLangOptions:
    """Settings of `sglang:URL`."""

    tokenizer: str | None = None
    """Folder or hub name of the tokenizer; default: what the server says that it uses."""
    chat_template: Path | None = None
    """A jinja chat template instead of the tokenizer's own."""
    template_date: str | None = None
    """Date (YYYY-MM-DD) for templates that print one; default: the day of the start."""
    context_length: int | None = None
    """Longest prompt plus reply, in tokens; default: the server's limit."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the server's key; default: no key."""
    stream: bool = False
    """Read replies token by token: needed for early_stop, and to watch them being written; costs
    time per token here."""
    early_stop: str = ""
    """A regular expression; a reply ends, and is aborted on the server, as soon as its text has a
    match. Turns streaming on."""
    recovery: float = 180.0
    """Seconds to wait for engines that went away, or for their weights, before requests fail; a
    request that was cut off is then sent again. 0 = such requests fail at once."""

    def __post_init__(self) -> None:
        if self.recovery < 0:
            raise ValueError("recovery is at least 0")
        try:
            re.compile(self.early_stop)
        except re.error as error:
            raise ValueError(f"early_stop is no regular expression: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConfig:
    """Everything about the agent but which one it is."""

    sampling: Annotated[Sampling, tyro.conf.arg(name="")] = field(default_factory=Sampling)
    """How replies are sampled."""
    actions_only: bool = False
    """Of expert, random and noop: replies are the action without the reason for it, as of agents
    that do not think aloud (for the action format react)."""
    request_timeout: float = 600.0
    """Seconds for one reply."""
    max_requests: int | None = None
    """Most requests to the policy's server in flight at once; below that as many as sglang's
    engines report, and an openai server's answers show, that it can bear."""
    requests_per_minute: int | None = None
    """Most requests started in any minute; default: no limit."""
    tokens_per_minute: int | None = None
    """Most tokens in any minute, for openai: estimated prompts and whole length limits, as hosted
    servers count them; default: no limit."""
    request_retry: RequestRetry = field(default_factory=RequestRetry)
    """How requests to the policy's server are repeated."""
    cache: Path | None = None
    """Folder of a response cache, for openai: what was answered before to the same request with
    the same seed is not asked again, and costs nothing; default: none."""
    openai: OpenAIOptions = field(default_factory=OpenAIOptions)
    """For openai:MODEL."""
    sglang: SGLangOptions = field(default_factory=SGLangOptions)
    """For sglang:URL."""
    embedded: EmbeddedOptions = field(default_factory=EmbeddedOptions)
    """For embedded:PATH."""

    def __post_init__(self) -> None:
        if self.request_timeout <= 0:
            raise ValueError("request_timeout is above 0")
        if self.max_requests is not None and self.max_requests < 1:
            raise ValueError("max_requests is at least 1")
        for name in ("requests_per_minute", "tokens_per_minute"):
            limit: int | None = getattr(self, name)
            if limit is not None and limit < 1:
                raise ValueError(f"{name} is at least 1")
