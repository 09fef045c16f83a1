"""No drift: for every family of chat templates, and whatever was sampled, ids only ever grow."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from agent_runtime.conversation import Message, Role, normalize_reply
from agent_runtime.huggingface import HuggingFaceRenderer
from agent_runtime.ledger import Origin
from agent_runtime.tokenized_conversation import TokenizedConversation
from agentgym.episode.v1 import episode_pb2
from orchestrator.audit.tokens import ledger_problems, rendering_problems
from tests.agent_runtime.tiny_tokenizers import FAMILIES

START = [
    Message(Role.USER, "You are in a maze."),
    Message(Role.ASSISTANT, "Ok, I'll follow your instructions."),
    Message(Role.USER, "Your current position is at 3, 4."),
]
CONVERSATIONS = 10_000
"""Of the slow test, over all families."""


@cache
def folder_of(family: str) -> Path:
    return FAMILIES[family](Path(mkdtemp(prefix="agentgym-test-")))


@cache
def renderer_of(family: str) -> HuggingFaceRenderer:
    return HuggingFaceRenderer(folder_of(family))


@cache
def tokenizer_of(family: str) -> Tokenizer:
    return Tokenizer.from_file(str(folder_of(family) / "tokenizer.json"))


Turn = tuple[list[int], bool, str]
"""Sampled ids, whether the policy ended its turn, and the next observation."""
turns = st.lists(
    st.tuples(
        st.lists(st.integers(6, 340), min_size=1, max_size=8), st.booleans(), st.text(max_size=12)
    ),
    min_size=1,
    max_size=5,
)


def play(family: str, played: list[Turn]) -> tuple[TokenizedConversation, episode_pb2.Episode]:
    """A conversation with these replies, checked at every turn; and its record."""
    renderer = renderer_of(family)
    tokenized, messages = TokenizedConversation(renderer), list(START)
    record = episode_pb2.Episode()
    for turn, (ids, ended, observation) in enumerate(played):
        prompt = tokenized.prompt(messages)
        sampled = [*ids, renderer.stop_ids[-1]] if ended and renderer.stop_ids else ids
        tokenized.append_reply(sampled, [-0.5] * len(sampled), generation=turn)
        assert tokenized.ledger.prompt_ids() == prompt + sampled
        record.generations.add(turn=turn, prompt_tokens=len(prompt), completion_tokens=len(sampled))
        reply = Message(Role.ASSISTANT, tokenized.reply_text(sampled), sampled=True)
        messages += [reply, Message(Role.USER, observation)]
        forks = tokenized.ledger.forks
        following = tokenized.prompt(messages)
        if tokenized.ledger.forks == forks:
            assert following[: len(prompt) + len(sampled)] == prompt + sampled
    for message in messages:
        text = normalize_reply(message.text) if message.sampled else message.text
        record.messages.add(role=int(message.role), text=text, sampled=message.sampled)  # type: ignore[arg-type]
    record.token_segments.extend(tokenized.ledger.to_protos())
    return tokenized, record


def check_no_drift(family: str, played: list[Turn]) -> None:
    tokenized, record = play(family, played)
    assert tokenized.ledger.forks == 0
    assert list(ledger_problems(record)) == []
    assert list(rendering_problems(record, renderer_of(family))) == []


@pytest.mark.parametrize("family", sorted(FAMILIES))
@given(played=turns)
@settings(max_examples=30, deadline=None)
def test_ids_only_grow_and_the_record_renders_again(family: str, played: list[Turn]) -> None:
    check_no_drift(family, played)


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(FAMILIES))
@given(played=turns)
@settings(
    max_examples=CONVERSATIONS // len(FAMILIES),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_no_drift_over_ten_thousand_conversations(family: str, played: list[Turn]) -> None:
    check_no_drift(family, played)


words = st.lists(
    st.sampled_from(["move", "right", "Action:", "goal 8,", "<b>", "ñ", "日本", "the maze."]),
    min_size=1,
    max_size=6,
).map(" ".join)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"plain"}))
@given(said=st.lists(st.tuples(words, words), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_replies_that_are_spelled_as_the_tokenizer_would_give_the_ids_of_the_whole_text(
    family: str, said: list[tuple[str, str]]
) -> None:
    renderer = renderer_of(family)
    tokenized, messages = TokenizedConversation(renderer), list(START)
    for turn, (reply, observation) in enumerate(said):
        prompt = tokenized.prompt(messages)
        messages += [Message(Role.ASSISTANT, reply), Message(Role.USER, observation)]
        whole = renderer.begin(messages).ids
        assert whole[: len(prompt)] == prompt
        end = next(at for at in range(len(prompt), len(whole)) if whole[at] in renderer.stop_ids)
        sampled = whole[len(prompt) : end + 1]
        tokenized.append_reply(sampled, [-1.0] * len(sampled), generation=turn)
        assert tokenized.prompt(messages) == whole


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_each_family_stops_at_its_own_end_of_turn(family: str) -> None:
    tokenizer, stops = tokenizer_of(family), renderer_of(family).stop_ids
    expected = {
        "chatml": {"<|im_end|>"},
        "llama2": {"</s>"},
        "llama3": {"<|eot_id|>", "<|end_of_text|>"},
        "deepseek": {"<\uff5cend\u2581of\u2581sentence\uff5c>"},
        "glm": {"<|user|>", "<|endoftext|>"},
        "mistral": {"</s>"},
        "gemma": {"<end_of_turn>", "<eos>"},
        "plain": {"</s>"},
    }
    assert {tokenizer.id_to_token(token) for token in stops} == expected[family]


def test_a_family_that_drops_thoughts_forks_and_still_renders_again() -> None:
    tokenizer = tokenizer_of("deepseek")
    ids = tokenizer.encode("<think>go right</think>move", add_special_tokens=False).ids
    tokenized, record = play("deepseek", [(ids, True, "You moved."), (ids, True, "You moved.")])
    assert tokenized.ledger.forks == 2
    assert list(rendering_problems(record, renderer_of("deepseek"))) == []


def spoil_id(record: episode_pb2.Episode, at: int) -> None:
    record.token_segments[0].ids[at] += 1


def flip_mask(record: episode_pb2.Episode, at: int) -> None:
    segment = record.token_segments[0]
    context = segment.origins[at] == Origin.CONTEXT
    segment.origins[at] = (
        episode_pb2.TOKEN_ORIGIN_FORCED if context else episode_pb2.TOKEN_ORIGIN_CONTEXT
    )
    segment.generations[at], segment.logprobs[at] = 0, 0.0


def drop_logprob(record: episode_pb2.Episode, at: int) -> None:
    del record.token_segments[0].logprobs[at]


@pytest.mark.parametrize("spoil", [spoil_id, flip_mask, drop_logprob])
@pytest.mark.parametrize("family", ["chatml", "llama2", "glm"])
@given(played=turns, where=st.floats(0, 0.999))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_each_planted_corruption_is_found(
    spoil: object, family: str, played: list[Turn], where: float
) -> None:
    tokenized, record = play(family, played)
    segment = record.token_segments[0]
    at = int(where * len(segment.ids))
    if spoil is spoil_id and segment.origins[at] == Origin.SAMPLED:
        # Broken bytes are all spelled alike; among those only the engine's scores can tell.
        assume(
            tokenized.reply_text([segment.ids[at]]) != tokenized.reply_text([segment.ids[at] + 1])
        )
        assume("\ufffd" not in "".join(message.text for message in record.messages))
    assert callable(spoil)
    spoil(record, at)
    found = [*ledger_problems(record), *rendering_problems(record, renderer_of(family))]
    assert found
