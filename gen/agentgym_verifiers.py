"""Environments for verifiers: `vf-eval agentgym-verifiers --env.taskset.env textcraft`.

verifiers finds a taskset by the name of a top-level module, and by these names what plays it. Needs
the extra `verifiers`.
"""

from agent_runtime.adapters.verifiers_environment import AgentGymEnv, AgentGymTaskset, ChatHarness

__all__ = ["AgentGymEnv", "AgentGymTaskset", "ChatHarness"]
