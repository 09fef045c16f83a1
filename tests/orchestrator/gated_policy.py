"""The expert as a policy that writes word by word, each when it may: for tests of live episodes.

`gated_policy:Gated:FOLDER`. The file `words` in the folder allows as many words as it has bytes;
with a file `open` all may be written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agent_runtime.conversation import Message
from agent_runtime.policies import Completion, EpisodeContext, Policy, PolicyConfig, PolicySession
from agent_runtime.policies.scripted import ScriptedPolicy
from agent_runtime.spending import Pricing

_LOOK = 0.005
"""Seconds between two looks at the gate."""


class Gated(Policy):
    """The expert, held up."""

    pricing = Pricing.FREE

    def __init__(self, target: str, config: PolicyConfig) -> None:
        self.name = "gated"
        self.folder = Path(target)
        self.written = 0

    def open(self, context: EpisodeContext) -> PolicySession:
        return _GatedSession(self, context)

    async def write_word(self) -> None:
        """Wait until there may be one more word, and leave the next one to another episode."""
        words, opened = self.folder / "words", self.folder / "open"
        while not opened.exists() and words.stat().st_size <= self.written:
            await asyncio.sleep(_LOOK)
        self.written += 1
        if not opened.exists():
            await asyncio.sleep(_LOOK)


class _GatedSession(PolicySession):
    streams = True

    def __init__(self, policy: Gated, context: EpisodeContext) -> None:
        self._policy = policy
        self._draft = context.draft
        self._expert = ScriptedPolicy("expert").open(context)

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        """Give the expert's reply, word by word to who watches."""
        whole = await self._expert.reply(messages, turn=turn, seed=seed)
        words = whole.text.split(" ")
        for count in range(1, len(words) + 1):
            await self._policy.write_word()
            so_far = " ".join(words[:count])
            self._draft.write(lambda text=so_far: text)
        return replace(whole, text=" ".join(words))
