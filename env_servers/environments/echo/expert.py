"""Echo's scripted players: functions of the step count alone."""

from __future__ import annotations

import random
from typing import Final

from env_servers.sdk import Advice

__all__ = ["expert_advice", "random_advice"]

_THOUGHTS: Final = (
    "The echo has heard {heard} messages so far; I send the next one.",
    "After {heard} messages there is still something to say.",
    "Message {next} follows.",
)


def expert_advice(heard: int, seed: int) -> Advice:
    """Return the next message after `heard` messages; `seed` words the thought."""
    thought = _THOUGHTS[seed % len(_THOUGHTS)].format(heard=heard, next=heard + 1)
    return Advice(f"message {heard + 1}", thought)


def random_advice(rng: random.Random) -> Advice:
    """Some message that is not empty."""
    return Advice(f"number {rng.randrange(1_000_000)}", "Any number will do.")
