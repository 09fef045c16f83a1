"""The embedded engine with a language model in real environments, beside two others.

Called by `benchmark.policy.embedded --model`, which says what is measured.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
import transformers

from agent_runtime.engine.engine import Totals, load_engine
from agent_runtime.engine.torch_backend import TorchBackend
from agent_runtime.engine.worker import EngineThread
from agent_runtime.models import resolve_model
from agent_runtime.policies import EmbeddedOptions
from benchmark.manifest import read_manifest
from benchmark.policy.embedded import generate_turns, play_turns
from benchmark.policy.llama_cpp import LlamaCpp
from benchmark.policy.recorded import record_observations

__all__ = ["computed_at_best", "measure_model"]

_PACKAGES: Final = ("agentgym-grpc", "safetensors", "torch", "transformers")
_ROOM: Final = 32
"""Tokens of a context beyond the longest conversation."""
Turns = list[list[list[int]]]
Player = Callable[[Turns, int], float]
"""Plays a round with some number; returns the CPU seconds that it took."""


def measure_model(
    model: str,
    *,
    environments: Sequence[str],
    episodes: int,
    turns: int,
    reply: int,
    rounds: int,
    threads: int,
    llama: tuple[Path, Path] | None,
    out: Path,
) -> None:
    """Play all rounds of all contenders in turn; print the figures and write the report."""
    manifest = read_manifest(_PACKAGES)
    torch.set_num_threads(threads)
    folder = Path(resolve_model(model))
    with tempfile.TemporaryDirectory() as work:
        played = record_observations(
            str(folder), environments, episodes=episodes, turns=turns, folder=Path(work)
        )
    longest = max(sum(map(len, own)) + reply * len(own) for own in played)
    options = EmbeddedOptions(
        threads=threads,
        device="cpu",
        context_length=longest + _ROOM,
        max_slots=len(played),
        prefill_tokens=2048,
    )
    thread = EngineThread(lambda: load_engine(folder, options))
    with asyncio.Runner() as runner:
        try:
            backend = runner.run(thread.ready()).backend
            assert isinstance(backend, TorchBackend)
            dtype = str(backend.dtype).removeprefix("torch.")
            other = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
            players = {
                "embedded": _embedded(runner, thread, reply),
                "transformers": _transformers(other, reply),
            }
            if llama is not None:
                python, gguf = llama
                sizes = {"threads": threads, "slots": len(played), "context": longest + _ROOM}
                players["llama.cpp"] = _llama_cpp(runner, python, gguf, sizes, reply)
            found = _rounds(players, played, reply, rounds)
        finally:
            runner.run(thread.close())
    settings = {"model": model, "environments": list(environments), "episodes": len(played)}
    settings |= {"turns": sum(map(len, played)), "reply": reply, "rounds": rounds}
    settings |= {"threads": threads, "dtype": dtype, "prompt_tokens": _prompts(played, reply)}
    report = {"settings": settings, "manifest": manifest.as_json(), **found}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n")
    for name, rates in found["tokens_per_s"].items():
        print(f"{name}: {rates['cpu']:,.1f} sampled tokens/CPU s, {rates['wall']:,.1f}/s", end="")
        print(f"; embedded x {found['ratio_cpu'][name]:.2f} per CPU s")


def computed_at_best(played: Turns) -> int:
    """Return the prompt tokens to be computed where no beginning is computed twice.

    Every turn computes its observation and the last token of the reply before it.
    """
    firsts = sorted(own[0] for own in played)
    computed = 0
    for index, first in enumerate(firsts):
        before = firsts[index - 1] if index else []
        shared = next(
            (at for at, (one, two) in enumerate(zip(first, before, strict=False)) if one != two),
            min(len(first), len(before)),
        )
        computed += len(first) - min(shared, len(first) - 1)
    return computed + sum(len(part) + 1 for own in played for part in own[1:])


def _prompts(played: Turns, reply: int) -> int:
    """Return the tokens of all prompts of a round, each with all that precedes it."""
    total = 0
    for own in played:
        context = 0
        for part in own:
            context += len(part)
            total += context
            context += reply
    return total


def _embedded(runner: asyncio.Runner, thread: EngineThread, reply: int) -> Player:
    def play(played: Turns, number: int) -> float:
        before = runner.run(thread.call(lambda engine: _copy(engine.totals)))
        used = time.process_time()
        runner.run(play_turns(thread, played, reply, number))
        used = time.process_time() - used
        after = runner.run(thread.call(lambda engine: _copy(engine.totals)))
        computed = (after.prompts - before.prompts) - (after.cached - before.cached)
        best = computed_at_best(played)
        # Sixteen tokens are rather computed again than waited for: `scheduling`.
        if computed > best + 16 * len(played):
            raise RuntimeError(f"{computed} prompt tokens were computed, {best} are to be")
        return used

    return play


def _copy(totals: Totals) -> Totals:
    return Totals(totals.steps, totals.prefilled, totals.sampled, totals.prompts, totals.cached)


def _transformers(model: Any, reply: int) -> Player:
    def play(played: Turns, _number: int) -> float:
        used = time.process_time()
        generate_turns(model, played, reply)
        return time.process_time() - used

    return play


def _llama_cpp(
    runner: asyncio.Runner, python: Path, gguf: Path, sizes: dict[str, int], reply: int
) -> Player:
    def play(played: Turns, _number: int) -> float:
        # A new server: nothing is cached of a round before.
        server = LlamaCpp(python, gguf, **sizes)
        try:
            used = server.cpu_seconds()
            runner.run(server.play(played, reply))
            return server.cpu_seconds() - used
        finally:
            server.close()

    return play


def _rounds(players: dict[str, Player], played: Turns, reply: int, rounds: int) -> dict[str, Any]:
    for play in players.values():
        play(played[:2], 0)
    sampled = reply * sum(map(len, played))
    cpu: dict[str, list[float]] = {name: [] for name in players}
    wall: dict[str, list[float]] = {name: [] for name in players}
    for number in range(1, rounds + 1):
        for name, play in players.items():
            started = time.perf_counter()
            cpu[name].append(sampled / play(played, number))
            wall[name].append(sampled / (time.perf_counter() - started))
    return {
        "sampled_tokens": sampled,
        "tokens_per_s": {
            name: {"cpu": round(median(cpu[name]), 1), "wall": round(median(wall[name]), 1)}
            for name in players
        },
        "ratio_cpu": {
            name: round(median(a / b for a, b in zip(cpu["embedded"], cpu[name], strict=True)), 2)
            for name in players
        },
        "cpu_by_round": {name: [round(rate, 1) for rate in cpu[name]] for name in players},
    }
