"""Sources of training sequences: run stores, Parquet exports and AgentTraj files.

Says which records of a source are used and with what weight. Where a policy recorded token ids they
are used as they are, with their mask and logprobs; only text that nobody sampled in tokens here is
tokenized. Records stream through one at a time; one that cannot be used is handed to `on_skipped`
with a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from agent_runtime.conversation import Message, Role
from agent_runtime.ledger import Origin
from agent_runtime.rendering import TemplateRenderer
from agentgym.episode.v1 import episode_pb2
from orchestrator.conversations import (
    Conversation,
    environment_name,
    is_conversation_file,
    read_conversations,
)
from orchestrator.errors import EntryUnreadable, ExtraMissing
from orchestrator.object_storage import locate_run
from orchestrator.records import EpisodeSummary
from orchestrator.store import RunReader
from training.data.contents import record_content
from training.data.selection import read_selection
from training.data.sequences import Provenance, TokenSequence, make_sequence, train_on_all
from training.data.tokenize import CannotTokenize, tokenize
from training.errors import DataError, ImagesNotLearned, TokenizerMismatch

__all__ = ["OnSkipped", "SourceConfig", "episode_sequences", "read_source", "read_texts"]

OnSkipped = Callable[[str, str, int], None]
"""Takes the name of what is not used, why, and its length in tokens (0 = unknown)."""
_ROLES = {"system": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
_PARQUET_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """One source and which of its records to use; all conditions must hold."""

    path: str
    """A run folder (or its name in `runs/`), a Parquet export, an AgentTraj file, or a folder of
    AgentTraj files."""
    kind: Literal["auto", "run", "parquet", "agenttraj"] = "auto"
    environments: tuple[str, ...] = ()
    """Empty = all."""
    policies: tuple[str, ...] = ()
    """Empty = all."""
    only_success: bool = False
    min_reward: float | None = None
    """Least reward, itself included."""
    thresholds: dict[str, float] = field(default_factory=dict[str, float])
    """Environment -> the reward that must be exceeded, as AgentEvol's filter."""
    one_per_item: bool = False
    """Of several accepted records of an item only the first."""
    limit: int = 0
    """Most records per environment; 0 = no limit."""
    selection: str = ""
    """Runs: a file of JSON lines with environment, item_id, sample, policy and weight. Only these
    records are used, in this order, each with its weight (times `weight`)."""
    weight: float = 1.0
    """Factor of the loss of every target of this source."""
    weight_by_reward: bool = False
    """Multiply the weight by the record's reward, as in the paper's objective."""
    reward_scale: dict[str, float] = field(default_factory=dict[str, float])
    """Environment -> the reward that counts as 1 in `weight_by_reward`; default 1."""
    tokens: Literal["recorded", "text"] = "recorded"
    """recorded: token ids as they were sampled; text: tokenize the conversation anew, for a model
    with another tokenizer than the policy that played."""
    targets: Literal["replies", "all"] = "replies"
    """all: every token is learned, what the environment says, too: pretraining, not imitation."""
    train_acknowledgement: bool = False
    """AgentTraj: train on every reply whatever its `loss` says, as the original's trainer does."""

    def __post_init__(self) -> None:
        if self.weight < 0 or self.limit < 0:
            raise ValueError("weight and limit are at least 0")


@dataclass(slots=True)
class _RecordFilter:
    """Decides record by record, by what its `Provenance` says."""

    config: SourceConfig
    taken: Counter[str] = field(default_factory=Counter[str])
    seen: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def accepts(self, record: Provenance) -> bool:
        config, reward = self.config, record.reward
        threshold = config.thresholds.get(record.environment)
        if (
            (config.environments and record.environment not in config.environments)
            or (config.policies and record.policy not in config.policies)
            or (config.only_success and record.success is not True)
            or (config.min_reward is not None and not _at_least(reward, config.min_reward))
            or (threshold is not None and (reward is None or reward <= threshold))
        ):
            return False
        if config.one_per_item and (record.environment, record.item_id) in self.seen:
            return False
        return not config.limit or self.taken[record.environment] < config.limit

    def count(self, record: Provenance) -> None:
        self.taken[record.environment] += 1
        self.seen.add((record.environment, record.item_id))

    def weight(self, record: Provenance) -> float:
        if not self.config.weight_by_reward:
            return self.config.weight
        scale = self.config.reward_scale.get(record.environment, 1.0)
        return self.config.weight * max(record.reward or 0.0, 0.0) / scale


