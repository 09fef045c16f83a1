"""Registers every installed environment with Gymnasium, for example as "agentgym/TextCraft-v0".

`gymnasium.make("agentgym.gymnasium:agentgym/TextCraft-v0")` imports it, too. Needs the extra
`gymnasium`.
"""

from agent_runtime.adapters.gymnasium import GymnasiumEnv, GymnasiumVectorEnv, Unicode, register
from env_servers.sdk.registry import display_name, environment_names

__all__ = ["GymnasiumEnv", "GymnasiumVectorEnv", "Unicode"]

register({f"agentgym/{display_name(name)}-v0": name for name in environment_names()})
