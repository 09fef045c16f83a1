"""The tokenizer that a run was played with, as far as it is still here."""

from __future__ import annotations

import contextlib
from datetime import date
from pathlib import Path
from typing import NamedTuple

from agent_runtime.agents import PACKAGED_AGENTS, agent_folder
from agent_runtime.engine.checkpoint import weights_digest
from agent_runtime.errors import ModelNotMade, PolicyMisconfigured
from agent_runtime.models import resolve_model
from agent_runtime.policies import PolicySpec
from orchestrator.config import AGENT_POLICY, EMBEDDED_POLICY, SERVED_POLICY, RunConfig
from orchestrator.errors import ConfigurationError
from orchestrator.manifest import Manifest

__all__ = ["RunTokenizer", "find_tokenizer"]


class RunTokenizer(NamedTuple):
    """Where a tokenizer lies, and how its chat template is used."""

    folder: Path
    chat_template: Path | None
    """A file that takes the place of the model's own template."""
    today: date
    """For templates that print the date."""


def find_tokenizer(manifest: Manifest, given: Path | None = None) -> RunTokenizer | None:
    """Return the tokenizer that a run names; None = it names none, or it is not here any more.

    Args:
        manifest: Of the run.
        given: Takes the place of the one that the run names; it is not looked for.
    """
    try:
        config = RunConfig.from_manifest(manifest)
    except ConfigurationError:
        config = RunConfig()  # another program's run, for example a training step
    models = [
        policy for policy in config.policies if policy.kind in (EMBEDDED_POLICY, SERVED_POLICY)
    ]
    embedded = [policy for policy in models if policy.kind == EMBEDDED_POLICY]
    targets = [Path(policy.target) for policy in embedded if policy.target]
    if not models:
        targets = _agent_folders(manifest)
    openai = config.agent.openai
    if targets or embedded:
        settings, tokenizer = config.agent.embedded, None
    elif openai.api == "token_ids":
        settings, tokenizer = openai, openai.tokenizer
    else:
        settings, tokenizer = config.agent.sglang, config.agent.sglang.tokenizer
    named = tokenizer or config.model or next(map(str, targets), "")
    folder = given or (_model_folder(named) if named else None)
    if folder is None or (given is None and not (folder / "tokenizer.json").is_file()):
        return None
    today = date.fromisoformat(settings.template_date or manifest.created[:10])
    return RunTokenizer(folder, settings.chat_template, today)


def _model_folder(named: str) -> Path | None:
    try:
        return Path(resolve_model(named))
    except ModelNotMade:  # the run was played on another machine
        return None


def _agent_folders(manifest: Manifest) -> list[Path]:
    """Return the folders of agents that played, as far as they still hold the same weights."""
    folders: list[Path] = []
    for name, identity in (manifest.policies or {}).items():
        policy = PolicySpec.parse(name)
        if policy.kind != AGENT_POLICY:
            continue
        with contextlib.suppress(PolicyMisconfigured):
            known = (agent_folder(policy.target),) if policy.target else PACKAGED_AGENTS
            folders += [it for it in known if weights_digest(it) == identity.get("weights")]
    return folders
