"""Check of the images of observations, where an environment has some.

It yields one sentence per broken promise; its docstring is the promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from env_servers.sdk.contract.observations import flaws
from env_servers.sdk.contract.rehearsal import first_difference, record, rehearse_elsewhere
from env_servers.sdk.contract.subject import NotApplicable, Subject
from env_servers.sdk.types import Observation

__all__ = ["images_come_out_again"]

_ACTIONS: Final = 4


def images_come_out_again(subject: Subject) -> Iterator[str]:
    """Observations have images where they are asked for, and equal actions give equal ones."""
    spec = subject.spec
    if not spec.has_images:
        raise NotApplicable("the environment gives no images")
    options = {**subject.scripts[0].options, **subject.terms.image_options}
    script = replace(
        subject.scripts[0], options=options, actions=subject.scripts[0].actions[:_ACTIONS]
    )
    episode, observation = subject.begin(script)
    shown: list[Observation] = [observation]
    records = [record(episode, observation)]
    for action in script.actions:
        shown.append(episode.step(action))
        records.append(record(episode, shown[-1]))
    episode.close()
    if not any(it.images for it in shown):
        yield f"{script.item_id}: with the options {options} no observation has an image"
    for number, it in enumerate(shown):
        for flaw in flaws(it, spec, first=not number):
            yield f"{script.item_id}, step {number}: {flaw}"
    if spec.deterministic:
        (elsewhere,) = rehearse_elsewhere(subject.environment, subject.config, [script], [1])
        if difference := first_difference(records, elsewhere.records[0]):
            yield f"{script.item_id}, in another process: {difference}"
