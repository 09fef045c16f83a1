"""Conversations of real environments as token ids, for benchmarks of engines.

A scripted player plays the first tasks of each environment with the environment's own prompts. What
the environment said is kept, turn by turn, as a model's chat template renders it; what the player
said is left out, so that whoever is measured speaks in its place and everybody reads the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent_runtime.conversation import Message, Role
from agent_runtime.huggingface import HuggingFaceRenderer
from agent_runtime.rendering import Retokenized
from orchestrator import sample
from orchestrator.store import RunReader

__all__ = ["record_observations"]


def record_observations(
    model: str, environments: Sequence[str], *, episodes: int, turns: int, folder: Path
) -> list[list[list[int]]]:
    """Return for each episode the ids that precede each of its replies.

    Args:
        model: Whose chat template and tokenizer.
        environments: Played one after the other; episodes of all are mixed.
        episodes: Of each environment.
        turns: Replies of an episode, at most.
        folder: Gets the runs.

    Raises:
        RuntimeError: An environment could not be played.
    """
    renderer = HuggingFaceRenderer(model)
    found: list[list[list[int]]] = []
    for name in environments:
        run = folder / name
        command = ["--env", name, "--policy", "random", "--episodes", str(episodes), "--spawn", "1"]
        command += ["--max-rounds", str(turns), "--out", str(run)]
        if sample.main(command):
            raise RuntimeError(f"{name} could not be played: see {run}")
        with RunReader.open(run) as reader:
            for episode in reader.episodes(lambda episode: not episode.failed):
                messages = [Message(Role(it.role), it.text, it.sampled) for it in episode.messages]
                found.append(_observations(messages, renderer)[:turns])
    return found


def _observations(messages: Sequence[Message], renderer: HuggingFaceRenderer) -> list[list[int]]:
    """Return the prompt, instruction and acknowledgement first, then what follows each reply."""
    shown = 3
    rendered = renderer.begin(messages[:shown])
    parts, text = [rendered.ids], rendered.text
    while shown + 2 <= len(messages):
        reply, shown = shown, shown + 2
        following = renderer.extend(text, messages[:shown], reply=reply, sampled=[])
        if isinstance(following, Retokenized):
            raise TypeError("the chat template rewrites what was said: ids cannot be appended")
        parts.append(following.end_of_turn + following.context)
        text = following.text
    return parts
