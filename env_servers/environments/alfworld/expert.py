"""What the scripted players say: the scripted player's next step, and a short true reason for it.

Contains the wording of thoughts and the random player's choice. Everything is a pure function of
its arguments.
"""

from __future__ import annotations

import random
import re
from typing import Final

from env_servers.environments.alfworld.play import Play
from env_servers.environments.alfworld.scripted_player import Purpose, Step, next_step
from env_servers.sdk import Advice

__all__ = ["advise", "idle_advice", "random_advice"]

_THOUGHTS: Final = {
    Purpose.FETCH: (
        "The task needs {thing}, and it is to be found at {place}. I go there.",
        "I have to get {thing} first. Its place is {place}, so that is where I go.",
        "Next I fetch {thing}. I go to {place} for it.",
    ),
    Purpose.REVEAL: (
        "{place} is closed, and {thing} is inside. I open it.",
        "To get at {thing} I have to open {place}.",
        "I stand before {place}, which is closed. I need {thing} from it, so I open it.",
    ),
    Purpose.TAKE: (
        "Here is {thing}, which the task is about. I take it from {place}.",
        "I need {thing}, it is here, and my hands are free. I take it.",
        "{place} has {thing}. I pick it up.",
    ),
    Purpose.APPROACH: (
        "I carry {thing}, but it is not yet as the task wants it. {place} can change that.",
        "Before I deliver {thing}, I have to {verb} it. For that I go to {place}.",
        "{thing} still has to be worked on: I go to {place} to {verb} it.",
    ),
    Purpose.TREAT: (
        "I am at {place} with {thing}. Now I {verb} it.",
        "The task wants me to {verb} {thing}, and {place} is what does it.",
        "Everything is in place to {verb} {thing}.",
    ),
    Purpose.DELIVER: (
        "I carry {thing} as it is wanted. It belongs to {place}, so I go there.",
        "{thing} is ready to be delivered. I take it to {place}.",
        "What remains is to bring {thing} to {place}.",
    ),
    Purpose.UNLOCK: (
        "{place} is closed. I have to open it before {thing} can go in.",
        "To put {thing} into {place}, I open it first.",
        "{thing} belongs into {place}, which is closed. I open it.",
    ),
    Purpose.PUT: (
        "I am at {place} with {thing}. I put it there, as the task says.",
        "This is where {thing} belongs, so I put it down here.",
        "{place} is the right place for {thing}.",
    ),
    Purpose.SEEK_LIGHT: (
        "I have {thing} in my hand and need light. The lamp is at {place}.",
        "To look at {thing} under the lamp, I carry it to {place}.",
        "The lamp stands at {place}. I go there with {thing}.",
    ),
    Purpose.LIGHT: (
        "The lamp is right here. I use it.",
        "I hold what I have to look at, and {thing} is here: I use it.",
        "With {thing} on, the task is done. I use it.",
    ),
    Purpose.RID: (
        "I carry {thing}, which does not help now. I put it away, at {place}.",
        "My hands have to be free, so {thing} goes to {place}.",
        "{thing} is not what I need now. {place} can hold it.",
    ),
}
_VERBS: Final = {"cleanobject": "clean", "heatobject": "heat", "coolobject": "cool"}
_SENTENCE: Final = re.compile(r"(?:^|(?<=\. ))[a-z]")
"""The first letter of a sentence."""
_STUCK: Final = "I know no way to the goal from here, so I look around."
_WORK: Final = {"sinkbasin": "clean", "sink": "clean", "microwave": "heat", "fridge": "cool"}


def advise(play: Play, wording: int) -> Advice:
    """Return the first step of a plan from here; `wording` chooses among equal phrasings."""
    step = next_step(play.game, play.state)
    if step is None:
        return Advice("look", _STUCK)
    return Advice(play.game.command(play.state, step.grounded), _thought(play, step, wording))


def random_advice(play: Play, rng: random.Random) -> Advice:
    """Return one of the commands that do something."""
    return Advice(rng.choice(play.admissible() or ["look"]), "I try something at random.")


def idle_advice() -> Advice:
    """Return a command that changes nothing."""
    return Advice("inventory", "I only look at what I carry.")


def _thought(play: Play, step: Step, wording: int) -> str:
    names = play.game.names
    thing, place = (f"the {names.get(name, name)}" for name in (step.thing, step.place))
    kind = names.get(step.place, "").partition(" ")[0]
    verb = _VERBS.get(step.grounded.action, _WORK.get(kind, "prepare"))
    choices = _THOUGHTS[step.purpose]
    text = choices[wording % len(choices)].format(thing=thing, place=place, verb=verb)
    return _SENTENCE.sub(lambda match: match[0].upper(), text)
