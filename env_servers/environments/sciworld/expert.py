"""What the scripted player says: the simulator's gold path, and the way back to it.

Contains the choice of the next action and the wording of thoughts. Everything is a pure function of
the path, the actions so far, and what the room looks like; nothing is remembered.

An agent that left the path is led on from the last step of it that was made: what was done in
between is taken as harmless, except that the expert walks back to the place where the next step
belongs. It gives up silently when that was not enough; the README tells how often.
"""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from env_servers.environments.sciworld.facts import ROOMS
from env_servers.environments.sciworld.prompt import expressible
from env_servers.sdk import Advice

__all__ = ["advise", "progress", "random_advice"]

_PLACE: Final = re.compile(r"This (?:room|outside location) is called the ([a-z ]+)\.")
_GOES: Final = re.compile(r"(?:go|teleport) to (.+)")
_AMBIGUOUS: Final = "Ambiguous request"

_THOUGHTS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        r"look around",
        (
            "I should see what is in this place before I go on.",
            "Let me find out what there is here.",
            "A look at the room tells me what I can work with.",
        ),
    ),
    (
        r"open door to (?P<a>.+)",
        (
            "My way leads to the {a}, so its door has to be open.",
            "To get to the {a} I open the door first.",
            "The {a} is next; the door must not be in the way.",
        ),
    ),
    (
        r"(?:go|teleport) to (?P<a>.+)",
        (
            "What I need next is done in or beyond the {a}, so I go there.",
            "The next step of my plan leads me to the {a}.",
            "I walk on to the {a}.",
        ),
    ),
    (
        r"focus on (?P<a>.+)",
        (
            "The task wants me to point out the thing that it is about: the {a}.",
            "This is the thing in question, so I focus on the {a}.",
            "the {a} is what the task asks for; I declare it now.",
        ),
    ),
    (
        r"pick up (?P<a>.+)",
        (
            "I will need the {a} later on, so I take it with me.",
            "the {a} belongs to my plan; I pick it up.",
            "Carrying the {a} lets me use it elsewhere.",
        ),
    ),
    (
        r"(?:move|pour|dunk) (?P<a>.+?) (?:in )?(?:to|into|in) (?P<b>.+)",
        (
            "For the next part the {a} has to be in the {b}.",
            "I bring the {a} to the {b}, as the experiment requires.",
            "the {b} is where the {a} belongs now.",
        ),
    ),
    (
        r"use (?P<a>.+?) on (?P<b>.+)",
        (
            "Using the {a} on the {b} gives me what I need to know or to have.",
            "I apply the {a} to the {b}; its result decides what comes next.",
            "Now the {a} can do its work on the {b}.",
        ),
    ),
    (
        r"connect (?P<a>.+?) to (?P<b>.+)",
        (
            "The circuit needs a connection from the {a} to the {b}.",
            "I join the {a} and the {b} so that current can flow.",
            "Next part of the circuit: the {a} and the {b}.",
        ),
    ),
    (
        r"(?:activate|use) (?P<a>.+)",
        (
            "the {a} has to run for the next step.",
            "I switch on the {a}, which the experiment needs.",
            "Without the {a} at work nothing would happen, so I start it.",
        ),
    ),
    (
        r"deactivate (?P<a>.+)",
        (
            "the {a} has done its part; I switch it off.",
            "I do not need the {a} running any longer.",
            "the {a} can be turned off now.",
        ),
    ),
    (
        r"wait1?",
        (
            "This takes time, so I let some pass.",
            "Nothing but time is missing now; I wait.",
            "I give the process a moment.",
        ),
    ),
    (
        r"(?:examine|look at|look in|read) (?P<a>.+)",
        (
            "I have to check the {a} before I decide.",
            "A closer look at the {a} tells me how far things are.",
            "What the {a} shows matters for the next step.",
        ),
    ),
    (
        r"\d+",
        (
            "Several things fit my words; I pick the one that I mean.",
            "I answer the question with the number of the right one.",
            "That number stands for what I want.",
        ),
    ),
    (
        r".*",
        (
            "My plan continues with this: {action}.",
            "The next step of the solution is to {action}.",
            "So that I get on, I {action}.",
        ),
    ),
)
_STUCK: Final = "I have done all that I planned; I look at what came of it."


def advise(
    path: Sequence[str],
    journal: Sequence[str],
    *,
    opening: str,
    last: str,
    look: Callable[[], str],
    wording: int,
) -> Advice:
    """Return the next action.

    `journal` holds the agent's actions, `opening` and `last` the first and the latest observation,
    `look` tells the room and is asked only where the agent left the path.
    """
    done = progress(path, journal)
    if done != len(journal):
        way = _return(path[:done], path[done : done + 1], opening, last, look)
        if way:
            return Advice(way, _thought(way, wording))
    if done == len(path):
        return Advice("look around", _STUCK)
    return Advice(path[done], _thought(path[done], wording))


def progress(path: Sequence[str], journal: Sequence[str]) -> int:
    """Return how many steps of the path were made, in their order, whatever was done in between."""
    done = 0
    for action in journal:
        done += done < len(path) and _plain(action) == _plain(path[done])
    return done


def _plain(action: str) -> str:
    """Return the simulator minds neither case nor spaces."""
    return " ".join(action.lower().split())


def _return(
    actions_made: Sequence[str],
    following: Sequence[str],
    opening: str,
    last: str,
    look: Callable[[], str],
) -> str:
    """Return what has to be done before the path can go on; empty = nothing."""
    if last.startswith(_AMBIGUOUS):
        return "" if following and following[0].isdigit() else "0"
    view = look()
    here, there = _place(view), _place(opening)
    for action in actions_made:
        if went := _GOES.fullmatch(action):
            there = went[1]
    if not here or not there or here == there:
        return ""
    if _GOES.fullmatch("".join(following)) and following[0].endswith(f" {here}"):
        return ""
    step = _towards(here, there)
    if not step:
        return ""
    return (
        f"open door to {step}"
        if f"door to the {step} (that is closed)" in view
        else (f"go to {step}")
    )


def _place(text: str) -> str:
    match = _PLACE.search(text)
    return match[1] if match else ""


def _towards(here: str, there: str) -> str:
    """The neighbouring place that is next on the shortest way; empty where there is no way."""
    first = {here: ""}
    waiting = deque([here])
    while waiting:
        room = waiting.popleft()
        if room == there:
            return first[room]
        for neighbour in ROOMS.get(room, ()):
            if neighbour not in first:
                first[neighbour] = first[room] or neighbour
                waiting.append(neighbour)
    return ""


def _thought(action: str, wording: int) -> str:
    for pattern, templates in _THOUGHTS:
        if match := re.fullmatch(pattern, action):
            text = templates[wording % len(templates)].format(action=action, **match.groupdict())
            return text[0].upper() + text[1:]
    raise AssertionError("the last pattern matches everything")


def random_advice(valid: Sequence[str], rng: random.Random) -> Advice:
    """Return one of the actions that can be done now."""
    sayable = [action for action in valid if expressible(action)]
    return Advice(rng.choice(sayable or ["look around"]), "I try something at random.")
