"""Small runs, AgentTraj files and recipes for tests of training."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent_runtime.conversation import Message, Role
from agent_runtime.huggingface import HuggingFaceRenderer
from agent_runtime.tokenized_conversation import TokenizedConversation
from agentgym.episode.v1 import episode_pb2
from orchestrator.store import RunStore
from tests.agent_runtime import tiny_tokenizers
from tests.orchestrator.records import build_episode, build_manifest, build_session

if TYPE_CHECKING:  # importing it needs torch
    from training.grpo import GRPORecipe

INSTRUCTION = "You walk through a maze. Say where to go."
OPENING = "OK."
WAYS = ("up", "down", "left", "right")


def chatml_renderer(folder: Path) -> HuggingFaceRenderer:
    return HuggingFaceRenderer(tiny_tokenizers.chatml(folder))


def conversation(number: int, turns: int = 2) -> dict:
    """An AgentTraj entry in which every reply follows from the observation before it."""
    spoken = [
        {"from": "human", "loss": None, "value": INSTRUCTION},
        {"from": "gpt", "loss": False, "value": OPENING},
    ]
    for turn in range(turns):
        way = WAYS[(number + turn) % 4]
        spoken += [
            {"from": "human", "loss": None, "value": f"The goal is {way}, {number} steps away."},
            {"from": "gpt", "loss": True, "value": f"Thought: it is {way}.\nAction: move {way}"},
        ]
    return {"conversations": spoken, "item_id": f"maze_{number}"}


def write_conversations(path: Path, count: int = 24) -> Path:
    entries = [conversation(number, turns=1 + number % 3) for number in range(count)]
    path.write_text("\n".join(json.dumps(it) for it in entries) + "\n")
    return path


def played_episode(
    item_id: str,
    replies: tuple[str, ...],
    renderer: HuggingFaceRenderer,
    *,
    logprob: float = -0.25,
    **changes,
) -> episode_pb2.Episode:
    """A record whose token ledger is what a policy of this tokenizer would have left."""
    episode = build_episode(item_id, replies=replies, tokens=False, **changes)
    messages = [Message(Role(it.role), it.text, it.sampled) for it in episode.messages]
    tokenized = TokenizedConversation(renderer)
    turn = 0
    for at, message in enumerate(messages):
        if message.sampled:
            tokenized.prompt(messages[:at])
            ids = renderer.reply_ids(tokenized.text, messages[: at + 1])
            tokenized.append_reply(ids, [logprob] * len(ids), generation=turn)
            turn += 1
    episode.token_segments.extend(tokenized.ledger.to_protos())
    return episode


def write_run(folder: Path, episodes: list[episode_pb2.Episode]) -> Path:
    store = RunStore.create(folder, build_manifest(), build_session())
    try:
        store.append_all(episodes)
    finally:
        store.close()
    return folder


def write_preferences(folder: Path, renderer: HuggingFaceRenderer) -> Path:
    """A run of twelve items, each played badly once and well once."""
    episodes = []
    for number in range(12):
        good, bad = (f"Action: move {WAYS[number % 4]}",), ("Action: wait", "Action: wait")
        for sample, (replies, reward) in enumerate(((bad, 0.0), (good, 1.0))):
            episodes.append(
                played_episode(
                    f"maze_{number}",
                    replies,
                    renderer,
                    sample=sample,
                    reward=reward,
                    success=reward > 0,
                )
            )
    return write_run(folder, episodes)


def write_recipe(folder: Path, data: Path, **changes: object) -> dict:
    """Values of a BC recipe for a tiny model from scratch, float32 on one CPU."""
    return {
        "out": str(folder),
        "epochs": 2,
        "device": "cpu",
        "model": {
            "precision": "float32",
            "init": {
                "hidden_size": 32,
                "layers": 2,
                "heads": 2,
                "context": 512,
                "tokenizer": {"vocab_size": 300},
            },
        },
        "data": {"context": 512, "sources": [{"path": str(data)}]},
        "batch": {"sequences": 6, "micro_tokens": 1024},
        "optimizer": {"lr": 5e-3, "warmup": 0.0},
        "tracking": {"tensorboard": False, "print_every": 0},
        **changes,
    }


def write_echo_recipe(folder: Path, base: Path, **changes: object) -> dict:
    """Values of a GRPO recipe for echo, whose last action must not be empty, on one CPU."""
    return {
        "out": str(folder),
        "model": {"path": str(base), "precision": "float32"},
        "device": "cpu",
        "environments": [
            {
                "name": "echo",
                "explore": 8,
                "evaluate": 8,
                "conversation_start": ["say", "yes"],
                "options": {"observation_bytes": 90, "length": 2},
            }
        ],
        "rollout": {
            "max_new_tokens": 16,
            "fleet": {"spawn": 1},
            "embedded": {"context_length": 512, "max_slots": 16, "threads": 1},
        },
        "optimizer": {"lr": 1e-3, "schedule": "constant", "warmup": 0.0},
        "steps": 2,
        "tasks": 2,
        "group": 4,
        "evaluate": False,
        "tracking": {"tensorboard": False, "print_every": 0},
        **changes,
    }


def without_template(model: Path) -> Path:
    """Take the chat template away from a model's folder."""
    (model / "chat_template.jinja").unlink(missing_ok=True)
    settings = json.loads((model / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (model / "tokenizer_config.json").write_text(json.dumps(settings))
    return model


def train_speaker(folder: Path) -> Path:
    """Make a model that has seen as many replies with an action as without one; needs torch."""
    from rich.console import Console

    from training import bc
    from training.config.recipe import build

    entries = []
    for number in range(24):
        turns = [
            {"from": "human", "loss": None, "value": "say"},
            {"from": "gpt", "loss": False, "value": "yes"},
        ]
        for turn in range(2):
            action = "hello" if (number + turn) % 2 else ""
            turns += [
                {"from": "human", "loss": None, "value": f"Step {turn}: abc {number}"},
                {"from": "gpt", "loss": True, "value": f"Thought:\nI talk.\n\nAction:\n{action}"},
            ]
        entries.append({"conversations": turns, "item_id": f"echo_{number}"})
    (folder / "talk.json").write_text(json.dumps(entries))
    recipe = write_recipe(folder / "bc", folder / "talk.json", epochs=12)
    return bc.train(build(bc.BcRecipe, recipe), console=Console(quiet=True)).checkpoint


@contextmanager
def stopped_in_step(step: int) -> Iterator[None]:
    """Stop what trains by GRPO within as Ctrl-C would, before it logs this step; needs torch."""
    from training import grpo

    original = grpo._TrainingSteps._metrics

    def stop(self: grpo._TrainingSteps, *rest):
        if self._step == step:
            raise KeyboardInterrupt
        return original(self, *rest)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(grpo._TrainingSteps, "_metrics", stop)
        yield


@contextmanager
def stopped_in_branches(step: int, *, after: int) -> Iterator[None]:
    """Stop what trains by GRPO within when so many branches of a step are on disk; needs torch."""
    original = RunStore.append
    stored = 0

    async def stop(self: RunStore, record: episode_pb2.Episode) -> None:
        nonlocal stored
        await original(self, record)
        if record.HasField("parent") and self.manifest.step == step:
            stored += 1
            if stored == after:
                raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RunStore, "append", stop)
        yield


def forget_learning(recipe: GRPORecipe, out: Path) -> GRPORecipe:
    """Copy a run of GRPO as if it had been killed before it saved its first state."""
    shutil.copytree(recipe.out, out)
    for name in ("states", "final", "weights"):
        shutil.rmtree(out / name, ignore_errors=True)
    state = json.loads((out / "state.json").read_text())
    state["finished"].pop("learn")
    (out / "state.json").write_text(json.dumps(state))
    recorded = json.loads((out / "recipe.json").read_text())
    recorded["recipe"]["out"] = str(out)
    (out / "recipe.json").write_text(json.dumps(recorded))
    return replace(recipe, out=out)
