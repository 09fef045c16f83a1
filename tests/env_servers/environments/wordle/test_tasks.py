"""Word lists and splits of Wordle."""

import re
from pathlib import Path

import pytest

from env_servers.environments.wordle.tasks import (
    EVAL_BASE,
    EVAL_OPEN_BASE,
    LISTED_SIZES,
    TRAIN_OPEN_BASE,
    Puzzle,
    WordleTasks,
)
from env_servers.environments.wordle.words import OFFICIAL_WORDS, Vocabularies, Vocabulary
from env_servers.sdk import EMBEDDED_BASE, InvalidOption, UnknownItem, UnknownSplit
from tests.kit.data import data_dir, needs_data

DATA = data_dir()
needs_word_lists = needs_data("wordle")
TASKS = WordleTasks(None)


def _puzzles(split: str) -> list[Puzzle]:
    return [TASKS.get(item).payload for item in TASKS.item_ids(split, 0, 10_000)]


def test_splits_have_their_sizes():
    assert TASKS.splits() == {
        "train": 2000,
        "eval": 200,
        "train_open": 1748,
        "eval_open": 300,
        "official_train": 955,
        "official_eval": 25,
    }


def test_no_hidden_word_is_in_train_and_eval():
    train = {puzzle.hidden for puzzle in _puzzles("train") + _puzzles("train_open")}
    held_out = {puzzle.hidden for puzzle in _puzzles("eval") + _puzzles("eval_open")}
    assert train.isdisjoint(held_out)
    assert (len(train), len(held_out)) == (1748, 300)


def test_not_even_listed_words_are_in_train_and_eval():
    train = {word for puzzle in _puzzles("train") for word in puzzle.vocabulary.words}
    held_out = {word for puzzle in _puzzles("eval") for word in puzzle.vocabulary.words}
    assert train.isdisjoint(held_out)


def test_a_listed_vocabulary_has_its_size_and_the_hidden_word():
    for split in ("train", "eval"):
        for item, puzzle in zip(TASKS.item_ids(split, 0, 10_000), _puzzles(split), strict=True):
            assert puzzle.hidden in puzzle.vocabulary
            assert TASKS.category(item) == f"listed_{len(set(puzzle.vocabulary.words))}"
            assert puzzle.listed
            assert puzzle.answers is puzzle.vocabulary
    assert {len(puzzle.vocabulary) for puzzle in _puzzles("eval")} == set(LISTED_SIZES)


def test_the_place_of_the_hidden_word_in_the_list_tells_nothing():
    places = {puzzle.vocabulary.words.index(str(puzzle.hidden)) for puzzle in _puzzles("eval")}
    assert len(places) > 60


def test_open_games_accept_every_word_and_hide_a_common_one():
    for puzzle in _puzzles("eval_open")[:5]:
        assert (len(puzzle.vocabulary), len(puzzle.answers)) == (4579, 2048)
        assert puzzle.hidden in puzzle.answers
        assert not puzzle.listed


def test_the_packaged_lists_are_clean():
    lists = TASKS.vocabularies
    for vocabulary in (lists.answers, lists.guesses, lists.official):
        assert len(set(vocabulary.words)) == len(vocabulary)
        assert all(re.fullmatch("[a-z]{5}", word) for word in vocabulary.words)
    assert set(lists.answers.words) <= set(lists.guesses.words)


def test_official_items_are_seeds_over_forty_words():
    assert len(OFFICIAL_WORDS) == 40
    first = TASKS.get("lmrlgym_wordle_7").payload
    assert (first.hidden, first.seed, first.vocabulary.words) == (None, 7, OFFICIAL_WORDS)
    assert TASKS.item_ids("official_eval", 0, 99) == [f"lmrlgym_wordle_{i}" for i in range(25)]
    assert TASKS.item_ids("official_train", 0, 1) == ["lmrlgym_wordle_25"]
    assert TASKS.item_ids("official_train", 954, 999) == ["lmrlgym_wordle_979"]


def test_recorded_seeds_beyond_the_listed_ones_are_found():
    assert TASKS.get("lmrlgym_wordle_1450").payload.seed == 1450


def test_every_item_is_found_under_its_own_id_and_category():
    bases = (EMBEDDED_BASE, TRAIN_OPEN_BASE, EVAL_BASE, EVAL_OPEN_BASE)
    for index in (0, 24, 25, *bases, *(base + 1234 for base in bases)):
        task = TASKS.get(str(index))
        again = TASKS.get(task.item_id)
        assert again.item_id == task.item_id
        assert again.payload.vocabulary.digest == task.payload.vocabulary.digest
        assert again.payload.hidden == task.payload.hidden
        assert TASKS.category(task.item_id) == task.category


def test_a_task_is_the_same_on_every_machine():
    puzzle = TASKS.get("wordle_2000000").payload
    assert (puzzle.hidden, puzzle.vocabulary.words[:5]) == GOLDEN


def test_equal_lists_have_equal_digests():
    assert TASKS.digest() == WordleTasks(None).digest()


@pytest.mark.parametrize("item", ["wordle_3000000", "maze_1", "wordle_x", ""])
def test_unknown_items_are_refused(item):
    with pytest.raises(UnknownItem):
        TASKS.get(item)


def test_unknown_splits_are_refused():
    with pytest.raises(UnknownSplit):
        TASKS.item_ids("test", 0, 1)


@pytest.mark.parametrize("words", [[], ["shire", "toolong"], ["Shire"], [3], ["a" * 10**6]])
def test_vocabularies_that_are_none_are_refused(words):
    with pytest.raises(InvalidOption):
        Vocabulary.checked("given", words)


def test_repeated_words_of_a_given_vocabulary_count_once():
    assert Vocabulary.checked("given", ["shire", "frown", "shire"]).words == ("shire", "frown")


def test_a_named_list_that_is_not_there_is_refused():
    for lists in (Vocabularies(None), Vocabularies(Path("no/such/folder"))):
        with pytest.raises(InvalidOption):
            lists.named("wordle_official_400")
        with pytest.raises(InvalidOption):
            lists.named("../secret")


@needs_word_lists
def test_the_forty_words_are_those_of_the_official_file():
    text = (DATA / "wordle" / "tweet_words.txt").read_text()
    assert tuple(text.split()) == OFFICIAL_WORDS


@needs_word_lists
def test_official_lists_are_read_from_the_data_folder():
    lists = Vocabularies(DATA)
    assert len(lists.named("wordle_official_400")) == 431
    assert len(lists.named("wordle_official")) == 2315
    assert lists.named("tweet_words") is lists.official


GOLDEN = ("scout", ("smash", "mixer", "psych", "perch", "psalm"))
