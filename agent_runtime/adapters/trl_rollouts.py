"""TRL's rollout function: `GRPOTrainer` plays episodes of ours and learns from what it sampled.

    from agentgym.trl_rollouts import Rollouts

    with Rollouts("textcraft") as rollouts:
        trainer = GRPOTrainer(
            model="Qwen/Qwen2.5-0.5B-Instruct",
            args=GRPOConfig(max_completion_length=2048),
            train_dataset=rollouts.dataset(),
            rollout_func=rollouts,
            reward_funcs=rollouts.score,
        )
        trainer.train()

A row of the data set is a task of ours, its prompt the item id. A rollout is an episode: its tokens
are kept by the ledger that our own policies use, so what was sampled is never tokenised again, and
what the environment said is masked. The reward is the episode's score.

TRL's `environment_factory` is not used: it wants actions as tool calls, and renders their results
by a conversation made up around them.
"""

# Types are those of a library that is not where most is checked: `nox -s torch` has it.
# pyright: standard, reportMissingImports=false

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self, cast

from agent_runtime.channel import ConnectionOptions
from agent_runtime.conversation import CHAT_ROLES, Message, Role, normalize_reply
from agent_runtime.errors import AgentRuntimeError, ContextOverflow, PolicyMisconfigured
from agent_runtime.extras import install_command
from agent_runtime.images import require_texts
from agent_runtime.ledger import Origin
from agent_runtime.library.sync import Vector, make
from agent_runtime.library.vector import Batch
from agent_runtime.rendering import TemplateRenderer
from agent_runtime.scores import score_or_reward
from agent_runtime.tokenized_conversation import TokenizedConversation
from agentgym.env.v1 import types_pb2

try:
    import jinja2
    import torch
    from accelerate.utils import DistributedType
    from datasets import Dataset
    from transformers import (
        LogitsProcessor,
        LogitsProcessorList,
        PreTrainedModel,
        PreTrainedTokenizerBase,
    )
    from trl.models.utils import unwrap_model_for_generation
    from trl.trainer.grpo_trainer import GRPOTrainer
except ImportError as error:
    raise ImportError(f"TRL is not installed: {install_command('trl')}", name=error.name) from error

__all__ = ["Rollouts"]

_WHOLE_PER_PROCESS: Final = (
    DistributedType.NO,
    DistributedType.MULTI_CPU,
    DistributedType.MULTI_GPU,
)
"""Each process has all weights: it samples without the others, who may have more turns to play."""


