"""Our environments under the real GRPOTrainer of TRL, played by the agent of this package."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("trl", reason="needs the extra `trl`: nox -s torch")

import torch
from accelerate.utils import DistributedType
from transformers import AutoTokenizer
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

import agentgym
from agent_runtime.agents import LEARNER_AGENT
from agent_runtime.channel import ConnectionOptions
from agent_runtime.conversation import Message, Role
from agent_runtime.errors import ContextOverflow, PolicyMisconfigured
from agent_runtime.huggingface import HuggingFaceRenderer
from agent_runtime.tokenized_conversation import TokenizedConversation
from agentgym.trl_rollouts import Rollouts
from tests.agent_runtime.adapters import fragile

pytestmark = pytest.mark.torch

SETTINGS: dict[str, Any] = {
    "options": {"instructions": "guess"},
    "conversation_start": ("wordle", "OK"),
    "max_rounds": 4,
}
"""The agent's own: it plays no others."""
HOTTER = 1.5
COUNTED = "{{ messages | length }} messages\n"
"""Of a chat template: makes what it printed before untrue."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with agentgym.make("wordle") as env:
        yield env.asynchronous.connection.address


@pytest.fixture
def trainer_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., GRPOTrainer]:
    """Make a trainer of the agent, for the tasks that are given."""
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")

    def make(
        rollouts: Rollouts, *, split: str = "", template: str | None = None, **settings: Any
    ) -> GRPOTrainer:
        tokenizer = AutoTokenizer.from_pretrained(LEARNER_AGENT)
        if template is not None:
            tokenizer.chat_template = template
        config = {
            "per_device_train_batch_size": 8,
            "num_generations": 4,
            "max_completion_length": 256,
            "learning_rate": 1e-3,
            "temperature": HOTTER,
            "max_steps": 2,
            "logging_steps": 1,
            "bf16": False,
            "use_cpu": True,
            "disable_tqdm": True,
            "report_to": "none",
            "save_strategy": "no",
            **settings,
        }
        return GRPOTrainer(
            model=str(LEARNER_AGENT),
            processing_class=tokenizer,
            args=GRPOConfig(str(tmp_path / "out"), **config),
            train_dataset=rollouts.dataset(split),
            rollout_func=rollouts,
            reward_funcs=rollouts.score,
        )

    return make


def test_the_ids_are_those_of_the_episode_and_the_logprobs_those_of_the_model(
    target: str, trainer_of: Callable[..., GRPOTrainer]
) -> None:
    """Each figure is found again by other means: our own ledger, a forward pass, a replay."""
    renderer = HuggingFaceRenderer(LEARNER_AGENT)
    items = ["lmrlgym_wordle_25"] * 4 + ["lmrlgym_wordle_26"] * 4
    with Rollouts("wordle", target=target, **SETTINGS) as rollouts:
        trainer = trainer_of(rollouts)
        told = rollouts(items, trainer)
        played = 0
        for row, item in enumerate(items):
            ids = told["prompt_ids"][row] + told["completion_ids"][row]
            first = len(told["prompt_ids"][row])
            mask, logprobs = told["env_mask"][row], told["logprobs"][row]
            assert len(mask) == len(logprobs) == len(told["completion_ids"][row])
            assert mask[0] == mask[-1] == 1

            sampled = turns(told["completion_ids"][row], mask)
            messages, score = replay(rollouts, item, [renderer.decode(it) for it in sampled])
            assert told["agentgym_score"][row] == score
            assert ids == tokenized(renderer, messages, sampled)
            played += len(sampled)

            tensor = torch.tensor([ids])
            with torch.no_grad():
                logits = trainer.model(tensor).logits[0, first - 1 : -1].float() / HOTTER
            expected = torch.log_softmax(logits, -1).gather(1, tensor[0, first:, None]).squeeze(1)
            expected = expected * torch.tensor(mask)
            torch.testing.assert_close(torch.tensor(logprobs), expected, atol=2e-4, rtol=1e-3)
    assert played > len(items)
    assert len(set(map(tuple, told["completion_ids"]))) > 1


def test_a_training_reports_what_the_episodes_scored(
    target: str, trainer_of: Callable[..., GRPOTrainer]
) -> None:
    with Rollouts("wordle", target=target, **SETTINGS) as rollouts:
        scores: list[list[float | None]] = []
        trainer = trainer_of(rollouts, split="official_train", temperature=1.0)
        play = trainer.rollout_func
        assert play is rollouts

        def watched(prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
            told = play(prompts, trainer)
            scores.append(told["agentgym_score"])
            return told

        trainer.rollout_func = watched
        before = {name: it.clone() for name, it in trainer.model.named_parameters()}
        trainer.train()
        after = dict(trainer.model.named_parameters())
    logged = [it for it in trainer.state.log_history if "reward" in it]
    assert [it["reward"] for it in logged] == [sum(it) / len(it) for it in scores]
    assert [it["success"] for it in logged] == [it["reward"] for it in logged]
    assert all(it["scored"] == 1 and math.isfinite(it["loss"]) for it in logged)
    assert len(logged) == len(scores) == 2
    assert any(it["frac_reward_zero_std"] < 1 for it in logged)
    assert any(not torch.equal(after[name], it) for name, it in before.items())


def test_an_episode_ends_where_there_is_no_room_for_more(
    target: str, trainer_of: Callable[..., GRPOTrainer]
) -> None:
    """A reply that is cut is not played, and no row is longer than TRL's bound."""
    with Rollouts("wordle", target=target, **SETTINGS) as rollouts:
        trainer = trainer_of(rollouts, max_completion_length=30)
        told = rollouts(["lmrlgym_wordle_25"] * 8, trainer)
        assert max(map(len, told["completion_ids"])) == 30
        trainer = trainer_of(rollouts, max_completion_length=10_000)
        trainer.model.config.max_position_embeddings = 20
        with pytest.raises(ContextOverflow, match="longer"):
            rollouts(["lmrlgym_wordle_25"], trainer)


