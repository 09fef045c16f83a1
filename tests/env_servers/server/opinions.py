"""An environment whose every step is judged, each time by another opinion."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import ClassVar

from agentgym.rubric import Rubric
from env_servers.environments.echo import EchoEnvironment
from env_servers.environments.echo.tasks import echo_tasks
from env_servers.sdk import (
    AsyncEnvironment,
    EnvironmentConfig,
    EnvironmentSpec,
    Execution,
    Observation,
    ResetOptions,
    Task,
    TaskSet,
)
from env_servers.sdk.judging import (
    JUDGEMENTS,
    Answer,
    Examiner,
    Judge,
    recorded_judgements,
)

RUBRIC = Rubric(template="How good is it?\n{{answer}}")
asked: list[str] = []
"""What judges of this process were asked."""
_grades = itertools.cycle((0.25, 0.5, 0.75))


class Moody(Judge):
    @property
    def identity(self) -> str:
        return "moody"

    async def ask(self, prompt: str, seed: int) -> Answer:
        asked.append(prompt)
        return Answer(text=f'{{"success": {next(_grades)}}}')


class Opinions(AsyncEnvironment):
    spec: ClassVar[EnvironmentSpec] = replace(
        EchoEnvironment.spec, name="opinions", execution=Execution.THREAD, has_expert=False
    )
    examiner: ClassVar[Examiner]

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> TaskSet:
        cls.examiner = Examiner(Moody())
        return echo_tasks()

    async def reset_async(self, task: Task, options: ResetOptions) -> Observation:
        options.require(self.spec.profiles, (JUDGEMENTS,))
        self.recorded = recorded_judgements(options.options)
        self.seed = options.seed
        return Observation("Say something.")

    async def step_async(self, action: str) -> Observation:
        judgement = await self.examiner.examine(
            RUBRIC, RUBRIC.prompt({"answer": action}), seed=self.seed, recorded=self.recorded
        )
        info = {JUDGEMENTS: [judgement.as_info()]}
        return Observation("Heard.", reward=judgement.score, info=info)


environment = Opinions
