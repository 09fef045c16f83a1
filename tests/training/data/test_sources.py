from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from agent_runtime.huggingface import HuggingFaceRenderer
from agent_runtime.ledger import Origin
from orchestrator.conversations import read_conversations
from orchestrator.errors import EntryUnreadable
from orchestrator.export import export_run
from orchestrator.import_run import import_run
from orchestrator.store import RunReader, RunStore
from tests.agent_runtime import tiny_tokenizers
from tests.orchestrator.records import (
    build_branch,
    build_episode,
    build_failed,
    build_seeing,
    build_session,
)
from tests.training.makers import (
    chatml_renderer,
    conversation,
    played_episode,
    write_conversations,
    write_run,
)
from training.data.sequences import TokenSequence
from training.data.sources import SourceConfig, episode_sequences, read_source
from training.errors import ImagesNotLearned, TokenizerMismatch


@pytest.fixture
def renderer(tmp_path: Path) -> HuggingFaceRenderer:
    return chatml_renderer(tmp_path / "model")


def read(renderer, path: Path, **options) -> tuple[list[TokenSequence], list[tuple[str, str]]]:
    left: list[tuple[str, str]] = []
    config = SourceConfig(path=str(path), **options)
    records = read_source(
        config, renderer, on_skipped=lambda name, why, _: left.append((name, why))
    )
    return [it for record in records for it in record], left


