"""The index gives what adding up BM25 over all documents gives, by every way of searching."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.toolkit.retrieval import Index, IndexWriter, bm25
from env_servers.toolkit.retrieval.analysis import terms
from env_servers.toolkit.retrieval.bm25 import K1, B, decode_length, encode_length

WORDS = ("river", "town", "bridge", "novel", "harbour", "Velda", "Kestrin", "born", "the", "1874")
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


def naive(documents: list[str], query: str) -> dict[int, float]:
    """BM25 of every document that shares a term with the query, straight from the formula."""
    analysed = [Counter(terms(text)) for text in documents]
    average = sum(sum(counts.values()) for counts in analysed) / len(documents)
    scores: dict[int, float] = {}
    for number, counts in enumerate(analysed):
        length = decode_length(encode_length(sum(counts.values())))
        total = 0.0
        for term, repeats in Counter(terms(query)).items():
            having = sum(1 for other in analysed if term in other)
            idf = math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))
            count = counts[term]
            if count:
                total += repeats * idf * count / (count + K1 * (1 - B + B * length / average))
        if total:
            scores[number] = total
    return scores


def build(documents: list[str], *, numpy: bool = False) -> Index:
    writer = IndexWriter()
    for number, text in enumerate(documents):
        writer.add(f"d{number:04d}", text)
    return writer.finish(numpy=numpy)


@pytest.mark.parametrize("numpy", [False, True])
@settings(max_examples=150, deadline=None)
@given(documents=st.lists(texts, min_size=1, max_size=12), query=texts, limit=st.integers(1, 5))
def test_the_best_documents_are_those_of_the_formula(
    numpy: bool, documents: list[str], query: str, limit: int
) -> None:
    if numpy:
        pytest.importorskip("numpy")
    expected = naive(documents, query)
    found = build(documents, numpy=numpy).search(query, limit)
    assert len(found) == min(limit, len(expected))
    assert len(set(found)) == len(found)
    best = sorted(expected.values(), reverse=True)
    for number, score in zip(found, best, strict=False):
        assert expected[number] == pytest.approx(score, rel=1e-5)


def test_leaving_out_hopeless_documents_changes_nothing() -> None:
    pytest.importorskip("numpy")
    rng = random.Random(11)
    vocabulary = [f"w{int(400 * rng.random() ** 3)}" for _ in range(3000)]
    documents = [" ".join(rng.choices(vocabulary, k=rng.randint(3, 40))) for _ in range(1500)]
    plain, whole = build(documents), build(documents, numpy=True)
    for _ in range(300):
        query = " ".join(rng.choices(vocabulary, k=rng.randint(1, 12)))
        for limit in (1, 3, 50):
            assert plain.search(query, limit) == whole.search(query, limit)


def test_equal_scores_keep_the_order_of_ids_under_every_limit() -> None:
    index = build(["one lamp"] * 40)
    assert index.search("lamp", 3) == (0, 1, 2)
    assert index.search("one lamp", 40) == tuple(range(40))


def test_shares_are_kept_for_later_searches_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    monkeypatch.setattr(bm25, "_KEPT_SHARES", 16)
    monkeypatch.setattr(bm25, "_LONGEST_KEPT", 8)
    rng = random.Random(3)
    documents = [" ".join(rng.choices(WORDS, k=rng.randint(1, 8))) for _ in range(12)]
    plain, whole = build(documents), build(documents, numpy=True)
    for _ in range(100):
        query = " ".join(rng.choices(WORDS, k=rng.randint(1, 6)))
        assert plain.search(query, 3) == whole.search(query, 3)
        kept = [len(shares) for shares in whole._kept_shares.values()]
        assert sum(kept) == whole._kept <= 16
        assert max(kept, default=0) <= 8
