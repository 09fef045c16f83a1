"""Configuration as typed trees of frozen dataclasses: the one mechanism for runs and recipes.

A tree is read from JSON-like values (`convert`), from a TOML file with dotted overrides (`load`) or
from command-line flags (`parse_flags`), and written as plain values (`to_plain`) or TOML
(`dump_toml`). Two trees are compared field by field (`differences`).

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Optimizer:
        learning_rate: float = 1e-5

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Recipe:
        data: Path
        optimizer: Optimizer = field(default_factory=Optimizer)

    recipe = load(Recipe, Path("recipe.toml"), {"optimizer.learning_rate": "3e-5"})

Values are never coerced: a text is no number and a number no text. Every error is a
ConfigurationError that names the dotted path of the field.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import tomllib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
import tomli_w
import tyro
from tyro.constructors import PrimitiveConstructorSpec

from orchestrator.errors import ConfigurationError, Difference

__all__ = [
    "OFF",
    "CommaSeparated",
    "JsonObject",
    "Plain",
    "apply_overrides",
    "convert",
    "differences",
    "dump_toml",
    "flatten",
    "load",
    "parse_flags",
    "parse_names",
    "read_toml",
    "to_plain",
]

T = TypeVar("T")
Plain = dict[str, Any]
"""An object of JSON-like values."""

_NONE_TEXT: Final = "none"
"""How an override says None: TOML has no null."""
_MAPPINGS: Final = (dict, Mapping)
_SEQUENCES: Final = (tuple, list, Sequence)


# ---------------------------------------------------------------- values -> tree -> values


def convert(kind: type[T], values: Mapping[str, Any], *, prefix: str = "") -> T:
    """Build a tree of dataclasses from JSON-like values.

    Args:
        kind: The dataclass at the root.
        values: Its fields; lists become tuples, texts become paths and enum members where the
            field asks for them.
        prefix: Dotted path of the root within a larger tree, for error messages.

    Raises:
        ConfigurationError: A key is unknown or missing, or a value is not of its field's type.
    """
    _refuse_unknown_keys(kind, values, prefix)
    try:
        return msgspec.convert(values, kind, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise _explain(error, kind, values, prefix) from error


def to_plain(config: object) -> Plain:
    """Return a tree as JSON values (lists, no tuples; paths as texts), complete with defaults."""
    builtins = msgspec.to_builtins(config, enc_hook=str, str_keys=True)
    return cast("Plain", _lists(builtins))


def _lists(value: Any) -> Any:
    """Turn tuples into lists, so that a tree equals itself after a round trip through JSON."""
    if isinstance(value, dict):
        return {name: _lists(inner) for name, inner in cast("Plain", value).items()}
    if isinstance(value, list | tuple):
        return [_lists(inner) for inner in cast("Sequence[Any]", value)]
    return value


def _decode(kind: type[Any], value: Any) -> Any:
    """Convert what msgspec does not know by itself; here only paths."""
    if issubclass(kind, Path) and isinstance(value, str | Path):
        return Path(value)
    raise ValueError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


# ---------------------------------------------------------------- files


def load(kind: type[T], path: Path | None = None, overrides: Mapping[str, str] | None = None) -> T:
    """Build a tree from a TOML file with overrides laid over it.

    Args:
        kind: The dataclass at the root.
        path: The file; None = all defaults. Relative paths in it stay relative to the working
            folder.
        overrides: Dotted field -> value as written on a command line; TOML syntax where the field
            is no text, `none` for None.

    Raises:
        ConfigurationError: The file cannot be read, or see `convert`.
    """
    values = read_toml(path) if path is not None else {}
    apply_overrides(kind, values, overrides or {})
    return convert(kind, values)


def read_toml(path: Path) -> Plain:
    """Return the values of a TOML file; raises ConfigurationError where it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is no TOML: {error}") from error


