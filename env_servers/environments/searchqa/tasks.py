"""SearchQA's tasks: which question an item id stands for, and who finds passages for it.

Contains item ids, splits, the two sources with their retrievers, and the settings that choose them.
An item id means the same question wherever the same data lies.

Official ids are AgentGym's indexes: `<dataset>_<index>` as AgentEval lists them, `searchqa_<index>`
is accepted as well. Questions of HotpotQA files that AgentGym never numbered follow from
`HOTPOT_BASE` on as `searchqa_<index>`.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from env_servers.environments.searchqa.batching import SearchQueue
from env_servers.environments.searchqa.embedded import EmbeddedSource, load_embedded
from env_servers.environments.searchqa.official import (
    DATASETS,
    FOLDER,
    HELP,
    PUBLISHED,
    find_corpus,
    hotpot_files,
    hotpot_passages,
    hotpot_questions,
    read_corpus,
    read_questions,
)
from env_servers.environments.searchqa.questions import Question
from env_servers.environments.searchqa.ranking import RankedCorpus
from env_servers.environments.searchqa.remote import RemoteRetriever
from env_servers.sdk import (
    EMBEDDED_BASE,
    EnvironmentConfig,
    EnvironmentUnavailable,
    InvalidOption,
    Task,
    TaskSet,
    UnknownItem,
    UnknownSplit,
    item_index,
)

__all__ = ["EMBEDDED", "EVAL_BASE", "OFFICIAL", "Assignment", "SearchQATasks", "load_tasks"]

EMBEDDED: Final = "embedded"
OFFICIAL: Final = "official"
EVAL_BASE: Final = EMBEDDED_BASE + 500_000
"""First index of the embedded eval split."""
HOTPOT_BASE: Final = 300_000
"""First index of questions from HotpotQA files, above AgentGym's indexes."""
EVAL_IDS: Final = Path("agenteval", "searchqa_test.json")
"""AgentEval's item ids, in the folder of official data."""
TOP_K: Final = 3
"""Passages of a search; the original always shows three."""
_NAME: Final = "searchqa"
_BUILT_IN: Final = "bm25"
_DIGEST_BYTES: Final = 1 << 24
_KEPT: Final = 1024
"""Questions that were made; groups of episodes play the same one, and a run its tasks again."""
_REMOTE_BATCH: Final = 256
_REMOTE_PARALLEL: Final = 4


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a task asks, and which source answers its searches."""

    source: str
    """EMBEDDED or OFFICIAL."""
    question: Question


@dataclass(frozen=True, slots=True)
class _Block:
    """Consecutive item indexes of one question set."""

    start: int
    prefix: str
    train: bool
    questions: Sequence[Question]


class SearchQATasks(TaskSet):
    """All tasks, with one queue in front of each source's retriever."""

    def __init__(
        self,
        blocks: Sequence[_Block],
        held_out: frozenset[int],
        queues: Mapping[str, SearchQueue],
        official_digest: bytes,
    ) -> None:
        """`held_out` are AgentEval's indexes; without any, all test questions are held out."""
        self._blocks = sorted(blocks, key=lambda block: block.start)
        self._starts = [block.start for block in self._blocks]
        self._queues = dict(queues)
        self._official = self._divide(held_out)
        self._official_digest = official_digest

    @property
    def _embedded(self) -> EmbeddedSource:
        return load_embedded()

    def prepare(self) -> None:
        _ = self._embedded.digest

    def queue(self, source: str) -> SearchQueue:
        """Return the way to the passages of a source."""
        return self._queues[source]

    def splits(self) -> Mapping[str, int]:
        own = {split: len(subjects) for split, subjects in self._embedded.subjects.items()}
        return own | {split: len(ids) for split, ids in self._official.items()}

    def item_ids(self, split: str, start: int, stop: int) -> Sequence[str]:
        if split in self._embedded.subjects:
            indexes = range(len(self._embedded.subjects[split]))[start:stop]
            return [f"{_NAME}_{_base(split) + index}" for index in indexes]
        if split not in self._official:
            raise UnknownSplit(f"unknown split {split[:100]!r}", valid=self.splits())
        indexes = self._official[split][start:stop]
        return [f"{self._block(index).prefix}_{index}" for index in indexes]

    def get(self, item_id: str) -> Task:
        index = item_index(item_id, names=(_NAME, *DATASETS))
        if index >= EMBEDDED_BASE:
            return self._embedded_task(item_id, index)
        if not self._blocks or index < self._starts[0]:
            raise self._unknown(item_id)
        block = self._block(index)
        offset = index - block.start
        if offset >= len(block.questions):
            raise self._unknown(item_id)
        named = item_id.rpartition("_")[0]
        if named not in ("", _NAME, block.prefix):
            raise UnknownItem(f"unknown item {item_id!r}", valid=f"{block.prefix}_{index}")
        question = block.questions[offset]
        return Task(f"{block.prefix}_{index}", Assignment(OFFICIAL, question), question.category)

    def digest(self) -> bytes:
        content = super().digest() + self._embedded.digest + self._official_digest
        return hashlib.blake2b(content, digest_size=8).digest()

    def close(self) -> None:
        for queue in self._queues.values():
            queue.close()

    def _embedded_task(self, item_id: str, index: int) -> Task:
        split = "train" if index < EVAL_BASE else "eval"
        offset = index - _base(split)
        if offset >= len(self._embedded.subjects[split]):
            raise self._unknown(item_id)
        if item_id.rpartition("_")[0] not in ("", _NAME):
            raise UnknownItem(f"unknown item {item_id!r}", valid=f"{_NAME}_{index}")
        question = _embedded_question(split, offset)
        return Task(f"{_NAME}_{index}", Assignment(EMBEDDED, question), question.category)

    def _block(self, index: int) -> _Block:
        return self._blocks[bisect_right(self._starts, index) - 1]

    def _divide(self, held_out: frozenset[int]) -> dict[str, list[int]]:
        splits: dict[str, list[int]] = {
            "official_train": [],
            "official_eval": [],
            "official_test": [],
        }
        for block in self._blocks:
            for index in range(block.start, block.start + len(block.questions)):
                is_eval = index in held_out if held_out else not block.train
                rest = "official_train" if block.train else "official_test"
                splits["official_eval" if is_eval else rest].append(index)
        return {name: indexes for name, indexes in splits.items() if indexes}

    def _unknown(self, item_id: str) -> UnknownItem:
        spans = [(EMBEDDED_BASE, len(self._embedded.subjects["train"]))]
        spans.append((EVAL_BASE, len(self._embedded.subjects["eval"])))
        spans += [(block.start, len(block.questions)) for block in self._blocks]
        valid = [f"{start}..{start + size - 1}" for start, size in spans]
        return UnknownItem(f"unknown item {item_id[:100]!r}", valid=valid)


