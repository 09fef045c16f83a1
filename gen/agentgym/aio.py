"""The library for programs with an event loop: `agentgym.aio.make` and what it leads to."""

from agent_runtime.library.aio import Environment, Episode, make
from agent_runtime.library.vector import Vector

__all__ = ["Environment", "Episode", "Vector", "make"]
