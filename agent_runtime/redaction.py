"""What must not be written down: secrets in settings, command lines, addresses, errors and logs.

A secret is known by its name (`api_key`, `token`), by its place (the password of an address), or
because this program was given it (`remember`): a value that was seen once as a secret is hidden
wherever it turns up later. What agents and environments say to each other is not touched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

__all__ = [
    "REDACTED",
    "Json",
    "redact",
    "redact_arguments",
    "redact_text",
    "remember",
]

Json: TypeAlias = bool | int | float | str | Sequence[Any] | Mapping[str, Any] | None
"""What JSON holds; no recursive type, which msgspec cannot check."""

REDACTED: Final = "<redacted>"
"""Stands for a secret."""
_SECRET: Final = re.compile(
    r"((^|[-_.])(key|secret|password|passwd|credentials?)"
    r"|(^-*|\.|(auth|bearer|access|api|hf)[-_])token)$",
    re.IGNORECASE,
)
"""Names of secrets; `eos_token` and `max_tokens` are none."""
_PATH: Final = re.compile(r"(^-*|\.)(client\.|tls[-_])key$")
"""Names of files that hold a secret: where a file is may be known."""
_ARGUMENTS: Final = re.compile(r"(^|\.)(server|engine)_options$")
"""Names of lists of command-line arguments."""
_PASSWORD: Final = re.compile(r"(?<=://)([^\s/:@\"']*):([^\s/@\"']+)@")
_LEAST: Final = 6
"""Characters of a value that is hidden wherever it turns up; shorter ones are parts of words."""

_known: set[str] = set()


def remember(secret: str) -> None:
    """Hide a value from now on, wherever this process writes it into a manifest, error or log."""
    if len(secret) >= _LEAST and secret != REDACTED:
        _known.add(secret)


def redact_text(text: str) -> str:
    """Return a text without the passwords of addresses and without the secrets that are known."""
    if "://" in text:
        text = _PASSWORD.sub(rf"\1:{REDACTED}@", text)
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text


def redact(value: Json, name: str = "") -> Json:
    """Return JSON values without secrets; `name` is the dotted path of the value.

    Entries whose name is a secret's are hidden whole, and all texts are searched.
    """
    if isinstance(value, Mapping):
        return {
            key: redact(entry, f"{name}.{key}" if name else key) for key, entry in value.items()
        }
    if value and _is_secret(name):
        if isinstance(value, str):
            remember(value)
        return REDACTED
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Sequence):
        if _ARGUMENTS.search(name):
            return list(redact_arguments([str(entry) for entry in value]))
        return [redact(entry, name) for entry in value]
    return value


def redact_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return a command line without secrets, however they are given.

    Known are `--api-key VALUE`, `--api-key=VALUE`, settings as in `--set maze.api_key=VALUE`, JSON
    objects, and the passwords of addresses.
    """
    hidden: list[str] = []
    hide_next = False
    for argument in arguments:
        if hide_next:
            remember(argument)
            hidden.append(REDACTED)
        else:
            hidden.append(_redact_argument(argument))
        is_flag = argument.startswith("-") and "=" not in argument
        hide_next = not hide_next and is_flag and _is_secret(argument)
    return tuple(map(redact_text, hidden))


def _redact_argument(argument: str) -> str:
    if argument.startswith("{"):
        try:
            document: Json = json.loads(argument)
        except (ValueError, RecursionError):
            return argument
        hidden = redact(document)
        return argument if hidden == document else json.dumps(hidden, ensure_ascii=False)
    name, equals, value = argument.partition("=")
    if not equals or not value:
        return argument
    if _is_secret(name):
        remember(value)
        return f"{name}={REDACTED}"
    return f"{name}={_redact_argument(value)}"


def _is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None and _PATH.search(name) is None
