"""A trained agent as a policy: `agent` (the package's own) or `agent:FOLDER`.

Owns the check that what it needs is installed, and the refusal of environments that it does not
know. Its model is played by the embedded engine; its settings are its card's, which whoever plans
the episodes applies.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from agent_runtime.agents.card import AgentCard
from agent_runtime.engine.backend import is_installed
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.policies.base import EpisodeContext, PolicySession
from agent_runtime.policies.config import PolicyConfig
from agent_runtime.policies.embedded import EmbeddedPolicy

__all__ = ["AgentPolicy"]

_NEEDED: Final = ("jinja2", "safetensors", "tokenizers")


class AgentPolicy(EmbeddedPolicy):
    """The agent in a folder with a card."""

    def __init__(self, name: str, folder: Path, card: AgentCard, config: PolicyConfig) -> None:
        """`name` as on the command line. Nothing is loaded before `start`."""
        if config.embedded.dtype == "auto":
            # Stored in half precision for its size; judged in float32, on a GPU as well.
            config = replace(config, embedded=replace(config.embedded, dtype="float32"))
        super().__init__(folder, config)
        self.name = name
        self.card = card

    async def start(self) -> None:
        """Load tokenizer and weights. Raises PolicyError, naming the extra where it is missing."""
        backend = self.config.embedded.backend
        needed = (*_NEEDED, *(("numpy",) if backend != "torch" else ()))
        missing = [module for module in needed if not is_installed(module)]
        if missing:
            raise PolicyMisconfigured(
                f"the policy {self.name} needs an extra, {', '.join(missing)} is not installed: "
                'pip install "agentgym-grpc[agent]"; or play without it: --policy expert,random'
            )
        await super().start()

    def open(self, context: EpisodeContext) -> PolicySession:
        """A session; raises PolicyMisconfigured for an environment that is not on the card."""
        if context.environment not in self.card.environments:
            raise PolicyMisconfigured(
                f"the agent {self.card.name} did not learn {context.environment}; it plays "
                f"{', '.join(self.card.environments)}"
            )
        return super().open(context)
