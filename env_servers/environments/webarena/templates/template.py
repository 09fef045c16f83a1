"""Templates: kinds of tasks, each with many instances that are drawn from what the sites hold.

An instance is a pure function of its template and its number. No two instances of a template are
drawn from the same candidate, so no split shares a task with another one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Generic, TypeVar

from env_servers.environments.webarena.sites.embedded import new_world
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.templates.site_task import SiteTask

__all__ = ["INSTANCES", "Template", "template"]

INSTANCES: Final = 22
"""Tasks of each template."""
Candidate = TypeVar("Candidate")


@dataclass(frozen=True)
class Template(Generic[Candidate]):
    """A kind of task."""

    name: str
    """`site.what`; the part before the point is the task's category."""
    candidates: Callable[[World], Sequence[Candidate]]
    """What an instance may be about, in a fixed order; at least `INSTANCES` of them."""
    make: Callable[[World, Candidate], SiteTask]
    """The task about a candidate, in an untouched world."""

    @property
    def site(self) -> str:
        """Where it is played; several sites are joined by a plus."""
        return self.name.partition(".")[0]

    def instance(self, number: int) -> SiteTask:
        """Return a task, of numbers from 0 on."""
        return self.make(new_world(), self._chosen[number])

    @cached_property
    def _chosen(self) -> Sequence[Candidate]:
        candidates = self.candidates(new_world())
        if len(candidates) < INSTANCES:
            raise ValueError(
                f"{self.name} has {len(candidates)} candidates, fewer than {INSTANCES}"
            )
        return random.Random(self.name).sample(candidates, INSTANCES)


def template(
    name: str, candidates: Callable[[World], Sequence[Candidate]]
) -> Callable[[Callable[[World, Candidate], SiteTask]], Template[Candidate]]:
    """Return what makes the function below it a template."""
    return lambda make: Template(name, candidates, make)
