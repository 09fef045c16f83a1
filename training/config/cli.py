"""What the commands of this package do alike: recipe, overrides, help, logs, exit codes.

    python -m training.bc RECIPE.toml [--resume | --overwrite] [--plan] [--section.key VALUE ...]

An exit code of 0 means done, 1 it could not be done, 2 the recipe asks for what cannot be.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast, get_args, get_type_hints

from rich.console import Console

from agent_runtime.logs import configure_logging
from agent_runtime.private_files import private_umask
from orchestrator.command_line import guarded, make_console
from training.config.recipe import SHORT_KEYS, load_recipe
from training.config.start import Start
from training.errors import RecipeError

__all__ = ["Invocation", "describe_recipe", "parse_command", "run_recipe"]

Recipe = TypeVar("Recipe")
RecipeIn = TypeVar("RecipeIn", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A parsed command line."""

    path: Path | None
    overrides: Mapping[str, str]
    """Dotted key -> value as the command line gave it."""
    start: Start = Start.NEW
    plan: bool = False
    """Say what would be done, and train nothing."""
    help: bool = False
    log_level: str = "info"
    log_json: bool = False


class Command(Protocol[RecipeIn]):
    """What is done with a recipe: train by it, or plan."""

    def __call__(self, recipe: RecipeIn, /, *, start: Start, console: Console) -> object: ...


def run_recipe(
    kind: type[Recipe],
    train: Command[Recipe],
    plan: Command[Recipe],
    argv: Sequence[str] | None,
    *,
    program: str,
) -> int:
    """Parse `RECIPE.toml` with overrides, train or plan, and return the exit code.

    Args:
        kind: The recipe's dataclass.
        train: Called with the recipe.
        plan: Called instead where the command line has --plan.
        argv: Arguments of the command; None = the process's own.
        program: How the command is called, for its help.
    """

    def act() -> int:
        call = parse_command(sys.argv[1:] if argv is None else argv)
        if call.help:
            console = Console(soft_wrap=True)
            console.print(describe_recipe(kind, program), markup=False, highlight=False)
            return 0
        if call.path is None and not call.overrides:
            raise RecipeError(f"name a recipe: {program} RECIPE.toml (or --help)")
        recipe = load_recipe(kind, call.path, call.overrides)
        _configure_logging(call)
        command = plan if call.plan else train
        with private_umask():  # torch and its friends write checkpoints without asking for a mode
            command(recipe, start=call.start, console=make_console(stderr=True))
        return 0

    return guarded(act)


_SWITCHES = ("--help", "--resume", "--overwrite", "--plan", "--log-json")


def parse_command(arguments: Sequence[str]) -> Invocation:
    """Split a command line into the recipe, switches and overrides; raises RecipeError.

    Not left to tyro: a recipe's keys reach into lists and optional sections of the file
    (`--environments.0.explore 10`), for which there are flags only once the file is read.
    """
    path: Path | None = None
    overrides: dict[str, str] = {}
    switches: set[str] = set()
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "-h" or word in _SWITCHES:
            switches.add("--help" if word == "-h" else word)
        elif word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals:
                if not words:
                    raise RecipeError("needs a value", field=name)
                value = words.pop(0)
            overrides[name.replace("-", "_")] = value
        elif path is None:
            path = Path(word)
        else:
            raise RecipeError(f"unexpected argument {word!r}; a command takes one recipe")
    if {"--resume", "--overwrite"} <= switches:
        raise RecipeError("--resume and --overwrite exclude each other")
    start = Start.RESUME if "--resume" in switches else Start.NEW
    return Invocation(
        path=path,
        log_level=overrides.pop("log_level", "info"),
        overrides=overrides,
        start=Start.OVERWRITE if "--overwrite" in switches else start,
        plan="--plan" in switches,
        help="--help" in switches,
        log_json="--log-json" in switches,
    )


def _configure_logging(call: Invocation) -> None:
    try:
        configure_logging(call.log_level, call.log_json)
    except ValueError as error:
        raise RecipeError(str(error), field="--log-level") from error


def describe_recipe(kind: type[Any], program: str) -> str:
    """Return the help text: every key with its type and default."""
    lines = [
        f"usage: {program} RECIPE.toml [--resume | --overwrite] [--plan]",
        "       [--log-level debug|info|warning|error] [--log-json] [--KEY VALUE ...]",
        "",
        "keys of a recipe, each also a flag (--section.key VALUE):",
    ]
    keys = _describe_keys(kind, "")
    known = {line.split(":")[0].strip() for line in keys}
    short = [
        f"  --{flag.replace('_', '-')} is short for --{key}"
        for flag, key in SHORT_KEYS.items()
        if key in known
    ]
    return "\n".join([*lines, *keys, *short])


def _describe_keys(kind: type[Any], prefix: str) -> list[str]:
    hints = get_type_hints(kind)
    lines: list[str] = []
    for field in dataclasses.fields(cast("Any", kind)):
        name, hint = f"{prefix}{field.name}", hints[field.name]
        section = next((part for part in (hint, *get_args(hint)) if _is_section(part)), None)
        if section is not None and section is not kind:
            is_list = getattr(hint, "__origin__", None) is tuple
            lines += _describe_keys(section, f"{name}.{'N.' if is_list else ''}")
            continue
        shown = getattr(hint, "__name__", str(hint))
        if get_args(hint):
            shown = str(hint).replace("typing.", "")
        default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
        lines.append(f"  {name}: {shown}{default}")
    return lines


def _is_section(hint: Any) -> bool:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)
