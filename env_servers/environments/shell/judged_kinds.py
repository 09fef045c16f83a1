"""The kinds of tasks that a judge grades: texts, since no check can say whether they are good."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from agentgym.rubric import Grade, Rubric
from env_servers.environments.shell.puzzle import Move, Opinion, Puzzle
from env_servers.environments.shell.tree import Tree

__all__ = ["JUDGED_KINDS", "RUBRIC"]

RUBRIC: Final = Rubric(
    template=(
        "Somebody was given notes and asked to summarise them for readers who were not there. "
        "Judge the summary. It has to state these points, in whatever words, and to contradict "
        "none of the notes:\n{{points}}\n\nThe notes:\n{{notes}}\n\nThe summary:\n{{answer}}"
    ),
    grades={
        "coverage": Grade(meaning="the share of the points that it states rightly", weight=3.0),
        "clarity": Grade(meaning="0 = not understandable by itself, 1 = clear"),
    },
    success_score=0.8,
)
_MOST_WORDS: Final = 60
_SERVICES: Final = ("billing", "login", "mail", "orders", "payments", "search", "stock", "tickets")
_CAUSES: Final = (
    ("a full disk", "The disk of the {service} machine is full."),
    ("an expired certificate", "Found it: the certificate of {service} expired at midnight."),
    ("a wrong setting", "Somebody left a wrong setting in the {service} configuration."),
    ("a broken cable", "The rack of {service} has a broken cable."),
)
_REPAIRS: Final = (
    ("a restart", "A restart of {service} helped."),
    ("a rollback", "We did a rollback of {service}, and it was fine again."),
    ("a replacement", "The replacement came, {service} answers again."),
)
_NOISE: Final = (
    "Coffee machine on the second floor is empty.",
    "Is anybody still at lunch?",
    "The weekly meeting moves to Thursday.",
    "Reminder: parking lot closed on Friday.",
    "Nothing new here.",
)


def _incident(rng: random.Random) -> Puzzle:
    """What happened to a service, out of a team's messages."""
    service = rng.choice(_SERVICES)
    (cause, found), (repair, repaired) = rng.choice(_CAUSES), rng.choice(_REPAIRS)
    start, minutes = rng.randrange(8, 18), rng.randrange(11, 59)
    customers = rng.randrange(20, 900)
    said = [
        f"{start}:{minutes} {service} does not answer.",
        f"Support says {customers} customers called.",
        found.format(service=service),
        repaired.format(service=service),
        *rng.sample(_NOISE, 3),
    ]
    people = rng.sample(("ada", "carlo", "edda", "farid", "hana", "lars"), 3)
    texts = {f"notes/{person}.txt": "" for person in people}
    for line in said:
        texts[f"notes/{rng.choice(people)}.txt"] += f"{line}\n"
    summary = (
        f"At {start}:{minutes} the service {service} stopped answering, and {customers} customers "
        f"called. The reason was {cause}. It was solved by {repair}."
    )
    return Puzzle(
        kind="incident",
        request=(
            "The files in notes/ are what people of a team wrote during an incident. Write "
            f"summary.txt: what happened, for readers who were not there, in at most {_MOST_WORDS} "
            "words. A reader will judge it."
        ),
        start=Tree.of_texts(texts),
        wanted={},
        opinion=Opinion(
            path="summary.txt",
            most_words=_MOST_WORDS,
            rubric=RUBRIC,
            points=(service, f"{start}:{minutes}", f"{customers} customers", cause, repair),
        ),
        solution=(
            Move("head -n 20 notes/*", "I read what everybody wrote."),
            Move(f"echo '{summary}' > summary.txt", "I write down who, when, why, and the end."),
        ),
    )


JUDGED_KINDS: Final[Mapping[str, Callable[[random.Random], Puzzle]]] = {"incident": _incident}
"""By name."""
