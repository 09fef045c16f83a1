"""One observation in words, and the actions that it offers.

Contains the description, the list of available actions with the moves behind each, and the reasons
why others are refused. A scene is a pure function of (image, direction, held object, profile).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from env_servers.environments.babyai.paths import DROP, FORWARD, LEFT, RIGHT, TOGGLE, Ways
from env_servers.environments.babyai.paths import PICKUP as PICK
from env_servers.environments.babyai.view import Entity, Image, entities

__all__ = ["CHECK", "UNRECOGNISED", "Held", "Offer", "Scene", "scene_of"]

CHECK: Final = "check available actions"
UNRECOGNISED: Final = "The action is not recognized. Please check valid actions."
BARRIER: Final = "There is a barrier in front of you, you can't move forward."
CANNOT_DROP: Final = "You cannot drop the object, as "
_KEPT: Final = 2048
"""Scenes that are kept, some 5 KiB each."""
_SOLID: Final = frozenset(("wall", "box", "ball", "key", "lava"))


@dataclass(frozen=True, slots=True)
class Held:
    """What the agent carries."""

    kind: str
    color: str


@dataclass(frozen=True, slots=True)
class Offer:
    """An available action: low-level moves, and the thing that they are about."""

    moves: tuple[int, ...]
    verb: str = ""
    """`pickup`, `go to`, `go through`, `toggle and go through`, or empty."""
    thing: Entity | None = None


class Scene:
    """What one window says and allows."""

    __slots__ = (
        "_anything",
        "_barrier",
        "_front",
        "_held",
        "_original",
        "_things",
        "_ways",
        "offers",
        "refusals",
    )

    def __init__(self, image: Image, direction: int, held: Held | None, *, original: bool) -> None:
        self._original = original
        seen = entities(image)
        self._things = [thing for thing in seen if thing.kind != "wall"]
        blocked = [
            (thing.forward, thing.right)
            for thing in seen
            if thing.kind in _SOLID or not (original or "open door" in thing.name)
        ]
        self._ways = Ways(blocked, direction, original=original)
        self._front = next((t for t in seen if t.right == 0 and t.forward == 1), None)
        barrier = next((t for t in seen if t.right == 0 and t.kind in ("wall", "box")), None)
        self._barrier, self._anything, self._held = barrier, bool(seen), held
        self.offers: dict[str, Offer] = {"turn left": Offer((LEFT,)), "turn right": Offer((RIGHT,))}
        self.refusals: dict[str, str] = {}
        self._offer_step(barrier)
        if held is None:
            self._offer_reach("pickup", (PICK,), doors=False)
        self._offer_drop(held)
        self._offer_doors(held)
        self._offer_reach("go to", (), doors=True)
        self.offers[CHECK] = Offer(())
        del self._ways  # the largest part, and every way is in the offers

    def describe(self) -> str:
        """Return the observation's sentences."""
        return _describe(self._things, self._anything, self._barrier, self._held)

    def _offer_step(self, barrier: Entity | None) -> None:
        blocked = barrier is not None and barrier.forward <= 1
        if not self._original:
            front = self._front
            blocked = front is not None and "open door" not in front.name
        if blocked:
            self.refusals["move forward"] = BARRIER
        else:
            self.offers["move forward"] = Offer((FORWARD,))

    def _offer_reach(self, verb: str, last: tuple[int, ...], *, doors: bool) -> None:
        """Actions that walk up to a thing; `last` follows the way.

        The original numbers only the things of a name that can be reached, so that `1` may be
        another thing here than in the description; what cannot be reached shares the next number.
        """
        reached: defaultdict[str, int] = defaultdict(int)
        seen: defaultdict[str, int] = defaultdict(int)
        for thing in self._things:
            if thing.kind == "door" and not doors:
                continue
            seen[thing.name] += 1
            moves = self._ways.to_face(thing.forward, thing.right)
            number = reached[thing.name] + 1 if self._original else seen[thing.name]
            action = f"{verb} {thing.name} {number}"
            if moves is None:
                reason = f"You cannot {action}, as there is no path leading to it."
                self.refusals[action] = reason
            else:
                reached[thing.name] += 1
                self.offers[action] = Offer(moves + last, verb, thing)

    def _offer_drop(self, held: Held | None) -> None:
        front = self._front
        if held is None:
            self.refusals["drop"] = f"{CANNOT_DROP}you are not carrying anything."
        elif front is not None and (front.kind in _SOLID or not self._original):
            self.refusals["drop"] = f"{CANNOT_DROP}there is already an object in front of you."
        else:
            self.offers["drop"] = Offer((DROP,))

    def _offer_doors(self, held: Held | None) -> None:
        numbers: defaultdict[str, int] = defaultdict(int)
        for thing in self._things:
            if thing.kind != "door":
                continue
            numbers[thing.name] += 1
            if "open door" in thing.name:
                self._offer_open_door(thing, numbers)
            elif "closed door" in thing.name:
                self._offer_shut_door(thing, numbers)
                door = f"{thing.name} {numbers[thing.name]}"
                self.refusals[f"go through {door}"] = (
                    f"You cannot go through {door}, as it is closed. You should toggle it first."
                )
            else:
                self._offer_locked_door(thing, numbers, held)
        front = self._front
        moving = front is not None and (front.kind == "box" or "open door" in front.name)
        if moving and not self._original:
            self.offers["toggle"] = Offer((TOGGLE,))

    def _offer_open_door(self, door: Entity, numbers: Mapping[str, int]) -> None:
        action = f"go through {door.name} {numbers[door.name]}"
        moves = self._ways.to_enter(door.forward, door.right)
        if moves is None:
            self.refusals[action] = f"You cannot {action}, as there is no path leading to it."
        else:
            self.offers[action] = Offer(moves, "go through", door)

    def _offer_shut_door(self, door: Entity, numbers: Mapping[str, int]) -> None:
        number = numbers[door.name]
        action = f"toggle and go through {door.name} {number}"
        moves = self._ways.to_face(door.forward, door.right)
        if moves is None:
            # The original prints its whole counter where the number should stand.
            shown = dict(numbers) if self._original else number
            reason = f"You cannot toggle and go through {door.name} {shown}"
            self.refusals[action] = f"{reason}, as there is no path leading to it."
            return
        self.offers[action] = Offer((*moves, TOGGLE, FORWARD), "toggle and go through", door)
        if not moves:
            self.offers["toggle"] = Offer((TOGGLE,), "toggle", door)

    def _offer_locked_door(
        self, door: Entity, numbers: Mapping[str, int], held: Held | None
    ) -> None:
        action = f"toggle and go through {door.name} {numbers[door.name]}"
        if held is None or held.kind != "key":
            reason = "you are not carrying a key."
        elif held.color != door.name.partition(" ")[0]:
            reason = "the color of the key you are carrying does not match the color of door."
        else:
            self._offer_shut_door(door, numbers)
            return
        self.refusals[action] = f"You cannot {action}, as {reason}"


