"""Recipes: TOML files that become typed trees, with dotted overrides from the command line.

Owns reading, merging and checking. Invariant: what a recipe says is either a field of its tree with
a value of that field's type, or a RecipeError that names the field. Knows no algorithm: each one
declares its own tree of frozen dataclasses and hands it to `load_recipe`.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from orchestrator.errors import Difference
from training.errors import RecipeError

__all__ = ["Invocation", "as_plain", "build", "differences", "load_recipe", "parse_command"]

T = TypeVar("T")
Plain = dict[str, Any]
"""A JSON-like object."""


@dataclasses.dataclass(frozen=True, slots=True)
class Invocation:
    """A parsed command line: `RECIPE.toml [--resume] [--overwrite] [--section.key VALUE ...]`."""

    path: Path | None
    overrides: Mapping[str, Any]
    """Dotted field -> value as the command line gave it."""
    resume: bool = False
    overwrite: bool = False
    plan_only: bool = False
    """Resolve everything, print the memory plan, train nothing."""
    help: bool = False


_SWITCHES = {"--resume": "resume", "--overwrite": "overwrite", "--plan": "plan_only"}


def parse_command(arguments: Sequence[str]) -> Invocation:
    """Split a command line; values are TOML where they parse, else texts. Raises RecipeError."""
    path: Path | None = None
    overrides: Plain = {}
    switches: dict[str, bool] = {}
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        if word in ("-h", "--help"):
            switches["help"] = True
        elif word in _SWITCHES:
            switches[_SWITCHES[word]] = True
        elif word.startswith("--"):
            name, given, value = word[2:].partition("=")
            if not given:
                if not queue:
                    raise RecipeError("needs a value", field=name)
                value = queue.pop(0)
            overrides[name.replace("-", "_")] = _as_value(value)
        elif path is None:
            path = Path(word)
        else:
            raise RecipeError(f"unexpected argument {word!r}; a command takes one recipe")
    if switches.get("resume") and switches.get("overwrite"):
        raise RecipeError("--resume and --overwrite exclude each other")
    return Invocation(path=path, overrides=overrides, **switches)


def load_recipe(kind: type[T], path: Path | None, overrides: Mapping[str, Any] | None = None) -> T:
    """The recipe of a TOML file (None = all defaults), with dotted overrides laid over it.

    Relative paths are taken as they are: relative to the working folder. Raises RecipeError.
    """
    values: Plain = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise RecipeError(f"cannot read the recipe {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RecipeError(f"{path} is no TOML: {error}") from error
    for name, value in (overrides or {}).items():
        _lay_over(values, name, value)
    return build(kind, values)


def build(kind: type[T], values: Mapping[str, Any], prefix: str = "") -> T:
    """A tree of dataclasses from JSON-like values; raises RecipeError naming the dotted field."""
    hints = get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(cast("Any", kind))}
    for name in values:
        if name not in fields:
            near = difflib.get_close_matches(name, fields, n=1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else ""
            raise RecipeError(f"unknown key{hint}", field=f"{prefix}{name}", valid=sorted(fields))
    made: Plain = {}
    for name, field in fields.items():
        path = f"{prefix}{name}"
        if name in values:
            made[name] = _convert(hints[name], values[name], path)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise RecipeError("is required", field=path)
    try:
        return kind(**made)
    except ValueError as error:
        raise RecipeError(str(error), field=prefix.rstrip(".")) from error


def as_plain(recipe: object) -> Plain:
    """A recipe as JSON values, complete with defaults."""
    return json.loads(json.dumps(dataclasses.asdict(cast("Any", recipe)), default=str))


_OFF = frozenset({"null", "false", "0", "0.0", '""', "[]", "{}"})


def differences(recorded: Mapping[str, Any], requested: Mapping[str, Any]) -> list[Difference]:
    """The dotted fields in which two recipes differ, as `as_plain` gives them.

    A key that is off (null, false, 0 or empty) says what its absence said when the recipe was
    recorded.
    """
    old, new = _flatten(recorded), _flatten(requested)
    return [
        Difference(name, old.get(name, "-"), new.get(name, "-"))
        for name in sorted(old.keys() | new.keys())
        if old.get(name, "-") != new.get(name, "-") and not (name not in old and new[name] in _OFF)
    ]


def _flatten(value: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(value, Mapping):
        items = list(cast("Mapping[str, Any]", value).items())
    elif isinstance(value, list) and any(isinstance(it, dict) for it in cast("list[Any]", value)):
        items = [(str(index), it) for index, it in enumerate(cast("list[Any]", value))]
    else:
        return {prefix.rstrip("."): json.dumps(value, sort_keys=True)}
    flat: dict[str, str] = {}
    for name, inner in items:
        flat |= _flatten(inner, f"{prefix}{name}.")
    return flat


def _as_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _lay_over(values: Plain, dotted: str, value: Any) -> None:
    *path, last = dotted.split(".")
    place: Any = values
    for depth, name in enumerate(path):
        where = ".".join(path[: depth + 1])
        if isinstance(place, list):
            place = _element(cast("list[Any]", place), name, where)
        else:
            place = place.setdefault(name, {})
        if not isinstance(place, dict | list):
            raise RecipeError("is a value, not a section", field=where)
    if isinstance(place, list):
        _element(cast("list[Any]", place), last, dotted)
        place[int(last)] = value
    else:
        place[last] = value


def _element(listed: list[Any], name: str, where: str) -> Any:
    if not name.isdecimal() or int(name) >= len(listed):
        valid = [str(index) for index in range(len(listed))]
        raise RecipeError("there is no such element", field=where, valid=valid)
    return listed[int(name)]


def _convert(hint: Any, value: Any, path: str) -> Any:
    """A value of the hinted type; texts, numbers and booleans are never mixed up."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _convert_union(hint, value, path)
    if origin is Literal:
        if value in get_args(hint):
            return value
        raise RecipeError(f"cannot be {value!r}", field=path, valid=map(str, get_args(hint)))
    if dataclasses.is_dataclass(hint):
        if isinstance(value, Mapping):
            return build(cast("type[Any]", hint), cast("Plain", value), f"{path}.")
        raise RecipeError("is a section, not a value", field=path)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise RecipeError("is a list", field=path)
        element = get_args(hint)[0]
        listed = cast("list[Any]", value)
        return tuple(_convert(element, it, f"{path}.{at}") for at, it in enumerate(listed))
    if origin in (dict, Mapping):
        if isinstance(value, dict):
            return cast("Plain", value)
        raise RecipeError("is a table", field=path)
    return _convert_plain(hint, value, path)


def _convert_union(hint: Any, value: Any, path: str) -> Any:
    """`X | None` takes X, and None as null or the text "none"."""
    if value is None or value == "none":
        return None
    return _convert(next(it for it in get_args(hint) if it is not type(None)), value, path)


def _convert_plain(hint: Any, value: Any, path: str) -> Any:
    if hint is Any:
        return value
    if hint is Path and isinstance(value, str | Path):
        return Path(value)
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if hint is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)  # `--data.split 3` was read as TOML
    if isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise RecipeError(f"cannot be {value!r}; it takes {_KINDS.get(hint, hint)}", field=path)


_KINDS = {
    int: "an integer",
    float: "a number",
    str: "a text",
    bool: "true or false",
    Path: "a path",
}
