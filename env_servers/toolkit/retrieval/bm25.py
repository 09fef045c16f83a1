"""Ranked retrieval: BM25 with Lucene's arithmetic, so that result pages equal the original's.

Contains the inverted index and the score. What makes rankings equal to Lucene's: document lengths
are rounded as Lucene stores them (4 significant bits from 40 on), each term's share of a score is a
32-bit float, sums are double and rounded to 32 bits at the end, and equal scores are ordered by
document id. k1 = 0.9 and b = 0.4 are Anserini's defaults.

An index never changes once it is built; any number of episodes search it at once. It knows
documents by number and id only. Where numpy is installed, larger indexes are searched several times
as fast; the results are the same without.
"""

from __future__ import annotations

import heapq
import importlib.util
import math
import threading
from array import array
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from env_servers.toolkit.retrieval.analysis import terms

__all__ = ["Index", "IndexWriter"]

K1: Final = 0.9
B: Final = 0.4
MAX_TERMS: Final = 1024
"""Different terms of a query; Lucene refuses more."""
MAX_QUERY_CHARS: Final = 65_536
_CACHED_QUERIES: Final = 4096
_KEPT_SHARES: Final = 2_000_000
"""Of documents in scores, four bytes each, that numpy keeps for terms that are searched again."""
_LONGEST_KEPT: Final = _KEPT_SHARES // 8
_NUMPY_FROM: Final = 4_000
"""Number of documents from which numpy pays."""


def encode_length(length: int) -> int:
    """The byte in which Lucene keeps a document length: exact below 40, then 4 significant bits."""
    if length < 24:
        return length
    rest = length - 24
    bits = rest.bit_length()
    code = rest if bits < 4 else ((rest >> (bits - 4)) & 7) | ((bits - 3) << 3)
    return min(24 + code, 255)


def decode_length(byte: int) -> int:
    """Return the document length that a byte stands for."""
    if byte < 24:
        return byte
    code = byte - 24
    low, shift = code & 7, (code >> 3) - 1
    return 24 + (low if shift < 0 else (low | 8) << shift)


class IndexWriter:
    """Collects documents and then becomes an `Index`."""

    def __init__(self) -> None:
        self._documents: dict[str, array[int]] = {}
        self._counts: dict[str, array[int]] = {}
        self._lengths = bytearray()
        self._ids: list[str] = []
        self._total = 0

    def add(self, document_id: str, text: str) -> None:
        """Index one document; ids must differ."""
        document_terms = terms(text)
        number = len(self._ids)
        self._ids.append(document_id)
        self._lengths.append(encode_length(len(document_terms)))
        self._total += len(document_terms)
        documents, counts = self._documents, self._counts
        for term, count in Counter(document_terms).items():
            posting = documents.get(term)
            if posting is None:
                documents[term], counts[term] = array("I", (number,)), array("H")
            else:
                posting.append(number)
            counts[term].append(min(count, 65_535))

    def finish(self, *, numpy: bool | None = None) -> Index:
        """The index over everything added; `numpy` says how it searches, None = by its size."""
        if numpy is None:
            large = len(self._ids) >= _NUMPY_FROM
            numpy = large and importlib.util.find_spec("numpy") is not None
        lengths = bytes(self._lengths)
        return Index(self._documents, self._counts, lengths, self._ids, self._total, numpy=numpy)


