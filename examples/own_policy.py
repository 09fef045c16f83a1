"""A policy of your own in twenty lines: it walks a maze by what it reads, without any model.

From this folder every command of a run takes it by its module's name:

    python -m orchestrator.sample --env maze --policy own_policy:make,own_policy:make:right,random
"""

import random
from collections.abc import Sequence

from agent_runtime.conversation import Message
from agent_runtime.policies import Completion, EpisodeContext, Policy, PolicyConfig, PolicySession

WALLS = {"up": "above", "down": "below", "left": "your left", "right": "your right"}


class Wanderer(Policy):
    def __init__(self, favourite: str) -> None:
        self.name, self.favourite = "wanderer", favourite

    def open(self, context: EpisodeContext) -> PolicySession:
        return Walk(self.favourite)


class Walk(PolicySession):
    def __init__(self, favourite: str) -> None:
        self.favourite = favourite

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        walls = messages[-1].text.rpartition("There are walls")[2]
        free = [way for way, side in WALLS.items() if side not in walls] or list(WALLS)
        way = self.favourite if self.favourite in free else random.Random(seed).choice(free)
        return Completion(text=f"Thought:\nI see no wall there.\n\nAction:\nmove {way}")


def make(target: str, config: PolicyConfig) -> Policy:
    return Wanderer(favourite=target)
