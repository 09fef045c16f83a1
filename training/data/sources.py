"""Sources of training sequences: run stores, Parquet exports and AgentTraj files.

Owns which records of a source are used and with what weight, and the one rule about tokens: where a
policy recorded token ids they are used as they are, with their mask and logprobs; only text that
nobody sampled in tokens here is tokenized. Records stream through one at a time. Records that
cannot be used are not dropped silently: each one is handed to `on_skipped` with a reason.

Knows no model weights and no training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from agent_runtime.conversation import Message, Role
from agent_runtime.ledger import Origin
from agent_runtime.rendering import TemplateRenderer
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import ExtraMissing
from orchestrator.records import EpisodeSummary
from orchestrator.run_folder import find_run
from orchestrator.store import RunReader
from training.data.conversations import environment_name, is_conversation_file, read_conversations
from training.data.selection import read_selection
from training.data.sequences import Provenance, TokenSequence, make_sequence, whole
from training.data.tokenize import CannotTokenize, tokenize
from training.errors import DataError, TokenizerMismatch

__all__ = ["OnSkipped", "SourceConfig", "episode_sequences", "read_source", "read_texts"]

OnSkipped = Callable[[str, str, int], None]
"""Takes the name of what is left out, why, and its length in tokens (0 = unknown)."""
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
class _Gate:
    """Decides record by record; `Provenance` carries all that it looks at."""

    config: SourceConfig
    taken: Counter[str] = field(default_factory=Counter[str])
    seen: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def admits(self, it: Provenance) -> bool:
        config = self.config
        threshold = config.thresholds.get(it.environment)
        if (
            (config.environments and it.environment not in config.environments)
            or (config.policies and it.policy not in config.policies)
            or (config.only_success and it.success is not True)
            or (config.min_reward is not None and not _at_least(it.reward, config.min_reward))
            or (threshold is not None and (it.reward is None or it.reward <= threshold))
        ):
            return False
        if config.one_per_item and (it.environment, it.item_id) in self.seen:
            return False
        return not config.limit or self.taken[it.environment] < config.limit

    def count(self, it: Provenance) -> None:
        self.taken[it.environment] += 1
        self.seen.add((it.environment, it.item_id))

    def weight(self, it: Provenance) -> float:
        if not self.config.weight_by_reward:
            return self.config.weight
        scale = self.config.reward_scale.get(it.environment, 1.0)
        return self.config.weight * max(it.reward or 0.0, 0.0) / scale


def _at_least(value: float | None, bound: float) -> bool:
    return value is not None and value >= bound


def read_source(
    config: SourceConfig,
    renderer: TemplateRenderer,
    *,
    on_skipped: OnSkipped,
    runs: Path = Path("runs"),
) -> Iterator[list[TokenSequence]]:
    """The sequences of each accepted record, record by record, in the source's order.

    A record gives one sequence per ledger segment that has targets. Raises DataError,
    TokenizerMismatch, ExtraMissing, or the store's errors.
    """
    kind, path = _resolve(config, runs)
    gate = _Gate(config)
    if kind == "run":
        records = _from_run(path, config, renderer, gate, on_skipped)
    elif kind == "parquet":
        records = _from_parquet(path, config, renderer, gate, on_skipped)
    else:
        records = _from_conversations(path, config, renderer, gate, on_skipped)
    for sequences in records:
        if sequences:
            gate.count(sequences[0].origin)
            yield [whole(it) for it in sequences] if config.targets == "all" else sequences


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
        if path.is_dir() and any(is_conversation_file(it) for it in _files(path)):
            if not (path / "manifest.json").exists():
                return "agenttraj", path
        elif path.is_file():
            raise DataError(
                f"{path} is neither Parquet nor JSON; set kind", field="data.sources.path"
            )
    return "run", find_run(config.path, runs)


def _files(folder: Path) -> list[Path]:
    return sorted(it for it in folder.iterdir() if it.is_file() and is_conversation_file(it))


def _from_run(
    folder: Path,
    config: SourceConfig,
    renderer: TemplateRenderer,
    gate: _Gate,
    on_skipped: OnSkipped,
) -> Iterator[list[TokenSequence]]:
    source = str(folder)
    if config.selection:
        yield from _selected(folder, config, renderer, on_skipped)
        return
    with RunReader.open(folder) as run:

        def accept(summary: EpisodeSummary) -> bool:
            return not summary.failed and gate.admits(_of_summary(source, summary))

        for episode in run.episodes(accept):
            origin = _of_episode(source, episode)
            if gate.admits(origin):  # again: an earlier record of the same page may have counted
                yield episode_sequences(
                    episode, renderer, origin, gate.weight(origin), config.tokens, on_skipped
                )


def _selected(
    folder: Path, config: SourceConfig, renderer: TemplateRenderer, on_skipped: OnSkipped
) -> Iterator[list[TokenSequence]]:
    """The records that a selection names; their order is the file's, not that of playing."""
    with RunReader.open(folder) as run:
        for number, row in enumerate(read_selection(Path(config.selection))):
            episode = run.get(row.key)
            if episode is None or episode.HasField("error"):
                raise DataError(
                    f"{config.selection}, line {number + 1}: {folder} has no finished record of "
                    f"{row.key}",
                    field="data.sources.selection",
                )
            origin = _of_episode(str(folder), episode)
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
    """The sequences of one episode record; raises TokenizerMismatch."""
    place = origin or _of_episode("", episode)
    messages = [Message(Role(it.role), it.text, it.sampled) for it in episode.messages]
    if not episode.token_segments or tokens == "text":
        return _tokenised(messages, renderer, place, weight, on_skipped)
    segments = [
        _Recorded(
            ids=np.array(it.ids, np.uint32),
            mask=np.array(it.origins, np.uint8) == int(Origin.SAMPLED),
            logprobs=np.array(it.logprobs, np.float32),
            generations=np.array(it.generations, np.uint32),
            version=it.policy_versions[it.version_spans[-1].version] if it.version_spans else "",
        )
        for it in episode.token_segments
    ]
    return _recorded(segments, messages, renderer, place, weight)


