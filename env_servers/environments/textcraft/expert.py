"""What the scripted player says: the plan's next action, and a short true reason for it.

Contains the wording of thoughts and the random player's choice. The expert follows only the
commands that the task shows. Everything is a pure function of the arguments.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

from env_servers.environments.textcraft.planner import Craft, Get, plan
from env_servers.environments.textcraft.world import Recipe, World, spoken
from env_servers.sdk import Advice

__all__ = ["advise", "random_advice"]

_AIM: Final = "The goal is {goal}. {what}"
_GET: Final = (
    "For {purpose} I get {count} {item}, which no command makes.",
    "For {purpose} I get {count} {item}: it is a basic material.",
    "For {purpose} I get {count} {item}, of which I carry too little.",
    "For {purpose} I get {count} {item}. It is what its command asks for.",
)
_CRAFT: Final = (
    "I craft {count} {item} from {inputs}, because {purpose} requires it.",
    "I craft {count} {item}, as I carry {inputs}. It goes into {purpose}.",
    "I craft {count} {item}: {inputs} are complete, and it is a step towards {purpose}.",
    "I craft {count} {item}. Before {purpose} there must be that, so I use {inputs} now.",
)
_FINISH: Final = (
    "I craft {count} {item}: everything for it is in my inventory, {inputs}.",
    "I craft {count} {item}, as I now have {inputs}. This completes the task.",
    "I craft {count} {item} in the last step, from {inputs}.",
    "I craft {count} {item}. All that it takes is {inputs}, and I carry that.",
)
_STUCK: Final = "None of the commands leads to {goal}; I look at what I carry."


def advise(
    world: World,
    shown: Sequence[Recipe],
    goal: str,
    carried: Mapping[str, int],
    wording: int,
) -> Advice:
    """Return the first action of a plan from here; `wording` chooses among equal phrasings."""
    steps = plan(world, shown, goal, carried)
    if not steps:
        return Advice("inventory", _STUCK.format(goal=spoken(goal)))
    return Advice(
        steps[0].action, _AIM.format(goal=spoken(goal), what=_reason(steps[0], goal, wording))
    )


def _reason(step: Get | Craft, goal: str, wording: int) -> str:
    purpose = spoken(step.purpose)
    if isinstance(step, Get):
        template = _GET[wording % len(_GET)]
        return template.format(item=spoken(step.item), count=step.amount, purpose=purpose)
    reasons = _FINISH if step.recipe.item == goal else _CRAFT
    inputs = " and ".join(f"{count} {spoken(item)}" for item, count in step.inputs)
    return reasons[wording % len(reasons)].format(
        item=spoken(step.recipe.item), count=step.recipe.count, inputs=inputs, purpose=purpose
    )


def random_advice(
    commands: Sequence[str], shown: Sequence[Recipe], goal: str, rng: random.Random
) -> Advice:
    """Return one of: the inventory, a shown command as it stands, an ingredient of a shown command.

    The thought names the goal, which is not aimed at, and what is tried.
    """
    tried = {"inventory": "I look at what I carry."}
    for command in commands:
        what = command.removeprefix("craft ").split(" using ")[0]
        tried[command] = f"I craft {what}, at random."
    gets: list[str] = []
    for recipe in shown:
        for part in recipe.ingredients:
            get = f"{part.count} {spoken(part.name)}"
            if f"get {get}" not in tried:
                gets.append(f"get {get}")
                tried[gets[-1]] = f"For {spoken(recipe.item)} I get {get}, at random."
    action = rng.choice(["inventory", *commands, *gets])
    return Advice(action, _AIM.format(goal=spoken(goal), what=tried[action]))
