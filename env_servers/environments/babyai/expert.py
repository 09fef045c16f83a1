"""The scripted expert: the fewest replies to the next aim, as one available action.

Contains the search over macro actions on the hidden grid and the wording of thoughts. A pure
function of the level, the scene and what was tried since the state last changed; work is bounded by
`_EXPANSIONS`, so it cannot hang.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from env_servers.environments.babyai.paths import DROP, FORWARD, LEFT, PICKUP, RIGHT, TOGGLE
from env_servers.environments.babyai.plan import Aim, GroundedAction, next_aim
from env_servers.environments.babyai.scene import CHECK, Held, Offer, Scene, scene_of
from env_servers.environments.babyai.view import heading_vector
from env_servers.environments.babyai.world import Cell, World
from env_servers.sdk import Advice

__all__ = ["advise"]

_EXPANSIONS: Final = 150
"""Windows looked at per advice, at most."""
_STRIDE: Final = 0.3
"""Replies per step of distance that the search expects."""
_HASTE: Final = 0.05
"""Replies that one move is worth: moves cost reward, and some levels allow few."""
_RELUCTANCE: Final = 8.0
"""Replies that opening a reserved door is worth avoiding for."""

_TURNS: Final = {LEFT: -1, RIGHT: 1}

_Pose = tuple[int, int, int]
"""x, y, direction."""
_DONE: Final[_Pose] = (-1, -1, -1)
"""Stands for any pose after the action."""

_THOUGHTS: Final[Mapping[tuple[GroundedAction, str], tuple[str, ...]]] = {
    (GroundedAction.FACE, "mission"): (
        "I have to get to the {what}.",
        "The goal sends me to the {what}.",
        "Next I walk up to the {what}.",
    ),
    (GroundedAction.TAKE, "mission"): (
        "I have to pick up the {what}.",
        "The goal asks me to take the {what}.",
        "What I need to get is the {what}.",
    ),
    (GroundedAction.TAKE, "fetch"): (
        "I have to move the {what}, so I fetch it first.",
        "The {what} belongs somewhere else; I need it in my hand.",
    ),
    (GroundedAction.TAKE, "key"): (
        "A locked door is in my way, and the {what} opens it.",
        "I need the {what} to unlock a door.",
    ),
    (GroundedAction.TAKE, "clear"): (
        "The {what} blocks the way, so I clear it away.",
        "I cannot get past the {what}; I take it out of the way.",
    ),
    (GroundedAction.UNPACK, "key"): (
        "The key that I need must be in the {what}, so I open it.",
        "I open the {what} to get at the key inside.",
    ),
    (GroundedAction.OPEN, "mission"): (
        "I have to open the {what}.",
        "The goal is to open the {what}.",
    ),
    (GroundedAction.OPEN, "unlock"): (
        "I have the key, so I unlock the {what}.",
        "Now the key in my hand opens the {what}.",
    ),
    (GroundedAction.DROP, "put next"): (
        "I carry the {what} to where it belongs and put it down there.",
        "The {what} has to be laid down beside the other thing.",
    ),
    (GroundedAction.DROP, "free hands"): (
        "I need a free hand, so I put the {what} down where it does not disturb.",
        "The {what} is not needed in my hand now; I leave it out of the way.",
    ),
}

_NO_WAY: Final = ("I see no way to fulfil the goal any more.", "Nothing I can do helps now.")
_STEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "turn left": ("I turn left towards it.", "It is on my left side."),
    "turn right": ("I turn right towards it.", "It is on my right side."),
    "move forward": ("I go straight on.", "The way leads ahead."),
    "go to": ("Walking up to what I see brings me closer.", "I go there."),
    "go through": ("The way leads through this open door.", "I go on through the door."),
    "toggle and go through": ("This door is on my way.", "I open the door and go through."),
    "pickup": ("I can reach it from here.", "I take it now."),
    "drop": ("The cell ahead is free for it.", "Here I can put it down."),
    "toggle": ("It is right in front of me.", "I am standing before it."),
}


def advise(
    world: World,
    scene: Scene,
    *,
    original: bool,
    tried: Collection[str],
    careful: bool,
    seed: int,
) -> Advice:
    """Return the next action with a reason.

    `tried` are actions that changed nothing here; `careful` replaces macros by single steps, for
    states that were seen too often. `seed` chooses the wording.
    """
    rng = random.Random(seed)
    aim = next_aim(world, world.level.instrs, boxes=not original)
    if aim is None:
        return Advice(CHECK, rng.choice(_NO_WAY))
    search = _Search(world, scene, aim, original, frozenset(tried))
    action = None if careful else search.best()
    action = action or search.single_step()
    if action is None:
        return Advice(CHECK, rng.choice(_NO_WAY))
    why = rng.choice(_THOUGHTS.get((aim.action, aim.why), ("",))).format(what=aim.what)
    verb = next((verb for verb in sorted(_STEPS, key=len)[::-1] if action.startswith(verb)), "")
    return Advice(action, f"{why} {rng.choice(_STEPS.get(verb, ('',)))}".strip())


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What an offer leads to: where the agent ends, and the cell that its last action changed."""

    pose: _Pose
    action: GroundedAction | None = None
    cell: Cell | None = None
    price: float = 1.0