def dump_toml(config: object) -> str:
    """Return a tree (or plain values) as TOML; fields that are None are left out."""
    plain = cast("Plain", config) if isinstance(config, Mapping) else to_plain(config)
    return tomli_w.dumps(_without_none(plain))


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value).items()
        return {name: _without_none(inner) for name, inner in entries if inner is not None}
    if isinstance(value, list | tuple):
        return [_without_none(inner) for inner in cast("Sequence[Any]", value)]
    return value


def apply_overrides(kind: type[Any], values: Plain, overrides: Mapping[str, str]) -> None:
    """Lay dotted overrides over `values` in place; raises ConfigurationError for a wrong path.

    An element of a list is named by its index, for example `sources.0.path`.
    """
    for dotted, text in overrides.items():
        value = _parse_override(_hint_at(kind, dotted.split(".")), text)
        _set(kind, values, dotted, value)


def _parse_override(hint: Any, text: str) -> Any:
    """Read an override: as it is for a field of text, else as TOML where it parses."""
    options = _union(hint)
    if type(None) in options and text.lower() == _NONE_TEXT:
        return None
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    texts = (str, Path) if any(option in (str, Path) for option in options) else ()
    if (
        texts
        and not isinstance(value, str)
        and not any(_accepts(option, value) for option in options)
    ):
        return text
    return value


def _accepts(hint: Any, value: Any) -> bool:
    try:
        msgspec.convert(value, hint, dec_hook=_decode)
    except msgspec.ValidationError:
        return False
    return True


def _set(kind: type[Any], values: Plain, dotted: str, value: Any) -> None:
    *sections, last = dotted.split(".")
    section: Any = values
    for depth, name in enumerate(sections):
        path = ".".join(sections[: depth + 1])
        if isinstance(section, list):
            section = cast("list[Any]", section)[_index(cast("list[Any]", section), name, path)]
        else:
            hint = _hint_at(kind, sections[: depth + 1])
            empty: Any = [] if get_origin(hint) in _SEQUENCES else {}
            section = cast("Plain", section).setdefault(name, empty)
        if not isinstance(section, dict | list):
            raise ConfigurationError("is a value, not a section", field=path)
    if isinstance(section, list):
        cast("list[Any]", section)[_index(cast("list[Any]", section), last, dotted)] = value
    else:
        section[last] = value


def _index(elements: list[Any], name: str, path: str) -> int:
    if not name.isdecimal() or int(name) >= len(elements):
        valid = [str(index) for index in range(len(elements))]
        raise ConfigurationError("there is no such element", field=path, valid=valid)
    return int(name)


# ---------------------------------------------------------------- flags


def parse_flags(
    kind: type[T],
    arguments: Sequence[str] | None,
    *,
    program: str,
    default: T | None = None,
    about: str | None = None,
) -> T:
    """Build a tree from command-line flags, one per field, with --help from its docstrings.

    Args:
        kind: The dataclass at the root.
        arguments: The command line; None = the process's own.
        program: Name of the program in the help text.
        default: Values of flags that are not given; None = the defaults of the dataclass.
        about: What the program does, in the help text; None = the dataclass's docstring.

    Raises:
        SystemExit: 0 after --help, 2 for wrong flags; tyro has printed why.
        ConfigurationError: A value is of its flag's type and makes no sense.
    """
    try:
        if default is None:
            return tyro.cli(kind, prog=program, description=about, args=arguments)
        return tyro.cli(kind, prog=program, description=about, args=arguments, default=default)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def parse_names(text: str) -> tuple[str, ...]:
    """Split names separated by commas; empty and repeated ones are dropped."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def text_flag(
    parse: Callable[[str], T], to_text: Callable[[T], str], is_instance: Callable[[Any], bool]
) -> PrimitiveConstructorSpec[T]:
    """Return how tyro reads one flag of text into a value; `parse` raises ValueError."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="STR",
        instance_from_str=lambda texts: parse(texts[0]),
        is_instance=is_instance,
        str_from_instance=lambda value: [to_text(value)],
    )


