"""Trained agents in folders: a checkpoint, and a manifest of what it plays and what it scored.

    manifest.py  `agent.json`: settings of each environment, held-out tasks, metrics
    laptop/      the agent of this package

Importing this package loads no engine: a manifest is JSON.
"""

from agent_runtime.agents.manifest import (
    BUNDLED_AGENT,
    AgentManifest,
    AgentMetric,
    PlaySettings,
    agent_folder,
    read_agent_manifest,
    write_agent_manifest,
)

__all__ = [
    "BUNDLED_AGENT",
    "AgentManifest",
    "AgentMetric",
    "PlaySettings",
    "agent_folder",
    "read_agent_manifest",
    "write_agent_manifest",
]
