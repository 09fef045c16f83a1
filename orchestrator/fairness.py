"""Whether two runs may be compared: every setting in which they differ beside who played.

What decided an episode is read where it is surest: environment, task, profile, options, wording and
seed from what both runs recorded of one item, everything else from the manifests. Which policy and
which weights played is what a comparison is about, and is no difference here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.json_format import MessageToDict

from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator import configuration
from orchestrator.config import SCRIPTED_POLICIES, RunConfig
from orchestrator.errors import ConfigurationError, Difference
from orchestrator.manifest import Manifest
from orchestrator.records import enum_name

__all__ = ["setting_differences"]

_HASH_DIGITS: Final = 12
_NOT_HOW: Final = (
    *("policies", "policy", "model", "agent", "seed", "step"),
    *("environments", "items", "episodes", "per_environment", "suite", "resolved_suite"),
)
"""Fields of a configuration that say who plays what: seen in the records, and in `sampling`."""


def setting_differences(
    manifests: tuple[Manifest, Manifest],
    policies: tuple[str, str],
    openings: Iterable[tuple[episode_pb2.Episode, episode_pb2.Episode]],
) -> list[Difference]:
    """Return the settings that differ between two runs, by dotted name.

    Args:
        manifests: Of the first and of the second run.
        policies: Who is compared; settings of models count only where both are models.
        openings: For each environment what both runs recorded of the same item and sample.
    """
    sides: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    environments: list[str] = []
    for episodes in openings:
        environments.append(episodes[0].environment)
        for side, episode in zip(sides, episodes, strict=True):
            side[episode.environment] = _episode_settings(episode)
    kinds = [policy.partition(":")[0] for policy in policies]
    models = [] if any(kind in SCRIPTED_POLICIES for kind in kinds) else kinds
    for side, settings in zip(sides, _run_settings(manifests, environments, models), strict=True):
        for name, value in settings.items():
            side[name] = {**side.get(name, {}), **value} if isinstance(value, dict) else value
    return configuration.differences(*sides)


def _episode_settings(episode: episode_pb2.Episode) -> dict[str, Any]:
    said = [message.text for message in episode.messages if not message.sampled]
    options = MessageToDict(episode.options)
    return {
        "version": episode.environment_version,
        "digest": episode.environment_digest,
        "split": episode.split,
        "profile": episode.profile,
        **({"options": options} if options else {}),
        "action_format": enum_name(types_pb2.ActionFormat, episode.action_format).lower(),
        "conversation_start": said[:_START_MESSAGES],
        "seed": episode.seed,
        "opening_state": episode.steps[0].state_hash.hex() if episode.steps else "",
    }


_START_MESSAGES: Final = 2
"""Instruction and acknowledgement; the next one is the first observation."""


def _run_settings(
    manifests: tuple[Manifest, Manifest], environments: Sequence[str], models: Sequence[str]
) -> list[dict[str, Any]]:
    configs = [_config(manifest) for manifest in manifests]
    codes = [_code(manifest) for manifest in manifests]
    known = codes[0].keys() & codes[1].keys()
    settings: list[dict[str, Any]] = []
    for manifest, config, code in zip(manifests, configs, codes, strict=True):
        if config is None or None in configs:
            # A training's own few fields, or those of another version: by their recorded names.
            own: dict[str, Any] = {
                "config": _without(manifest.config, _NOT_HOW),
                "sampling": dict(manifest.sampling) if models else {},
            }
        else:
            own = _config_settings(config, environments, models)
        settings.append(own | {"code": {name: code[name] for name in known}})
    return settings


def _config(manifest: Manifest) -> RunConfig | None:
    """Return a manifest's configuration; None = it is none of this program's commands."""
    try:
        return RunConfig.from_manifest(manifest)
    except ConfigurationError:
        return None


def _config_settings(
    config: RunConfig, environments: Sequence[str], models: Sequence[str]
) -> dict[str, Any]:
    played = config.resume_key()
    settings: dict[str, Any] = {"per_episode": played["per_episode"]}
    for name in environments:
        settings[name] = {
            "max_rounds": config.environment_settings(name).max_rounds,
            "samples": config.environment_samples(name),
        }
    if models:
        unused = [kind for kind in ("sglang", "embedded") if kind not in models]
        settings["agent"] = _without(played["agent"], unused)
    return settings


def _code(manifest: Manifest) -> dict[str, list[str]]:
    """Return by which code the sessions of a run were played, as far as that was recorded."""
    code: dict[str, list[str]] = {}
    for name in ("code_version", "code_hash", "lock_hash"):
        values = {getattr(session, name) for session in manifest.sessions}
        if None not in values:
            code[name] = sorted(value[:_HASH_DIGITS] for value in values)
    return code


def _without(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    left_out = frozenset(names)
    return {name: value for name, value in values.items() if name not in left_out}