def _parse_object(text: str) -> Mapping[str, Any]:
    if not text:
        return {}
    value = json.loads(text, parse_constant=_refuse_constant)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return cast("Plain", value)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _object_text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True) if value else ""


CommaSeparated = Annotated[
    tuple[str, ...],
    text_flag(parse_names, ",".join, lambda value: isinstance(value, tuple)),
]
"""Names that are separated by commas on a command line, and a tuple everywhere else."""

JsonObject = Annotated[
    Mapping[str, Any],
    text_flag(_parse_object, _object_text, lambda value: isinstance(value, Mapping)),
]
"""An object that is written as JSON on a command line, and a mapping everywhere else."""


# ---------------------------------------------------------------- comparison

OFF: Final = frozenset({"null", "false", "0", "0.0", '""', "[]", "{}"})
"""JSON texts of settings that are off."""


def flatten(value: Any, prefix: str = "") -> dict[str, str]:
    """Return plain values as dotted path -> JSON text; lists of objects count their elements."""
    items: Iterator[tuple[str, Any]] | None = None
    if isinstance(value, Mapping) and (value or not prefix):
        items = iter(cast("Mapping[str, Any]", value).items())
    elif _holds_objects(value):
        items = ((str(index), inner) for index, inner in enumerate(cast("list[Any]", value)))
    if items is None:
        return {prefix: json.dumps(value, sort_keys=True, ensure_ascii=False)}
    flat: dict[str, str] = {}
    for name, inner in items:
        flat |= flatten(inner, f"{prefix}.{name}" if prefix else name)
    return flat


def _holds_objects(value: Any) -> bool:
    if not isinstance(value, list | tuple):
        return False
    return any(isinstance(inner, Mapping) for inner in cast("Sequence[Any]", value))


def differences(
    recorded: Mapping[str, Any], requested: Mapping[str, Any], *, absent_is_off: bool = False
) -> list[Difference]:
    """Return the fields in which two sets of plain values differ, sorted by dotted path.

    With `absent_is_off` a field that was not there when `recorded` was written equals one that is
    off now (null, false, 0 or empty), so that a newer program can resume what an older one began.
    """
    old, new = flatten(recorded), flatten(requested)
    return [
        Difference(path, old.get(path, "-"), new.get(path, "-"))
        for path in sorted(old.keys() | new.keys())
        if not _same(old.get(path), new.get(path))
        and not (absent_is_off and path not in old and new[path] in OFF)
    ]


_NUMBER: Final = re.compile(r"-?[0-9][0-9.eE+-]*")


def _same(old: str | None, new: str | None) -> bool:
    """Whether two JSON texts say the same; 0 and 0.0 do."""
    if old is None or new is None or not (_NUMBER.fullmatch(old) and _NUMBER.fullmatch(new)):
        return old == new
    return json.loads(old) == json.loads(new)


# ---------------------------------------------------------------- errors with paths


def _refuse_unknown_keys(hint: Any, value: Any, prefix: str) -> None:
    """Raise ConfigurationError for a key that no dataclass of the tree has."""
    for option in _union(hint):
        if dataclasses.is_dataclass(option) and isinstance(value, Mapping):
            hints = _hints(cast("type[Any]", option))
            for name, inner in cast("Mapping[str, Any]", value).items():
                if name not in hints:
                    raise _unknown_key(name, hints, prefix)
                _refuse_unknown_keys(hints[name], inner, _join(prefix, name))
        elif isinstance(value, Mapping | list | tuple):
            element = _element_hint(option)
            if element is not None:
                for name, inner in _entries(value):
                    _refuse_unknown_keys(element, inner, _join(prefix, name))


def _unknown_key(name: str, hints: Mapping[str, Any], prefix: str) -> ConfigurationError:
    near = difflib.get_close_matches(name, hints, n=1)
    suggestion = f"; did you mean {_join(prefix, near[0])}?" if near else ""
    return ConfigurationError(
        f"unknown key{suggestion}", field=_join(prefix, name), valid=sorted(hints)
    )