@lru_cache(maxsize=_KEPT)
def _embedded_question(split: str, index: int) -> Question:
    return load_embedded().question(split, index)


def _base(split: str) -> int:
    return EMBEDDED_BASE if split == "train" else EVAL_BASE


# ---------------------------------------------------------------------- settings


@dataclass(frozen=True, slots=True)
class _Settings:
    """`searchqa.*` of a server's settings."""

    retriever: str
    """`bm25`, or the URL of a retrieval server for official questions."""
    embedded_retriever: str
    """The same for embedded questions."""
    top_k: int
    timeout: float
    """Seconds for one exchange with a retrieval server."""


_KNOWN: Final = tuple(
    f"{_NAME}.{name}" for name in ("retriever", "embedded_retriever", "top_k", "timeout")
)


def _settings(config: EnvironmentConfig) -> _Settings:
    settings = config.settings
    unknown = [name for name in settings if name.startswith(f"{_NAME}.") and name not in _KNOWN]
    if unknown:
        raise InvalidOption(f"unknown setting {unknown[0][:100]!r}", valid=_KNOWN)
    return _Settings(
        retriever=str(settings.get("searchqa.retriever", _BUILT_IN)),
        embedded_retriever=str(settings.get("searchqa.embedded_retriever", _BUILT_IN)),
        top_k=int(_number(settings, "searchqa.top_k", TOP_K, low=1, high=20)),
        timeout=_number(settings, "searchqa.timeout", 20.0, low=0.01, high=50.0),
    )


def _number(
    settings: Mapping[str, Any], name: str, default: float, *, low: float, high: float
) -> float:
    value = settings.get(name, default)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if isinstance(value, bool) or not low <= number <= high:
        raise InvalidOption(f"setting {name}={value!r:.100}", valid=f"a number, {low} to {high}")
    return number


