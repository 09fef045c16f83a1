"""The forty BabyAI levels as MiniGrid objects: which classes, how they are seeded and watched.

Contains everything that touches the `minigrid` package. `build(level, seed)` gives the room that
AgentGym's server showed for that level and seed, in every process and thread.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from minigrid.envs.babyai import goto, other, pickup, putnext, synth, unlock
from minigrid.envs.babyai import open as open_
from minigrid.envs.babyai.core import roomgrid_level, verifier
from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel

from env_servers.environments.babyai.paths import FORWARD, LEFT, RIGHT
from env_servers.environments.babyai.view import Image, Sight, heading_vector

__all__ = ["DESCRIPTIONS", "LEVELS", "PARTS", "Level", "build"]

DESCRIPTIONS: Final = ("desc", "desc_move", "desc_fixed")
"""Attributes in which missions describe things."""
PARTS: Final = ("instr_a", "instr_b")
"""Attributes in which missions have missions."""

_Recipe = tuple[type[RoomGridLevel], dict[str, Any]]

_RECIPES: Final[dict[str, _Recipe]] = {
    "GoToRedBallGrey": (goto.GoToRedBallGrey, {}),
    "GoToRedBall": (goto.GoToRedBall, {}),
    "GoToRedBallNoDists": (goto.GoToRedBallNoDists, {}),
    # Registered with room size 4 by mistake in MiniGrid 2.3; the recordings have that room.
    "GoToObjS6": (goto.GoToObj, {"room_size": 4}),
    "GoToLocalS8N7": (goto.GoToLocal, {"room_size": 8, "num_dists": 7}),
    "GoToObjMazeS7": (goto.GoTo, {"num_dists": 1, "room_size": 7}),
    "GoToImpUnlock": (goto.GoToImpUnlock, {}),
    "GoToSeqS5R2": (
        goto.GoToSeq,
        {"room_size": 5, "num_rows": 2, "num_cols": 2, "num_dists": 4},
    ),
    "GoToRedBlueBall": (goto.GoToRedBlueBall, {}),
    "GoToDoor": (goto.GoToDoor, {}),
    "GoToObjDoor": (goto.GoToObjDoor, {}),
    "Open": (open_.Open, {}),
    "OpenRedDoor": (open_.OpenRedDoor, {}),
    "OpenDoorLoc": (open_.OpenDoor, {"select_by": "loc"}),
    "OpenRedBlueDoorsDebug": (
        open_.OpenTwoDoors,
        {"first_color": "red", "second_color": "blue", "strict": True},
    ),
    "OpenDoorsOrderN4Debug": (open_.OpenDoorsOrder, {"debug": True, "num_doors": 4}),
    "Pickup": (pickup.Pickup, {}),
    "UnblockPickup": (pickup.UnblockPickup, {}),
    "PickupLoc": (pickup.PickupLoc, {}),
    "PickupDistDebug": (pickup.PickupDist, {"debug": True}),
    "PickupAbove": (pickup.PickupAbove, {}),
    "PutNextLocalS6N4": (putnext.PutNextLocal, {"room_size": 6, "num_objs": 4}),
    "PutNextS7N4Carrying": (
        putnext.PutNext,
        {"room_size": 7, "objs_per_room": 4, "start_carrying": True},
    ),
    "Unlock": (unlock.Unlock, {}),
    "UnlockLocalDist": (unlock.UnlockLocal, {"distractors": True}),
    "KeyInBox": (unlock.KeyInBox, {}),
    "UnlockPickupDist": (unlock.UnlockPickup, {"distractors": True}),
    "BlockedUnlockPickup": (unlock.BlockedUnlockPickup, {}),
    "UnlockToUnlock": (unlock.UnlockToUnlock, {}),
    "ActionObjDoor": (other.ActionObjDoor, {}),
    "FindObjS7": (other.FindObjS5, {"room_size": 7}),
    "KeyCorridorS6R3": (other.KeyCorridor, {"room_size": 6, "num_rows": 3}),
    "OneRoomS20": (other.OneRoomS8, {"room_size": 20}),
    "MoveTwoAcrossS8N9": (other.MoveTwoAcross, {"room_size": 8, "objs_per_room": 9}),
    "SynthS5R2": (synth.Synth, {"room_size": 5, "num_rows": 2}),
    "SynthLoc": (synth.SynthLoc, {}),
    "SynthSeq": (synth.SynthSeq, {}),
    "MiniBossLevel": (synth.MiniBossLevel, {}),
    "BossLevel": (synth.BossLevel, {}),
    "BossLevelNoUnlock": (synth.BossLevelNoUnlock, {}),
}

LEVELS: Final = tuple(_RECIPES)
"""Level names in AgentGym's order: level `n` (from 1) is `LEVELS[n - 1]`."""

_WALKING: Final = (LEFT, RIGHT, FORWARD)
_KEPT: Final = 1024
"""Fresh levels that are kept, 3 to 7 KiB each: a copy costs a tenth of making one."""
_SPACES: Final = ("action_space", "observation_space")
"""Attributes that nothing changes; a copy has those of the first level of its class."""
_MAX_PLACEMENTS: Final = 2_000
"""Positions tried for the agent in a room; a small room has at most a few dozen."""


