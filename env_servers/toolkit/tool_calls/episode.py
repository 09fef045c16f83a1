"""What an episode of a tool environment has seen so far, and what that is worth to a client."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from env_servers.sdk import Observation, StopReason
from env_servers.toolkit.tool_calls.backends import Reply, Session
from env_servers.toolkit.tool_calls.line_format import Call, call_key
from env_servers.toolkit.tool_calls.payload import ToolTask
from env_servers.toolkit.tool_calls.planning import progress
from env_servers.toolkit.tool_calls.scoring import Subgoals

__all__ = ["REWARDS", "ToolEpisode"]

REWARDS: Final = ("original", "dense", "binary")
"""Units of the reward that a reset can ask for; the first is the default."""
_MAX_OUTPUTS: Final = 1000
"""Outputs that an episode keeps for its expert."""


@dataclass(slots=True)
class ToolEpisode:
    """The state of one episode."""

    task: ToolTask
    session: Session
    fixed: bool
    """Profile `fixed`."""
    reward_kind: str
    """One of REWARDS."""
    binary_reward: bool
    """The original's server reports 1 for any reward above 0."""
    subgoals: Subgoals
    reward: float = 0.0
    """Dense: the best share so far, as the original's environments hold it."""
    steps: int = 0
    outputs: dict[str, Any] = field(default_factory=dict[str, Any])
    """Value of each call that was made, by `call_key`; of the last one where it was repeated."""
    progress: float = 0.0
    """Share of the way that the last observation told of."""
    finished: bool = False
    not_recorded: int = 0
    """Calls that no recording could answer."""

    def remember(self, call: Call, value: Any) -> None:
        """Keep what a call returned, or the text of its error, for the expert."""
        key = call_key(call.tool, call.arguments)
        if key is not None and (key in self.outputs or len(self.outputs) < _MAX_OUTPUTS):
            self.outputs[key] = value

    def note_output(self, reply: Reply) -> None:
        """Keep what a call returned for the subgoals, unless the tool refused it."""
        if reply.ok:
            self.subgoals.note(reply.compared)

    def reported_reward(self) -> float:
        """Return the reward in the unit that the reset asked for."""
        dense = float(self.reward)
        if self.reward_kind == "binary":
            return float(dense >= 1.0)
        if self.reward_kind == "original" and self.binary_reward:
            return float(dense > 0.0)
        return dense

    def observation(self, text: str, done: bool) -> Observation:
        """Return the observation after a call; it tells the progress where that has changed."""
        reached = self._reached()
        info = {"progress": reached} if done or reached != self.progress else None
        if info is not None and self.not_recorded:
            info["not_recorded"] = float(self.not_recorded)
        self.progress = reached
        self.finished = done
        stop = StopReason.ANSWERED if done else StopReason.NONE
        return Observation(
            text, reward=self.reported_reward(), terminated=done, stop_reason=stop, info=info
        )

    def _reached(self) -> float:
        """Return the share of the way that is done: of the expert's calls, or of the subgoals."""
        dense = float(self.reward)
        if dense >= 1.0 or self.task.plan is None or not self.task.steps:
            return dense
        return max(dense, progress(self.task.plan, self.task.steps, self.outputs))

    def fork(self) -> ToolEpisode:
        """Return an independent copy with a session of its own."""
        return replace(
            self,
            session=self.session.fork(),
            subgoals=self.subgoals.copy(),
            outputs=dict(self.outputs),
        )
