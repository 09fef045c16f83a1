"""From a mission to the one thing that has to be done next.

Contains the order of things: sub-missions, fetching keys, clearing the way, free hands. The aim is
a pure function of the level's state, so nothing needs to be remembered between actions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from minigrid.envs.babyai.core.verifier import (
    AfterInstr,
    AndInstr,
    BeforeInstr,
    GoToInstr,
    Instr,
    OpenInstr,
    PickupInstr,
    PutNextInstr,
)

from env_servers.environments.babyai.world import Cell, World, is_key, neighbors

__all__ = ["Aim", "GroundedAction", "next_aim"]


class GroundedAction(Enum):
    """What is to be done with a cell."""

    FACE = "face"
    """Stand before it and look at it."""
    TAKE = "take"
    """Pick up what lies in it."""
    OPEN = "open"
    """Toggle the door in it."""
    UNPACK = "unpack"
    """Toggle the box in it, so that its content remains."""
    DROP = "drop"
    """Put what is carried into it."""


@dataclass(frozen=True, slots=True)
class Aim:
    """The next action, with any of several cells, and why."""

    action: GroundedAction
    cells: frozenset[Cell]
    why: str
    """`mission`, `key`, `clear`, `free hands`, `put next`, `unlock`, `fetch`."""
    what: str = ""
    """Name of the thing, for thoughts."""
    strict: bool = False
    """No other door may be touched."""
    last: bool = False
    """The mission ends with the action itself; a move after it would hide that."""


_DEPTH: Final = 12


def next_aim(world: World, mission: Instr, *, boxes: bool) -> Aim | None:
    """Return the next aim, or None where the mission cannot be fulfilled any more.

    `boxes`: whether the agent has a way to open boxes and to shut open doors.
    """
    for part, later in _pending(mission):
        world.reserved = _find_doors(world, later)
        aim = _Planner(world, boxes, tidy=part is not mission).towards(part)
        if aim is not None:
            ends = aim.why == "mission" and not later and not _is_joint(mission)
            return replace(aim, last=True) if ends else aim
    return None


def _is_joint(mission: Any) -> bool:
    """Return whether what is pending is part of an `and`, which stays fulfilled on later moves."""
    if isinstance(mission, BeforeInstr):
        mission = mission.instr_b
    elif isinstance(mission, AfterInstr):
        mission = mission.instr_a
    return isinstance(mission, AndInstr)


def _pending(mission: Any) -> list[tuple[Instr, list[Instr]]]:
    """Parts that may be worked on now, in order, each with the parts that come after it."""
    if isinstance(mission, AndInstr):
        parts = ((mission.instr_a, mission.a_done), (mission.instr_b, mission.b_done))
        return [(part, []) for part, done in parts if done != "success"]
    if isinstance(mission, BeforeInstr | AfterInstr):
        first, second, done = mission.instr_a, mission.instr_b, mission.a_done
        if isinstance(mission, AfterInstr):
            first, second, done = second, first, mission.b_done
        if done == "success":
            return _pending(second)
        return [(part, [*later, second]) for part, later in _pending(first)]
    return [(mission, [])]


def _find_doors(world: World, missions: Iterable[Any]) -> frozenset[Cell]:
    """Shut doors that these missions want opened."""
    doors: set[Cell] = set()
    for mission in missions:
        if isinstance(mission, AndInstr | BeforeInstr | AfterInstr):
            doors |= _find_doors(world, (mission.instr_a, mission.instr_b))
        elif isinstance(mission, OpenInstr):
            cells = world.find_cells(mission.desc.obj_set)
            doors.update(cell for cell in cells if not world.at(cell).is_open)
    return frozenset(doors)


def entity_name(thing: Any) -> str:
    """Colour and kind."""
    return f"{thing.color} {thing.type}" if thing is not None else "spot"


class _Planner:
    """One question: what is next for one action of a mission."""

    def __init__(self, world: World, boxes: bool, *, tidy: bool) -> None:
        self._world = world
        self._boxes = boxes
        self._tidy = tidy
        """There may be more to do afterwards, so doorways are kept clear."""
        self._busy: list[Cell] = []
        """What is being resolved; a repetition means that there is no way."""

    def towards(self, mission: Any) -> Aim | None:
        """Return the next aim of a single action."""
        world = self._world
        if isinstance(mission, GoToInstr):
            cells = [(int(x), int(y)) for x, y in mission.desc.obj_poss]
            return self._reach(GroundedAction.FACE, cells, "mission")
        if isinstance(mission, PickupInstr):
            held = any(thing is world.held for thing in mission.desc.obj_set)
            if held:
                return self._free_hands(())
            return self._reach(
                GroundedAction.TAKE, world.find_cells(mission.desc.obj_set), "mission"
            )
        if isinstance(mission, OpenInstr):
            return self._open(mission)
        if isinstance(mission, PutNextInstr):
            return self._put_next(mission)
        return None

    def _open(self, mission: OpenInstr) -> Aim | None:
        cells = self._world.find_cells(mission.desc.obj_set)
        shut = [cell for cell in cells if not self._world.at(cell).is_open]
        if not shut and not self._boxes:
            return None
        best = min(shut or cells, key=self._cost_of_door, default=None)
        if best is None:
            return None
        strict = bool(mission.strict)
        return self._reach(GroundedAction.OPEN, [best], "mission", strict=strict)

    def _cost_of_door(self, cell: Cell) -> tuple[float, Cell]:
        route = self._world.route(self._world.agent, [cell])
        cost = math.inf if route is None else route[0]
        return cost + (40.0 if self._world.obstructs(cell) else 0.0), cell

    def _reach(
        self,
        action: GroundedAction,
        cells: Collection[Cell],
        why: str,
        *,
        keep: Collection[Cell] = (),
        strict: bool = False,
    ) -> Aim | None:
        """Return the action itself, or what stands between the agent and it."""
        world = self._world
        route = world.route(world.agent, cells)
        if route is None or len(self._busy) > _DEPTH:
            return None
        _, way = route
        if not way:  # the agent stands in the cell, for example in a doorway
            return Aim(action, frozenset(cells), why, entity_name(world.at(world.agent)), strict)
        keep = {*keep, *way}
        for index, cell in enumerate(way[:-1]):
            if world.obstructs(cell):
                return self._unlock_on(way[:index]) or self._resolve(cell, keep)
        goal = world.at(way[-1])
        if action is GroundedAction.OPEN and world.obstructs(way[-1]):
            return self._fetch_key(way[-1], keep)
        if action is GroundedAction.TAKE and world.held is not None:
            return self._unlock_on(way[:-1]) or self._free_hands(keep)
        reachable = [cell for cell in cells if cell == way[-1] or action is GroundedAction.FACE]
        return Aim(action, frozenset(reachable), why, entity_name(goal), strict)

    def _unlock_on(self, way: list[Cell]) -> Aim | None:
        """Use the key in hand for the first locked door of a way, before it is put down."""
        for cell in way:
            thing = self._world.at(cell)
            if thing is not None and thing.type == "door" and thing.is_locked:
                return Aim(GroundedAction.OPEN, frozenset((cell,)), "unlock", entity_name(thing))
        return None

    def _resolve(self, cell: Cell, keep: Collection[Cell]) -> Aim | None:
        """Carry away or unlock what stands in a cell."""
        if cell in self._busy:
            return None
        thing = self._world.at(cell)
        if thing.type == "door":
            return self._fetch_key(cell, keep)
        self._busy.append(cell)
        if self._boxes and thing.type == "box" and thing.contains is not None:
            return self._reach(GroundedAction.UNPACK, [cell], "key", keep=keep)
        if self._world.held is not None:
            return self._free_hands(keep)
        return self._reach(GroundedAction.TAKE, [cell], "clear", keep=keep)

    def _fetch_key(self, door: Cell, keep: Collection[Cell]) -> Aim | None:
        if door in self._busy:
            return None
        self._busy.append(door)
        world = self._world
        color = world.at(door).color
        if world.can_unlock(world.at(door)):
            return self._reach(GroundedAction.OPEN, [door], "unlock", keep=keep)
        keys = world.keys(color)
        if keys:
            return self._reach(GroundedAction.TAKE, keys, "key", keep=keep)
        if self._boxes and is_key(getattr(world.held, "contains", None), color):
            return self._free_hands(keep)
        boxed = world.boxed_keys(color)
        if boxed and self._boxes:
            return self._reach(GroundedAction.UNPACK, boxed, "key", keep=keep)
        return None

    def _free_hands(self, keep: Collection[Cell]) -> Aim:
        cells = self._world.places_to_drop(frozenset(keep))
        return Aim(GroundedAction.DROP, cells, "free hands", entity_name(self._world.held))

    def _put_next(self, mission: PutNextInstr) -> Aim | None:
        world = self._world
        movable = mission.desc_move.obj_set
        held = world.held is not None and any(thing is world.held for thing in movable)
        if held:
            return self._deliver(self._spots(mission, world.held))
        legs = [leg for cell in world.find_cells(movable) for leg in self._legs(mission, cell)]
        if not legs:
            mislaid = any(thing is world.held for thing in mission.desc_fixed.obj_set)
            return self._free_hands(()) if mislaid and world.held is not None else None
        _, cell, there, onward = min(legs)
        keep = {*there, *onward}
        for cell_between in (*there[:-1], *onward[:-1]):
            # On the second leg both hands are full, so even a fitting key has to be used before.
            thing = world.at(cell_between)
            if cell_between == cell or thing is None:
                continue
            locked = thing.type == "door" and thing.is_locked
            if locked or world.obstructs(cell_between):
                return self._resolve(cell_between, keep)
        if world.held is not None:
            return self._free_hands(keep)
        return self._reach(GroundedAction.TAKE, [cell], "fetch", keep=keep)

    def _legs(
        self, mission: PutNextInstr, cell: Cell
    ) -> list[tuple[float, Cell, list[Cell], list[Cell]]]:
        """Return the ways to a thing and from there to where it belongs, with their cost."""
        there = self._world.route(self._world.agent, [cell])
        onward = self._world.route(cell, self._spots(mission, self._world.at(cell)))
        if there is None or onward is None:
            return []
        return [(there[0] + onward[0], cell, there[1], onward[1])]

    def _spots(self, mission: PutNextInstr, moved: Any) -> list[Cell]:
        """Free cells beside one of the fixed things."""
        world = self._world
        fixed = world.find_cells(
            thing for thing in mission.desc_fixed.obj_set if thing is not moved
        )
        around = {cell for fixed_cell in fixed for cell in neighbors(fixed_cell)}
        return sorted(
            cell
            for cell in around
            if not world.is_wall(cell) and (cell not in world.things or world.at(cell) is moved)
        )

    def _deliver(self, spots: list[Cell]) -> Aim | None:
        world = self._world
        if self._tidy:
            spots = [spot for spot in spots if not world.is_near_door(spot)] or spots
        route = world.route(world.agent, spots, key=False)
        if route is None:
            return None
        _, way = route
        for cell in way[:-1]:
            if world.obstructs(cell):
                return self._free_hands(way)
        return Aim(GroundedAction.DROP, frozenset(spots), "put next", entity_name(world.held))
