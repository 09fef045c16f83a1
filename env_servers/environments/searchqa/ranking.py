"""The built-in retriever: BM25 over passages that this process holds.

Contains the index over a corpus, which is built when the first search needs it or when it is asked
for. Equal scores are ordered by passage id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from env_servers.environments.searchqa.passages import Passage, as_contents
from env_servers.toolkit.retrieval import Index, IndexWriter

__all__ = ["RankedCorpus"]


class RankedCorpus:
    """A corpus with its index; a `Retriever`."""

    def __init__(
        self, corpus: Callable[[], Sequence[Passage]], top_k: int, *, numpy: bool | None = None
    ) -> None:
        """`corpus` gives the passages, once; ids must differ. `numpy` None = by size."""
        self._corpus = corpus
        self._top_k = top_k
        self._numpy = numpy
        self._lock = threading.Lock()
        self._built: tuple[Sequence[Passage], Index] | None = None

    def prepare(self) -> tuple[Sequence[Passage], Index]:
        """Passages and index, built by the first call."""
        built = self._built
        if built is None:
            with self._lock:
                built = self._built = self._built or self._build()
        return built

    def search(self, queries: Sequence[str]) -> list[tuple[Passage, ...]]:
        """Return the best passages of each query; none for a query without a known word."""
        passages, index = self.prepare()
        return [
            tuple(passages[number] for number in index.search(query, self._top_k))
            for query in queries
        ]

    def close(self) -> None:
        """Forget the index."""
        self._built = None

    def _build(self) -> tuple[Sequence[Passage], Index]:
        passages = self._corpus()
        writer = IndexWriter()
        for passage in passages:
            writer.add(passage.id, as_contents(passage))
        return passages, writer.finish(numpy=self._numpy)
