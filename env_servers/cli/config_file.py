"""The flags of a command as a TOML file, which flags go before.

    environments = ["maze", "sciworld"]   # the names
    bind = ["127.0.0.1:50051"]            # --bind 127.0.0.1:50051
    max-episodes = 64

    [set.sciworld]                        # --set sciworld.heap_mib=4096
    heap_mib = 4096

The keys are the flags without their dashes; `-` and `_` are the same, as on a command line. Every
error names the file and the key. No flag holds a secret, so no file does.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

from env_servers.sdk import SdkError

__all__ = ["lay_file"]

T = TypeVar("T")


def lay_file(defaults: T, path: Path) -> T:
    """Return a command's settings with those of a file laid over them; raises SdkError."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SdkError(f"--config: cannot read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SdkError(f"--config: {path} is no TOML: {error}") from error
    hints = {
        name.replace("_", "-"): (name, hint)
        for name, hint in get_type_hints(type(defaults), include_extras=True).items()
    }
    del hints["config-file"]
    changes: dict[str, Any] = {}
    for key, value in values.items():
        spelt = key.replace("_", "-")
        if spelt not in hints:
            near = difflib.get_close_matches(spelt, hints, n=1)
            advice = f"; did you mean {near[0]}?" if near else ""
            raise SdkError(f"{path}: {key}: unknown key{advice}", valid="" if near else hints)
        name, hint = hints[spelt]
        try:
            changes[name] = _read(hint, value)
        except msgspec.ValidationError as error:
            raise SdkError(f"{path}: {key}: {error}, for {value!r}") from error
    return dataclasses.replace(cast("Any", defaults), **changes)


def _read(hint: Any, value: Any) -> Any:
    """Return a flag's value; a table is what a flag says as NAME.KEY=VALUE."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if isinstance(value, Mapping) and get_origin(hint) is tuple:
        value = [f"{name}={text}" for name, text in _entries(cast("Mapping[str, Any]", value))]
    return msgspec.convert(value, hint, dec_hook=_decode)


def _entries(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _entries(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value).lower() if isinstance(value, bool) else str(value)


def _decode(kind: type[Any], value: Any) -> Any:
    if issubclass(kind, Path) and isinstance(value, str):
        return Path(value)
    raise ValueError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")
