"""`failing:Once`: the expert, whose first episode of every item fails."""

from __future__ import annotations

from agent_runtime.errors import PolicyLost
from agent_runtime.policies import EpisodeContext, Policy, PolicyConfig, PolicySession
from agent_runtime.policies.scripted import ScriptedPolicy
from agent_runtime.spending import Pricing

_begun: set[str] = set()
"""Items that were opened, by whichever worker of this process."""


class Once(Policy):
    pricing = Pricing.FREE

    def __init__(self, target: str, config: PolicyConfig) -> None:
        self.name = "once"

    def open(self, context: EpisodeContext) -> PolicySession:
        if context.item_id not in _begun:
            _begun.add(context.item_id)
            raise PolicyLost("the first episode of an item fails")
        return ScriptedPolicy("expert").open(context)
