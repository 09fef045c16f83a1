"""Full-text retrieval that environments share: BM25 as Lucene computes it, in pure Python."""

from env_servers.toolkit.retrieval.bm25 import Index, IndexWriter

__all__ = ["Index", "IndexWriter"]
