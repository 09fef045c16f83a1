"""The environment: a folder, commands that run in a sandbox, and checks of what they leave.

The folder is a value (`tree.Tree`) that is given to each command and read back after it, so an
episode holds no process and no file between its steps: copying it costs nothing, and nothing is
left behind.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from env_servers.environments.shell import expert, picture
from env_servers.environments.shell.prompt import CONVERSATION_STARTS, GRAMMAR, SUBMIT
from env_servers.environments.shell.puzzle import Puzzle, Trial, trimmed
from env_servers.environments.shell.sandbox import (
    MAX_OUTPUT_BYTES,
    SECONDS,
    Ending,
    Outcome,
    Sandbox,
)
from env_servers.environments.shell.tasks import ShellTasks
from env_servers.environments.shell.tree import MAX_ENTRIES, MAX_TREE_BYTES, Tree
from env_servers.sdk import (
    Advice,
    AsyncEnvironment,
    EnvironmentConfig,
    EnvironmentSpec,
    Execution,
    Observation,
    ResetOptions,
    StopReason,
    Task,
    View,
)
from env_servers.sdk.judging import JUDGEMENTS, Judgement, Recorded, recorded_judgements
from env_servers.toolkit.judges import judge_of

__all__ = ["ShellEnvironment"]

MAX_COMMAND_CHARS: Final = 16_384
"""Of a command; longer ones are not run."""
_SHOWN_CHARS: Final = 4_000
"""Of a command's output: more is left out in its middle."""
_UNDONE: Final = "The folder is as it was before."
_BREACHES: Final = {
    Ending.TIME: f"The command took longer than {SECONDS:g} s and was ended.",
    Ending.OUTPUT: f"The command printed more than {MAX_OUTPUT_BYTES // 1024} KiB and was ended.",
    Ending.FOLDER: (
        f"The command left more than fits: {MAX_ENTRIES} files and folders of "
        f"{MAX_TREE_BYTES // 1024} KiB."
    ),
    Ending.BROKEN: "The command ended the machine that it ran on.",
}


@dataclass(frozen=True, slots=True)
class _State:
    """An episode between two steps; it never changes."""

    puzzle: Puzzle
    tree: Tree
    solved: int = 0
    """Moves of the solution that were made, in their order: only the expert asks."""
    command: str = ""
    """The last one, and what was shown of it: for pictures."""
    shown: str = ""


class ShellEnvironment(AsyncEnvironment):
    """A folder of files and a shell."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="shell",
        version="1",
        description="Do small jobs on text files by bash commands that run in a sandbox.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=20,
        execution=Execution.THREAD,
        has_views=True,
        episode_bytes=2 * MAX_TREE_BYTES,
    )

    tasks: ShellTasks
    _state: _State
    _seed: int
    _recorded: Recorded

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> ShellTasks:
        judge = judge_of(config.settings)
        sandbox = Sandbox()
        sandbox.require()
        return ShellTasks(sandbox, judge)

    async def reset_async(self, task: Task, options: ResetOptions) -> Observation:
        options.require(self.spec.profiles, (JUDGEMENTS,))
        self._seed, self._recorded = options.seed, recorded_judgements(options.options)
        self._state = _State(task.payload, task.payload.start)
        files = "\n".join(task.payload.start.files)
        return Observation(f"{task.payload.request}\n\nThe files:\n{files}")

    async def step_async(self, action: str) -> Observation:
        command = action.strip()
        if command == SUBMIT:
            return await self._hand_in()
        if refusal := _refusal(command):
            return Observation(refusal, reward=0.0)
        outcome = await self._run(self._state.tree, command)
        text = _told(outcome)
        moves = self._state.puzzle.solution[self._state.solved :]
        self._state = replace(
            self._state,
            tree=outcome.tree,
            solved=self._state.solved + bool(moves and moves[0].command == command),
            command=command,
            shown=text,
        )
        return Observation(text, reward=0.0)

    def fingerprint(self) -> bytes:
        return self._state.tree.digest

    def render(self) -> Sequence[View]:
        state = self._state
        return picture.draw(state.puzzle, state.tree, state.command, state.shown)

    async def advise_expert_async(self, seed: int) -> Advice:
        return expert.next_move(self._state.puzzle, self._state.solved, seed)

    def advise_random(self, rng: random.Random) -> Advice:
        return expert.random_advice(self._state.tree, rng)

    def advise_noop(self) -> Advice:
        return Advice("true", "I do nothing.")

    async def _hand_in(self) -> Observation:
        right = not self._state.puzzle.flaws(self._state.tree)
        for trial in self._state.puzzle.trials:
            right = right and await self._passes(trial)
        judgement = await self._judged() if right else None
        if judgement is not None:
            right = judgement.success
        self._state = replace(self._state, command=SUBMIT, shown="")
        return Observation(
            "Handed in.",
            reward=float(right),
            terminated=True,
            stop_reason=StopReason.GOAL_REACHED if right else StopReason.ANSWERED,
            info=None if judgement is None else {JUDGEMENTS: [judgement.as_info()]},
        )

    async def _judged(self) -> Judgement | None:
        """Return the verdict on the folder; None = the task has nothing to judge."""
        puzzle, examiner = self._state.puzzle, self.tasks.examiner
        if puzzle.opinion is None or examiner is None:
            return None
        prompt = puzzle.opinion.prompt(puzzle.start, self._state.tree)
        return await examiner.examine(
            puzzle.opinion.rubric, prompt, seed=self._seed, recorded=self._recorded
        )

    async def _passes(self, trial: Trial) -> bool:
        outcome = await self._run(self._state.tree.with_texts(trial.files), trial.command)
        printed = outcome.output.decode(errors="replace")
        well = outcome.ending is Ending.EXITED and outcome.status == 0
        return well and trimmed(printed) == trimmed(trial.prints)

    async def _run(self, tree: Tree, command: str) -> Outcome:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.tasks.threads, self.tasks.sandbox.run, tree, command)


def _refusal(command: str) -> str:
    """Return why a command is not run; empty = it is."""
    if not command:
        return "There is no command. Give one bash command, or submit."
    if len(command) > MAX_COMMAND_CHARS:
        return f"The command is longer than {MAX_COMMAND_CHARS:,} characters and was not run."
    if "\0" in command:
        return "The command has a NUL character and was not run."
    return ""


def _told(outcome: Outcome) -> str:
    """Return what the agent is shown of a command."""
    output = outcome.output.decode(errors="replace")
    if len(output) > _SHOWN_CHARS:
        half = _SHOWN_CHARS // 2
        left_out = f"\n[... {len(output) - 2 * half:,} characters are left out ...]\n"
        output = output[:half] + left_out + output[-half:]
    if outcome.ending is not Ending.EXITED:
        # How far it came before it was ended differs from time to time.
        return f"{_BREACHES[outcome.ending]} {_UNDONE}"
    if outcome.status != 0:
        return f"{output.rstrip()}\n[exit status {outcome.status}]".lstrip("\n")
    return output.rstrip() or "[no output]"
