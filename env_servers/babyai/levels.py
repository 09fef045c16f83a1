"""The forty BabyAI levels as MiniGrid objects: which classes, how they are seeded and watched.

Owns everything that touches the `minigrid` package. Invariant: `build(level, seed)` gives the room
that AgentGym's server showed for that level and seed, in every process and thread. Knows nothing of
texts, actions or scores.
"""

from __future__ import annotations

from typing import Any, Final

from minigrid.envs import babyai
from minigrid.envs.babyai.core import roomgrid_level, verifier
from minigrid.envs.babyai.core.levelgen import LevelGen
from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel

from env_servers.babyai.view import Sight, look

__all__ = ["LEVELS", "Level", "build"]

_Recipe = tuple[type[RoomGridLevel], dict[str, Any]]

_RECIPES: Final[dict[str, _Recipe]] = {
    "GoToRedBallGrey": (babyai.GoToRedBallGrey, {}),
    "GoToRedBall": (babyai.GoToRedBall, {}),
    "GoToRedBallNoDists": (babyai.GoToRedBallNoDists, {}),
    # Registered with room size 4 by mistake in MiniGrid 2.3; the recordings have that room.
    "GoToObjS6": (babyai.GoToObj, {"room_size": 4}),
    "GoToLocalS8N7": (babyai.GoToLocal, {"room_size": 8, "num_dists": 7}),
    "GoToObjMazeS7": (babyai.GoTo, {"num_dists": 1, "room_size": 7}),
    "GoToImpUnlock": (babyai.GoToImpUnlock, {}),
    "GoToSeqS5R2": (
        babyai.GoToSeq,
        {"room_size": 5, "num_rows": 2, "num_cols": 2, "num_dists": 4},
    ),
    "GoToRedBlueBall": (babyai.GoToRedBlueBall, {}),
    "GoToDoor": (babyai.GoToDoor, {}),
    "GoToObjDoor": (babyai.GoToObjDoor, {}),
    "Open": (babyai.Open, {}),
    "OpenRedDoor": (babyai.OpenRedDoor, {}),
    "OpenDoorLoc": (babyai.OpenDoor, {"select_by": "loc"}),
    "OpenRedBlueDoorsDebug": (
        babyai.OpenTwoDoors,
        {"first_color": "red", "second_color": "blue", "strict": True},
    ),
    "OpenDoorsOrderN4Debug": (babyai.OpenDoorsOrder, {"debug": True, "num_doors": 4}),
    "Pickup": (babyai.Pickup, {}),
    "UnblockPickup": (babyai.UnblockPickup, {}),
    "PickupLoc": (babyai.PickupLoc, {}),
    "PickupDistDebug": (babyai.PickupDist, {"debug": True}),
    "PickupAbove": (babyai.PickupAbove, {}),
    "PutNextLocalS6N4": (babyai.PutNextLocal, {"room_size": 6, "num_objs": 4}),
    "PutNextS7N4Carrying": (
        babyai.PutNext,
        {"room_size": 7, "objs_per_room": 4, "start_carrying": True},
    ),
    "Unlock": (babyai.Unlock, {}),
    "UnlockLocalDist": (babyai.UnlockLocal, {"distractors": True}),
    "KeyInBox": (babyai.KeyInBox, {}),
    "UnlockPickupDist": (babyai.UnlockPickup, {"distractors": True}),
    "BlockedUnlockPickup": (babyai.BlockedUnlockPickup, {}),
    "UnlockToUnlock": (babyai.UnlockToUnlock, {}),
    "ActionObjDoor": (babyai.ActionObjDoor, {}),
    "FindObjS7": (babyai.FindObjS5, {"room_size": 7}),
    "KeyCorridorS6R3": (babyai.KeyCorridor, {"room_size": 6, "num_rows": 3}),
    "OneRoomS20": (babyai.OneRoomS8, {"room_size": 20}),
    "MoveTwoAcrossS8N9": (babyai.MoveTwoAcross, {"room_size": 8, "objs_per_room": 9}),
    "SynthS5R2": (babyai.Synth, {"room_size": 5, "num_rows": 2}),
    "SynthLoc": (babyai.SynthLoc, {}),
    "SynthSeq": (babyai.SynthSeq, {}),
    "MiniBossLevel": (babyai.MiniBossLevel, {}),
    "BossLevel": (babyai.BossLevel, {}),
    "BossLevelNoUnlock": (babyai.BossLevelNoUnlock, {}),
}

LEVELS: Final = tuple(_RECIPES)
"""Level names in AgentGym's order: level `n` (from 1) is `LEVELS[n - 1]`."""


class Level(RoomGridLevel):
    """A level whose `gen_obs` is the flat `Sight` instead of MiniGrid's image array."""

    _kept_room: Any = None

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

    def gen_obs(self) -> dict[str, Any]:
        """The observation that MiniGrid's `reset` and `step` hand out."""
        return {"image": self.sight(), "direction": self.agent_dir, "mission": self.mission}

    def sight(self) -> Sight:
        """What the agent sees now."""
        x, y = self.agent_pos
        return look(self.grid, int(x), int(y), int(self.agent_dir), self.carrying)


def _discard(*_: object) -> None:
    """Takes the place of `print` in MiniGrid's level generator, which reports retries with it."""


setattr(roomgrid_level, "print", _discard)  # noqa: B010 - shadows the builtin in that module only
# MiniGrid reads an environment variable here that changes when missions count as done.
verifier.use_done_actions = False

_CLASSES: Final = {
    name: type(name, (Level, kind), {"__doc__": f"BabyAI-{name}."})
    for name, (kind, _) in _RECIPES.items()
}
assert issubclass(_RECIPES["SynthLoc"][0], LevelGen)


def _forgive(mission: Any) -> None:
    """Let the later part of a sequence not fail on the action that ended the earlier part."""
    if isinstance(mission, verifier.BeforeInstr | verifier.AfterInstr):
        first = isinstance(mission, verifier.BeforeInstr)
        later = mission.instr_b if first else mission.instr_a
        if isinstance(later, verifier.OpenInstr):
            later.strict = False


def build(level: int, seed: int, *, original: bool = True) -> tuple[Level, Sight]:
    """A fresh level 1..40 with what its reset shows.

    MiniGrid judges the second part of a strict sequence on the very action that finished the first,
    so opening the right door first counts as opening a wrong one. Unless `original`, the second
    part is not strict.

    The original resets every level twice with the same seed. That matters where something of the
    first reset stays (see `Level.locked_room`), so it is done here as well.
    """
    name = LEVELS[level - 1]
    made: Level = _CLASSES[name](**_RECIPES[name][1])
    made.reset(seed=seed)
    observation, _ = made.reset(seed=seed)
    if not original:
        _forgive(made.instrs)
    return made, observation["image"]
