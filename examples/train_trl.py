"""TRL's GRPOTrainer on one of our environments. Needs `.[trl]`.

    python examples/train_trl.py [FOLDER]

Half a minute on a CPU: an agent of this package, a million parameters, goes on learning Wordle.
It knows nothing but its own settings of the game; other models need none of `SETTINGS`.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from agent_runtime.agents import LEARNER_AGENT
from agentgym.trl_rollouts import Rollouts

SETTINGS: dict[str, Any] = {
    "options": {"instructions": "guess"},
    "conversation_start": ("wordle", "OK"),
    "max_rounds": 4,
}


def main(folder: Path) -> int:
    torch.set_num_threads(1)  # so small a model gains nothing by more
    config = GRPOConfig(
        str(folder),
        max_steps=20,
        per_device_train_batch_size=8,  # episodes of a step: two tasks, four times each
        num_generations=4,
        max_completion_length=256,  # replies and observations of an episode together
        learning_rate=1e-4,
        bf16=False,
        use_cpu=True,
        logging_steps=1,
        disable_tqdm=True,
        report_to="none",
        save_strategy="no",
    )
    with Rollouts("wordle", **SETTINGS) as rollouts:
        trainer = GRPOTrainer(
            model=str(LEARNER_AGENT),
            args=config,
            train_dataset=rollouts.dataset("official_train"),
            rollout_func=rollouts,
            reward_funcs=rollouts.score,
        )
        trainer.train()
    for entry in trainer.state.log_history:
        if "reward" in entry:
            print(f"step {entry['step']}: reward {entry['reward']:.3f}")
    trainer.save_model(str(folder / "final"))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/example-trl")))
