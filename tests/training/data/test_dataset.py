from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.orchestrator.records import build_episode
from tests.training.makers import (
    chatml_renderer,
    conversation,
    played_episode,
    write_conversations,
    write_run,
)
from training.data.contents import HeldOutContents, record_content
from training.data.dataset import DataConfig, TokenDataset, build_datasets, is_held_out
from training.data.sources import SourceConfig, read_source
from training.errors import (
    Contaminated,
    DataError,
    NothingToTrainOn,
    RecipeError,
    TokenizerMismatch,
)

VOCABULARY = 10_000


@pytest.fixture
def renderer(tmp_path: Path):
    return chatml_renderer(tmp_path / "model")


def make(
    renderer, folder: Path, *paths: Path, **options
) -> tuple[TokenDataset, TokenDataset | None]:
    options.setdefault("context", 2048)
    sources = tuple(SourceConfig(path=str(path)) for path in paths)
    data = DataConfig(sources=sources, **options)
    return build_datasets(data, renderer, folder, vocabulary=VOCABULARY)


def test_a_corpus_gives_back_what_was_read(renderer, tmp_path: Path) -> None:
    texts = write_conversations(tmp_path / "c.jsonl", count=7)
    run = write_run(
        tmp_path / "run", [played_episode("maze_1", ("Action: up", "Action: down"), renderer)]
    )
    dataset, _ = make(renderer, tmp_path / "data", texts, run)
    expected = [
        sequence
        for path in (texts, run)
        for record in read_source(
            SourceConfig(path=str(path)), renderer, on_skipped=lambda *_: None
        )
        for sequence in record
    ]
    assert len(dataset) == len(expected) == 8
    for number, it in enumerate(expected):
        found = dataset[number]
        assert found.ids.tolist() == it.ids.tolist()
        assert found.mask.tolist() == it.mask.tolist()
        assert (found.logprobs is None) == (it.logprobs is None)
        assert found.origin == it.origin
    assert dataset[7].logprobs is not None
    np.testing.assert_array_equal(dataset[7].logprobs, expected[7].logprobs)
    assert not dataset.has_logprobs
    assert dataset.lengths.tolist() == [len(it) for it in expected]
    assert dataset.targets.tolist() == [it.targets for it in expected]


def test_equal_sources_give_equal_bytes(renderer, tmp_path: Path) -> None:
    texts = write_conversations(tmp_path / "c.jsonl")
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        make(renderer, folder, texts, held_out=0.3)
    for path in sorted(folders[0].rglob("*.*")):
        assert path.read_bytes() == (folders[1] / path.relative_to(folders[0])).read_bytes()


def test_what_does_not_fit_is_named_and_never_cut(renderer, tmp_path: Path) -> None:
    texts = write_conversations(tmp_path / "c.jsonl", count=6)
    whole, _ = make(renderer, tmp_path / "whole", texts)
    lengths = whole.lengths.tolist()
    context = sorted(lengths)[2]
    dataset, _ = make(renderer, tmp_path / "data", texts, context=context)
    left = list(dataset.left_out())
    assert sorted(dataset.lengths.tolist()) == sorted(it for it in lengths if it <= context)
    assert [it["tokens"] for it in left] == [it for it in lengths if it > context]
    assert {it["reason"] for it in left} == {f"longer than {context} tokens"}
    assert left[0]["name"].startswith("maze_")
    assert dataset.summary.left_out == {f"longer than {context} tokens": len(left)}


def test_held_out_items_are_in_one_corpus_only(renderer, tmp_path: Path) -> None:
    texts = write_conversations(tmp_path / "c.jsonl", count=40)
    train, kept = make(renderer, tmp_path / "data", texts, held_out=0.25)
    assert kept is not None
    ours = {it.item_id for it in train.origins()}
    theirs = {it.item_id for it in kept.origins()}
    assert not ours & theirs and len(ours) + len(theirs) == 40
    assert theirs == {f"maze_{n}" for n in range(40) if is_held_out(f"maze_{n}", 0.25)}
    assert theirs


