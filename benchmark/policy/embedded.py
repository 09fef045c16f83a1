"""The embedded engine against transformers' batched `generate`, on the same checkpoint.

    python -m benchmark.policy.embedded [--episodes 1 8 64] [--turns 1 6] [--rounds 5]

Both play the same episodes: a shared system prompt, then turns of an observation and a greedy
reply of fixed length (end tokens are ignored, so both do the same work). The engine is used as the
policy uses it: through its thread and asyncio front, one coroutine an episode. transformers runs
each turn as one left-padded batch with its own key-value cache within the call. Contenders take
turns in one process with equal threads, so a busy machine slows both, and figures are given per
second of wall time and of CPU time. Each starts every round with nothing cached; greedy replies of
a first, uncounted round are compared.

    python -m benchmark.policy.embedded --model smollm2 [--llama-python PYTHON --gguf FILE]

With a model the observations are those of real environments (`recorded`), the engine computes in
the precision that it chooses by itself, transformers in the same, and llama.cpp's server with the
same weights (`llama_cpp`) is a third contender where an interpreter has it. Replies have a fixed
length here, too. What the engine computes of shared prompts is counted: more than once each is an
error.

Owns the measurement. Needs the extra `torch` and `transformers`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
import transformers

from agent_runtime.engine.engine import load_engine
from agent_runtime.engine.generation import GenerationRequest
from agent_runtime.engine.worker import EngineThread
from agent_runtime.policies import EmbeddedOptions, Sampling
from benchmark.manifest import read_manifest

__all__ = ["Episodes", "make_checkpoint", "measure"]

MODEL_RESULT: Final = Path(__file__).parent.parent / "results" / "policy" / "language_model.json"
RESULT: Final = Path(__file__).parent.parent / "results" / "policy" / "embedded.json"
_PACKAGES: Final = ("agentgym-grpc", "safetensors", "torch", "transformers")
Play = Callable[[int], list[list[int]]]
"""From a round's number to the replies of each episode, as one list of ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """What is played; lengths are in tokens."""

    episodes: int = 64
    turns: int = 6
    system: int = 128
    observation: int = 24
    reply: int = 16

    def observations(self, number: int, vocab: int) -> tuple[list[int], list[list[list[int]]]]:
        """The shared start, and for each episode the observation of each turn."""
        draw = random.Random(number)

        def some(count: int) -> list[int]:
            return [draw.randrange(3, vocab) for _ in range(count)]

        start = some(self.system)
        turns = [[some(self.observation) for _ in range(self.turns)] for _ in range(self.episodes)]
        return start, turns

    @property
    def sampled(self) -> int:
        """Tokens sampled in a round."""
        return self.episodes * self.turns * self.reply


