"""verifiers' evaluator (0.4), by our adapter and a server of ours, which the adapter starts.

verifiers' own harnesses start a program for every turn, the adapter's asks in this process. The
model is a server (`--url`), since verifiers speaks to models over HTTP alone; whoever started it
counts its CPU.
"""

# pyright: reportMissingImports=false, reportUnknownVariableType=false
from __future__ import annotations

import asyncio
import os
from typing import Any, Final

from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.cli.resolve import narrow_config
from verifiers.v1.configs.cli.eval import EvalConfig

from benchmark.whole_path.loops.script import NAME, Outcome, Script, read_arguments, write

_AT_ONCE: Final = 256
_KEY: Final = "SCRIPTED_API_KEY"


def main() -> None:
    """Evaluate every task, with as many rollouts as samples."""
    arguments = read_arguments()
    items = Script(arguments.replies).replies
    os.environ[_KEY] = "none"
    values: dict[str, Any] = {
        "env": {"taskset": {"id": "agentgym-verifiers", "env": NAME, "split": "train"}},
        "client": {"base_url": arguments.url, "api_key_var": _KEY},
        "model": "scripted",
        "select": {"limit": len(items)},
        "num_rollouts": arguments.samples,
        "max_concurrent": _AT_ONCE,
        "push": False,
        "rich": None,
        "output_dir": str(arguments.folder / "outputs"),
    }
    config = narrow_config(EvalConfig, ["agentgym-verifiers"]).model_validate(values)
    outcome = Outcome()
    for episode in asyncio.run(run_eval(config)):
        if not episode.ok:
            raise RuntimeError(f"an episode failed: {episode.errors}")
        (trace,) = episode.traces
        (branch,) = trace.branches
        # The first two messages are the conversation's start, then each reply has one before it.
        outcome.add(episode.task.key, trace.reward, len(branch.messages) // 2 - 1)
    if outcome.rewards.keys() != items.keys():
        raise RuntimeError("verifiers played other tasks than those of the replies")
    write(arguments, outcome)


if __name__ == "__main__":
    main()
