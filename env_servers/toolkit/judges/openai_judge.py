"""A model behind an OpenAI-compatible server as a judge.

One question, one answer, by chat completions at temperature 0 with the episode's seed. What a busy
server refuses is asked again within one deadline; answers are read up to a size.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from env_servers.sdk import InvalidOption
from env_servers.sdk.judging import Answer, Judge, JudgeFailed, JudgeFailure

__all__ = ["OpenAIJudge"]

_MAX_BYTES: Final = 1024 * 1024
_PASSING: Final = frozenset((408, 429, 500, 502, 503, 504))
"""Statuses that may be others the next time."""
_PAUSES: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before a question is asked again."""
_SEED_BITS: Final = 31
_SHOWN: Final = 200


class _Passing(Exception):
    """A failure that may be over the next time."""


class OpenAIJudge(Judge):
    """A model that judges."""

    def __init__(
        self, *, base_url: str, model: str, key: str, seconds: float, max_tokens: int
    ) -> None:
        """`seconds` for an answer, repeats included; raises InvalidOption for no URL."""
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.password:
            raise InvalidOption(
                "setting judge.base_url", valid="http://HOST:PORT/v1, without a key"
            )
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._model = model
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._seconds = seconds
        self._max_tokens = max_tokens

    @property
    def identity(self) -> str:
        return f"openai:{self._model}"

    async def ask(self, prompt: str, seed: int) -> Answer:
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "seed": seed % 2**_SEED_BITS,
            "max_tokens": self._max_tokens,
        }
        last = "no answer"
        try:
            async with asyncio.timeout(self._seconds), aiohttp.ClientSession() as session:
                for pause in (0.0, *_PAUSES):
                    await asyncio.sleep(pause)
                    try:
                        return await self._once(session, body)
                    except (_Passing, aiohttp.ClientError, OSError) as error:
                        last = f"{type(error).__name__.lstrip('_')}: {error}"
        except TimeoutError:
            last += f" (given up after {self._seconds:g} s)"
        raise self._silent(last)

    async def _once(self, session: aiohttp.ClientSession, body: dict[str, Any]) -> Answer:
        async with session.post(self._url, json=body, headers=self._headers) as reply:
            content = bytearray()
            async for chunk in reply.content.iter_any():
                content += chunk
                if len(content) > _MAX_BYTES:
                    raise self._silent(f"an answer of more than {_MAX_BYTES:,} bytes")
        if reply.status in _PASSING:
            raise _Passing(f"status {reply.status}")
        if reply.status >= 300:
            said = bytes(content[:_SHOWN]).decode("utf-8", "replace")
            raise self._silent(f"status {reply.status}: {said}")
        return self._read(bytes(content))

    def _read(self, content: bytes) -> Answer:
        try:
            answer: Any = json.loads(content)
            choice, usage = answer["choices"][0], answer.get("usage") or {}
            return Answer(
                text=str(choice["message"]["content"] or ""),
                model=str(answer.get("model") or self._model)[:_SHOWN],
                cut_off=choice.get("finish_reason") == "length",
                prompt_tokens=int(usage.get("prompt_tokens") or 0),
                completion_tokens=int(usage.get("completion_tokens") or 0),
            )
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise _Passing(f"an unreadable answer ({type(error).__name__})") from error

    def _silent(self, problem: str) -> JudgeFailed:
        return JudgeFailed(JudgeFailure.SILENT, f"{self._model}: {problem}"[: 2 * _SHOWN])
