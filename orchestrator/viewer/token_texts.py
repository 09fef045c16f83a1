"""Texts of the tokens that records hold as ids, where the run's tokenizer is to be had.

A tokenizer is believed only where it spells the replies as they were recorded: that of another
model would give every id a wrong text.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final, NamedTuple

from agent_runtime.conversation import normalize_reply
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.huggingface import ModelTokenizer
from agentgym.episode.v1 import episode_pb2
from orchestrator.manifest import Manifest
from orchestrator.run_tokenizer import find_tokenizer

__all__ = ["SpelledTokens", "TokenTexts"]

_ABSENT: Final = (
    "only ids are shown: the run names no model folder that is still here; name one that has its "
    "tokenizer.json by --tokenizer"
)


class SpelledTokens(NamedTuple):
    """The texts of a segment, or why there are none."""

    texts: list[str] | None
    """One per id."""
    problem: str = ""


class TokenTexts:
    """The tokenizers of runs, each loaded once. Any thread may ask."""

    def __init__(self, given: Path | None = None) -> None:
        """Look tokenizers up; `given` takes the place of those that runs name."""
        self._given = given
        self._lock = threading.Lock()
        self._loaded: dict[str, ModelTokenizer | str] = {}
        """By run id; a sentence where there is none."""

    def spell(self, manifest: Manifest, episode: episode_pb2.Episode, number: int) -> SpelledTokens:
        """Return the texts of segment `number` of an episode of a run."""
        with self._lock:
            known = self._loaded.get(manifest.run_id)
            if known is None:
                known = self._loaded[manifest.run_id] = self._load(manifest)
        if isinstance(known, str):
            return SpelledTokens(None, known)
        if not _spells(known, episode):
            return SpelledTokens(
                None,
                "only ids are shown: the tokenizer that was found spells other replies than the "
                "recorded ones; name the right one by --tokenizer",
            )
        return SpelledTokens(known.pieces(episode.token_segments[number].ids))

    def _load(self, manifest: Manifest) -> ModelTokenizer | str:
        found = find_tokenizer(manifest, self._given)
        if found is None:
            return _ABSENT
        try:
            return ModelTokenizer(found.folder)
        except PolicyMisconfigured as error:
            return f"only ids are shown: {error}"


def _spells(tokenizer: ModelTokenizer, episode: episode_pb2.Episode) -> bool:
    """Return whether the sampled ids give the recorded replies, which a stop string may cut."""
    replies = [message.text for message in episode.messages if message.sampled]
    sampled: dict[int, list[int]] = {}
    for segment in episode.token_segments:
        for token_id, generation in zip(segment.ids, segment.generations, strict=True):
            if generation:
                sampled.setdefault(generation - 1, []).append(token_id)
    return all(
        normalize_reply(tokenizer.decode(ids)).startswith(replies[generation])
        for generation, ids in sampled.items()
        if generation < len(replies)
    )