def _at_least(value: float | None, bound: float) -> bool:
    return value is not None and value >= bound


def read_source(
    config: SourceConfig,
    renderer: TemplateRenderer,
    *,
    on_skipped: OnSkipped,
    runs: Path = Path("runs"),
) -> Iterator[list[TokenSequence]]:
    """Yield the sequences of each accepted record, record by record, in the source's order.

    A record gives one sequence per ledger segment that has targets.

    Args:
        config: The source, and which of its records are used.
        renderer: Chat template and tokenizer of the model to train.
        on_skipped: Called for each record that cannot be used.
        runs: Where runs are looked up by name.

    Raises:
        DataError: The source cannot be read.
        TokenizerMismatch: It was recorded with another tokenizer.
        ExtraMissing: Reading Parquet needs an extra that is not installed.
    """
    kind, path = _resolve(config, runs)
    record_filter = _RecordFilter(config)
    if kind == "run":
        records = _read_run(path, config, renderer, record_filter, on_skipped)
    elif kind == "parquet":
        records = _read_parquet(path, config, renderer, record_filter, on_skipped)
    else:
        records = _read_agenttraj(path, config, renderer, record_filter, on_skipped)
    for sequences in records:
        if sequences:
            record_filter.count(sequences[0].origin)
            if config.targets == "all":
                sequences = [train_on_all(sequence) for sequence in sequences]
            yield sequences


def _resolve(config: SourceConfig, runs: Path) -> tuple[str, Path]:
    path = Path(config.path)
    if config.kind in ("parquet", "agenttraj"):
        if not path.exists():
            raise DataError(f"there is no {path}", field="data.sources.path")
        return config.kind, path
    if config.kind == "auto":
        if path.is_file() and path.suffix == ".parquet":
            return "parquet", path
        if path.is_file() and is_conversation_file(path):
            return "agenttraj", path
        if path.is_dir() and _conversation_files(path):
            if not (path / "manifest.json").exists():
                return "agenttraj", path
        elif path.is_file():
            raise DataError(
                f"{path} is neither Parquet nor JSON; set kind", field="data.sources.path"
            )
    return "run", locate_run(config.path, runs)


def _conversation_files(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.iterdir() if path.is_file() and is_conversation_file(path)
    )


def _read_run(
    folder: Path,
    config: SourceConfig,
    renderer: TemplateRenderer,
    record_filter: _RecordFilter,
    on_skipped: OnSkipped,
) -> Iterator[list[TokenSequence]]:
    source = str(folder)
    if config.selection:
        yield from _read_selected(folder, config, renderer, on_skipped)
        return
    with RunReader.open(folder) as run:

        def accept(summary: EpisodeSummary) -> bool:
            return not summary.failed and record_filter.accepts(
                _summary_provenance(source, summary)
            )

        for episode in run.episodes(accept):
            origin = _episode_provenance(source, episode)
            # Asked again: an earlier record of the same page may have filled the limit since.
            if record_filter.accepts(origin):
                yield episode_sequences(
                    episode,
                    renderer,
                    origin,
                    record_filter.weight(origin),
                    config.tokens,
                    on_skipped,
                )


def _read_selected(
    folder: Path, config: SourceConfig, renderer: TemplateRenderer, on_skipped: OnSkipped
) -> Iterator[list[TokenSequence]]:
    """Yield the records that a selection names, in the order of the file, not of playing."""
    with RunReader.open(folder) as run:
        for number, row in enumerate(read_selection(Path(config.selection))):
            episode = run.get(row.key)
            if episode is None or episode.HasField("error"):
                raise DataError(
                    f"{config.selection}, line {number + 1}: {folder} has no finished record of "
                    f"{row.key}",
                    field="data.sources.selection",
                )
            origin = _episode_provenance(str(folder), episode)
            weight = config.weight * row.weight
            yield episode_sequences(episode, renderer, origin, weight, config.tokens, on_skipped)


