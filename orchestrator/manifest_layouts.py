"""Manifests of earlier programs, brought to the present layout when they are read.

    1   `config` held what was typed on a command line: names joined by commas, options as JSON
    2   `config` holds values: lists, objects, the two messages that open a conversation
    3   a run may have shards: an earlier program would take a part of it for the whole

A run that was begun under an earlier layout is read, audited and resumed like any other; its file
changes when a resume writes it again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from agent_runtime.policies.registry import PolicySpec
from orchestrator.configuration import parse_names, to_plain
from orchestrator.errors import UsageError
from orchestrator.prompts import load_conversation_start

__all__ = ["MANIFEST_SCHEMA", "upgrade"]

MANIFEST_SCHEMA: Final = 3
"""The layout that this program writes."""


def upgrade(document: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest's JSON document in the present layout.

    Raises:
        KeyError, TypeError, ValueError: The document is incomplete.
    """
    if document["schema_version"] >= 2:
        return document | {"schema_version": MANIFEST_SCHEMA}
    upgraded = {name: value for name, value in document.items() if name != "model_hash"}
    upgraded["schema_version"] = MANIFEST_SCHEMA
    if "env" in document["config"]:  # else a training step's own few fields
        upgraded["config"] = _upgrade_config(dict(document["config"]))
    return upgraded


def _upgrade_config(config: dict[str, Any]) -> dict[str, Any]:
    config["environments"] = list(parse_names(config.pop("env")))
    config["policies"] = [
        to_plain(PolicySpec.parse(name)) for name in parse_names(config.pop("policy"))
    ]
    config["items"] = list(parse_names(config["items"]))
    config["options"] = json.loads(config["options"]) if config["options"] else {}
    config["conversation_start"] = []
    if config["prompts_from"] is not None:
        try:
            # The file is read once more, for the last time: from now on the messages are recorded.
            start = load_conversation_start(Path(config["prompts_from"]))
            config["conversation_start"], config["prompts_from"] = list(start), None
        except UsageError:
            pass  # it is gone: the run can be read, and a resume will name the file
    config["per_environment"] = {
        name: _upgrade_settings(dict(settings)) for name, settings in config.pop("play", {}).items()
    }
    return config


def _upgrade_settings(settings: dict[str, Any]) -> dict[str, Any]:
    settings["conversation_start"] = settings.pop("opening")
    return settings
