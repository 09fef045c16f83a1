"""An environment of your own in one file: count down to zero by ones and twos.

Running it checks the contract. From this folder every command knows it by its module's name:

    python -m env_servers play own_environment
    python -m orchestrator.sample --env own_environment --policy expert,random
"""

import random
import sys

from env_servers import sdk
from env_servers.__main__ import main

START = sdk.ConversationStart(
    "A counter has to reach exactly 0. Take 1 or 2 from it each time.\n"
    "Reply with your thought, then your action:\n\nThought:\n...\n\nAction:\ntake <1 or 2>"
)


def make_task(index: int) -> sdk.Task:
    """Return the task of an index: from where it is counted down."""
    return sdk.Task(f"own_environment_{index}", payload=3 + index % 12)


class Countdown(sdk.Environment):
    """One count; what is left is its state."""

    spec = sdk.EnvironmentSpec(
        name="own_environment",
        version="1",
        description="Count down to zero.",
        grammar=sdk.Grammar(),
        conversation_starts={sdk.ActionFormat.REACT: START},
        max_rounds=20,
    )

    @classmethod
    def load_tasks(cls, config: sdk.EnvironmentConfig) -> sdk.TaskSet:
        train = sdk.RangeSplit(sdk.EMBEDDED_BASE, 100, make_task)
        held_out = sdk.RangeSplit(sdk.EMBEDDED_BASE + 100, 20, make_task)
        return sdk.RangeTaskSet(cls.spec.name, {"train": train, "eval": held_out})

    def reset(self, task: sdk.Task, options: sdk.ResetOptions) -> sdk.Observation:
        options.require(self.spec.profiles)
        self.left: int = task.payload
        return sdk.Observation(f"{self.left} left.")

    def step(self, action: str) -> sdk.Observation:
        if action.strip() not in ("take 1", "take 2"):
            return sdk.Observation("Say: take 1, or take 2.", reward=0.0)
        self.left -= int(action.strip()[-1])
        if self.left > 0:
            return sdk.Observation(f"{self.left} left.", reward=0.0)
        reason = sdk.StopReason.GOAL_REACHED if self.left == 0 else sdk.StopReason.GOAL_FAILED
        reward = 1.0 if self.left == 0 else 0.0
        return sdk.Observation("It is over.", reward, terminated=True, stop_reason=reason)

    def advise_expert(self, seed: int) -> sdk.Advice:
        return sdk.Advice(f"take {min(2, self.left)}", "I take as much as there is.")

    def advise_random(self, rng: random.Random) -> sdk.Advice:
        return sdk.Advice(f"take {rng.randint(1, 2)}", "I try my luck.")


environment = Countdown

if __name__ == "__main__":
    sys.exit(main(["check", "own_environment"]))