def _ahead(pose: _Pose) -> Cell:
    dx, dy = heading_vector(pose[2])
    return pose[0] + dx, pose[1] + dy


class _Search:
    """One search from the agent's pose to the aim."""

    def __init__(
        self, world: World, scene: Scene, aim: Aim, original: bool, tried: frozenset[str]
    ) -> None:
        self._world, self._scene, self._aim = world, scene, aim
        self._original, self._tried = original, tried
        held = world.held
        self._held = None if held is None else Held(held.type, held.color)
        self._start: _Pose = (*world.agent, world.direction)
        self._far = world.distances(aim.cells, self._open_to)

    def _open_to(self, cell: Cell) -> bool:
        """Return whether the agent may walk there for this aim."""
        if not self._world.passable(cell):
            return False
        thing = self._world.at(cell)
        return thing is None or thing.is_open or self._may_open(cell)

    def _may_open(self, cell: Cell) -> bool:
        return not self._aim.strict or cell in self._aim.cells

    def best(self) -> str | None:
        """First action of the way with the fewest replies.

        Of a way to the nearest pose that was looked at, if the search ran out; None where nothing
        comes nearer.
        """
        frontier = [(self._guess(self._start), 0, 0.0, self._start, "")]
        best = {self._start: 0.0}
        order = expanded = 0
        nearest = (self._guess(self._start), math.inf, "")
        while frontier and expanded < _EXPANSIONS:
            _, _, cost, pose, first = heapq.heappop(frontier)
            if first and self._reached(pose):
                return first
            if cost > best.get(pose, math.inf):
                continue
            expanded += 1
            nearest = min(nearest, (self._guess(pose), cost, first))
            for action, outcome in self._outcomes(pose):
                opening = first or action
                order += 1
                total = cost + outcome.price
                if outcome.action is self._aim.action and outcome.cell in self._aim.cells:
                    heapq.heappush(frontier, (total, order, total, _DONE, opening))
                elif total < best.get(outcome.pose, math.inf):
                    best[outcome.pose] = total
                    guess = total + self._guess(outcome.pose)
                    heapq.heappush(frontier, (guess, order, total, outcome.pose, opening))
        return nearest[2] or None

    def _guess(self, pose: _Pose) -> float:
        return (_STRIDE + _HASTE) * self._far.get((pose[0], pose[1]), math.inf)

    def _reached(self, pose: _Pose) -> bool:
        """Return whether the aim is fulfilled by standing so (or by the action that led here)."""
        faced = self._aim.action is GroundedAction.FACE and _ahead(pose) in self._aim.cells
        return faced or pose == _DONE

    def _outcomes(self, pose: _Pose) -> Iterator[tuple[str, _Outcome]]:
        """Yield what the actions that are available in a pose would do."""
        scene, tried = self._scene, self._tried
        if pose != self._start:
            image = self._world.level.image_from(*pose)
            scene = scene_of(image, pose[2], self._held, original=self._original)
            tried = frozenset[str]()
        for action, offer in scene.offers.items():
            if offer.moves and action not in tried:
                outcome = self._carry_out(pose, offer)
                if outcome is not None and (outcome.pose != pose or outcome.action is not None):
                    yield action, outcome

    def _carry_out(self, pose: _Pose, offer: Offer) -> _Outcome | None:
        """Return the end of an action's moves on the hidden grid, or None if it does harm."""
        opened: Cell | None = None
        price = 1.0 + _HASTE * len(offer.moves)
        for move in offer.moves:
            x, y, direction = pose
            ahead = _ahead(pose)
            if move in _TURNS:
                pose = x, y, (direction + _TURNS[move]) % 4
            elif move == FORWARD:
                if not self._can_enter(ahead, opened):
                    break
                pose = *ahead, direction
            elif move == TOGGLE:
                if not self._may_toggle(ahead, last=offer.moves[-1] == TOGGLE):
                    return None
                opened = ahead
                price += _RELUCTANCE if ahead in self._world.reserved else 0.0
            else:
                return self._handled(pose, move, price)
        action = None
        if opened is not None:
            action = (
                GroundedAction.UNPACK
                if self._aim.action is GroundedAction.UNPACK
                else GroundedAction.OPEN
            )
        return _Outcome(pose, action, opened, price)

    def _handled(self, pose: _Pose, move: int, price: float) -> _Outcome | None:
        """Return the end of picking up or dropping, or None if that is not the aim."""
        ahead = _ahead(pose)
        if ahead not in self._aim.cells or (move == DROP) != (self._world.at(ahead) is None):
            return None
        return _Outcome(
            pose, GroundedAction.DROP if move == DROP else GroundedAction.TAKE, ahead, price
        )

    def _can_enter(self, cell: Cell, opened: Cell | None) -> bool:
        thing = self._world.at(cell)
        if thing is None:
            return not self._world.is_wall(cell)
        return thing.type == "door" and (thing.is_open or cell == opened)

    def _may_toggle(self, cell: Cell, *, last: bool) -> bool:
        """Return whether toggling what is there helps; `last` = the action ends with it."""
        thing, aimed = self._world.at(cell), cell in self._aim.cells
        if thing is None:
            return False
        if thing.type == "box":
            return self._aim.action is GroundedAction.UNPACK and aimed
        if thing.type != "door" or not self._may_open(cell) or (thing.is_open and not aimed):
            return False
        if aimed and self._aim.last and self._original and not last:
            return False
        return not thing.is_locked or self._world.can_unlock(thing)

    def single_step(self) -> str | None:
        """Return the next single move of a shortest way, as an action."""
        came: dict[_Pose, str] = {self._start: ""}
        queue = deque((self._start,))
        while queue:
            pose = queue.popleft()
            ahead = _ahead(pose)
            if ahead in self._aim.cells:
                return came[pose] or self._action_here(ahead)
            x, y, direction = pose
            for action, reached in (
                (self._onward(ahead), (*ahead, direction)),
                ("turn left", (x, y, (direction - 1) % 4)),
                ("turn right", (x, y, (direction + 1) % 4)),
            ):
                if action and reached not in came:
                    came[reached] = came[pose] or action
                    queue.append(reached)
        return None

    def _onward(self, cell: Cell) -> str:
        """Return how to get one cell ahead, or empty where that is impossible."""
        if not self._open_to(cell):
            return ""
        thing = self._world.at(cell)
        return "toggle" if thing is not None and not thing.is_open else "move forward"

    def _action_here(self, cell: Cell) -> str | None:
        """Return the action of the aim for a cell right ahead."""
        last_moves = {
            GroundedAction.TAKE: PICKUP,
            GroundedAction.DROP: DROP,
            GroundedAction.OPEN: TOGGLE,
            GroundedAction.UNPACK: TOGGLE,
        }
        last = last_moves.get(self._aim.action)
        for action, offer in self._scene.offers.items():
            if offer.moves == (last,):
                return action
        return None
