from __future__ import annotations

from training.data.multiword import find_multiword_tokens

TEXTS = [
    f"The goal is at position {n}, {n + 1}. I have the {name} key."
    for n, name in enumerate(["red", "blue", "green", "grey"] * 10)
]


def test_what_stands_between_names_and_numbers_becomes_a_phrase():
    found = find_multiword_tokens(TEXTS, 50, share=0.5)
    assert "The goal is at position " in found
    assert all(not any(letter.isdigit() for letter in phrase) for phrase in found)


def test_names_that_few_texts_have_stay_words_of_their_own():
    found = find_multiword_tokens(TEXTS, 50, share=0.5)
    assert not any(name in phrase for phrase in found for name in ("red", "blue", "green"))


def test_spelled_letters_are_never_merged():
    assert not any("o" in it for it in find_multiword_tokens(["s o l a r"] * 20, 50))


def test_equal_texts_give_equal_phrases_and_at_most_so_many():
    assert find_multiword_tokens(TEXTS, 3) == find_multiword_tokens(list(TEXTS), 3)
    assert len(find_multiword_tokens(TEXTS, 3)) <= 3
    assert find_multiword_tokens([], 5) == []
