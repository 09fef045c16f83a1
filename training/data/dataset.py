"""Sequences on disk: written once as they stream by, then read at random without being in memory.

    ids.u32  mask.u8  logprobs.f32      parallel, one entry per token, sequences end to end
    index.npy                           per sequence: its offset, length, targets, weight, ...
    sequences.jsonl                     per sequence: its provenance, a note
    left_out.jsonl                      what is not here, by name, with the reason
    summary.json                        counts; written last, so a folder with it is complete

A conversation that does not fit the context is left out, counted and named, never cut. Equal
sources give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agent_runtime.rendering import TemplateRenderer
from training.data.contents import HeldOutContents
from training.data.sequences import Provenance, TokenSequence
from training.data.sources import SourceConfig, read_source
from training.errors import DataError, NothingToTrainOn, RecipeError, TokenizerMismatch

__all__ = [
    "DataConfig",
    "DatasetSummary",
    "DatasetWriter",
    "TokenDataset",
    "build_datasets",
    "is_held_out",
]

_SUMMARY: Final = "summary.json"
_INDEX: Final = np.dtype(
    [
        ("offset", "<i8"),
        ("length", "<i4"),
        ("targets", "<i4"),
        ("weight", "<f4"),
        ("has_logprobs", "<i4"),
        ("note", "<i8"),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    """What is trained on, and how it becomes batches."""

    sources: tuple[SourceConfig, ...] = ()
    """Where sequences come from."""
    held_out_sources: tuple[SourceConfig, ...] = ()
    """Where sequences for the held-out loss come from; in addition to `held_out`."""
    held_out: float = 0.0
    """Share of items (by a hash of their ids) that is kept out of training for the held-out
    loss."""
    held_out_contents: str = ""
    """A file of contents that must not be learned from (environment -> digest -> item id), as
    `training.contents` and AgentEvol write it; a record that begins so is refused. Empty = none."""
    context: int = 4096
    """Longest sequence in tokens; longer ones are left out, counted and named."""
    runs: Path = Path("runs")
    """Where runs are looked up by name."""
    template_date: str = ""
    """Date (YYYY-MM-DD) for chat templates that print one; empty = the day of the preparation."""

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise ValueError("held_out is at least 0 and below 1")
        if self.context < 2:
            raise ValueError("context is at least 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSummary:
    """What was taken and what was not."""

    records: int = 0
    sequences: int = 0
    tokens: int = 0
    targets: int = 0
    left_out: dict[str, int] = field(default_factory=dict[str, int])
    """Reason -> how many."""
    environments: dict[str, int] = field(default_factory=dict[str, int])
    """Environment -> sequences."""


class DatasetWriter:
    """Writes one dataset; `close` completes it. A folder that is there is replaced."""

    def __init__(self, folder: Path, *, context: int) -> None:
        self._folder = folder
        self._context = context
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._stack = ExitStack()
        names = ("ids.u32", "mask.u8", "logprobs.f32")
        self._arrays = [self._stack.enter_context((folder / name).open("wb")) for name in names]
        self._notes = self._open("sequences.jsonl")
        self._left = self._open("left_out.jsonl")
        self._rows: list[tuple[int, int, int, float, int, int]] = []
        self._offset = self._records = self._targets = self._noted = 0
        self._reasons: Counter[str] = Counter()
        self._environments: Counter[str] = Counter()

    def _open(self, name: str) -> Any:
        return self._stack.enter_context((self._folder / name).open("w", encoding="utf-8"))

    @property
    def sequences(self) -> int:
        """Number of sequences added so far."""
        return len(self._rows)

    def add_record(self, sequences: Iterable[TokenSequence]) -> int:
        """Add the sequences of one record but those that do not fit; returns how many."""
        self._records += 1
        return sum(self._add(sequence) for sequence in sequences)

    def _add(self, sequence: TokenSequence) -> bool:
        if len(sequence) > self._context:
            self.on_skipped(
                sequence.origin.name, f"longer than {self._context} tokens", len(sequence)
            )
            return False
        if sequence.weight <= 0:
            self.on_skipped(sequence.origin.name, "its weight is 0", len(sequence))
            return False
        logprobs = (
            np.full(len(sequence), np.nan) if sequence.logprobs is None else sequence.logprobs
        )
        columns = ((sequence.ids, "<u4"), (sequence.mask, "u1"), (logprobs, "<f4"))
        for file, (values, kind) in zip(self._arrays, columns, strict=True):
            file.write(values.astype(kind).tobytes())
        self._rows.append(
            (
                self._offset,
                len(sequence),
                sequence.targets,
                sequence.weight,
                int(sequence.logprobs is not None),
                self._noted,
            )
        )
        # ASCII, so that characters are bytes.
        self._noted += self._notes.write(json.dumps(sequence.origin.to_plain()) + "\n")
        self._offset += len(sequence)
        self._targets += sequence.targets
        self._environments[sequence.origin.environment] += 1
        return True

    def on_skipped(self, name: str, reason: str, tokens: int = 0) -> None:
        """Note a record that is not used, and why."""
        self._reasons[reason] += 1
        self._left.write(json.dumps({"name": name, "reason": reason, "tokens": tokens}) + "\n")

    def close(self) -> DatasetSummary:
        """Complete the folder."""
        self._stack.close()
        np.save(self._folder / "index.npy", np.array(self._rows, _INDEX), allow_pickle=False)
        summary = DatasetSummary(
            records=self._records,
            sequences=len(self._rows),
            tokens=self._offset,
            targets=self._targets,
            left_out=dict(self._reasons),
            environments=dict(sorted(self._environments.items())),
        )
        (self._folder / _SUMMARY).write_text(json.dumps(asdict(summary), indent=2) + "\n")
        return summary


class TokenDataset:
    """A written dataset for reading; arrays are mapped, not loaded."""

    def __init__(self, folder: Path) -> None:
        """Raises DataError where the folder is incomplete."""
        self.folder = folder
        try:
            self.summary = DatasetSummary(**json.loads((folder / _SUMMARY).read_text()))
            self._index: Any = np.load(folder / "index.npy", allow_pickle=False)
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{folder} is no complete dataset: {error}", field="data") from error
        self._ids = self._map("ids.u32", "<u4")
        self._mask = self._map("mask.u8", "u1")
        self._logprobs = self._map("logprobs.f32", "<f4")
        notes = folder / "sequences.jsonl"
        self._notes: Any = np.memmap(notes, "u1", "r") if len(self) else np.zeros(0, "u1")

    def _map(self, name: str, kind: str) -> Any:
        count, path = self.summary.tokens, self.folder / name
        if path.stat().st_size != count * np.dtype(kind).itemsize:
            raise DataError(f"{path} is damaged; prepare the data again", field="data")
        return np.memmap(path, kind, "r") if count else np.zeros(0, kind)

    @staticmethod
    def is_complete(folder: Path) -> bool:
        """Whether a finished dataset is there."""
        return (folder / _SUMMARY).is_file()

    def __len__(self) -> int:
        return len(self._index)

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each sequence, [sequences]."""
        return self._index["length"]

    @property
    def targets(self) -> NDArray[np.int32]:
        """Targets of each sequence, [sequences]."""
        return self._index["targets"]

    @property
    def weights(self) -> NDArray[np.float32]:
        """Weight of each sequence, [sequences]."""
        return self._index["weight"]

    @property
    def has_logprobs(self) -> bool:
        """Whether every sequence has sampled logprobs."""
        return bool(len(self)) and bool(self._index["has_logprobs"].all())

    def origin(self, number: int) -> Provenance:
        """Return where a sequence comes from."""
        begin = int(self._index["note"][number])
        last = number + 1 == len(self)
        end = len(self._notes) if last else int(self._index["note"][number + 1])
        return Provenance.from_plain(json.loads(self._notes[begin:end].tobytes()))

    def origins(self) -> Iterator[Provenance]:
        """Yield where each sequence comes from, in order."""
        return map(self.origin, range(len(self)))

    def __getitem__(self, number: int) -> TokenSequence:
        row = self._index[number]
        span = slice(int(row["offset"]), int(row["offset"]) + int(row["length"]))
        return TokenSequence(
            ids=np.array(self._ids[span]),
            mask=np.array(self._mask[span]).astype(np.bool_),
            logprobs=np.array(self._logprobs[span]) if row["has_logprobs"] else None,
            weight=float(row["weight"]),
            origin=self.origin(number),
        )

    def left_out(self) -> Iterator[dict[str, Any]]:
        """Yield name, reason and length of each record that is not here."""
        with (self.folder / "left_out.jsonl").open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def is_held_out(item: str, share: float) -> bool:
    """Tell whether an item belongs to the held-out share; depends on nothing but its id."""
    digest = hashlib.blake2b(item.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def build_datasets(
    data: DataConfig,
    renderer: TemplateRenderer,
    folder: Path,
    *,
    vocabulary: int,
    on_record: Callable[[int], None] | None = None,
) -> tuple[TokenDataset, TokenDataset | None]:
    """Write `folder/train` and, where anything is held out, `folder/held_out`.

    Args:
        data: Sources, and what of them is held out.
        renderer: Chat template and tokenizer of the model to train.
        folder: Gets the datasets.
        vocabulary: Ids of the model.
        on_record: Called with the number of records read so far.

    Raises:
        RecipeError: There is no source.
        TokenizerMismatch: The data has ids that the model does not have.
        NothingToTrainOn: No token is a target.
        Contaminated: A record begins in a state that is held out.
        DataError: A source cannot be read.
    """
    if not data.sources:
        raise RecipeError("names no source", field="data.sources")
    train = DatasetWriter(folder / "train", context=data.context)
    held_out = DatasetWriter(folder / "held_out", context=data.context)
    contents = HeldOutContents({})
    if data.held_out_contents:
        contents = HeldOutContents.read(Path(data.held_out_contents))
    done = 0
    for sources, fixed in ((data.sources, False), (data.held_out_sources, True)):
        for source in sources:
            for sequences in read_source(
                source, renderer, on_skipped=train.on_skipped, runs=data.runs
            ):
                _check_vocabulary(sequences, vocabulary)
                origin = sequences[0].origin
                item = origin.item_id or origin.name
                aside = fixed or is_held_out(item, data.held_out)
                if not aside:
                    contents.note(origin.environment, item, origin.name, origin.content)
                (held_out if aside else train).add_record(sequences)
                done += 1
                if on_record is not None:
                    on_record(done)
    contents.refuse()
    held_out_summary, summary = held_out.close(), train.close()
    if not summary.targets:
        raise NothingToTrainOn(_why_nothing(summary), field="data.sources")
    has_held_out = bool(data.held_out or data.held_out_sources)
    if has_held_out and not held_out_summary.targets:
        raise NothingToTrainOn(
            "nothing is held out; raise the share or set it to 0", field="data.held_out"
        )
    train_set = TokenDataset(folder / "train")
    return train_set, TokenDataset(folder / "held_out") if has_held_out else None


def _check_vocabulary(sequences: Iterable[TokenSequence], vocabulary: int) -> None:
    for sequence in sequences:
        if int(sequence.ids.max(initial=0)) >= vocabulary:
            raise TokenizerMismatch(
                f"{sequence.origin.name} has token id {int(sequence.ids.max())}, the model has "
                f"{vocabulary} rows of embeddings: choose the model that played, or "
                'tokens = "text"',
                field="model.path",
            )


def _why_nothing(summary: DatasetSummary) -> str:
    if summary.left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in summary.left_out.items())
        return f"no target is left: {reasons}. Raise data.context or loosen the filters"
    if not summary.records:
        return "no record with a reply to train on was accepted: loosen the source's filters"
    return "every mask is empty: no reply is marked as sampled (or has loss = true)"
