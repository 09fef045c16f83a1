"""A language model at an OpenAI-compatible server, asked for a judge's verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from env_servers.sdk import EnvironmentUnavailable

__all__ = ["ChatModel"]

_TRIES: Final = 4
_TOO_MANY: Final = 429
_SERVER_FAULT: Final = 500
_SAMPLING: Final[Mapping[str, Any]] = {"temperature": 0, "max_tokens": 768, "top_p": 1}
"""What the original asks its judge with."""


class _Busy(Exception):
    """The server may answer if it is asked again."""


@dataclass(frozen=True, slots=True)
class ChatModel:
    """Answers messages; an `evaluation.judge.Reply`."""

    address: str
    """Below it is `/chat/completions`."""
    model: str
    key: str = field(repr=False)
    """Sent as a bearer token; empty = none."""
    seconds: float
    """For all tries together."""

    async def __call__(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return the model's text.

        Raises:
            EnvironmentUnavailable: There is none: which server, which model, and why.
        """
        problem = "no answer"
        try:
            async with asyncio.timeout(self.seconds):
                for number in range(_TRIES):
                    await asyncio.sleep(0 if number == 0 else 2 ** (number - 1))
                    try:
                        return await self._ask(messages)
                    except (_Busy, aiohttp.ClientError) as error:
                        problem = f"{type(error).__name__}: {error}"
        except TimeoutError:
            problem = f"no answer within {self.seconds:g} s; last: {problem}"
        raise self._failure(problem)

    async def _ask(self, messages: Sequence[Mapping[str, str]]) -> str:
        body = {"model": self.model, "messages": list(messages), **_SAMPLING}
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        url = f"{self.address}/chat/completions"
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(url, json=body) as answer,
        ):
            if answer.status == _TOO_MANY or answer.status >= _SERVER_FAULT:
                raise _Busy(f"it answers {answer.status}")
            text = await answer.text()
            if not answer.ok:
                raise self._failure(f"it answers {answer.status}: {text[:300]}")
            try:
                content = (await answer.json(content_type=None))["choices"][0]["message"]["content"]
            except (ValueError, LookupError, TypeError) as error:
                raise self._failure(f"its answer is no completion: {text[:300]}") from error
        if not isinstance(content, str):
            raise self._failure("its completion has no text")
        return content

    def _failure(self, problem: str) -> EnvironmentUnavailable:
        return EnvironmentUnavailable(
            f"the judge {self.model} at {self.address} did not decide: {problem}. "
            "Look at --set webarena.judge; without it the offline rule decides"
        )
