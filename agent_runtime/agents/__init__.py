"""Trained agents in folders: a checkpoint, and a card that says what it plays and what it scored.

    card.py      `agent.json`: settings of each environment, held-out tasks, figures
    laptop/      the agent of this package

Importing this package loads no engine: a card is JSON.
"""

from agent_runtime.agents.card import (
    SHIPPED,
    AgentCard,
    AgentFigure,
    PlaySettings,
    agent_folder,
    read_card,
    write_card,
)

__all__ = [
    "SHIPPED",
    "AgentCard",
    "AgentFigure",
    "PlaySettings",
    "agent_folder",
    "read_card",
    "write_card",
]
