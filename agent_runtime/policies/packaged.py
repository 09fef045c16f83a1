"""A trained agent as a policy: `agent` (the package's own) or `agent:FOLDER`.

Its model is played by the embedded engine. The settings in its manifest are applied by whoever
plans the episodes, who also decides whether it plays what it did not learn.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from agent_runtime.agents.manifest import AgentManifest
from agent_runtime.engine.backend import is_installed
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.extras import install_command
from agent_runtime.policies.config import PolicyConfig
from agent_runtime.policies.embedded import EmbeddedPolicy

__all__ = ["AgentPolicy"]

_NEEDED: Final = ("jinja2", "safetensors", "tokenizers")


class AgentPolicy(EmbeddedPolicy):
    """The agent in a folder with a manifest."""

    def __init__(
        self, name: str, folder: Path, manifest: AgentManifest, config: PolicyConfig
    ) -> None:
        """Prepare the agent, under its name on the command line; `start` loads it."""
        if config.embedded.dtype == "auto":
            # Stored in half precision for its size; evaluated in float32, on a GPU as well.
            config = replace(config, embedded=replace(config.embedded, dtype="float32"))
        super().__init__(folder, config)
        self.name = name
        self.manifest = manifest

    async def start(self) -> None:
        """Load tokenizer and weights. Raises PolicyError, naming the extra where it is missing."""
        backend = self.config.embedded.backend
        needed = (*_NEEDED, *(("numpy",) if backend != "torch" else ()))
        missing = [module for module in needed if not is_installed(module)]
        if missing:
            raise PolicyMisconfigured(
                f"the policy {self.name} needs an extra, {', '.join(missing)} is not installed: "
                f"{install_command('agent')}; or play without it: --policy expert,random"
            )
        await super().start()
