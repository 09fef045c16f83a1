"""Evaluate a model behind any OpenAI-compatible server, from a program.

    OPENAI_API_KEY=... python examples/evaluate_openai_model.py MODEL BASE_URL [FOLDER]

The same on the command line:

    python -m orchestrator.evaluate --env maze --policy openai:MODEL --openai.base-url BASE_URL
"""

import asyncio
import sys
from pathlib import Path

from rich.console import Console

from agent_runtime.policies import PolicyConfig, PolicySpec
from agent_runtime.policies.config import OpenAIOptions
from orchestrator.config import RunConfig
from orchestrator.run import run
from orchestrator.statistics import summarise_run
from orchestrator.store import RunReader


def main(model: str, base_url: str, folder: Path) -> None:
    config = RunConfig(
        environments=("maze",),
        policies=(PolicySpec("openai", model),),
        episodes=4,
        max_rounds=3,
        agent=PolicyConfig(openai=OpenAIOptions(base_url=base_url)),
    )
    outcome = asyncio.run(run(config, folder, resume=False, console=Console(stderr=True)))
    print(f"{outcome.finished} of {outcome.planned} episodes are in {outcome.folder}")
    with RunReader.open(folder) as reader:
        for record in reader.episodes():
            print(record.item_id, f"score {record.score:g}", f"{len(record.steps) - 1} rounds")
        for row in summarise_run(reader.summaries()):
            print(f"{row.environment}: {row.successes} of {row.judged} episodes succeeded")


if __name__ == "__main__":
    model, base_url, *rest = sys.argv[1:]
    main(model, base_url, Path(rest[0] if rest else "runs/example-openai"))