def episode_sequences(
    episode: episode_pb2.Episode,
    renderer: TemplateRenderer,
    origin: Provenance | None = None,
    weight: float = 1.0,
    tokens: Literal["recorded", "text"] = "recorded",
    on_skipped: OnSkipped | None = None,
) -> list[TokenSequence]:
    """Return the sequences of one episode record.

    Raises TokenizerMismatch, and ImagesNotLearned for an episode with images.
    """
    origin = origin or _episode_provenance("", episode)
    if episode.images:
        raise ImagesNotLearned(origin.name, origin.source)
    messages = [
        Message(Role(message.role), message.text, message.sampled) for message in episode.messages
    ]
    if not episode.token_segments or tokens == "text":
        return _tokenized_sequences(messages, renderer, origin, weight, on_skipped)
    segments = [
        _RecordedSegment(
            ids=np.array(segment.ids, np.uint32),
            mask=np.array(segment.origins, np.uint8) == int(Origin.SAMPLED),
            logprobs=np.array(segment.logprobs, np.float32),
            generations=np.array(segment.generations, np.uint32),
            version=(
                segment.policy_versions[segment.version_spans[-1].version]
                if segment.version_spans
                else ""
            ),
        )
        for segment in episode.token_segments
    ]
    return _recorded_sequences(segments, messages, renderer, origin, weight)


def _summary_provenance(source: str, summary: EpisodeSummary) -> Provenance:
    return Provenance(
        source=source,
        name=summary.episode_id,
        environment=summary.environment,
        item_id=summary.item_id,
        sample=summary.sample,
        policy=summary.policy,
        reward=summary.reward,
        score=summary.score,
        success=summary.success,
    )


def _episode_provenance(source: str, episode: episode_pb2.Episode) -> Provenance:
    return Provenance(
        source=source,
        name=episode.episode_id,
        environment=episode.environment,
        item_id=episode.item_id,
        sample=episode.sample,
        policy=episode.policy,
        reward=episode.reward if episode.HasField("reward") else None,
        score=episode.score if episode.HasField("score") else None,
        success=episode.success if episode.HasField("success") else None,
        content=record_content(episode),
    )


def _tokenized_sequences(
    messages: Sequence[Message],
    renderer: TemplateRenderer,
    origin: Provenance,
    weight: float,
    on_skipped: OnSkipped | None,
) -> list[TokenSequence]:
    try:
        return tokenize(messages, renderer, origin, weight)
    except CannotTokenize as error:
        if on_skipped is None:
            raise DataError(f"{origin.name}: {error}", field="data.sources") from error
        on_skipped(origin.name, str(error), 0)
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedSegment:
    """A ledger segment as arrays, whichever file it came from."""

    ids: Any
    mask: Any
    logprobs: Any
    generations: Any
    version: str


def _recorded_sequences(
    segments: Iterable[_RecordedSegment],
    messages: Sequence[Message],
    renderer: TemplateRenderer,
    origin: Provenance,
    weight: float,
) -> list[TokenSequence]:
    """Return the sequences of recorded segments, ids untouched."""
    replies = [message.text for message in messages if message.sampled]
    sequences: list[TokenSequence] = []
    for number, segment in enumerate(segments):
        _check_tokenizer(segment, replies, renderer, origin)
        segment_origin = replace(origin, segment=number, policy_version=segment.version)
        sequence = make_sequence(
            segment.ids, segment.mask, segment.logprobs, segment_origin, weight
        )
        if sequence is not None:
            sequences.append(sequence)
    return sequences


def _check_tokenizer(
    segment: _RecordedSegment,
    replies: Sequence[str],
    renderer: TemplateRenderer,
    origin: Provenance,
) -> None:
    """Raise unless the segment's first reply decodes to its recorded text, up to a stop's cut."""
    first = int(segment.generations.max(initial=0)) and int(
        segment.generations[segment.generations > 0][0]
    )
    if not first or first > len(replies):
        return
    ids = [int(token) for token in segment.ids[segment.generations == first]]
    try:
        decoded = "".join(renderer.decode(ids).split())
    except (OverflowError, ValueError, IndexError):
        decoded = ""
    text = "".join(replies[first - 1].split())
    if not decoded.startswith(text):
        raise TokenizerMismatch(
            f"the recorded ids of episode {origin.name} ({origin.source}) do not decode to its "
            "reply: it was played by a model with another tokenizer. Choose that model in "
            '`model.path`, or set `tokens = "text"` for this source to tokenize its text anew',
            field="model.path",
        )


