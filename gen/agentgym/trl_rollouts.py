"""Environments for TRL: `GRPOTrainer(rollout_func=rollouts, reward_funcs=rollouts.score, ...)`.

Needs the extra `trl`.
"""

from agent_runtime.adapters.trl_rollouts import Rollouts

__all__ = ["Rollouts"]