class Level(RoomGridLevel):
    """A level whose `gen_obs` is the flat `Image` instead of MiniGrid's image array."""

    instrs: Any
    standing: str | None = None
    """What stands where, as `state` wrote it last; None after a move that may have changed it."""
    _sight: Sight
    _sighted: Any = None
    """The grid that the sight was made of."""
    _touched: tuple[int, int] | None = None
    """The one cell that a move may have changed since."""
    _kept_room: Any = None
    _placements: int = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how copies are made: the classes are made here, so that no name finds them."""
        state = {name: value for name, value in vars(self).items() if name not in _SPACES}
        return _blank, (type(self).__name__,), state

    @property
    def locked_room(self) -> Any:
        """The last locked room of this object, even of an attempt that was rejected.

        MiniGrid < 3.2 kept it by mistake, so a mission may mention what only exists there; the
        recordings come from such a version.
        """
        return self._kept_room

    @locked_room.setter
    def locked_room(self, room: Any) -> None:
        if room is not None:
            self._kept_room = room

    def place_agent(self, *args: Any, **kwargs: Any) -> Any:
        """Put the agent into a room, facing nothing; raises RecursionError where that cannot be.

        MiniGrid tries for ever then, on a few seeds; its generator begins anew on this error.
        """
        self._placements = 0
        return super().place_agent(*args, **kwargs)

    def place_obj(self, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Put an object, or the agent where `obj` is None, into a free cell."""
        if obj is None:
            self._placements += 1
            if self._placements > _MAX_PLACEMENTS:
                raise RecursionError("the agent has no place in this room")
        return super().place_obj(obj, *args, **kwargs)

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Make a low-level move; only turns and steps leave everything where it stands."""
        if action not in _WALKING:
            self.standing = None
            x, y = self.front_pos
            self._touched = int(x), int(y)
        return super().step(action)

    @property
    def front_pos(self) -> Any:
        """The cell before the agent: two numbers, of which MiniGrid makes arrays."""
        (x, y), (dx, dy) = self.agent_pos, heading_vector(self.agent_dir)
        return int(x) + dx, int(y) + dy

    def gen_obs(self) -> dict[str, Any]:
        """Return the observation that MiniGrid's `reset` and `step` hand out."""
        return {"image": self.image(), "direction": self.agent_dir, "mission": self.mission}

    def forget_sight(self) -> None:
        """Have every cell read anew."""
        self._sighted = None

    def image(self) -> Image:
        """Return what the agent sees now."""
        x, y = self.agent_pos
        return self.image_from(int(x), int(y), int(self.agent_dir))

    def image_from(self, x: int, y: int, direction: int) -> Image:
        """Return what the agent would see from another place, with what it carries."""
        if self._sighted is not self.grid:
            self._sighted, self._sight = self.grid, Sight(self.grid)
        elif self._touched is not None:
            self._sight.read(self.grid, *self._touched)
        self._touched = None
        return self._sight.look(x, y, direction, self.carrying)


def _discard(*_: object) -> None:
    """Takes the place of `print` in MiniGrid's level generator, which reports retries with it."""


setattr(roomgrid_level, "print", _discard)  # noqa: B010 - shadows the builtin in that module only
# MiniGrid reads an environment variable here that changes when missions count as done.
verifier.use_done_actions = False

_CLASSES: Final = {
    name: type(name, (Level, kind), {"__doc__": f"BabyAI-{name}."})
    for name, (kind, _) in _RECIPES.items()
}


def _forgive(mission: Any) -> None:
    """Let the later part of a sequence not fail on the action that ended the earlier part."""
    if isinstance(mission, verifier.BeforeInstr | verifier.AfterInstr):
        first = isinstance(mission, verifier.BeforeInstr)
        later = mission.instr_b if first else mission.instr_a
        if isinstance(later, verifier.OpenInstr):
            later.strict = False


def build(level: int, seed: int, *, original: bool = True) -> tuple[Level, Image]:
    """Return a fresh level 1..40 with what its reset shows.

    MiniGrid judges the second part of a strict sequence on the very action that finished the first,
    so opening the right door first counts as opening a wrong one. Unless `original`, the second
    part is not strict.

    The original resets every level twice with the same seed. That matters where something of the
    first reset stays (see `Level.locked_room`), so it is done here as well.
    """
    saved, image, unused = _saved(level, seed)
    try:
        built = unused.pop()  # the one that was made, for whoever comes first
    except IndexError:
        built: Level = pickle.loads(saved)
    if not original:
        _forgive(built.instrs)
    return built, image


@lru_cache(maxsize=_KEPT)
def _saved(level: int, seed: int) -> tuple[bytes, Image, list[Level]]:
    """Return a fresh level, pickled, with what its reset shows, and itself to be taken."""
    name = LEVELS[level - 1]
    built: Level = _CLASSES[name](**_RECIPES[name][1])
    built.reset(seed=seed)
    observation, _ = built.reset(seed=seed)
    _share_walls(built)
    built.forget_sight()  # some levels take a thing into the agent's hand after they were seen
    built.image()
    for space in _SPACES:
        if space not in vars(type(built)):
            setattr(type(built), space, getattr(built, space))
    return pickle.dumps(built, pickle.HIGHEST_PROTOCOL), observation["image"], [built]


def _share_walls(level: Level) -> None:
    """Let one wall stand for all of its colour: they are most of what a copy would copy.

    Missions without a kind of thing may mean walls, and know the ones that they mean by identity.
    """
    meant = {id(thing) for thing in _meant(level.instrs)}
    walls: dict[str, Any] = {}
    for index, cell in enumerate(level.grid.grid):
        if cell is not None and cell.type == "wall" and id(cell) not in meant:
            level.grid.grid[index] = walls.setdefault(cell.color, cell)


def _meant(mission: Any) -> Iterator[Any]:
    """Yield the things that a mission's descriptions fit."""
    for name in DESCRIPTIONS:
        if hasattr(mission, name):
            yield from getattr(mission, name).obj_set
    for name in PARTS:
        if hasattr(mission, name):
            yield from _meant(getattr(mission, name))


def _blank(name: str) -> Level:
    """Return a level of a class without anything of its own."""
    return _CLASSES[name].__new__(_CLASSES[name])
