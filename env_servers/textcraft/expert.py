"""What the scripted player says: the plan's next action, and a short true reason for it.

Owns the wording of thoughts and the random player's choice. The expert follows only the commands
that the task shows. Everything is a pure function of the arguments.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

from env_servers.sdk import Advice
from env_servers.textcraft.planner import Craft, Get, plan
from env_servers.textcraft.world import Recipe, World, spoken

__all__ = ["advise", "random_advice"]

_GET: Final = (
    "Crafting {purpose} takes {item}, which no command makes. I get {count} of it.",
    "I need {count} {item} on the way to {purpose}, so I take it now.",
    "For {purpose} I am short of {count} {item}. It is a basic material, so I can get it.",
    "Next on my list is {item}: {count} will do, first of all for {purpose}.",
)
_CRAFT: Final = (
    "I carry {inputs}, which is what {item} needs. I craft it, because {purpose} requires it.",
    "To make {purpose} I need {item}. With {inputs} I can craft {count} of it.",
    "The ingredients for {item} are complete: {inputs}. It is a step towards {purpose}.",
    "Before I can craft {purpose} there must be {item}, so I use {inputs} now.",
)
_FINISH: Final = (
    "Everything for {item} is in my inventory: {inputs}. This completes the task.",
    "I now have {inputs}, so I can craft the goal, {item}.",
    "The last step: {inputs} make {item}, which is what I was asked for.",
    "All that {item} takes is {inputs}, and I carry that. I craft it.",
)
_STUCK: Final = "None of the commands leads to {goal}; I look at what I carry."


def advise(
    world: World,
    shown: Sequence[Recipe],
    goal: str,
    carried: Mapping[str, int],
    wording: int,
) -> Advice:
    """The first action of a plan from here; `wording` chooses among equal phrasings."""
    steps = plan(world, shown, goal, carried)
    if not steps:
        return Advice("inventory", _STUCK.format(goal=spoken(goal)))
    return Advice(steps[0].action, _thought(steps[0], goal, wording))


def _thought(step: Get | Craft, goal: str, wording: int) -> str:
    purpose = spoken(step.purpose)
    if isinstance(step, Get):
        template = _GET[wording % len(_GET)]
        return template.format(item=spoken(step.item), count=step.amount, purpose=purpose)
    chosen = _FINISH if step.recipe.item == goal else _CRAFT
    inputs = " and ".join(f"{count} {spoken(item)}" for item, count in step.inputs)
    return chosen[wording % len(chosen)].format(
        item=spoken(step.recipe.item), count=step.recipe.count, inputs=inputs, purpose=purpose
    )


def random_advice(commands: Sequence[str], shown: Sequence[Recipe], rng: random.Random) -> Advice:
    """One of: the inventory, a shown command as it stands, an ingredient of a shown command."""
    gets = dict.fromkeys(
        f"get {part.count} {spoken(part.name)}" for recipe in shown for part in recipe.ingredients
    )
    return Advice(rng.choice(["inventory", *commands, *gets]), "I try something at random.")
