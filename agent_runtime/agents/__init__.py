"""Trained agents in folders: a checkpoint, and a manifest of what it plays and what it scored.

    manifest.py  `agent.json`: settings of each environment, held-out tasks, metrics
    cloned/      the agent of this package, which plays environments as they are
    laptop/      a smaller one that learned shortened settings, to train further

Importing this package loads no engine: a manifest is JSON.
"""

from agent_runtime.agents.manifest import (
    BUNDLED_AGENT,
    LEARNER_AGENT,
    PACKAGED_AGENTS,
    AgentManifest,
    AgentMetric,
    PlaySettings,
    agent_folder,
    read_agent_manifest,
    write_agent_manifest,
)

__all__ = [
    "BUNDLED_AGENT",
    "LEARNER_AGENT",
    "PACKAGED_AGENTS",
    "AgentManifest",
    "AgentMetric",
    "PlaySettings",
    "agent_folder",
    "read_agent_manifest",
    "write_agent_manifest",
]
