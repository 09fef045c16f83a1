"""The inputs of an episode and the state hashes that they led to; forks share what they can.

A fork costs what is different: what lies behind it stands in chunks that never change and that any
number of journals refer to. The journal that lets go of a chunk last gives its bytes back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from env_servers.server.budget import ENTRY_BYTES, Account
from env_servers.server.inputs import StepInput

__all__ = ["Journal", "journal_size"]

_CHUNK_ENTRIES = 256
_CHUNK_BYTES = 64 * 1024
"""A fork copies less than this much of a chunk where it begins in its midst."""
_ADVANCE_BYTES = 2048
"""What an account pays in advance for a journal."""


class _Chunk:
    """Inputs in a row and the hashes that they led to; `start` inputs come before them."""

    __slots__ = ("account", "hashes", "inputs", "size", "start", "users")

    def __init__(
        self, start: int, inputs: list[StepInput], hashes: list[bytes], account: Account
    ) -> None:
        """`account` has paid for them."""
        self.account = account
        self.start = start
        self.inputs = inputs
        self.hashes = hashes
        self.size = journal_size(inputs)
        self.users = 1


class Journal:
    """What led to each seq of one episode: chunks, then entries of its own."""

    __slots__ = (
        "_chunks",
        "account",
        "counted",
        "first_hash",
        "hashes",
        "inputs",
        "shared",
        "size",
        "start",
    )

    def __init__(self, account: Account) -> None:
        """`account` is charged for what no fork shares yet."""
        self.account = account
        self.first_hash = b""
        """Of seq 0, the state after the reset."""
        self.start = 0
        """Number of inputs in chunks."""
        self.inputs: list[StepInput] = []
        """After the chunks; the hot path appends to both lists."""
        self.hashes: list[bytes] = []
        self.size = 0
        """Bytes of all entries, also of those in chunks."""
        self.shared = 0
        """Bytes of those in chunks."""
        self.counted = 0
        """Up to which size the account has paid, always a little in advance: see `count`."""
        self._chunks: list[_Chunk] = []

    def __len__(self) -> int:
        """Return the number of inputs, which is the seq of the last."""
        return self.start + len(self.inputs)

    def append(self, step_input: StepInput, state_hash: bytes) -> None:
        """Add the next input; the hot path has these lines of its own."""
        self.inputs.append(step_input)
        self.hashes.append(state_hash)
        self.size += step_input.text.__sizeof__() + ENTRY_BYTES
        if self.size > self.counted:
            self.count()

    def count(self) -> None:
        """Let the account pay for what it has grown, and for some of what comes.

        So that most steps of an episode need not reach for the account.
        """
        self.account.add_journal(self.size + _ADVANCE_BYTES - self.counted)
        self.counted = self.size + _ADVANCE_BYTES

    def input_of(self, seq: int) -> StepInput:
        """Return the input that led to a seq from 1 on."""
        if seq > self.start:
            return self.inputs[seq - self.start - 1]
        chunk = self._chunks[bisect_right(self._chunks, seq - 1, key=_start) - 1]
        return chunk.inputs[seq - chunk.start - 1]

    def inputs_to(self, seq: int) -> list[StepInput]:
        """Return the inputs that led to a seq, in order."""
        inputs = [each for chunk in self._chunks for each in chunk.inputs]
        return (inputs + self.inputs)[:seq]

    def hashes_to(self, seq: int) -> list[bytes]:
        """Return the state hashes of all seqs up to one, from seq 0 on."""
        hashes = [each for chunk in self._chunks for each in chunk.hashes]
        return [self.first_hash, *(hashes + self.hashes)[:seq]]

    def fork(self, seq: int, account: Account) -> Journal:
        """Return a journal that begins with what led to a seq; `account` pays for the rest."""
        self._cut_chunks()
        copy = Journal(account)
        copy.first_hash = self.first_hash
        whole = bisect_right(self._chunks, seq, key=_end)
        for chunk in self._chunks[:whole]:
            chunk.users += 1
            copy.shared += chunk.size
        copy._chunks = self._chunks[:whole]
        copy.start = copy._chunks[-1].start + len(copy._chunks[-1].inputs) if whole else 0
        rest = self._chunks[whole] if whole < len(self._chunks) else self
        copy.inputs = rest.inputs[: seq - copy.start]
        copy.hashes = rest.hashes[: seq - copy.start]
        copy.size = copy.shared + journal_size(copy.inputs)
        copy.counted = copy.shared
        copy.count()
        return copy

    def release(self) -> None:
        """Give the bytes back; for the end of the episode."""
        self.account.add_journal(self.shared - self.counted)
        for chunk in self._chunks:
            chunk.users -= 1
            if not chunk.users:
                chunk.account.add_journal(-chunk.size)
        # An error's traceback may hold the episode until the collector comes by, which is rare.
        self._chunks, self.inputs, self.hashes = [], [], []

    def _cut_chunks(self) -> None:
        """Move entries into chunks until few are left."""
        count = size = 0
        lengths: list[int] = []
        for step_input in self.inputs:
            count += 1
            size += step_input.text.__sizeof__() + ENTRY_BYTES
            if count == _CHUNK_ENTRIES or size >= _CHUNK_BYTES:
                lengths.append(count)
                count = size = 0
        begin = 0
        for length in lengths:
            end = begin + length
            chunk = _Chunk(self.start, self.inputs[begin:end], self.hashes[begin:end], self.account)
            self._chunks.append(chunk)
            self.start += length
            self.shared += chunk.size
            begin = end
        self.inputs, self.hashes = self.inputs[begin:], self.hashes[begin:]


def _start(chunk: _Chunk) -> int:
    return chunk.start


def _end(chunk: _Chunk) -> int:
    return chunk.start + len(chunk.inputs)


def journal_size(inputs: Sequence[StepInput]) -> int:
    """Return the bytes that entries with these inputs take."""
    return sum(each.text.__sizeof__() for each in inputs) + ENTRY_BYTES * len(inputs)
