"""Environments for verifiers: `vf-eval agentgym.verifiers_environment -a '{"env": "textcraft"}'`.

Needs the extra `verifiers`.
"""

from agent_runtime.adapters.verifiers_environment import VerifiersEnv, load_environment

__all__ = ["VerifiersEnv", "load_environment"]
