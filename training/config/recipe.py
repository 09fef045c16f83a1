"""Recipes: TOML files that become typed trees, with dotted overrides from the command line.

Each algorithm declares its recipe as a tree of frozen dataclasses; reading, checking and comparing
is `orchestrator.configuration`. What is training's own stands here: keys that had another name
once, which old recipe files and recorded runs still use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from orchestrator.configuration import (
    Plain,
    apply_overrides,
    convert,
    differences,
    parse_names,
    read_toml,
    to_plain,
)
from orchestrator.errors import ConfigurationError, Difference
from training.errors import RecipeError

__all__ = [
    "KEYS_ADDED",
    "RENAMED_KEYS",
    "SHORT_KEYS",
    "build",
    "load_recipe",
    "recipe_differences",
    "rename_keys",
    "to_plain",
]

T = TypeVar("T")

KEYS_ADDED: Final[Mapping[str, str | float]] = {
    "advantages.baseline": "group",
    "advantages.deviation": "group",
    "advantages.turn_discount": 0.95,
    "branches.per_state": 4,
    "grpo.branches.per_state": 4,
    "grpo.value.clip": 0.2,
    "grpo.value.discount": 1.0,
    "grpo.value.gae_lambda": 0.95,
    "grpo.value.lr": 1e-3,
    "grpo.value.max_norm": 1.0,
    "clip.kl_estimator": "k3",
    "clip.ratio": "token",
    "value.clip": 0.2,
    "value.discount": 1.0,
    "value.gae_lambda": 0.95,
    "value.lr": 1e-3,
    "value.max_norm": 1.0,
    "progress.choose": "last",
    "progress.keep_checkpoints": 2,
    "progress.table_tasks": 4,
    "cloning.model.init.tokenizer.multiword_share": 0.02,
    "model.init.tokenizer.multiword_share": 0.02,
    "rollout.push": "disk",
    "rollout.push_backend": "auto",
    "rollout.cluster.ray_lease": 30.0,
}
"""Keys of later programs that cannot be off, with what programs before them did."""
RENAMED_KEYS: Final[Mapping[str, str]] = {
    "agent_eval.env": "environments",
    "at_once": "max_workers",
    "clipping": "clip",
    "clipping.low": "eps_low",
    "clipping.high": "eps_high",
    "clipping.kl": "kl_coef",
    "horizon": "turn_curriculum",
    "passes": "ppo_epochs",
    "staleness": "max_off_policy_steps",
    "players": "rollout",
    "pretraining.player": "policy",
    "environments.*.base": "base_tasks",
    "environments.*.large": "large_tasks",
    "environments.*.opening": "conversation_start",
    "environments.*.read": "pretrain_tasks",
    "environments.*.readings": "pretrain_samples",
    "cloning.model.init.tokenizer.phrases": "multiword_tokens",
    "model.init.tokenizer.phrases": "multiword_tokens",
}
"""Dotted path of a key as recipes had it once (`*` = any element of a list) -> its name now.

Runs that were recorded with the old names stay resumable, and old recipe files readable.
"""
SHORT_KEYS: Final[Mapping[str, str]] = {
    "ray": "rollout.cluster.address",
    "ray_workers": "rollout.cluster.ray_workers",
    "ray_servers": "rollout.cluster.ray_servers",
    "ray_lease": "rollout.cluster.ray_lease",
}
"""Flags that are called as those of `orchestrator.sample`, and the keys that they set."""
_ONCE_COMMA_SEPARATED: Final = frozenset({"agent_eval.env"})
"""Old keys whose value was one text of names, and is a list now."""


def load_recipe(kind: type[T], path: Path | None, overrides: Mapping[str, str] | None = None) -> T:
    """Read a recipe from a TOML file, with dotted overrides laid over it.

    Args:
        kind: The recipe's dataclass.
        path: The file; None = all defaults. Relative paths in it are relative to the working
            folder.
        overrides: Dotted key -> value as the command line gave it.

    Raises:
        RecipeError: The file cannot be read, or a key is unknown or has an impossible value.
    """
    renamed = {_rename_dotted(key): text for key, text in (overrides or {}).items()}
    try:
        values = rename_keys({} if path is None else read_toml(path))
        apply_overrides(kind, values, renamed)
        return convert(kind, values)
    except ConfigurationError as error:
        raise _as_recipe_error(error) from error


def build(kind: type[T], values: Mapping[str, Any]) -> T:
    """Build a recipe, or a part of one, from JSON-like values; raises RecipeError."""
    try:
        return convert(kind, rename_keys(values))
    except ConfigurationError as error:
        raise _as_recipe_error(error) from error


def recipe_differences(
    recorded: Mapping[str, Any], requested: Mapping[str, Any]
) -> list[Difference]:
    """Return the keys in which a recorded recipe and a requested one differ.

    A key that the recorded recipe did not have equals one that is off now (null, false, 0 or
    empty), or is what `KEYS_ADDED` says, so that a newer program can resume what an older one
    began.
    """
    changes = differences(rename_keys(recorded), requested, absent_is_off=True)
    # A section that was empty and has keys now: each key that is not off stands for itself.
    return [
        change
        for change in changes
        if (change.old, change.new) != ("{}", "-")
        and (change.old, change.new) != ("-", json.dumps(KEYS_ADDED.get(change.field)))
    ]


def rename_keys(values: Mapping[str, Any]) -> Plain:
    """Return the values of a recipe with today's names for its keys; raises RecipeError."""
    return cast("Plain", _rename(values, ""))


def _rename(value: Any, path: str) -> Any:
    if isinstance(value, list | tuple):
        return [_rename(inner, _join(path, "*")) for inner in cast("list[Any]", value)]
    if not isinstance(value, Mapping):
        return value
    renamed: Plain = {}
    for key, inner in cast("Mapping[str, Any]", value).items():
        old = _join(path, key)
        name = RENAMED_KEYS.get(old, key)
        if name in renamed or (name != key and name in value):
            raise RecipeError(f"is set twice: it was renamed to {name}", field=old)
        if old in _ONCE_COMMA_SEPARATED and isinstance(inner, str):
            inner = list(parse_names(inner))
        renamed[name] = _rename(inner, old)
    return renamed


def _rename_dotted(dotted: str) -> str:
    """Return today's name of a dotted key, or of a short one; numbers are elements of lists."""
    path, names = "", list[str]()
    for name in SHORT_KEYS.get(dotted, dotted).split("."):
        path = _join(path, "*" if name.isdecimal() else name)
        names.append(RENAMED_KEYS.get(path, name))
    return ".".join(names)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _as_recipe_error(error: ConfigurationError) -> RecipeError:
    message = str(error).removeprefix(f"{error.field}: ")
    return RecipeError(message, field=error.field)