class Rollouts:
    """Episodes of one environment as a `rollout_func`, their tasks and their scores."""

    def __init__(
        self,
        env: str,
        *,
        target: str = "",
        action_format: str = "",
        profile: str = "",
        options: Mapping[str, Any] | None = None,
        conversation_start: tuple[str, str] | None = None,
        seed: int = 0,
        max_rounds: int = 0,
        max_reply_tokens: int = 0,
        data: str = "",
        connection: ConnectionOptions | None = None,
    ) -> None:
        """Open an environment; close it when done, or use this by `with`.

        Args:
            env: Its name.
            target: HOST:PORT of a running server; default: one is started, and ends with this.
            action_format: How replies are read; default: the environment's first.
            profile: How tasks are scored; default: the environment's first.
            options: Of each episode, as the environment's README describes them.
            conversation_start: What the model is told before the first observation, and what it is
                made to answer; default: the environment's own.
            seed: Of each episode; the rollouts of a group share it.
            max_rounds: Replies that an episode has at most; default: the environment's own number.
            max_reply_tokens: Of one reply; default: what is left of `max_completion_length`, which
                bounds the replies and observations of an episode together.
            data: Folder of official data files for a server that is started.
            connection: Deadlines, TLS and token; default: as of `agentgym.make`.

        Raises:
            UnknownName: There is no such action format.
            AgentRuntimeError: As `agentgym.make`.
        """
        self.environment = make(env, target=target, data=data or None, connection=connection)
        """The environment under it."""
        try:
            start = conversation_start or (
                self.environment.instruction(action_format),
                self.environment.acknowledgement(action_format),
            )
        except BaseException:
            self.environment.close()
            raise
        self._start = (Message(Role.USER, start[0]), Message(Role.ASSISTANT, start[1]))
        self._max_rounds = max_rounds or self.environment.max_rounds
        self._max_reply_tokens = max_reply_tokens
        self._seed = seed
        self._reset = {"options": options, "profile": profile, "action_format": action_format}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the server."""
        self.environment.close()

    def dataset(self, split: str = "") -> Dataset:
        """Return the tasks of a split; default: the environment's first. Raises UnknownName."""
        tasks = self.environment.tasks(split)
        return Dataset.from_list([{"prompt": it.item_id, "category": it.category} for it in tasks])

    def score(
        self,
        *,
        agentgym_score: list[float | None],
        log_metric: Callable[[str, float], None],
        **_: Any,
    ) -> list[float | None]:
        """Return what the episodes are worth; a reward function.

        None is what TRL calls it as well: such an episode is left out of its group. `success` and
        `scored` (shares of the episodes) are logged.
        """
        known = [it for it in agentgym_score if it is not None]
        successes = sum(it >= self.environment.success_score for it in known)
        if known:
            log_metric("success", successes / len(known))
        log_metric("scored", len(known) / len(agentgym_score))
        return agentgym_score

    def __call__(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
        """Play one episode for each prompt, all of them side by side; TRL calls this.

        Args:
            prompts: Item ids; a group's follow each other.
            trainer: Who samples.

        Returns:
            What TRL wants to know of each: `prompt_ids` up to the first reply, `completion_ids`
            from there to the end of the last one, for each of these a logprob (nats, at the
            trainer's temperature; 0 where nothing was sampled) and a mark in `env_mask` (1 =
            sampled).

        Raises:
            PolicyMisconfigured: The model has no chat template, or one that rewrites earlier
                turns; or the trainer samples in a way that is not supported.
            ContextOverflow: A first observation leaves no room for a reply.
            AgentRuntimeError: A task cannot be opened, the server is gone, or every episode failed.
        """
        sampler = _Sampler(trainer, self._max_reply_tokens)
        with Vector(
            self.environment,
            len(prompts),
            choose=lambda slot: (prompts[slot], self._seed),
            autoreset="Disabled",
            **self._reset,
        ) as vector:
            played = self._open(vector, sampler)
            for _ in range(self._max_rounds):
                replies = sampler.sample(played)
                if all(it is None for it in replies):
                    break
                sent = [None if it is None else normalize_reply(it) for it in replies]
                _observe(played, vector.reply(sent), replies)
        rows = [it.row() for it in played]
        return {
            "prompt_ids": [it.prompt_ids for it in rows],
            "completion_ids": [it.completion_ids for it in rows],
            "logprobs": [it.logprobs for it in rows],
            "env_mask": [it.mask for it in rows],
            "agentgym_score": [it.score for it in played],  # `score` gets it by this name
        }

    def _open(self, vector: Vector, sampler: _Sampler) -> list[_Played]:
        """Reset every slot; raises what the first that fails failed of."""
        batch, played = vector.reset(), list[_Played]()
        for state, error in zip(batch.opened, batch.errors, strict=True):
            if error is not None:
                raise error
            assert state is not None
            require_texts(state.images, "TRL's trainer")
            messages = [*self._start, Message(Role.USER, state.text)]
            score = score_or_reward(state.score, state.reward)
            conversation = TokenizedConversation(sampler.renderer)
            played.append(_Played(conversation, messages, score, over=state.ended))
        return played


class _Row(NamedTuple):
    """An episode as TRL wants it; the last two have one entry for each completion id."""

    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    mask: list[int]


@dataclass(slots=True)
class _Played:
    """One episode while it is played."""

    conversation: TokenizedConversation
    messages: list[Message]
    score: float | None
    """What it is worth so far; None = not scored."""
    over: bool
    """It takes no more replies."""
    failed: AgentRuntimeError | None = None
    turns: int = 0
    """Replies that were sampled."""
    start: int = 0
    """Ids before the first reply."""

    def prompt(self) -> list[int]:
        """Return the ids that the next reply follows."""
        ids = self.conversation.prompt(self.messages)
        if self.conversation.ledger.forks:
            reason = self.conversation.ledger.segments[-1].fork_reason
            raise PolicyMisconfigured(
                f"the model's chat template rewrites earlier turns ({reason}), so that an episode "
                "is not one sequence of tokens: give the trainer a tokenizer whose template keeps "
                "them, as of trl.chat_template_utils.get_training_chat_template(tokenizer)"
            )
        if not self.turns:
            self.start = len(ids)
        return ids

    def row(self) -> _Row:
        """Return its tokens; raises ValueError where nothing was sampled."""
        if not self.turns:
            raise ValueError("an episode was over before the first reply: there is no completion")
        segment, start = self.conversation.ledger.segments[-1], self.start
        mask = [int(it is Origin.SAMPLED) for it in segment.origins]
        # What follows the last reply is there only where there was no room for another one.
        end = len(mask) - mask[::-1].index(1)
        ids, logprobs = list(segment.ids), list(segment.logprobs)
        return _Row(ids[:start], ids[start:end], logprobs[start:end], mask[start:end])


def _observe(played: Sequence[_Played], batch: Batch, replies: Sequence[str | None]) -> None:
    """Note what the replies led to.

    An episode whose environment fails is not scored, and TRL leaves it out of its group. Anything
    else that fails is raised, and so is the failure of all of them.
    """
    for it, reply, step, error in zip(
        played, replies, batch.transitions, batch.errors, strict=True
    ):
        if error is not None:
            if error.fault != types_pb2.FAULT_ENVIRONMENT:
                raise error
            it.failed, it.score, it.over = error, None, True
        elif reply is not None and step is not None:
            require_texts(step.images, "TRL's trainer")
            it.messages.append(Message(Role.ASSISTANT, reply, sampled=True))
            it.messages.append(Message(Role.USER, step.text))
            it.score, it.over = score_or_reward(step.score, step.reward), step.ended
    failures = [it.failed for it in played if it.failed is not None]
    if len(failures) == len(played):
        raise failures[0]


class _Sampler:
    """Samples replies as the trainer is set to."""

    def __init__(self, trainer: GRPOTrainer, max_reply_tokens: int) -> None:
        """Raises PolicyMisconfigured where the trainer cannot play whole episodes."""
        _check_trainer(trainer)
        self.renderer = _renderer(trainer)
        self._trainer = trainer
        self._stops = self.renderer.stop_ids
        config = cast("PreTrainedModel", trainer.model).config.get_text_config()
        self._context: int | None = getattr(config, "max_position_embeddings", None)
        completion = trainer.max_completion_length or self._context
        if completion is None:
            raise PolicyMisconfigured("nothing bounds an episode: set max_completion_length")
        self._completion = completion
        self._reply_tokens = max_reply_tokens or completion

    def sample(self, played: Sequence[_Played]) -> list[str | None]:
        """Sample the next reply of each episode that takes one.

        Args:
            played: All episodes; those without room for a reply, or whose reply was cut for want of
                room, end here.

        Returns:
            The reply of each; None = it has none.

        Raises:
            ContextOverflow: There is no room for a first reply.
        """
        replies: list[str | None] = [None] * len(played)
        asked: list[tuple[int, list[int], int]] = []
        for place, it in enumerate(played):
            if it.over:
                continue
            prompt = it.prompt()
            room = self._room(it, len(prompt))
            it.over = room < 1
            if not it.over:
                asked.append((place, prompt, room))
        if not asked:
            return replies
        longest = max(room for *_, room in asked)
        sampled = self._generate([prompt for _, prompt, _ in asked], longest)
        for (place, _, room), (ids, logprobs) in zip(asked, sampled, strict=True):
            it, end = played[place], self._end(ids, room)
            it.conversation.append_reply(ids[:end], logprobs[:end], generation=it.turns)
            it.turns += 1
            it.over = end == room < self._reply_tokens and ids[end - 1] not in self._stops
            if not it.over:
                replies[place] = it.conversation.reply_text(ids[:end])
        return replies

    def _room(self, played: _Played, prompt: int) -> int:
        """Return how many tokens the next reply may have, after a prompt of this many."""
        left = self._completion - (prompt - played.start)
        if self._context is not None:
            left = min(left, self._context - prompt)
        if left < 1 and not played.turns:
            raise ContextOverflow(
                f"the first observation makes a prompt of {prompt} tokens, which the model's "
                f"context ({self._context}) cannot hold: take a model with a longer one"
            )
        return min(left, self._reply_tokens)

    def _end(self, ids: Sequence[int], room: int) -> int:
        """Return where a reply ends: after the first id that ends one, or where the room does."""
        stops = (place + 1 for place, it in enumerate(ids[:room]) if it in self._stops)
        return next(stops, min(len(ids), room))

    def _generate(
        self, prompts: Sequence[list[int]], budget: int
    ) -> list[tuple[list[int], list[float]]]:
        """Sample at most so many ids for each prompt, with their logprobs; ends are cut later."""
        if self._trainer.use_vllm:
            # As TRL does itself, which has just given vLLM the present weights.
            _, ids, logprobs, _ = self._trainer.vllm_generation.generate(
                prompts=list(prompts), images=None, num_generations=1
            )
            return [
                (row, [of_token[0] for of_token in told])
                for row, told in zip(ids, logprobs, strict=True)
            ]
        return self._generate_here(prompts, budget)

    def _generate_here(
        self, prompts: Sequence[list[int]], budget: int
    ) -> list[tuple[list[int], list[float]]]:
        trainer = self._trainer
        config = copy.deepcopy(trainer.generation_config)
        config.max_new_tokens, config.eos_token_id = budget, list(self._stops)
        length = max(map(len, prompts))
        padded = [[config.pad_token_id] * (length - len(it)) + it for it in prompts]
        seen = [[0] * (length - len(it)) + [1] * len(it) for it in prompts]
        recorder = _LogprobRecorder(config.temperature)
        with (
            unwrap_model_for_generation(
                trainer.model_wrapped,
                trainer.accelerator,
                generation_kwargs=trainer.generation_kwargs,
                gradient_checkpointing_kwargs=cast(
                    "dict[str, Any] | None", trainer.args.gradient_checkpointing_kwargs
                ),
            ) as model,
            torch.no_grad(),
        ):
            whole = model.generate(
                input_ids=torch.tensor(padded, device=trainer.accelerator.device),
                attention_mask=torch.tensor(seen, device=trainer.accelerator.device),
                generation_config=config,
                logits_processor=LogitsProcessorList([recorder]),
            )
        ids = whole[:, length:].tolist()
        return list(zip(ids, recorder.logprobs(whole), strict=True))


class _LogprobRecorder(LogitsProcessor):
    """Notes how likely each sampled token was at a temperature, before any cut by top-k or top-p.

    That is the probability that TRL compares with. Kept for one step at a time: all logits of a
    reply would take gigabytes.
    """

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature
        self._next: torch.Tensor | None = None
        """Of every token that may come next, rows by vocabulary."""
        self._told: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self._note(input_ids)
        self._next = torch.log_softmax(scores.float() / self._temperature, dim=-1)
        return scores

    def logprobs(self, whole: torch.Tensor) -> list[list[float]]:
        """Return one per sampled token of each row, in nats; `whole` is all that was generated."""
        self._note(whole)
        return torch.stack(self._told, dim=1).tolist()

    def _note(self, ids: torch.Tensor) -> None:
        if self._next is not None:
            self._told.append(self._next.gather(1, ids[:, -1:]).squeeze(1))


def _check_trainer(trainer: GRPOTrainer) -> None:
    """Raise PolicyMisconfigured where it samples in a way that episodes cannot be played in.

    Processes that sample together would wait for each other, for episodes have different numbers
    of turns.
    """
    together = trainer.accelerator.distributed_type not in _WHOLE_PER_PROCESS
    if trainer.use_vllm:
        together = trainer.accelerator.num_processes > 1 and (
            trainer.vllm_mode == "server" or trainer.vllm_tensor_parallel_size > 1
        )
    if together:
        raise PolicyMisconfigured(
            "the trainer's processes sample together, but each has episodes of its own length: "
            "train in one process, by data parallelism alone, or with use_vllm and "
            "vllm_mode='colocate'"
        )
    if trainer.use_transformers_continuous_batching:
        raise PolicyMisconfigured(
            "use_transformers_continuous_batching tells no logprobs: leave it off, or set use_vllm"
        )


def _renderer(trainer: GRPOTrainer) -> TemplateRenderer:
    """Return the trainer's chat template and tokenizer."""
    tokenizer = trainer.processing_class
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise PolicyMisconfigured(
            f"episodes are texts; the trainer has a {type(tokenizer).__name__}: give it the "
            "tokenizer alone, as processing_class"
        )
    if not tokenizer.chat_template:
        raise PolicyMisconfigured(
            f"the tokenizer of {tokenizer.name_or_path or 'the model'} has no chat template: take "
            "an instruction-tuned model, or set tokenizer.chat_template"
        )

    template_settings = cast("dict[str, Any]", trainer.chat_template_kwargs)

    def render(messages: Sequence[Message]) -> str:
        turns = [{"role": CHAT_ROLES[it.role], "content": it.text} for it in messages]
        try:
            text = tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True, **template_settings
            )
        except (jinja2.TemplateError, TypeError, ValueError, LookupError) as error:
            raise PolicyMisconfigured(
                f"the chat template refuses the conversation: {error}"
            ) from error
        assert isinstance(text, str)
        return text

    return TemplateRenderer(render, _TrainersTokenizer(tokenizer), trainer.eos_token_ids)


class _TrainersTokenizer:
    """A tokenizer of transformers as `rendering.Tokenizer`."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder
        self._special = {*tokenizer.all_special_ids, *(it for it in added if added[it].special)}

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        text = self._tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        assert isinstance(text, str)
        return text

    def is_special(self, token_id: int) -> bool:
        return token_id in self._special