def trained_texts(renderer: HuggingFaceRenderer, it: TokenSequence) -> list[str]:
    """The texts of the masked spans."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], it.mask.astype(int), [0]])))
    return [renderer.decode(it.ids[a:b].tolist()) for a, b in edges.reshape(-1, 2)]


def test_a_run_with_shards_gives_what_one_store_would(renderer, tmp_path: Path) -> None:
    episodes = [played_episode(f"maze_{at}", ("Action: move up",), renderer) for at in range(3)]
    alone, run = write_run(tmp_path / "alone", episodes), write_run(tmp_path / "run", episodes[:1])
    for name, episode in zip(("w0", "w1"), episodes[1:], strict=True):
        with RunStore.open_shard(run, name, build_session()) as shard:
            shard.append_all([episode])
    one, union = (read(renderer, source)[0] for source in (alone, run))
    assert [it.origin.item_id for it in union] == ["maze_0", "maze_1", "maze_2"]
    assert [it.ids.tolist() for it in union] == [it.ids.tolist() for it in one]


@pytest.mark.parametrize("kind", ["run", "parquet"])
def test_episodes_with_images_are_refused(renderer, tmp_path: Path, kind: str) -> None:
    source = write_run(tmp_path / "run", [build_seeing(tokens=False)])
    if kind == "parquet":
        with RunReader.open(source) as run:
            export_run(run, tmp_path / "out.parquet", format_name="parquet")
        source = tmp_path / "out.parquet"
    with pytest.raises(ImagesNotLearned, match="option for images"):
        read(renderer, source)


def test_recorded_tokens_are_used_as_they_were_sampled(renderer, tmp_path: Path) -> None:
    episode = played_episode("maze_1", ("Action: move up", "Action: move left"), renderer)
    (found,), left = read(renderer, write_run(tmp_path / "run", [episode]))
    segment = episode.token_segments[0]
    sampled = [origin == Origin.SAMPLED for origin in segment.origins]
    assert not left
    assert found.ids.tolist() == list(segment.ids)[: len(found)]
    assert found.mask.tolist() == sampled[: len(found)]
    assert not any(sampled[len(found) :])
    assert found.logprobs is not None
    assert found.logprobs[found.mask].tolist() == [-0.25] * sum(sampled)
    assert found.logprobs[~found.mask].tolist() == [0] * int((~found.mask).sum())
    assert found.origin.reward == 1.0 and found.origin.item_id == "maze_1"


def test_of_a_branch_only_what_its_own_player_said_is_learned(renderer, tmp_path: Path) -> None:
    """What a person plays on by hand is a demonstration, also as an export."""
    replies = ("Action: move up", "Action: move left", "Action: move down")
    episode = build_branch(turn=2, replies=replies, policy="person")
    folder = write_run(tmp_path / "run", [episode])
    with RunReader.open(folder) as run:
        export_run(run, tmp_path / "demonstrations.json", format_name="agenttraj")
    for path in (folder, tmp_path / "demonstrations.json"):
        (found,), left = read(renderer, path)
        assert not left
        assert [it.removesuffix("<|im_end|>") for it in trained_texts(renderer, found)] == [
            "Action: move down"
        ]


def test_pretraining_learns_every_token_but_the_first(renderer, tmp_path: Path) -> None:
    episode = played_episode("maze_1", ("Action: move up", "Action: move left"), renderer)
    path = write_run(tmp_path / "run", [episode])
    (replies,), _ = read(renderer, path)
    (everything,), _ = read(renderer, path, targets="all")
    assert everything.ids.tolist() == replies.ids.tolist()
    assert everything.mask.tolist() == [False] + [True] * (len(replies) - 1)
    assert everything.logprobs is None


def test_a_parquet_export_gives_the_same_sequences_as_its_run(renderer, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    episodes = [
        played_episode("maze_1", ("Action: move up",), renderer),
        build_episode("maze_2", tokens=False),
        build_failed("maze_3", tokens=False),
    ]
    folder = write_run(tmp_path / "run", episodes)
    with RunReader.open(folder) as run:
        export_run(run, tmp_path / "e.parquet", format_name="parquet")
    ours, _ = read(renderer, folder)
    exported, _ = read(renderer, tmp_path / "e.parquet")
    assert len(ours) == len(exported) == 2
    for one, other in zip(ours, exported, strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        assert one.mask.tolist() == other.mask.tolist()
        assert (one.logprobs is None) == (other.logprobs is None)
        assert one.origin.reward == other.origin.reward


@pytest.mark.parametrize("family", ["chatml", "llama2", "llama3", "deepseek", "mistral", "gemma"])
def test_text_is_tokenised_as_a_policy_would_have_met_it(family: str, tmp_path: Path) -> None:
    renderer = HuggingFaceRenderer(tiny_tokenizers.FAMILIES[family](tmp_path / "model"))
    played = played_episode("maze_1", ("Action: move up", "Action: move left"), renderer)
    (recorded,) = episode_sequences(played, renderer)
    (tokenized,) = episode_sequences(played, renderer, tokens="text")
    assert tokenized.ids.tolist() == recorded.ids.tolist()
    assert tokenized.mask.tolist() == recorded.mask.tolist()
    assert tokenized.logprobs is None
    assert [it.strip() for it in trained_texts(renderer, tokenized)] == [
        "Action: move up",
        "Action: move left",
    ]


def test_a_template_that_drops_thoughts_gives_one_sequence_per_rewrite(tmp_path: Path) -> None:
    folder = tiny_tokenizers.chatml(tmp_path / "model", tiny_tokenizers.THINKING)
    renderer = HuggingFaceRenderer(folder)
    replies = ("<think>\nhm\n</think>\n\nmove up", "<think>\nso\n</think>\n\nmove left")
    found = episode_sequences(build_episode(replies=replies, tokens=False), renderer)
    assert [it.origin.segment for it in found] == [0, 1]
    assert [trained_texts(renderer, it) for it in found] == [[replies[0]], [replies[1]]]


def test_loss_flags_are_honoured(renderer, tmp_path: Path) -> None:
    entry = conversation(3, turns=3)
    entry["conversations"][5]["loss"] = False
    path = tmp_path / "c.json"
    path.write_text(json.dumps([entry]))
    (found,), _ = read(renderer, path)
    values = [it["value"] for it in entry["conversations"] if it["loss"]]
    assert trained_texts(renderer, found) == values and len(values) == 2


def test_the_acknowledgement_is_trained_on_when_asked_for(renderer, tmp_path: Path) -> None:
    path = write_conversations(tmp_path / "c.jsonl", count=1)
    (without,), _ = read(renderer, path)
    (with_it,), _ = read(renderer, path, train_acknowledgement=True)
    assert trained_texts(renderer, with_it) == ["OK.", *trained_texts(renderer, without)]
    assert with_it.ids.tolist() == without.ids.tolist()


@pytest.mark.parametrize("shape", ["lines", "list", "gzip"])
def test_files_of_any_layout_give_the_same_conversations(shape: str, tmp_path: Path) -> None:
    entries = [conversation(number) for number in range(5)]
    lines = "\n".join(json.dumps(it) for it in entries)
    path = tmp_path / ("c.jsonl.gz" if shape == "gzip" else "c.json")
    if shape == "gzip":
        path.write_bytes(gzip.compress(lines.encode()))
    else:
        path.write_text(lines if shape == "lines" else json.dumps(entries, indent=1))
    found = list(read_conversations(path))
    assert [it.item_id for it in found] == [f"maze_{number}" for number in range(5)]
    assert [it.number for it in found] == [0, 1, 2, 3, 4]


def test_an_imported_file_gives_the_same_sequences_as_the_file(renderer, tmp_path: Path) -> None:
    file = write_conversations(tmp_path / "c.jsonl", 3)
    import_run([file], tmp_path / "run")
    (direct, _), (imported, left) = read(renderer, file), read(renderer, tmp_path / "run")
    assert not left and len(direct) == 3
    for one, other in zip(direct, imported, strict=True):
        assert one.ids.tolist() == other.ids.tolist() and one.mask.tolist() == other.mask.tolist()
        assert one.origin.item_id == other.origin.item_id


def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps(conversation(1)) + "\n" + json.dumps(conversation(2))[:-20])
    with pytest.raises(EntryUnreadable, match=r"c\.jsonl: it is damaged"):
        list(read_conversations(path))


def test_records_are_chosen_by_reward_environment_and_item(renderer, tmp_path: Path) -> None:
    def episode(item: str, sample: int, reward: float, environment: str = "maze"):
        return build_episode(
            item, sample=sample, reward=reward, environment=environment, tokens=False
        )

    folder = write_run(
        tmp_path / "run",
        [
            episode("maze_1", 0, 0.5),
            episode("maze_1", 1, 1.0),
            episode("maze_1", 2, 1.0),
            episode("wordle_1", 0, 0.4, "wordle"),
            build_failed("maze_2", tokens=False),
        ],
    )

    def chosen(**options) -> list[tuple[str, int]]:
        found, _ = read(renderer, folder, **options)
        return [(it.origin.item_id, it.origin.sample) for it in found]

    everything = [("maze_1", 0), ("maze_1", 1), ("maze_1", 2), ("wordle_1", 0)]
    assert chosen() == everything
    assert chosen(thresholds={"maze": 0.99}) == everything[1:]
    assert chosen(min_reward=0.5) == everything[:3]
    assert chosen(min_reward=0.6, one_per_item=True) == [("maze_1", 1)]
    assert chosen(environments=("wordle",)) == everything[3:]
    assert chosen(limit=1) == [("maze_1", 0), ("wordle_1", 0)]
    weights = read(renderer, folder, weight_by_reward=True, weight=2.0)[0]
    assert [it.weight for it in weights] == [1.0, 2.0, 2.0, 0.8]


def test_ids_of_another_tokenizer_are_refused(tmp_path: Path) -> None:
    chatml = chatml_renderer(tmp_path / "chatml")
    llama = HuggingFaceRenderer(tiny_tokenizers.llama2(tmp_path / "llama"))
    folder = write_run(tmp_path / "run", [played_episode("maze_1", ("Action: up",), chatml)])
    with pytest.raises(TokenizerMismatch, match='tokens = "text"') as caught:
        read(llama, folder)
    assert caught.value.field == "model.path"
    found, _ = read(llama, folder, tokens="text")
    assert trained_texts(llama, found[0])[0].strip() == "Action: up"


def test_a_reply_that_does_not_survive_the_tokenizer_is_left_out_by_name(
    renderer, tmp_path: Path
) -> None:
    entry = conversation(1, turns=1)
    entry["conversations"][3]["value"] = "Action: <|im_start|> up"
    path = tmp_path / "c.json"
    path.write_text(json.dumps([entry, conversation(2)]))
    found, left = read(renderer, path)
    assert [it.origin.item_id for it in found] == ["maze_2"]
    assert left == [("maze_1#0", "the masked ids of reply 0 do not decode to its text")]
