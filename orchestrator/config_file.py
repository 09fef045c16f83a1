"""A command's flags as a TOML file: read under them (`lay_file`), and printed (`dump_flags`).

    env = "maze,wordle"                   # --env maze,wordle
    policy = ["expert", "openai:gpt-4o"]
    max-rounds = 20

    [openai]
    base-url = "http://127.0.0.1:8000/v1" # --openai.base-url http://127.0.0.1:8000/v1

The keys are the flags without their dashes, a dot being a table; `-` and `_` are the same, as on a
command line. Lists that a flag separates by commas may be lists. A file is laid over a command's
defaults, and flags over it. It holds no secret. Every error names the file and the key.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.redaction import Json, redact
from orchestrator.configuration import Plain, convert, dump_toml, read_toml, to_plain
from orchestrator.errors import ConfigurationError

__all__ = ["dump_flags", "lay_file"]

T = TypeVar("T")
_Text = PrimitiveConstructorSpec[Any]

_ARGUMENT: Final[type[Any]] = type(tyro.conf.arg())
_HIDDEN: Final = get_args(tyro.conf.Suppress[int])[1]
"""Marks fields without a flag: a file has them where an agent or a file filled them in."""
_NONE: Final = "none"
"""How a file says None, which TOML lacks."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One flag: where its value is in the tree, and what it may be."""

    path: tuple[str, ...]
    """Names of fields, from the root."""
    hint: Any
    text: _Text | None
    """How the flag's text is read, where it is not by the type alone."""
    default: Any
    """`dataclasses.MISSING` = it has none of its own."""
    hidden: bool


_Keys = dict[str, "_Leaf | _Keys"]
"""What may stand in a table of the file."""


@dataclass(frozen=True, slots=True)
class _Given:
    """A value of the file, and the key that it stands under."""

    key: str
    value: Any


_Found = dict[tuple[str, ...], _Given]
"""By the path of the field."""


def lay_file(defaults: T, path: Path, *, beside: Collection[str] = ()) -> T:
    """Return a command's settings with those of a file laid over them.

    Args:
        defaults: An instance of the dataclass that the command's flags are made of.
        path: The file.
        beside: Keys that only a command line may say.

    Raises:
        ConfigurationError: The file cannot be read, a key is unknown, or a value is wrong or a
            secret.
    """
    found: _Found = {}
    values = read_toml(path)
    try:
        for key in values:
            if _spelt(key) in beside:
                raise ConfigurationError("only the command line may say it", field=key)
        _collect(values, _keys(type(defaults)), "", found)
        return _replace(defaults, found)
    except ConfigurationError as error:
        if not error.field:  # the file as a whole, which the message names
            raise
        named = ConfigurationError(f"{path}: {error}")
        named.field = error.field
        raise named from error


def dump_flags(settings: object, *, beside: Collection[str] = ()) -> str:
    """Return a command's settings as a file that `lay_file` reads; secrets are left out."""
    return dump_toml(_table(settings, _keys(type(settings)), beside))


@cache
def _keys(kind: type[Any]) -> _Keys:
    return _keys_at(kind, ())


def _keys_at(kind: type[Any], path: tuple[str, ...]) -> _Keys:
    hints = get_type_hints(kind, include_extras=True)
    keys: _Keys = {}
    for field in dataclasses.fields(kind):
        hint: Any = hints[field.name]
        notes: list[Any] = []
        if get_origin(hint) is Annotated:
            hint, *notes = get_args(hint)
        named = [note.name for note in notes if isinstance(note, _ARGUMENT)]
        name: str = next((name for name in named if name is not None), field.name)
        inner = (*path, field.name)
        if dataclasses.is_dataclass(hint):
            section = _keys_at(cast("type[Any]", hint), inner)
            keys |= {_spelt(name): section} if name else section
            continue
        texts = [
            cast("_Text", note) for note in notes if isinstance(note, PrimitiveConstructorSpec)
        ]
        default: Any = field.default
        keys[_spelt(name)] = _Leaf(
            inner, hint, texts[0] if texts else None, default, _HIDDEN in notes
        )
    return keys


def _spelt(name: str) -> str:
    return name.replace("_", "-")


def _collect(values: Mapping[str, Any], keys: _Keys, prefix: str, found: _Found) -> None:
    """Read a table of the file into `found`."""
    for written, value in values.items():
        key = f"{prefix}{written}"
        entry = keys.get(_spelt(written))
        if entry is None:
            near = difflib.get_close_matches(_spelt(written), keys, n=1)
            raise ConfigurationError(
                f"unknown key; did you mean {prefix}{near[0]}?" if near else "unknown key",
                field=key,
                valid=() if near else sorted(f"{prefix}{name}" for name in keys),
            )
        if isinstance(entry, _Leaf):
            found[entry.path] = _Given(key, _read(entry, value, key))
        elif isinstance(value, Mapping):
            _collect(cast("Plain", value), entry, f"{key}.", found)
        else:
            raise ConfigurationError(f"expected a table, got {value!r}", field=key)


def _read(leaf: _Leaf, value: Any, key: str) -> Any:
    if redact(cast("Json", value), ".".join(leaf.path)) != value:
        raise ConfigurationError(
            "holds a secret, which a file must not: name an environment variable or a file that "
            "holds it, or give it as a flag",
            field=key,
        )
    if isinstance(value, str) and value.lower() == _NONE and type(None) in get_args(leaf.hint):
        return None
    if leaf.text is None or isinstance(value, Mapping):
        return convert(leaf.hint, cast("Any", value), prefix=key)
    if isinstance(value, list):
        value = ",".join(map(str, cast("list[Any]", value)))
    if not isinstance(value, str):
        raise ConfigurationError(f"expected a text or a list, got {value!r}", field=key)
    try:
        return leaf.text.instance_from_str([value])
    except (ValueError, PolicyMisconfigured) as error:
        raise ConfigurationError(str(error), field=key) from error


def _replace(config: T, found: _Found) -> T:
    """Return a tree with other values at some of its fields."""
    changes: dict[str, Any] = {}
    for name in dict.fromkeys(path[0] for path in found):
        inner = {path[1:]: given for path, given in found.items() if path[0] == name}
        changes[name] = inner[()].value if () in inner else _replace(getattr(config, name), inner)
    try:
        return dataclasses.replace(cast("Any", config), **changes)
    except ValueError as error:  # of values that make no sense, or not together
        given = ", ".join(given.key for path, given in found.items() if len(path) == 1)
        raise ConfigurationError(str(error), field=given) from error


def _table(settings: object, keys: _Keys, beside: Collection[str]) -> Plain:
    table: Plain = {}
    for key, entry in keys.items():
        if key in beside:
            continue
        if isinstance(entry, _Leaf):
            table.update((key, shown) for shown in _shown(settings, entry))
        else:
            table[key] = _table(settings, entry, ())
    return table


def _shown(settings: object, leaf: _Leaf) -> Iterator[Any]:
    """Yield a flag's value as the file has it; nothing where the file needs none."""
    value: Any = settings
    for name in leaf.path:
        value = getattr(value, name)
    if value is None:
        if leaf.default is not None:
            yield _NONE
        return
    if leaf.hidden and not value:
        return
    plain: Any = to_plain(value)
    if leaf.text is not None and not isinstance(value, Mapping):
        plain = [text for text in leaf.text.str_from_instance(value)[0].split(",") if text]
    if redact(cast("Json", plain), ".".join(leaf.path)) == plain:
        yield plain