def test_an_episode_whose_environment_fails_is_left_out(
    trainer_of: Callable[..., GRPOTrainer],
) -> None:
    options = {"length": 3, "observation_bytes": 90}
    with Rollouts(
        fragile.NAME, options=options, conversation_start=("say", "OK"), max_reply_tokens=8
    ) as rollouts:
        trainer = trainer_of(rollouts)
        told = rollouts(["echo_1000000", fragile.BREAKS], trainer)
        assert told["agentgym_score"][0] is not None and told["agentgym_score"][1] is None
        assert all(map(len, told["completion_ids"]))
        logged: dict[str, float] = {}
        rewards = rollouts.score(
            agentgym_score=told["agentgym_score"], log_metric=logged.__setitem__
        )
        assert rewards == told["agentgym_score"] and logged["scored"] == 0.5
        with pytest.raises(agentgym.EnvironmentFailure, match="is broken"):
            rollouts([fragile.BREAKS] * 2, trainer)


def test_what_vllm_answers_is_taken_as_it_is_up_to_the_end_of_a_reply(
    target: str, trainer_of: Callable[..., GRPOTrainer]
) -> None:
    """In place of vLLM, what TRL calls: it answers with a reply, its end and one id more."""
    end = HuggingFaceRenderer(LEARNER_AGENT).stop_ids[0]
    asked: list[int] = []

    class VLLM:
        def generate(self, prompts: list[list[int]], images: None, num_generations: int) -> Any:
            asked.append(len(prompts) * num_generations)
            ids = [[7, 8, end, 9] for _ in prompts]
            return prompts, ids, [[[-0.5], [-0.25], [-0.125], [-4.0]] for _ in prompts], None

    with Rollouts("wordle", target=target, **SETTINGS) as rollouts:
        trainer = trainer_of(rollouts)
        trainer.use_vllm, trainer.vllm_generation = True, VLLM()
        told = rollouts(["lmrlgym_wordle_25"] * 2, trainer)
    assert asked == [2] * SETTINGS["max_rounds"]
    for ids, mask, logprobs in zip(
        told["completion_ids"], told["env_mask"], told["logprobs"], strict=True
    ):
        assert turns(ids, mask) == [[7, 8, end]] * SETTINGS["max_rounds"]
        assert logprobs[:3] == logprobs[-3:] == [-0.5, -0.25, -0.125]


