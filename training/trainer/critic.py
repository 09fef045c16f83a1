"""A value head on the policy's own layers: what an episode will still earn, token by token.

It reads what the language model's head reads, so that a value costs one more product. Its layer is
the same on every process and has an optimizer of its own.

Source: clipped values https://arxiv.org/abs/1707.06347.
"""

# torch and safetensors leave hooks, `load_file` and others untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from training.errors import CheckpointDamaged, TrainingDiverged
from training.trainer.distributed import DistributedContext

__all__ = ["Critic", "ValueConfig"]

_FILE: Final = "critic.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueConfig:
    """The value head of PPO, for `advantages.baseline = "value"`."""

    lr: float = 1e-3
    """Of the head; there is no schedule."""
    discount: float = 1.0
    """What a reward counts one token earlier."""
    gae_lambda: float = 0.95
    """1 = advantages are what was earned less the value; towards 0 they trust the next values."""
    clip: float = 0.2
    """A value that has moved further than this from the one before the step's updates gains nothing
    by moving on; 0 = no clipping. Rewards are between 0 and 1."""
    trunk_share: float = 0.0
    """How much of the head's gradient goes on into the policy's layers; 0 = none."""
    max_norm: float = 1.0
    """Longest gradient of the head."""

    def __post_init__(self) -> None:
        if self.lr <= 0 or self.max_norm <= 0 or min(self.clip, self.trunk_share) < 0:
            raise ValueError("lr and max_norm are above 0; clip and trunk_share at least 0")
        if not (0 < self.discount <= 1 and 0 <= self.gae_lambda <= 1):
            raise ValueError("discount is above 0, gae_lambda at least 0, both at most 1")


class Critic:
    """The head, and what it learns with."""

    def __init__(self, model: Any, config: ValueConfig, dist: DistributedContext) -> None:
        """Put it beside the head of a causal language model; at first every value is 0."""
        self._config = config
        self._dist = dist
        self._reads: torch.nn.Module = model.get_output_embeddings()
        width: Any = self._reads.in_features
        self._layer = torch.nn.Linear(int(width), 1).to(dist.device)
        torch.nn.init.zeros_(self._layer.weight)
        torch.nn.init.zeros_(self._layer.bias)
        self._optimizer = torch.optim.AdamW(
            self._layer.parameters(), lr=config.lr, weight_decay=0.0
        )

    @contextmanager
    def watch(self) -> Generator[list[torch.Tensor]]:
        """Give what the language model's head is given meanwhile: a tensor [K, width] a call."""
        seen: list[torch.Tensor] = []

        def keep(_module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            seen.append(inputs[0][0])

        handle = self._reads.register_forward_pre_hook(keep)
        try:
            yield seen
        finally:
            handle.remove()

    def values(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the value before each target, float32 [K]."""
        share = self._config.trunk_share
        if share != 1:
            still = hidden.detach()
            hidden = still + share * (hidden - still) if share else still
        return self._layer(hidden.float()).squeeze(-1)

    def loss(
        self,
        values: torch.Tensor,
        old_values: torch.Tensor,
        returns: torch.Tensor,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        """Return the squared error of values, the larger of clipped and not; all are [K]."""
        error = (values - returns).square()
        if clip := self._config.clip:
            near = old_values + (values - old_values).clamp(-clip, clip)
            error = torch.maximum(error, (near - returns).square())
        return 0.5 * (weights * error).sum()

    def update(self) -> None:
        """Change the head by the gradients of all processes; every process has to call this.

        Raises:
            TrainingDiverged: They are not finite; nothing was changed then.
        """
        for parameter in self._layer.parameters():
            if parameter.grad is None:  # there was nothing to learn from here
                parameter.grad = torch.zeros_like(parameter)
            if self._dist.world_size > 1:
                torch.distributed.all_reduce(parameter.grad)
                # As many times too large as there are processes: see `Learner.backward`.
                parameter.grad /= self._dist.world_size
        norm = torch.nn.utils.clip_grad_norm_(self._layer.parameters(), self._config.max_norm)
        if not math.isfinite(float(norm)):
            raise TrainingDiverged(
                f"the gradient of the value head is {float(norm)}: lower value.lr",
                field="value.lr",
            )
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def save(self, folder: Path) -> None:
        """Write the head and its moments into a state's folder."""
        tensors = {f"weight/{name}": it.detach() for name, it in self._layer.named_parameters()}
        for name, parameter in self._layer.named_parameters():
            for key, value in self._optimizer.state.get(parameter, {}).items():
                tensors[f"{key}/{name}"] = torch.as_tensor(value)
        save_file({name: it.cpu().contiguous() for name, it in tensors.items()}, folder / _FILE)

    def load(self, folder: Path) -> None:
        """Go on from what `save` wrote; raises CheckpointDamaged."""
        try:
            tensors = load_file(folder / _FILE)
            with torch.no_grad():
                for name, parameter in self._layer.named_parameters():
                    parameter.copy_(tensors[f"weight/{name}"])
                    kept = {
                        key: tensors[f"{key}/{name}"].clone()
                        for key in ("exp_avg", "exp_avg_sq", "step")
                        if f"{key}/{name}" in tensors
                    }
                    if kept:
                        moments = {key: it.to(self._dist.device) for key, it in kept.items()}
                        self._optimizer.state[parameter] = {**moments, "step": kept["step"]}
        except (OSError, KeyError, RuntimeError, SafetensorError) as error:
            raise CheckpointDamaged(f"{folder} cannot be used: {error}", field="out") from error