class Index:
    """An immutable inverted index over documents numbered from 0."""

    def __init__(
        self,
        documents: dict[str, array[int]],
        counts: dict[str, array[int]],
        lengths: bytes,
        ids: Sequence[str],
        total: int,
        *,
        numpy: bool,
    ) -> None:
        """Postings by term, encoded lengths and ids by number, and the sum of all lengths."""
        self._documents = documents
        self._counts = counts
        self._lengths = lengths
        self.ids = ids
        """Document ids by number."""
        average = _float32(total / len(ids)) if total else 1.0
        self._inverse = [
            _float32(1 / (K1 * (1 - B + B * decode_length(byte) / average))) for byte in range(256)
        ]
        self._inverse_array: Any = None
        """The same for numpy, converted once: that takes as long as a term's shares."""
        self._impacts: dict[str, array[float]] = {}
        self._cache: OrderedDict[tuple[str, int], tuple[int, ...]] = OrderedDict()
        self._kept_shares: OrderedDict[tuple[str, int], Any] = OrderedDict()
        self._kept = 0
        """Shares in all of them."""
        self._keeping = threading.Lock()
        self._rank = self._rank_numpy if numpy else self._rank_plain

    def __len__(self) -> int:
        return len(self.ids)

    def search(self, query: str, limit: int = 50) -> tuple[int, ...]:
        """Numbers of the best documents, best first; none for a query without known terms.

        A query of more than `MAX_TERMS` different terms finds nothing.
        """
        key = (query, limit)
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        query_terms = Counter(terms(query[:MAX_QUERY_CHARS]))
        indexed_terms = [
            (term, count) for term, count in query_terms.items() if term in self._documents
        ]
        cached = () if len(query_terms) > MAX_TERMS else self._rank(indexed_terms, limit)
        if len(query) < 1000:
            self._cache[key] = cached
            if len(self._cache) > _CACHED_QUERIES:
                self._cache.popitem(last=False)
        return cached

    def _weight(self, term: str, repeats: int) -> float:
        size, having = len(self.ids), len(self._documents[term])
        return _float32(repeats * math.log(1 + (size - having + 0.5) / (having + 0.5)))

    def _shares(self, term: str, repeats: int) -> array[float]:
        """Return the term's part of the score of each document that has it."""
        cached = self._impacts.get(term) if repeats == 1 else None
        if cached is not None:
            return cached
        weight, inverse, lengths = self._weight(term, repeats), self._inverse, self._lengths
        shares = array(
            "f",
            [
                weight - weight / (1 + count * inverse[lengths[number]])
                for number, count in zip(self._documents[term], self._counts[term], strict=True)
            ],
        )
        if repeats == 1:
            self._impacts[term] = shares
        return shares

    def _shares_numpy(self, term: str, repeats: int) -> Any:
        """Return the term's part of the scores, kept as long as there is room."""
        import numpy as np

        kept = self._kept_shares.get((term, repeats))
        if kept is not None:
            return kept
        if self._inverse_array is None:
            self._inverse_array = np.asarray(self._inverse)
        numbers = np.frombuffer(self._documents[term], np.uint32)
        counts = np.frombuffer(self._counts[term], np.uint16)
        factors = self._inverse_array[np.frombuffer(self._lengths, np.uint8)[numbers]]
        weight = self._weight(term, repeats)
        shares = (weight - weight / (1 + counts * factors)).astype(np.float32)
        if len(shares) <= _LONGEST_KEPT:
            self._keep_shares((term, repeats), shares)
        return shares

    def _keep_shares(self, key: tuple[str, int], shares: Any) -> None:
        with self._keeping:
            if key in self._kept_shares:
                return
            self._kept_shares[key] = shares
            self._kept += len(shares)
            while self._kept > _KEPT_SHARES:
                self._kept -= len(self._kept_shares.popitem(last=False)[1])

    def _rank_plain(self, query_terms: Iterable[tuple[str, int]], limit: int) -> tuple[int, ...]:
        """Adds up the terms that can score most, until no other document can come among the best.

        What is left out cannot be among the best (Turtle and Flood's "max score"), so the result
        is that of adding up everything.
        """
        lists: list[tuple[float, str, array[float]]] = []
        for term, repeats in query_terms:
            shares = self._shares(term, repeats)
            lists.append((max(shares), term, shares))
        lists.sort(key=lambda item: (-item[0], item[1]))
        rest = sum(highest for highest, _, _ in lists)
        scores: dict[int, float] = {}
        get = scores.get
        for index, (highest, term, shares) in enumerate(lists):
            if len(scores) >= limit and rest < _least(scores, limit):
                scores = self._completed(scores, lists[index:], rest, limit)
                break
            for number, share in zip(self._documents[term], shares, strict=True):
                scores[number] = get(number, 0.0) + share
            rest -= highest
        return self._best(list(scores), array("f", scores.values()), limit)

    def _completed(
        self,
        scores: dict[int, float],
        lists: Sequence[tuple[float, str, array[float]]],
        rest: float,
        limit: int,
    ) -> dict[int, float]:
        """The scores with further terms, of those documents that may still be among the best."""
        for highest, term, shares in lists:
            least = _least(scores, limit) - rest
            scores = {number: score for number, score in scores.items() if score >= least}
            documents = self._documents[term]
            size = len(documents)
            for number in scores:
                index = bisect_left(documents, number)
                if index < size and documents[index] == number:
                    scores[number] += shares[index]
            rest -= highest
        return scores

    def _rank_numpy(self, query_terms: Iterable[tuple[str, int]], limit: int) -> tuple[int, ...]:
        """Adds up everything, and looks only at what scores as the best of one term's documents.

        Whatever is among the best scores at least as much as the last of the best of a part.
        """
        import numpy as np

        lists = [
            (np.frombuffer(self._documents[term], np.uint32), self._shares_numpy(term, repeats))
            for term, repeats in query_terms
        ]
        if not lists:
            return ()
        # Term by term in the query's order, which decides how the sums are rounded.
        found = np.concatenate([numbers for numbers, _ in lists])
        shares = np.concatenate([shares for _, shares in lists])
        scores: Any = np.bincount(found, shares, len(self.ids))
        enough = [numbers for numbers, _ in lists if len(numbers) >= limit]
        least = 0.0
        if enough:
            part = scores[min(enough, key=len)]
            least = np.partition(part, len(part) - limit)[len(part) - limit] * (1 - 1e-6)
        numbers = np.flatnonzero(scores >= least if least else scores)
        rounded = scores[numbers].astype(np.float32)
        if len(numbers) > limit:
            least = np.partition(rounded, len(rounded) - limit)[len(rounded) - limit]
            is_candidate = rounded >= least
            numbers, rounded = numbers[is_candidate], rounded[is_candidate]
        return self._best(numbers.tolist(), rounded.tolist(), limit)

    def _best(self, numbers: Sequence[int], scores: Sequence[float], limit: int) -> tuple[int, ...]:
        """Return the numbers of the highest scores; equal scores in the order of the ids."""
        if len(numbers) > limit:
            least = heapq.nlargest(limit, scores)[-1]
            pairs = [pair for pair in zip(scores, numbers, strict=True) if pair[0] >= least]
        else:
            pairs = list(zip(scores, numbers, strict=True))
        ids = self.ids
        pairs.sort(key=lambda pair: (-pair[0], ids[pair[1]]))
        return tuple(number for _, number in pairs[:limit])


def _least(scores: dict[int, float], limit: int) -> float:
    """Return a little less than the score that a document needs to be among the best."""
    return heapq.nlargest(limit, scores.values())[-1] * (1 - 1e-6)


def _float32(value: float) -> float:
    return array("f", (value,))[0]