def _queue(retriever: str, corpus: RankedCorpus | None, settings: _Settings) -> SearchQueue:
    if corpus is not None and retriever == _BUILT_IN:
        return SearchQueue(corpus)
    remote = RemoteRetriever(retriever, settings.top_k, timeout=settings.timeout)
    return SearchQueue(remote, batch=_REMOTE_BATCH, parallel=_REMOTE_PARALLEL)


# ---------------------------------------------------------------------- loading


def load_tasks(config: EnvironmentConfig) -> SearchQATasks:
    """Embedded tasks, and the official ones whose files are in `data_dir`.

    Settings: `searchqa.retriever` and `searchqa.embedded_retriever` = bm25 (default) or the URL of
    a retrieval server; `searchqa.top_k`; `searchqa.timeout` in seconds. Raises
    EnvironmentUnavailable for missing or damaged data, InvalidOption for settings.
    """
    settings = _settings(config)
    corpus = RankedCorpus(lambda: load_embedded().passages(), settings.top_k)
    queues = {EMBEDDED: _queue(settings.embedded_retriever, corpus, settings)}
    blocks: list[_Block] = []
    held_out: frozenset[int] = frozenset()
    digest = b""
    folder = config.data_dir / FOLDER if config.data_dir is not None else None
    if folder is not None and config.data_dir is not None and folder.is_dir():
        blocks, hotpot = _read_blocks(folder)
        queues[OFFICIAL] = _official_queue(folder, hotpot, settings)
        held_out = _agent_eval(config.data_dir / EVAL_IDS, blocks)
        digest = _folder_digest(folder)
    elif settings.retriever != _BUILT_IN:
        raise InvalidOption(
            "searchqa.retriever answers official questions, and there are none",
            valid="searchqa.embedded_retriever for the embedded ones",
        )
    return SearchQATasks(blocks, held_out, queues, digest)


def _read_blocks(folder: Path) -> tuple[list[_Block], list[Path]]:
    """Return the question sets of the folder, and those of its files that are HotpotQA's own."""
    blocks: list[_Block] = []
    for published in PUBLISHED:
        questions = read_questions(folder, published)
        if questions is not None:
            prefix = published.dataset
            blocks.append(_Block(published.start, prefix, published.train, questions))
    hotpot, start = hotpot_files(folder), HOTPOT_BASE
    for path in hotpot:
        questions = hotpot_questions(path)
        blocks.append(_Block(start, _NAME, "train" in path.stem, questions))
        start += len(questions)
    if not blocks:
        raise EnvironmentUnavailable(
            f"{folder} has no questions. Expected are files such as nq/test.jsonl or "
            f"hotpotqa_dev.json. {HELP}"
        )
    return blocks, hotpot


def _official_queue(folder: Path, hotpot: Sequence[Path], settings: _Settings) -> SearchQueue:
    """Passages are read and indexed at once, so that damage shows before the first episode."""
    if settings.retriever != _BUILT_IN:
        return _queue(settings.retriever, None, settings)
    path = find_corpus(folder)
    if path is None and not hotpot:
        raise EnvironmentUnavailable(
            f"{folder} has questions and no passages. Expected is wiki-18.jsonl or corpus.jsonl "
            f"(.gz as well), or --set searchqa.retriever=URL of a retrieval server. {HELP}"
        )
    read = partial(read_corpus, path) if path is not None else partial(hotpot_passages, hotpot)
    corpus = RankedCorpus(read, settings.top_k)
    corpus.prepare()
    return _queue(_BUILT_IN, corpus, settings)


def _agent_eval(path: Path, blocks: Sequence[_Block]) -> frozenset[int]:
    """AgentEval's indexes as far as their questions are there."""
    if not path.is_file():
        return frozenset()
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        indexes = {item_index(row["item_id"], names=(_NAME, *DATASETS)) for row in rows}
    except (OSError, ValueError, TypeError, KeyError, UnknownItem) as error:
        raise EnvironmentUnavailable(f"cannot read {path}: {error}") from error
    there = [range(block.start, block.start + len(block.questions)) for block in blocks]
    return frozenset(index for index in indexes if any(index in span for span in there))


def _folder_digest(folder: Path) -> bytes:
    """Of names, sizes and first megabytes of the folder's files."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(folder.rglob("*.json*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            digest.update(f"{name}\0{path.stat().st_size}\0".encode())
            with path.open("rb") as file:
                digest.update(file.read(_DIGEST_BYTES))
    return digest.digest()
