"""The same job for inspect-ai: conversations of so many turns against a server.

    PYTHON flaky_inspect.py URL CONVERSATIONS TURNS CONNECTIONS SECONDS FOLDER

Started by `benchmark.policy.flaky` with an interpreter that has inspect-ai, which this project does
not need; prints one line of JSON.
"""

import json
import sys
import time
from typing import Any

import inspect_ai  # pyright: ignore[reportMissingImports]
from inspect_ai.dataset import MemoryDataset, Sample  # pyright: ignore[reportMissingImports]
from inspect_ai.model import (  # pyright: ignore[reportMissingImports]
    ChatMessageUser,
    GenerateConfig,
    get_model,
)
from inspect_ai.solver import solver  # pyright: ignore[reportMissingImports]

url, conversations, turns, connections, seconds, folder = sys.argv[1:]
answered = 0


@solver
def converse() -> Any:
    """Say something, read the reply, say the next thing."""

    async def solve(state: Any, generate: Any) -> Any:
        global answered
        for turn in range(int(turns)):
            state.messages.append(ChatMessageUser(content=f"Observation {turn}: nothing happens."))
            state = await generate(state)
            answered += 1
        return state

    return solve


model = get_model(
    "openai-api/fake/fake",
    base_url=url,
    api_key="none",
    config=GenerateConfig(max_connections=int(connections), attempt_timeout=int(seconds)),
)
samples = [Sample(input="Play.") for _ in range(int(conversations))]
task = inspect_ai.Task(dataset=MemoryDataset(samples), solver=converse())
started = time.monotonic()
(log,) = inspect_ai.eval(
    task, model=model, log_dir=folder, display="none", fail_on_error=False, max_samples=256
)
finished = sum(sample.error is None for sample in log.samples or [])
result = {"finished": finished, "seconds": time.monotonic() - started, "turns": answered}
print(json.dumps(result))