def make_checkpoint(folder: Path, seed: int = 0) -> transformers.LlamaForCausalLM:
    """A random Llama of five million parameters, saved to a folder."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=2048,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        # Wide enough that the likeliest token stands out: both sides' greedy replies can agree.
        initializer_range=0.1,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    model.save_pretrained(folder)
    return model


def play_transformers(model: Any, what: Episodes, number: int) -> list[list[int]]:
    """All episodes turn by turn, each turn one batch."""
    start, turns = what.observations(number, model.config.vocab_size)
    return generate_turns(model, [[start + own[0], *own[1:]] for own in turns], what.reply)


def generate_turns(
    model: Any, turns: Sequence[Sequence[Sequence[int]]], reply: int
) -> list[list[int]]:
    """Play by transformers: `turns` are what precedes each reply, by episode."""
    contexts = [list[int]() for _ in turns]
    replies = [list[int]() for _ in turns]
    for turn in range(max(map(len, turns))):
        live = [index for index, own in enumerate(turns) if turn < len(own)]
        for index in live:
            contexts[index].extend(turns[index][turn])
        prompts = [contexts[index] for index in live]
        width = max(len(context) for context in prompts)
        ids = torch.tensor([[0] * (width - len(each)) + each for each in prompts])
        mask = torch.tensor([[0] * (width - len(each)) + [1] * len(each) for each in prompts])
        with torch.inference_mode():
            out = model.generate(
                input_ids=ids.to(model.device),
                attention_mask=mask.to(model.device),
                max_new_tokens=reply,
                min_new_tokens=reply,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )
        for index, row in zip(live, out[:, width:].tolist(), strict=True):
            contexts[index].extend(row)
            replies[index].extend(row)
    return replies


async def play_engine(thread: EngineThread, what: Episodes, number: int) -> list[list[int]]:
    """One coroutine an episode, as the orchestrator has it."""
    engine = await thread.ready()
    start, turns = what.observations(number, engine.backend.architecture.vocab_size)
    turns = [[start + own[0], *own[1:]] for own in turns]
    return await play_turns(thread, turns, what.reply, number)


async def play_turns(
    thread: EngineThread, turns: Sequence[Sequence[Sequence[int]]], reply: int, number: int
) -> list[list[int]]:
    """Play by the engine: `turns` are what precedes each reply, by episode."""
    await thread.call(lambda engine: engine.flush_cache())
    sampling = Sampling(temperature=0, max_new_tokens=reply)

    async def episode(index: int) -> list[int]:
        context, said = list[int](), list[int]()
        for observation in turns[index]:
            context.extend(observation)
            done = await thread.generate(
                GenerationRequest(
                    prompt=list(context), sampling=sampling, episode_id=f"{number}/{index}"
                )
            )
            context.extend(done.ids)
            said.extend(done.ids)
        thread.release(f"{number}/{index}")
        return said

    return list(await asyncio.gather(*(episode(index) for index in range(len(turns)))))


def measure(
    cases: Sequence[Episodes], *, rounds: int, threads: int, device: str, dtype: str = "float32"
) -> dict[str, Any]:
    """Play all rounds of each case on one checkpoint; returns the report."""
    manifest = read_manifest(_PACKAGES)
    torch.set_num_threads(threads)
    slots = max(case.episodes for case in cases)
    with tempfile.TemporaryDirectory() as folder:
        model = make_checkpoint(Path(folder)).to(device=device, dtype=getattr(torch, dtype))
        options = EmbeddedOptions(
            threads=threads, device=device, dtype=dtype, max_slots=slots, cache_gib=8
        )
        thread = EngineThread(lambda: load_engine(Path(folder), options))
        with asyncio.Runner() as runner:
            try:
                found = [
                    asdict(case) | _play(runner, thread, model, case, rounds) for case in cases
                ]
            finally:
                runner.run(thread.close())
    parameters = sum(parameter.numel() for parameter in model.parameters())
    settings = {"threads": threads, "device": _device_name(device), "dtype": dtype}
    settings |= {"rounds": rounds, "parameters": parameters}
    return {"settings": settings, "manifest": manifest.as_json(), "cases": found}


def _play(
    runner: asyncio.Runner, thread: EngineThread, model: Any, what: Episodes, rounds: int
) -> dict[str, Any]:
    players: dict[str, Play] = {
        "embedded": lambda number: runner.run(play_engine(thread, what, number)),
        "transformers": lambda number: play_transformers(model, what, number),
    }
    return _rounds(players, what, rounds)


def _rounds(players: dict[str, Play], what: Episodes, rounds: int) -> dict[str, Any]:
    first = {name: play(0) for name, play in players.items()}
    pairs = list(zip(first["embedded"], first["transformers"], strict=True))
    wall: dict[str, list[float]] = {name: [] for name in players}
    cpu: dict[str, list[float]] = {name: [] for name in players}
    for number in range(1, rounds + 1):
        for name, play in players.items():
            started, used = time.perf_counter(), time.process_time()
            play(number)
            wall[name].append(what.sampled / (time.perf_counter() - started))
            cpu[name].append(what.sampled / (time.process_time() - used))
    return {
        "episodes_with_equal_replies": sum(ours == theirs for ours, theirs in pairs),
        "wall": _summary(wall),
        "cpu": _summary(cpu),
    }


def _summary(rates: dict[str, list[float]]) -> dict[str, Any]:
    """Tokens per second by contender; `ratio` is the median of the rounds' own ratios."""
    ratios = [a / b for a, b in zip(rates["embedded"], rates["transformers"], strict=True)]
    return {
        "tokens_per_s": {name: round(median(found), 1) for name, found in rates.items()},
        "ratio": round(median(ratios), 2),
        "tokens_per_s_by_round": {
            name: [round(rate, 1) for rate in found] for name, found in rates.items()
        },
        "ratio_by_round": [round(ratio, 2) for ratio in ratios],
    }


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def main() -> None:
    """Measure, print the figures and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("episodes", [1, 8, 64]), ("turns", [1, 6])):
        parser.add_argument(f"--{name}", type=int, nargs="+", default=default)
    for name, default in (("rounds", 5), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--model", default="", help="a known model's name or a folder")
    parser.add_argument("--env", nargs="+", default=["wordle", "babyai"])
    parser.add_argument("--reply", type=int, default=24, help="tokens of a reply, with --model")
    parser.add_argument("--gguf", type=Path, help="the same weights for llama.cpp")
    parser.add_argument("--llama-python", type=Path, help="an interpreter that has xllamacpp")
    wanted = parser.parse_args()
    if wanted.model:
        from benchmark.policy.language_model import measure_model

        measure_model(
            wanted.model,
            environments=wanted.env,
            episodes=max(wanted.episodes),
            turns=max(wanted.turns),
            reply=wanted.reply,
            rounds=wanted.rounds,
            threads=wanted.threads,
            llama=(wanted.llama_python, wanted.gguf) if wanted.llama_python else None,
            out=MODEL_RESULT if wanted.out == RESULT else wanted.out,
        )
        return
    report = measure(
        [
            Episodes(episodes=count, turns=turns)
            for turns in wanted.turns
            for count in wanted.episodes
        ],
        rounds=wanted.rounds,
        threads=wanted.threads,
        device=wanted.device,
        dtype=wanted.dtype,
    )
    wanted.out.parent.mkdir(parents=True, exist_ok=True)
    wanted.out.write_text(json.dumps(report, indent=1) + "\n")
    for case in report["cases"]:
        print(f"{case['episodes']} episodes of {case['turns']} turns:", end=" ")
        for kind in ("wall", "cpu"):
            rates = case[kind]["tokens_per_s"]
            shown = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
            print(f"{shown} tokens/{kind} s (x {case[kind]['ratio']:.2f})", end="; ")
        print(f"{case['episodes_with_equal_replies']} reply alike")


if __name__ == "__main__":
    main()
