"""From settings to a judge.

    --set judge.model=scripted
    --set judge.model=NAME judge.base_url=http://localhost:30000/v1

| setting | |
|---|---|
| `judge.model` | `scripted`, or a model's name; without it there is no judge |
| `judge.base_url` | of an OpenAI-compatible server, up to `/v1` |
| `judge.key_variable` | the environment variable that holds its key, default OPENAI_API_KEY |
| `judge.timeout` | seconds for an answer, repeats included, default 30 |
| `judge.max_tokens` | of an answer, default 1,024 |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from env_servers.sdk import InvalidOption
from env_servers.sdk.judging import Judge
from env_servers.toolkit.judges.openai_judge import OpenAIJudge
from env_servers.toolkit.judges.scripted_judge import ScriptedJudge

__all__ = ["judge_of"]

_SETTINGS: Final = ("model", "base_url", "key_variable", "timeout", "max_tokens")
_MOST_SECONDS: Final = 50.0
"""Below a server's step limit, so that a slow judge is a judge's failure and no hung step."""


def judge_of(settings: Mapping[str, Any]) -> Judge | None:
    """Return the judge that settings name; None = they name none.

    Raises:
        InvalidOption: They cannot be used.
    """
    given = {
        key.removeprefix("judge."): str(value)
        for key, value in settings.items()
        if key.startswith("judge.")
    }
    if unknown := given.keys() - set(_SETTINGS):
        raise InvalidOption(f"unknown setting judge.{min(unknown)[:100]}", valid=_SETTINGS)
    model = given.get("model", "")
    if not given:
        return None
    if model == "scripted" and given.keys() == {"model"}:
        return ScriptedJudge()
    if not model or model == "scripted" or "base_url" not in given:
        raise InvalidOption(
            "a judge needs the settings judge.model and judge.base_url",
            valid="or judge.model=scripted alone",
        )
    return OpenAIJudge(
        base_url=given["base_url"],
        model=model,
        key=os.environ.get(given.get("key_variable", "OPENAI_API_KEY"), ""),
        seconds=_number("timeout", given.get("timeout", "30"), _MOST_SECONDS),
        max_tokens=int(_number("max_tokens", given.get("max_tokens", "1024"), 100_000)),
    )


def _number(name: str, text: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= most:
        raise InvalidOption(f"setting judge.{name}={text[:100]!r}", valid=f"from 1 to {most:g}")
    return value
