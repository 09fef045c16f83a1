"""Judges for tests, as policies of a module: `--judge tests.orchestrator.judges:make:WORDS`.

They grade by the number that follows "Score:" in their prompt, and write down that they were asked.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path

from agent_runtime.conversation import Message
from agent_runtime.errors import PolicyUnavailable
from agent_runtime.policies import Completion, EpisodeContext, Policy, PolicyConfig, PolicySession

ASKED = "JUDGES_ASKED"
"""Environment variable with the path of a file that gets a line for each question."""


class ScriptedJudge(Policy, PolicySession):
    """A judge that behaves as its words say; with `until=N` only for scores below N."""

    def __init__(self, words: str) -> None:
        self.name = f"judge {words}"
        self._words = set(words.split())
        self._until = float(words.partition("until=")[2].split()[0]) if "until=" in words else 9.0

    def open(self, context: EpisodeContext) -> PolicySession:
        return self

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        prompt = messages[-1].text
        found = re.search(r"Score: ([\d.]+)", prompt)
        assert found is not None
        score = float(found[1])
        _note(score)
        if "slow" in self._words:
            await asyncio.sleep(0.05)
        answer = f'It says so.\n{{"solved": {1 - score:g}}}'
        if score < self._until and not _mended():
            if "silent" in self._words:
                raise PolicyUnavailable("nobody is there")
            if "rambling" in self._words:
                answer = "I would say that it went well."
            if "broken" in self._words:
                raise KeyError("choices")
        if "moody" in self._words:
            answer = f'{{"solved": {random.Random(seed).random():.6f}}}'
        return Completion(
            text=answer,
            prompt_tokens=len(prompt) // 4,
            completion_tokens=len(answer) // 4,
            policy_version="v7",
            cost_usd=0.001,
        )


def _note(score: float) -> None:
    if log := os.environ.get(ASKED):
        with Path(log).open("a") as stream:
            stream.write(f"{score}\n")


def _mended() -> bool:
    return Path("mended").exists()


def make(words: str, config: PolicyConfig) -> Policy:
    return ScriptedJudge(words)
