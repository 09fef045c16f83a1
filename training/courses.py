"""Which agents a run of AgentEvol makes beside its main one, to compare it with.

A *course* is one way of exploring and learning, iteration by iteration. A matrix gives the
ablations of the paper's tables: each varies one setting of the recipe. What two courses have in
common is done once: an iteration's stages have the name of what it depends on.
Source: AgentGym, https://arxiv.org/abs/2406.04151, section 5.3, tables 4 to 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["Control", "Course", "Matrix", "Merge", "expand"]

Merge = Literal["initial", "previous"]
"""What is added to an iteration's episodes: the expert's, or all that the iteration before learned
from."""

Control = Literal["random-wins", "expert-explored", "one-iteration", "dpo", "grpo"]
"""A comparison that tells what exploring is good for.

random-wins: a random player's wins of the explored tasks in place of own episodes. expert-explored:
the expert's, which no exploring can better. one-iteration: as many own episodes as all iterations
explore, by BC_base, and one learning (M = 1). dpo: preferences between the first iteration's own
episodes and the expert's, learned by BC_base. grpo: BC_base goes on by GRPO on
the explored tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Ablations; each value is a row of its own that differs from the recipe in nothing else."""

    merge: tuple[Merge, ...] = ()
    iterations: tuple[int, ...] = ()
    """M; fewer than the recipe's cost nothing but playing."""
    samples: tuple[int, ...] = ()
    """K, of every environment."""

    def __post_init__(self) -> None:
        if min((1, *self.iterations, *self.samples)) < 1:
            raise ValueError("iterations and samples are at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One way of exploring and learning."""

    iterations: int
    merge: Merge
    samples: int = 0
    """K of every environment; 0 = the recipe's."""
    factor: int = 1
    """Times as many samples as that."""
    name: str = ""
    """Of its row; empty = the run's main course."""

    def prefix(self, iteration: int, main: Course) -> str:
        """Return the folder of an iteration (from 1), with a slash; empty = the main course's.

        It names what the iteration's agent depends on that `main` has otherwise: in the first one
        both ways of merging give the same.
        """
        parts: list[str] = []
        if self.samples not in (0, main.samples):
            parts.append(f"samples={self.samples}")
        if self.factor != main.factor:
            parts.append(f"samples-x{self.factor}")
        if self.merge != main.merge and iteration > 1:
            parts.append(f"merge={self.merge}")
        return "/".join([*parts, ""])


def expand(main: Course, matrix: Matrix, controls: Sequence[Control]) -> list[Course]:
    """Return the courses beside the main one: those of the matrix, then M = 1.

    A value that the main course has is no row of its own.
    """
    courses = [
        replace(main, merge=merge, name=f"merge={merge}")
        for merge in matrix.merge
        if merge != main.merge
    ]
    courses += [
        replace(main, iterations=count, name=f"iterations={count}")
        for count in matrix.iterations
        if count != main.iterations
    ]
    courses += [
        replace(main, samples=count, name=f"samples={count}")
        for count in matrix.samples
        if count != main.samples
    ]
    if "one-iteration" in controls:
        factor = main.factor * main.iterations
        courses.append(replace(main, iterations=1, factor=factor, name="one iteration"))
    return courses
