"""What a guess tells, under the original's rule and under that of real Wordle."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.environments.wordle.rules import (
    SOLVED,
    absorb,
    counted_feedback,
    fits,
    remaining,
    rendered_feedback,
    simple_feedback,
)
from env_servers.environments.wordle.words import OFFICIAL_WORDS

RULES = (simple_feedback, counted_feedback)
words_of_few_letters = st.text(alphabet="abc", min_size=5, max_size=5)
words = st.sampled_from(OFFICIAL_WORDS)


@pytest.mark.parametrize(
    ("guess", "target", "simple", "counted"),
    [
        ("could", "audio", "byyby", "byyby"),
        ("atoll", "audio", "gbybb", "gbybb"),
        ("robot", "motor", "ygbgy", "ygbgy"),
        ("error", "frame", "ygyby", "ygbbb"),
        ("allot", "light", "byybg", "bybbg"),
        ("eerie", "elder", "gyyby", "gyyb" + "b"),
        ("panic", "panic", SOLVED, SOLVED),
        ("aabbb", "bbaaa", "yyyyy", "yyyyb"),
    ],
)
def test_feedback_of_known_pairs(guess, target, simple, counted):
    assert simple_feedback(guess, target) == simple
    assert counted_feedback(guess, target) == counted


@given(words_of_few_letters, words_of_few_letters)
def test_real_wordle_colours_a_letter_as_often_as_the_target_has_it(guess, target):
    feedback = counted_feedback(guess, target)
    for letter in set(guess):
        coloured = sum(
            own == letter and mark != "b" for own, mark in zip(guess, feedback, strict=True)
        )
        assert coloured == min(guess.count(letter), target.count(letter))
    greens = [mark == "g" for mark in feedback]
    assert greens == [own == right for own, right in zip(guess, target, strict=True)]


@given(st.lists(words_of_few_letters, max_size=5), words_of_few_letters)
def test_accumulated_feedback_against_one_word_is_the_simple_rule(guesses, target):
    knowledge = {}
    for guess in guesses:
        knowledge = absorb(knowledge, guess, target)
        assert rendered_feedback(knowledge, guess) == simple_feedback(guess, target)
        assert fits(knowledge, target)


@settings(max_examples=60)
@given(st.lists(words, max_size=6), st.randoms(use_true_random=False))
def test_words_that_fit_the_knowledge_are_those_that_would_have_answered_alike(guesses, rng):
    knowledge, turns, left = {}, [], list(OFFICIAL_WORDS)
    for guess in guesses:
        knowledge = absorb(knowledge, guess, rng.choice(left))
        left = [word for word in left if fits(knowledge, word)]
        turns.append((guess, rendered_feedback(knowledge, guess)))
        assert left == remaining(OFFICIAL_WORDS, turns, simple_feedback)


def test_absorbing_leaves_the_earlier_knowledge_alone():
    before = absorb({}, "panic", "solar")
    kept = dict(before)
    absorb(before, "robin", "solar")
    assert before == kept


@pytest.mark.parametrize("rule", RULES)
@given(target=words, guesses=st.lists(words, max_size=4))
def test_the_hidden_word_always_remains(rule, target, guesses):
    turns = [(guess, rule(guess, target)) for guess in guesses]
    left = remaining(OFFICIAL_WORDS, turns, rule)
    assert target in left
    assert left == [
        word for word in OFFICIAL_WORDS if all(rule(g, word) == feedback for g, feedback in turns)
    ]


def test_no_turns_leave_all_words():
    assert remaining(OFFICIAL_WORDS, [], simple_feedback) == list(OFFICIAL_WORDS)
