"""Analysis and ranking: the same words and the same order as Lucene's."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from env_servers.environments.webshop.catalogue import searched_text
from env_servers.environments.webshop.tasks import WebShopTasks
from env_servers.toolkit.retrieval.analysis import STOP_WORDS, terms
from env_servers.toolkit.retrieval.bm25 import (
    MAX_TERMS,
    Index,
    IndexWriter,
    decode_length,
    encode_length,
)
from env_servers.toolkit.retrieval.stemmer import stem


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("agreed", "agre"),
        ("hopping", "hop"),
        ("falling", "fall"),
        ("filing", "file"),
        ("happy", "happi"),
        ("sky", "sky"),
        ("relational", "relat"),
        ("conditional", "condit"),
        ("possibly", "possibl"),
        ("archaeology", "archaeolog"),
        ("triplicate", "triplic"),
        ("hopefulness", "hope"),
        ("adjustment", "adjust"),
        ("adoption", "adopt"),
        ("controlling", "control"),
        ("rate", "rate"),
        ("as", "as"),
    ],
)
def test_stems_are_porters(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Women's T-Shirts, 3.5oz & 1,000 pcs", ["women", "t", "shirt", "3.5oz", "1,000", "pc"]),
        ('over 6\'2" and 1-1\u20442"', ["over", "6'2", "1", "1\u20442"]),
        (
            "the king\u2019s crown \U0001f451\U0001f451",
            ["king", "crown", "\U0001f451", "\U0001f451"],
        ),
        ("we'll e.g. foo_bar __ _x", ["we'll", "e.g", "foo_bar", "_x"]),
        ("\u25c6 \u00a9 \u2122", []),
        (
            "caf\u00e9 \u5bb6\u5177 \u30e9\u30f3\u30d7",
            ["caf\u00e9", "\u5bb6", "\u5177", "\u30e9\u30f3\u30d7"],
        ),
    ],
)
def test_words_are_divided_as_by_lucene(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_stop_words_are_the_33_of_lucene() -> None:
    assert len(STOP_WORDS) == 33
    assert terms(" ".join(sorted(STOP_WORDS))) == []


def test_ascii_text_is_divided_like_any_other() -> None:
    rng = random.Random(4)
    for _ in range(3000):
        text = "".join(rng.choice("ab1_.':;, -z9") for _ in range(9))
        assert terms(text) == terms(f"{text} \u00df")[:-1], text


def test_lengths_are_kept_in_one_byte_as_by_lucene() -> None:
    kept = [decode_length(encode_length(length)) for length in range(400)]
    assert kept[:40] == list(range(40))
    assert [kept[n] for n in (41, 42, 114, 249, 343)] == [40, 42, 112, 248, 312]
    assert all(low <= high for low, high in zip(kept, kept[1:], strict=False))


def small_index(texts: list[str]) -> Index:
    writer = IndexWriter()
    for number, text in enumerate(texts):
        writer.add(f"id{number:03d}", text)
    return writer.finish()


def test_rare_words_short_documents_and_repetitions_count_more() -> None:
    index = small_index(["red lamp", "red lamp with a very long text about it", "blue lamp lamp"])
    assert index.search("red lamp") == (0, 1, 2)
    assert index.search("lamp") == (2, 0, 1)
    assert index.search("nothing known") == ()


def test_equal_scores_are_ordered_by_document_id() -> None:
    writer = IndexWriter()
    for name in ("b", "c", "a"):
        writer.add(name, "one lamp")
    assert writer.finish().search("lamp") == (2, 0, 1)


def test_no_more_than_the_limit_is_found() -> None:
    index = small_index([f"lamp number {n}" for n in range(80)])
    assert len(index.search("lamp")) == 50
    assert index.search("lamp", 3) == (0, 1, 2)


def test_a_query_of_too_many_words_finds_nothing_and_a_long_one_is_cut() -> None:
    index = small_index(["lamp"])
    assert index.search(" ".join(f"w{n}" for n in range(MAX_TERMS + 1)) + " lamp") == ()
    assert index.search("lamp " * 300_000) == (0,)


def test_a_word_may_be_repeated_without_end() -> None:
    assert small_index(["lamp " * 70_000, "lamp"]).search("lamp") == (0, 1)


def test_numpy_ranks_the_same(embedded: WebShopTasks) -> None:
    pytest.importorskip("numpy")
    products = embedded.shops["embedded"].products[:4000]
    writer = IndexWriter()
    for product in products:
        writer.add(product.asin, searched_text(product))
    plain, fast = writer.finish(numpy=False), writer.finish(numpy=True)
    for product in products[::50]:
        query = product.instruction or ""
        assert fast.search(query) == plain.search(query)


def test_every_recorded_first_page_comes_back(official: WebShopTasks, data_dir: Path) -> None:
    shop = official.shops["official"]
    lines = (data_dir / "webshop" / "search_cases.jsonl").read_text().splitlines()
    cases = [json.loads(line) for line in lines if line]
    for case in cases:
        found = shop.search(case["query"])
        assert len(found) == case["total"]
        assert [shop.products[number].asin for number in found[:10]] == case["asins"]
    assert len(cases) == 653