@lru_cache(maxsize=_KEPT)
def scene_of(image: Image, direction: int, held: Held | None, *, original: bool) -> Scene:
    """Return a scene, which nothing changes.

    Much is seen again: by the expert's search, after a turn and back, in a task's other episodes.
    """
    return Scene(image, direction, held, original=original)


def _describe(
    things: list[Entity], anything: bool, barrier: Entity | None, held: Held | None
) -> str:
    """Return the sentences of an observation; `anything` = there is at least a wall in sight."""
    parts = ["You cannot see any objects within sight."]
    if anything:
        parts = ["In front of you in this room, you can see several objects: "]
    numbers: defaultdict[str, int] = defaultdict(int)
    for thing in things:
        numbers[thing.name] += 1
        parts.append(f"There is a {thing.name} {numbers[thing.name]} {_place(thing)}  ")
    parts.append("The room has walls around you. ")
    if barrier is not None:
        parts.append(f"You are facing a {barrier.kind} {barrier.forward} steps away. ")
    carried = "You are not carrying anything."
    if held is not None:
        carried = f"You are carrying a {held.color} {held.kind}."
    parts.append(carried)
    return "".join(parts)


def _place(thing: Entity) -> str:
    if thing.right == 0:
        return f"right in front of you {thing.forward} steps away."
    side = "right" if thing.right > 0 else "left"
    return f"{thing.forward} steps in front of you and {abs(thing.right)} steps to your {side}."
