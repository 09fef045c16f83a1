"""SciWorld: elementary-school science in a simulated house, on the ScienceWorld simulator."""

import scienceworld as _engine  # noqa: F401 - a missing engine is told when the package is imported

from env_servers.environments.sciworld.environment import SciWorld

environment = SciWorld

__all__ = ["SciWorld", "environment"]
