"""What the commands of this package do alike: recipe, overrides, help, exit codes.

Owns the boundary between typed errors and the shell, as `orchestrator.command_line` does: 0 = done,
1 = it could not be done, 2 = the recipe asks for what cannot be. Knows no algorithm.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast, get_args, get_type_hints

from rich.console import Console

from orchestrator.command_line import guarded, make_console
from training.config.recipe import load_recipe, parse_command
from training.errors import RecipeError

__all__ = ["describe_recipe", "run_recipe"]

Recipe = TypeVar("Recipe")


def run_recipe(
    kind: type[Recipe], act: Callable[..., object], argv: Sequence[str] | None, *, program: str
) -> int:
    """Parse `RECIPE.toml` with overrides into `kind`, call `act`, and give the exit code.

    `act(recipe, resume=..., overwrite=..., plan_only=..., console=...)`.
    """

    def work() -> int:
        call = parse_command(sys.argv[1:] if argv is None else argv)
        if call.help:
            console = Console(soft_wrap=True)
            console.print(describe_recipe(kind, program), markup=False, highlight=False)
            return 0
        if call.path is None and not call.overrides:
            raise RecipeError(f"name a recipe: {program} RECIPE.toml (or --help)")
        recipe = load_recipe(kind, call.path, call.overrides)
        act(
            recipe,
            resume=call.resume,
            overwrite=call.overwrite,
            plan_only=call.plan_only,
            console=make_console(stderr=True),
        )
        return 0

    return guarded(work)


def describe_recipe(kind: type[Any], program: str) -> str:
    """The help text: every key with its type and default."""
    lines = [
        f"usage: {program} RECIPE.toml [--resume | --overwrite] [--plan] [--KEY VALUE ...]",
        "",
        "keys of a recipe, each also a flag (--section.key VALUE):",
    ]
    return "\n".join([*lines, *_keys(kind, "")])


def _keys(kind: type[Any], prefix: str) -> list[str]:
    hints = get_type_hints(kind)
    lines: list[str] = []
    for it in dataclasses.fields(cast("Any", kind)):
        name, hint = f"{prefix}{it.name}", hints[it.name]
        inner = next((part for part in (hint, *get_args(hint)) if _is_section(part)), None)
        if inner is not None and inner is not kind:
            listed = getattr(hint, "__origin__", None) is tuple
            lines += _keys(cast("type[Any]", inner), f"{name}.{'N.' if listed else ''}")
            continue
        shown = getattr(hint, "__name__", str(hint))
        if get_args(hint):
            shown = str(hint).replace("typing.", "")
        default = "" if it.default is dataclasses.MISSING else f" = {it.default!r}"
        lines.append(f"  {name}: {shown}{default}")
    return lines


def _is_section(hint: Any) -> bool:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)