def _read_parquet(
    path: Path,
    config: SourceConfig,
    renderer: TemplateRenderer,
    record_filter: _RecordFilter,
    on_skipped: OnSkipped,
) -> Iterator[list[TokenSequence]]:
    try:
        import pyarrow.parquet as parquet  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise ExtraMissing("reading Parquet", extra="parquet") from None
    columns = ["episode_id", "environment", "item_id", "sample", "policy", "reward", "score"]
    columns += ["success", "error", "messages", "token_segments"]
    try:
        file: Any = parquet.ParquetFile(path)
        batches: Any = file.iter_batches(batch_size=_PARQUET_ROWS, columns=columns)
        for batch in batches:
            for row in batch.to_pylist():
                origin = _row_provenance(str(path), row)
                if row["error"] is None and record_filter.accepts(origin):
                    yield _row_sequences(
                        row, config, renderer, origin, record_filter.weight(origin), on_skipped
                    )
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} is no episode export: {error}", field="data.sources") from error


def _row_provenance(source: str, row: dict[str, Any]) -> Provenance:
    names = ("environment", "item_id", "sample", "policy", "reward", "score", "success")
    return Provenance(source=source, name=row["episode_id"], **{name: row[name] for name in names})


def _row_sequences(
    row: dict[str, Any],
    config: SourceConfig,
    renderer: TemplateRenderer,
    origin: Provenance,
    weight: float,
    on_skipped: OnSkipped,
) -> list[TokenSequence]:
    # Files of earlier versions have no such column.
    if any(message.get("images") for message in row["messages"]):
        raise ImagesNotLearned(origin.name, origin.source)
    messages = [
        Message(_ROLES[message["role"]], message["text"], message["sampled"])
        for message in row["messages"]
    ]
    if not row["token_segments"] or config.tokens == "text":
        return _tokenized_sequences(messages, renderer, origin, weight, on_skipped)
    segments = [
        _RecordedSegment(
            ids=np.array(segment["ids"], np.uint32),
            mask=np.array(segment["mask"], np.bool_),
            logprobs=np.array(segment["logprobs"], np.float32),
            generations=np.array(segment["generations"], np.uint32),
            version=(
                segment["policy_versions"][segment["version_spans"][-1]["version"]]
                if segment["version_spans"]
                else ""
            ),
        )
        for segment in row["token_segments"]
    ]
    return _recorded_sequences(segments, messages, renderer, origin, weight)


def _read_agenttraj(
    path: Path,
    config: SourceConfig,
    renderer: TemplateRenderer,
    record_filter: _RecordFilter,
    on_skipped: OnSkipped,
) -> Iterator[list[TokenSequence]]:
    for file in _conversation_files(path) if path.is_dir() else [path]:
        for entry in _conversations(file, config):
            origin = Provenance(
                source=str(file),
                name=f"{entry.item_id or file.name}#{entry.number}",
                environment=environment_name(entry.item_id),
                item_id=entry.item_id,
                reward=entry.reward,
                success=entry.success,
            )
            if record_filter.accepts(origin):
                weight = record_filter.weight(origin)
                yield _tokenized_sequences(entry.messages, renderer, origin, weight, on_skipped)


def _conversations(file: Path, config: SourceConfig) -> Iterator[Conversation]:
    """Yield the conversations of a source's file; raises DataError."""
    try:
        yield from read_conversations(file, train_acknowledgement=config.train_acknowledgement)
    except EntryUnreadable as error:
        raise DataError(str(error), field="data.sources") from error


def read_texts(config: SourceConfig, *, runs: Path = Path("runs")) -> Iterator[str]:
    """Yield all messages of a source's accepted records, for training a tokenizer."""
    kind, path = _resolve(config, runs)
    record_filter = _RecordFilter(config)
    if kind == "run":
        with RunReader.open(path) as run:
            if config.selection:
                rows = read_selection(Path(config.selection))
                episodes = (run.get(row.key) for row in rows)
                for episode in filter(None, episodes):
                    yield from (message.text for message in episode.messages)
                return
            for episode in run.episodes(
                lambda summary: (
                    not summary.failed
                    and record_filter.accepts(_summary_provenance(str(path), summary))
                )
            ):
                yield from (message.text for message in episode.messages)
    elif kind == "agenttraj":
        for file in _conversation_files(path) if path.is_dir() else [path]:
            for entry in _conversations(file, config):
                yield from (message.text for message in entry.messages)
    else:
        raise DataError(
            "a tokenizer is trained on run folders or AgentTraj files", field="data.sources"
        )
