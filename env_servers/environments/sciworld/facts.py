"""The simulator's tasks: names, codes, numbers of variations, and its train/dev/test division.

Constants of ScienceWorld 1.2, so that listing tasks needs no Java; a test compares them with the
simulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["BY_NAME", "ROOMS", "SIMPLIFICATIONS", "TASKS", "TaskFacts"]


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """One of the simulator's thirty tasks."""

    code: str
    """Topic and number, as in the ScienceWorld paper."""
    name: str
    variations: int

    @property
    def train(self) -> range:
        """Variations for training: the first half."""
        return range(2 * (self.variations // 4))

    @property
    def dev(self) -> range:
        """Variations for development: the third quarter."""
        return range(2 * (self.variations // 4), 3 * (self.variations // 4))

    @property
    def test(self) -> range:
        """Variations for testing: what remains."""
        return range(3 * (self.variations // 4), self.variations)

    @property
    def electrical(self) -> bool:
        """Whether it cannot be solved without connecting components."""
        return "power-component" in self.name or "conductivity" in self.name


TASKS: Final = (
    TaskFacts("1-1", "boil", 30),
    TaskFacts("1-2", "melt", 30),
    TaskFacts("1-3", "freeze", 30),
    TaskFacts("1-4", "change-the-state-of-matter-of", 30),
    TaskFacts("2-1", "use-thermometer", 540),
    TaskFacts("2-2", "measure-melting-point-known-substance", 436),
    TaskFacts("2-3", "measure-melting-point-unknown-substance", 300),
    TaskFacts("3-1", "power-component", 20),
    TaskFacts("3-2", "power-component-renewable-vs-nonrenewable-energy", 20),
    TaskFacts("3-3", "test-conductivity", 900),
    TaskFacts("3-4", "test-conductivity-of-unknown-substances", 600),
    TaskFacts("4-1", "find-living-thing", 300),
    TaskFacts("4-2", "find-non-living-thing", 300),
    TaskFacts("4-3", "find-plant", 300),
    TaskFacts("4-4", "find-animal", 300),
    TaskFacts("5-1", "grow-plant", 126),
    TaskFacts("5-2", "grow-fruit", 126),
    TaskFacts("6-1", "chemistry-mix", 32),
    TaskFacts("6-2", "chemistry-mix-paint-secondary-color", 36),
    TaskFacts("6-3", "chemistry-mix-paint-tertiary-color", 36),
    TaskFacts("7-1", "lifespan-longest-lived", 125),
    TaskFacts("7-2", "lifespan-shortest-lived", 125),
    TaskFacts("7-3", "lifespan-longest-lived-then-shortest-lived", 125),
    TaskFacts("8-1", "identify-life-stages-1", 14),
    TaskFacts("8-2", "identify-life-stages-2", 10),
    TaskFacts("9-1", "inclined-plane-determine-angle", 168),
    TaskFacts("9-2", "inclined-plane-friction-named-surfaces", 1386),
    TaskFacts("9-3", "inclined-plane-friction-unnamed-surfaces", 162),
    TaskFacts("10-1", "mendelian-genetics-known-plant", 120),
    TaskFacts("10-2", "mendelian-genetics-unknown-plant", 480),
)
"""In the simulator's order of codes, on which AgentGym's item ids depend."""

BY_NAME: Final = {task.name: task for task in TASKS}

SIMPLIFICATIONS: Final = (
    "easy",
    "noElectricalAction",
    "openContainers",
    "openDoors",
    "selfWateringFlowerPots",
    "teleportAction",
)
"""What a reset can make easier; `easy` stands for all but `openContainers`."""

ROOMS: Final[dict[str, tuple[str, ...]]] = {
    "hallway": ("art studio", "bedroom", "greenhouse", "kitchen", "living room", "workshop"),
    "kitchen": ("bathroom", "hallway", "outside"),
    "outside": ("foundry", "greenhouse", "kitchen"),
    "greenhouse": ("hallway", "outside"),
    "art studio": ("hallway",),
    "bathroom": ("kitchen",),
    "bedroom": ("hallway",),
    "foundry": ("outside",),
    "living room": ("hallway",),
    "workshop": ("hallway",),
}
"""Which rooms have a door in common; the house is the same in every task."""
