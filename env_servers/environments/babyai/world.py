"""The whole hidden grid, as the expert reads it: what stands where, and ways between cells.

Contains distances and obstructions on the full grid. Reads a level, never changes it, and every
answer is a pure function of the level's state.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

from env_servers.environments.babyai.levels import Level

__all__ = ["Cell", "World", "is_key", "neighbors"]

Cell = tuple[int, int]

_SHUT: Final = 1.5
_BLOCKED: Final = 20.0
"""Cost of a cell with a thing that must be carried away first."""
_LOCKED: Final = 40.0
"""Cost of a locked door whose key must be fetched first."""
_RESERVED: Final = 300.0
"""Cost of opening a door that the mission wants to be opened later."""
_DETOUR: Final = 80
"""Cells that a way around a dropped thing may touch."""
_RING: Final = ((-1, -1), (0, -1), (1, -1), (1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0))


class World:
    """A reading of one moment of a level; make a new one after every action."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.grid = level.grid
        x, y = level.agent_pos
        self.agent: Cell = int(x), int(y)
        self.direction = int(level.agent_dir)
        self.held: Any = level.carrying
        self.reserved: Collection[Cell] = ()
        """Shut doors that are to be avoided."""
        self.things: dict[Cell, Any] = {}
        width = self.grid.width
        for index, cell in enumerate(self.grid.grid):
            if cell is not None and cell.type != "wall":
                self.things[index % width, index // width] = cell

    def at(self, cell: Cell) -> Any:
        """Return what stands in a cell, or None."""
        return self.things.get(cell)

    def is_wall(self, cell: Cell) -> bool:
        x, y = cell
        if not (0 <= x < self.grid.width and 0 <= y < self.grid.height):
            return True
        cell_object = self.grid.grid[y * self.grid.width + x]
        return cell_object is not None and cell_object.type == "wall"

    def find_cells(self, objects: Iterable[Any]) -> list[Cell]:
        """Return where these very objects stand on the grid, in grid order."""
        identities = {id(item) for item in objects}
        return [cell for cell, thing in self.things.items() if id(thing) in identities]

    def keys(self, color: str) -> list[Cell]:
        """Cells with a key of that colour."""
        return [cell for cell, t in self.things.items() if t.type == "key" and t.color == color]

    def boxed_keys(self, color: str) -> list[Cell]:
        """Cells with a box that contains such a key."""
        return [
            cell
            for cell, thing in self.things.items()
            if thing.type == "box" and is_key(thing.contains, color)
        ]

    def can_unlock(self, door: Any) -> bool:
        """Return whether the key in hand fits."""
        return is_key(self.held, door.color)

    def obstructs(self, cell: Cell) -> bool:
        """Return whether something there must be dealt with before the agent can pass."""
        thing = self.at(cell)
        if thing is None:
            return False
        if thing.type == "door":
            return bool(thing.is_locked) and not self.can_unlock(thing)
        return True

    def route(
        self, start: Cell, goals: Collection[Cell], *, key: bool = True
    ) -> tuple[float, list[Cell]] | None:
        """Cheapest way into one of the goal cells: (cost, cells after the start).

        Things and locked doors can be passed at a price; what stands in a goal cell costs nothing.
        With `key` false the key in hand does not count.
        """
        goal_cells = frozenset(goals)
        frontier: list[tuple[float, Cell]] = [(0.0, start)]
        best = {start: 0.0}
        came: dict[Cell, Cell] = {}
        while frontier:
            cost, cell = heapq.heappop(frontier)
            if cell in goal_cells:
                return cost, _trace(came, start, cell)
            if cost > best[cell]:
                continue
            for neighbor in neighbors(cell):
                price = 1.0 if neighbor in goal_cells else self._price(neighbor, key=key)
                if cost + price < best.get(neighbor, math.inf):
                    best[neighbor] = cost + price
                    came[neighbor] = cell
                    heapq.heappush(frontier, (cost + price, neighbor))
        return None

    def _price(self, cell: Cell, *, key: bool) -> float:
        """Cost of stepping into a cell, infinite where that is impossible."""
        thing = self.at(cell)
        if thing is None:
            return math.inf if self.is_wall(cell) else 1.0
        if thing.type != "door":
            return _BLOCKED
        if thing.is_open:
            return 1.0
        price = _SHUT + (_RESERVED if cell in self.reserved else 0.0)
        if not thing.is_locked or (key and self.can_unlock(thing)):
            return price
        keys = self.keys(thing.color) or self.boxed_keys(thing.color)
        return price + _LOCKED if keys or self.can_unlock(thing) else math.inf

    def distances(self, goals: Iterable[Cell], passable: Callable[[Cell], bool]) -> dict[Cell, int]:
        """Steps from every cell to the nearest goal over passable cells."""
        queue = deque(sorted(goals))
        distance = dict.fromkeys(queue, 0)
        while queue:
            cell = queue.popleft()
            for neighbor in neighbors(cell):
                if neighbor not in distance and passable(neighbor):
                    distance[neighbor] = distance[cell] + 1
                    queue.append(neighbor)
        return distance

    def passable(self, cell: Cell) -> bool:
        """Return whether the agent can get into a cell now, opening doors on its way."""
        return not (self.is_wall(cell) or self.obstructs(cell))

    def places_to_drop(self, way: Collection[Cell]) -> frozenset[Cell]:
        """Cells within reach where something can be left, the best kind that there is.

        Best are cells off the way, away from doors, that do not cut a room in two; the agent's own
        cell, which it can leave and drop back into, is only for tight corners.
        """
        reach = self.distances([self.agent], self.passable)
        near = [
            cell
            for cell in self._floor()
            if cell not in self.things and any(side in reach for side in neighbors(cell))
        ]
        off = [cell for cell in near if cell not in way]
        apart = [cell for cell in off if cell != self.agent and not self.is_near_door(cell)]
        safe = [cell for cell in apart if not self._cuts(cell)]
        return frozenset(safe or apart or off or near)

    def _floor(self) -> Iterator[Cell]:
        for index, cell_object in enumerate(self.grid.grid):
            if cell_object is None:
                yield index % self.grid.width, index // self.grid.width

    def is_near_door(self, cell: Cell) -> bool:
        """Return whether a thing there would block a doorway."""
        around = (self.at(neighbor) for neighbor in neighbors(cell))
        return any(thing is not None and thing.type == "door" for thing in around)

    def _cuts(self, cell: Cell) -> bool:
        """Return whether filling the cell separates the open cells around it from each other."""
        ring = [(cell[0] + dx, cell[1] + dy) for dx, dy in _RING]
        opened = [not self.is_wall(neighbor) and neighbor not in self.things for neighbor in ring]
        # Runs of open cells along the ring that hold a side (not only a corner) must be one.
        if all(opened):
            return False
        start = opened.index(False)
        runs, side = 0, False
        for offset in range(1, len(ring) + 1):
            index = (start + offset) % len(ring)
            if opened[index]:
                side = side or index % 2 == 1
            else:
                runs, side = runs + side, False
        return runs > 1 and not self._joined(cell)

    def _joined(self, filled: Cell) -> bool:
        """Return whether the open cells beside a filled one are joined by some way around it."""
        sides = {c for c in neighbors(filled) if not self.is_wall(c) and c not in self.things}
        queue = deque((min(sides),))
        visited = {filled, *queue}
        while queue and not sides <= visited and len(visited) < _DETOUR:
            for neighbor in neighbors(queue.popleft()):
                if neighbor not in visited and self.passable(neighbor):
                    visited.add(neighbor)
                    queue.append(neighbor)
        return sides <= visited


def neighbors(cell: Cell) -> tuple[Cell, ...]:
    """Return the four cells beside a cell."""
    x, y = cell
    return (x + 1, y), (x, y + 1), (x - 1, y), (x, y - 1)


def is_key(thing: Any, color: str) -> bool:
    """Return whether a thing is a key of that colour."""
    return thing is not None and thing.type == "key" and thing.color == color


def _trace(came: dict[Cell, Cell], start: Cell, cell: Cell) -> list[Cell]:
    way: list[Cell] = []
    while cell != start:
        way.append(cell)
        cell = came[cell]
    return way[::-1]
