"""The words of the simulator's first releases, in which AgentTraj-L was recorded.

Releases 1.0 said "green house" where today's says "greenhouse", and so on. Contains the translation
in both directions; everything else about an episode stays as it is.
"""

from __future__ import annotations

from typing import Final

__all__ = ["recorded_action", "recorded_description", "recorded_text"]

_WORDS: Final = (
    ("greenhouse", "green house"),
    ("bathtub", "bath tub"),
    ("sandwich", "sandwhich"),
    ("cashew", "cachew"),
    ("gaseous tin", "gasseous tin"),
    ("violet paper", "voilet paper"),
    ("develop certain parts", "develope certain parts"),
)
"""(today's word, the recorded word): all that agents can see of the texts in which the programs of
releases 1.0.0 and 1.2.3 differ. Other gases and other violet things are spelled as today."""


def recorded_text(text: str) -> str:
    """Return an observation of today in the recorded words."""
    for today, recorded in _WORDS:
        text = text.replace(today, recorded)
    return text


def recorded_description(text: str) -> str:
    """Return a task description of today in the recorded words: degrees had no scale there."""
    return recorded_text(text).replace(" degrees celsius", " degrees")


def recorded_action(action: str) -> str:
    """Return a recorded action in the words of today."""
    for today, recorded in _WORDS:
        action = action.replace(recorded, today)
    return action
