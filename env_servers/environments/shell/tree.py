"""The files of an episode, as a value.

A tree is held in memory and never written to this machine's disk: it travels into a sandbox as a
tar stream and comes back as one. What comes back was written by strangers, so it is only read,
within limits, and never unpacked here. Of permissions the one that makes a file a program is kept,
and of times none: trees with the same names and contents are equal, whenever they were made.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Self

__all__ = ["MAX_ENTRIES", "MAX_TREE_BYTES", "File", "Folder", "Link", "Tree", "TreeTooLarge"]

MAX_ENTRIES: Final = 512
"""Files, folders and links of a tree."""
MAX_TREE_BYTES: Final = 1024 * 1024
"""Of contents, names and link targets together."""
_MAX_DEPTH: Final = 32
_MAX_NAME_BYTES: Final = 1024
_TIME: Final = 1_704_067_200
"""Of everything that goes into a sandbox: 2024-01-01 00:00:00 UTC."""


class TreeTooLarge(Exception):
    """Raised for more than a tree may hold; says how much that is."""

    def __init__(self) -> None:
        super().__init__(
            f"the folder may hold {MAX_ENTRIES} files and folders of {MAX_TREE_BYTES // 1024} KiB, "
            f"{_MAX_DEPTH} levels deep"
        )


@dataclass(frozen=True, slots=True)
class File:
    """A regular file."""

    content: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder; what is in it has paths of its own."""


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link; nothing here follows it."""

    target: str


Entry = File | Folder | Link


@dataclass(frozen=True)
class Tree:
    """Files, folders and links by path, relative and without `.` and `..`.

    Bytes that are no UTF-8 stand in paths as lone surrogates, as Python has them everywhere.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict[str, Entry])

    def __post_init__(self) -> None:
        entries = dict(sorted(self.entries.items()))
        object.__setattr__(self, "entries", MappingProxyType(entries))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Itself: it never changes."""
        return self

    @classmethod
    def of_texts(cls, texts: Mapping[str, str], *, programs: tuple[str, ...] = ()) -> Self:
        """Return a tree of text files with the folders that they need."""
        entries: dict[str, Entry] = {}
        for path, text in texts.items():
            parts = path.split("/")
            for depth in range(1, len(parts)):
                entries["/".join(parts[:depth])] = Folder()
            entries[path] = File(text.encode(), path in programs)
        return cls(entries)

    def text(self, path: str) -> str | None:
        """Return a file's text, or None where there is no regular file in UTF-8."""
        entry = self.entries.get(path)
        if not isinstance(entry, File):
            return None
        try:
            return entry.content.decode()
        except UnicodeDecodeError:
            return None

    def with_texts(self, texts: Mapping[str, str]) -> Tree:
        """Return a tree that has these text files, too."""
        return Tree({**self.entries, **Tree.of_texts(texts).entries})

    @property
    def files(self) -> list[str]:
        """The paths of all regular files."""
        return [path for path, entry in self.entries.items() if isinstance(entry, File)]

    @cached_property
    def digest(self) -> bytes:
        """16 bytes that identify names and contents."""
        digest = hashlib.blake2b(digest_size=16)
        for path, entry in self.entries.items():
            kind, content = _marked(entry)
            for part in (os.fsencode(path), kind, content):
                digest.update(len(part).to_bytes(4, "big") + part)
        return digest.digest()

    def to_tar(self) -> bytes:
        """Return the tree as a tar stream."""
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for path, entry in self.entries.items():
                member, content = tarfile.TarInfo(path), b""
                member.mtime, member.mode = _TIME, 0o644
                if isinstance(entry, File):
                    content = entry.content
                    member.size = len(content)
                    member.mode = 0o755 if entry.executable else 0o644
                elif isinstance(entry, Folder):
                    member.type, member.mode = tarfile.DIRTYPE, 0o755
                else:
                    member.type, member.linkname = tarfile.SYMTYPE, entry.target
                archive.addfile(member, io.BytesIO(content))
        return stream.getvalue()

    @classmethod
    def of_tar(cls, data: bytes) -> Self:
        """Read a tree from a tar stream that anybody may have written.

        Raises:
            TreeTooLarge: It holds more than a tree may.
            ValueError: It is no tar stream, or one that no folder gives.
        """
        entries: dict[str, Entry] = {}
        size = 0
        try:
            with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
                for path, entry in _members(archive, len(data)):
                    size += len(os.fsencode(path)) + len(_marked(entry)[1])
                    entries[path] = entry
                    if len(entries) > MAX_ENTRIES or size > MAX_TREE_BYTES:
                        raise TreeTooLarge
        except (tarfile.TarError, EOFError, OverflowError, OSError) as error:
            raise ValueError(f"no tar stream: {error}") from error
        return cls(entries)


def _members(archive: tarfile.TarFile, most: int) -> Iterator[tuple[str, Entry]]:
    """Return what a stream holds; sockets, pipes and devices are left out."""
    for member in archive:
        path = member.name.removeprefix("./")
        parts = path.split("/")
        if path in (".", ""):
            continue
        if path.startswith("/") or not {"", ".", ".."}.isdisjoint(parts):
            raise ValueError("a path leads out of the folder")
        if len(os.fsencode(path)) > _MAX_NAME_BYTES or len(parts) > _MAX_DEPTH:
            raise TreeTooLarge
        if member.isdir():
            yield path, Folder()
        elif member.issym():
            yield path, Link(member.linkname)
        # A sparse file says of itself how large it is, which nothing here could hold.
        elif member.isreg() and not member.issparse() and member.size <= most:
            content = archive.extractfile(member)
            assert content is not None
            yield path, File(content.read(), bool(member.mode & 0o100))


def _marked(entry: Entry) -> tuple[bytes, bytes]:
    """Return the kind of an entry and its content, for digests."""
    match entry:
        case File(content, executable):
            return b"program" if executable else b"file", content
        case Folder():
            return b"folder", b""
        case Link(target):
            return b"link", os.fsencode(target)