def test_empty_masks_are_an_error_that_says_so(renderer, tmp_path: Path) -> None:
    import json

    entry = conversation(1)
    for turn in entry["conversations"]:
        turn["loss"] = False if turn["from"] == "gpt" else None
    path = tmp_path / "c.json"
    path.write_text(json.dumps([entry]))
    with pytest.raises(NothingToTrainOn, match=r"data\.sources: no record with a reply"):
        make(renderer, tmp_path / "data", path)


def test_a_context_that_fits_nothing_is_an_error_that_counts(renderer, tmp_path: Path) -> None:
    texts = write_conversations(tmp_path / "c.jsonl", count=3)
    with pytest.raises(NothingToTrainOn, match="3 longer than 4 tokens"):
        make(renderer, tmp_path / "data", texts, context=4)


def test_records_that_begin_as_a_held_out_task_are_refused_with_the_names(
    renderer, tmp_path: Path
) -> None:
    episodes = [played_episode(f"maze_{number}", ("Action: up",), renderer) for number in range(3)]
    for number, episode in enumerate(episodes):
        episode.steps[0].state_hash = bytes([number] * 8)
    run = write_run(tmp_path / "run", episodes)
    judged = tmp_path / "held-out.json"
    # The item that judges has another id: what counts is how it begins.
    HeldOutContents({"maze": {record_content(episodes[1]): "maze_900"}}).write(judged)
    with pytest.raises(Contaminated, match=r"1 tasks .* held out: maze_1 \(as maze_900\)"):
        make(renderer, tmp_path / "data", run, held_out_contents=str(judged))
    HeldOutContents({"maze": {"0123456789abcdef": "maze_900"}}).write(judged)
    dataset, _ = make(renderer, tmp_path / "data", run, held_out_contents=str(judged))
    assert len(dataset) == 3
    # A file of conversations does not say how an episode began, so it proves nothing.
    texts = write_conversations(tmp_path / "c.jsonl", count=2)
    with pytest.raises(Contaminated, match="2 records do not tell in which state they began"):
        make(renderer, tmp_path / "data", texts, held_out_contents=str(judged))
    with pytest.raises(DataError, match=r"held_out_contents: .* cannot be read"):
        make(renderer, tmp_path / "data", run, held_out_contents=str(tmp_path / "none.json"))


def test_ids_beyond_the_models_vocabulary_are_refused(renderer, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [played_episode("maze_1", ("Action: up",), renderer)])
    data = DataConfig(sources=(SourceConfig(path=str(run)),))
    with pytest.raises(TokenizerMismatch, match="rows of embeddings"):
        build_datasets(data, renderer, tmp_path / "data", vocabulary=20)


def test_a_recipe_without_sources_is_refused(renderer, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"data\.sources"):
        make(renderer, tmp_path / "data")


def test_a_corpus_that_was_cut_off_is_not_read(renderer, tmp_path: Path) -> None:
    texts = write_conversations(tmp_path / "c.jsonl", count=3)
    dataset, _ = make(renderer, tmp_path / "data", texts)
    with (dataset.folder / "ids.u32").open("rb+") as stream:
        stream.truncate(8)
    with pytest.raises(DataError, match="damaged"):
        TokenDataset(dataset.folder)
    (dataset.folder / "summary.json").unlink()
    assert not TokenDataset.is_complete(dataset.folder)
    with pytest.raises(DataError, match="no complete dataset"):
        TokenDataset(dataset.folder)


def test_episodes_without_tokens_are_tokenised_and_have_no_logprobs(
    renderer, tmp_path: Path
) -> None:
    run = write_run(tmp_path / "run", [build_episode("maze_1", tokens=False)])
    dataset, _ = make(renderer, tmp_path / "data", run)
    assert dataset[0].logprobs is None and dataset[0].targets > 0