def test_a_trainer_that_cannot_play_whole_episodes_is_told(
    target: str, trainer_of: Callable[..., GRPOTrainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Rollouts("wordle", target=target, **SETTINGS) as rollouts:
        trainer = trainer_of(rollouts)
        with monkeypatch.context() as patch:
            patch.setattr(trainer, "use_transformers_continuous_batching", True)
            with pytest.raises(PolicyMisconfigured, match="tells no logprobs"):
                rollouts(["lmrlgym_wordle_25"], trainer)
        patched = "accelerate.Accelerator.distributed_type"
        monkeypatch.setattr(patched, DistributedType.FSDP)
        with pytest.raises(PolicyMisconfigured, match="sample together"):
            rollouts(["lmrlgym_wordle_25"], trainer)


def test_a_server_that_is_gone_ends_the_training(
    tmp_path: Path, trainer_of: Callable[..., GRPOTrainer]
) -> None:
    server = agentgym.make("wordle", data=tmp_path)  # shared with nobody
    address = server.asynchronous.connection.address
    quickly = ConnectionOptions(connect_deadline=0.2)
    with Rollouts("wordle", target=address, connection=quickly, **SETTINGS) as rollouts:
        trainer = trainer_of(rollouts)
        server.close()
        with pytest.raises(agentgym.ConnectionLost):
            trainer.train()


@pytest.mark.parametrize(
    ("template", "message"),
    [("", "no chat template"), (COUNTED, "rewrites earlier turns"), ("{{ x( }}", "refuses")],
)
def test_a_chat_template_that_cannot_be_used_is_told(
    target: str, trainer_of: Callable[..., GRPOTrainer], template: str, message: str
) -> None:
    with Rollouts("wordle", target=target, **SETTINGS) as rollouts:
        trainer = trainer_of(rollouts, template=template)
        if template == COUNTED:
            own = AutoTokenizer.from_pretrained(LEARNER_AGENT).chat_template
            trainer.processing_class.chat_template = COUNTED + own
        with pytest.raises(PolicyMisconfigured, match=message):
            rollouts(["lmrlgym_wordle_25"] * 8, trainer)


def test_names_that_are_unknown_are_told(target: str) -> None:
    with pytest.raises(agentgym.ServerArgumentsInvalid, match="wordel"):
        Rollouts("wordel")
    with pytest.raises(agentgym.UnknownName, match="react"):
        Rollouts("wordle", target=target, action_format="nonsense")
    with Rollouts("wordle", target=target) as rollouts:
        with pytest.raises(agentgym.UnknownName, match="train"):
            rollouts.dataset("nonsense")


def turns(completion: list[int], mask: list[int]) -> list[list[int]]:
    """Return the ids of the replies: the runs that are marked as sampled."""
    replies: list[list[int]] = []
    for place, (token, mark) in enumerate(zip(completion, mask, strict=True)):
        if mark and not (place and mask[place - 1]):
            replies.append([])
        if mark:
            replies[-1].append(token)
    return replies


def tokenized(
    renderer: HuggingFaceRenderer, messages: list[Message], sampled: list[list[int]]
) -> list[int]:
    """Return the ids of a conversation up to the last reply, whose replies have ids already."""
    conversation = TokenizedConversation(renderer)
    for turn, ids in enumerate(sampled):
        conversation.prompt(messages[: 3 + 2 * turn])
        conversation.append_reply(ids, [-1.0] * len(ids), generation=turn)
    return conversation.ledger.prompt_ids()


def replay(rollouts: Rollouts, item: str, replies: list[str]) -> tuple[list[Message], float | None]:
    """Play the replies by hand; returns the conversation and the score."""
    instruction, acknowledgement = SETTINGS["conversation_start"]
    with rollouts.environment.reset(item, options=SETTINGS["options"]) as episode:
        messages = [
            Message(Role.USER, instruction),
            Message(Role.ASSISTANT, acknowledgement),
            Message(Role.USER, episode.text),
        ]
        for reply in replies:
            episode.reply(reply)
            messages += [Message(Role.ASSISTANT, reply), Message(Role.USER, episode.text)]
        return messages, episode.score