_MESSAGE: Final = re.compile(r"(?P<problem>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
_EXPECTED: Final = re.compile(r"Expected `(?P<expected>.*?)`, got `(?P<got>.*?)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>.*)`")
_NAMES: Final = {"str": "a text", "object": "a section", "array": "a list", "null": "none"}


def _explain(
    error: msgspec.ValidationError, kind: type[Any], values: Mapping[str, Any], prefix: str
) -> ConfigurationError:
    """Turn msgspec's message into one with a dotted path and the value that was refused."""
    match = _MESSAGE.fullmatch(str(error))
    assert match is not None
    problem = match["problem"]
    path, hint, value = _follow(match["path"] or "", kind, values)
    field = ".".join([*([prefix] if prefix else []), *path])
    if missing := _MISSING.fullmatch(problem):
        return ConfigurationError("is required", field=_join(field, missing["name"]))
    if expected := _EXPECTED.fullmatch(problem):
        names = [_NAMES.get(name, name) for name in expected["expected"].split(" | ")]
        return ConfigurationError(f"expected {' or '.join(names)}, got {value!r}", field=field)
    choices = _choices(hint)
    if choices:
        return ConfigurationError(f"cannot be {value!r}", field=field, valid=choices)
    return ConfigurationError(problem, field=field)


def _follow(path: str, hint: Any, value: Any) -> tuple[list[str], Any, Any]:
    """Walk msgspec's path; return it as names, with the hint and the value at its end."""
    names: list[str] = []
    for step in _STEP.finditer(path):
        name = step["name"] or step["index"]
        if name is None:  # a mapping: msgspec does not say which key
            element = next(
                element for element in map(_element_hint, _union(hint)) if element is not None
            )
            name = next(key for key, inner in _entries(value) if not _accepts(element, inner))
        names.append(name)
        hint = _inner_hint(hint, name)
        value = dict(_entries(value))[name]
    return names, hint, value


def _choices(hint: Any) -> list[str]:
    choices: list[str] = []
    for option in _union(hint):
        if get_origin(option) is Literal:
            choices += [str(choice) for choice in get_args(option)]
        elif isinstance(option, type) and hasattr(option, "__members__"):
            choices += [str(member.value) for member in cast("Any", option)]
    return choices


# ---------------------------------------------------------------- types of the tree


@cache
def _hints(kind: type[Any]) -> Mapping[str, Any]:
    """Return the types of a dataclass's fields."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _union(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union; any other type is its only one."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _element_hint(hint: Any) -> Any | None:
    """Return the type of a mapping's values or a sequence's elements; None = neither."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in _MAPPINGS and len(arguments) == 2:
        return arguments[1]
    if origin in _SEQUENCES and arguments:
        return arguments[0]
    return None


def _inner_hint(hint: Any, name: str) -> Any:
    """Return the type of one field or element; Any where the tree does not tell."""
    for option in _union(hint):
        if dataclasses.is_dataclass(option):
            hints = _hints(cast("type[Any]", option))
            if name in hints:
                return hints[name]
        element = _element_hint(option)
        if element is not None:
            return element
    return Any


def _hint_at(kind: type[Any], names: Sequence[str]) -> Any:
    """Return the type of the field at a dotted path; raises ConfigurationError where is none."""
    hint: Any = kind
    for depth, name in enumerate(names):
        sections = [section for section in _union(hint) if dataclasses.is_dataclass(section)]
        if sections and not any(name in _hints(cast("type[Any]", section)) for section in sections):
            hints = _hints(cast("type[Any]", sections[0]))
            raise _unknown_key(name, hints, ".".join(names[:depth]))
        hint = _inner_hint(hint, name)
    return hint


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from cast("Mapping[str, Any]", value).items()
    else:
        yield from ((str(index), inner) for index, inner in enumerate(cast("list[Any]", value)))


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