def _of_summary(source: str, it: EpisodeSummary) -> Provenance:
    return Provenance(
        source=source,
        name=it.episode_id,
        environment=it.environment,
        item_id=it.item_id,
        sample=it.sample,
        policy=it.policy,
        reward=it.reward,
        score=it.score,
        success=it.success,
    )


def _of_episode(source: str, it: episode_pb2.Episode) -> Provenance:
    return Provenance(
        source=source,
        name=it.episode_id,
        environment=it.environment,
        item_id=it.item_id,
        sample=it.sample,
        policy=it.policy,
        reward=it.reward if it.HasField("reward") else None,
        score=it.score if it.HasField("score") else None,
        success=it.success if it.HasField("success") else None,
    )


def _tokenised(
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
class _Recorded:
    """A ledger segment as arrays, whichever file it came from."""

    ids: Any
    mask: Any
    logprobs: Any
    generations: Any
    version: str


def _recorded(
    segments: Iterable[_Recorded],
    messages: Sequence[Message],
    renderer: TemplateRenderer,
    origin: Provenance,
    weight: float,
) -> list[TokenSequence]:
    """Sequences of recorded segments, ids untouched."""
    replies = [it.text for it in messages if it.sampled]
    made: list[TokenSequence] = []
    for number, segment in enumerate(segments):
        _check_tokenizer(segment, replies, renderer, origin)
        values = {**origin.to_plain(), "segment": number, "policy_version": segment.version}
        sequence = make_sequence(
            segment.ids, segment.mask, segment.logprobs, Provenance(**values), weight
        )
        if sequence is not None:
            made.append(sequence)
    return made


def _check_tokenizer(
    segment: _Recorded, replies: Sequence[str], renderer: TemplateRenderer, origin: Provenance
) -> None:
    """The segment's first reply must decode to its recorded text, up to where a stop cut it."""
    first = int(segment.generations.max(initial=0)) and int(
        segment.generations[segment.generations > 0][0]
    )
    if not first or first > len(replies):
        return
    ids = [int(it) for it in segment.ids[segment.generations == first]]
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


def _from_parquet(
    path: Path,
    config: SourceConfig,
    renderer: TemplateRenderer,
    gate: _Gate,
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
                origin = _of_row(str(path), row)
                if row["error"] is None and gate.admits(origin):
                    yield _row_sequences(
                        row, config, renderer, origin, gate.weight(origin), on_skipped
                    )
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} is no episode export: {error}", field="data.sources") from error


def _of_row(source: str, row: dict[str, Any]) -> Provenance:
    names = ("environment", "item_id", "sample", "policy", "reward", "score", "success")
    return Provenance(source=source, name=row["episode_id"], **{it: row[it] for it in names})


def _row_sequences(
    row: dict[str, Any],
    config: SourceConfig,
    renderer: TemplateRenderer,
    origin: Provenance,
    weight: float,
    on_skipped: OnSkipped,
) -> list[TokenSequence]:
    messages = [Message(_ROLES[it["role"]], it["text"], it["sampled"]) for it in row["messages"]]
    if not row["token_segments"] or config.tokens == "text":
        return _tokenised(messages, renderer, origin, weight, on_skipped)
    segments = [
        _Recorded(
            ids=np.array(it["ids"], np.uint32),
            mask=np.array(it["mask"], np.bool_),
            logprobs=np.array(it["logprobs"], np.float32),
            generations=np.array(it["generations"], np.uint32),
            version=(
                it["policy_versions"][it["version_spans"][-1]["version"]]
                if it["version_spans"]
                else ""
            ),
        )
        for it in row["token_segments"]
    ]
    return _recorded(segments, messages, renderer, origin, weight)


def _from_conversations(
    path: Path,
    config: SourceConfig,
    renderer: TemplateRenderer,
    gate: _Gate,
    on_skipped: OnSkipped,
) -> Iterator[list[TokenSequence]]:
    for file in _files(path) if path.is_dir() else [path]:
        entries = read_conversations(file, train_acknowledgement=config.train_acknowledgement)
        for entry in entries:
            origin = Provenance(
                source=str(file),
                name=f"{entry.item_id or file.name}#{entry.number}",
                environment=environment_name(entry.item_id),
                item_id=entry.item_id,
                reward=entry.reward,
                success=entry.success,
            )
            if gate.admits(origin):
                weight = gate.weight(origin)
                yield _tokenised(entry.messages, renderer, origin, weight, on_skipped)


def read_texts(config: SourceConfig, *, runs: Path = Path("runs")) -> Iterator[str]:
    """All messages of a source's accepted records, for training a tokenizer."""
    kind, path = _resolve(config, runs)
    gate = _Gate(config)
    if kind == "run":
        with RunReader.open(path) as run:
            if config.selection:
                rows = read_selection(Path(config.selection))
                found = (run.get(row.key) for row in rows)
                for episode in (it for it in found if it is not None):
                    yield from (message.text for message in episode.messages)
                return
            for episode in run.episodes(
                lambda it: not it.failed and gate.admits(_of_summary(str(path), it))
            ):
                yield from (message.text for message in episode.messages)
    elif kind == "agenttraj":
        for file in _files(path) if path.is_dir() else [path]:
            for entry in read_conversations(file):
                yield from (message.text for message in entry.messages)
    else:
        raise DataError(
            "a tokenizer is trained on run folders or AgentTraj files", field="data.sources"
        )
