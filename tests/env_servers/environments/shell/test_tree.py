"""Trees are values, and what comes back from a sandbox is read with suspicion."""

from __future__ import annotations

import copy
import io
import tarfile

import pytest

from env_servers.environments.shell.tree import (
    MAX_ENTRIES,
    MAX_TREE_BYTES,
    File,
    Folder,
    Link,
    Tree,
    TreeTooLarge,
)


def archive(*members: tarfile.TarInfo) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return stream.getvalue()


def member(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, **fields: object):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def test_a_tree_comes_back_as_it_went():
    tree = Tree(
        {
            "z": File(b"\x00\xff", executable=True),
            "a": Folder(),
            "a/" + "n" * 180: File(b""),
            "a/odd \udcff": Link("../../etc"),
        }
    )
    assert Tree.of_tar(tree.to_tar()) == tree
    assert next(iter(tree.entries)) == "a"
    assert copy.deepcopy(tree) is tree


def test_a_digest_tells_apart_what_differs():
    trees = [
        Tree(),
        Tree({"a": File(b"")}),
        Tree({"a": File(b"", executable=True)}),
        Tree({"a": Folder()}),
        Tree({"a": Link("")}),
        Tree({"a": File(b"b")}),
        Tree({"ab": File(b"")}),
        Tree({"a": File(b""), "b": File(b"")}),
    ]
    assert len({tree.digest for tree in trees}) == len(trees)
    assert (
        Tree({"b": Folder(), "a": Folder()}).digest == Tree({"a": Folder(), "b": Folder()}).digest
    )


def test_what_no_folder_gives_is_refused():
    for name in ("/etc/passwd", "../x", "a/../../x", "a//b"):
        with pytest.raises(ValueError, match="leads out"):
            Tree.of_tar(archive(member(name)))
    for data in (b"", b"no archive" * 100, archive(member("a", 600))[:700]):
        with pytest.raises(ValueError, match="no tar"):
            Tree.of_tar(data)


def test_what_is_too_much_is_refused():
    with pytest.raises(TreeTooLarge):
        Tree.of_tar(archive(*(member(f"{number}") for number in range(MAX_ENTRIES + 1))))
    with pytest.raises(TreeTooLarge):
        Tree.of_tar(archive(member("a", MAX_TREE_BYTES)))
    with pytest.raises(TreeTooLarge):
        Tree.of_tar(archive(member("/".join("a" * 40))))


def test_what_is_no_file_is_left_out():
    kinds = (tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.LNKTYPE)
    odd = [member(f"{number}", kind=kind) for number, kind in enumerate(kinds)]
    assert Tree.of_tar(archive(*odd, member("kept", 3))).files == ["kept"]


def test_a_file_that_says_it_is_larger_than_the_stream_is_not_made():
    # GNU's old form of sparse files: the real size stands in the header.
    header = bytearray(archive(member("s", kind=tarfile.GNUTYPE_SPARSE))[:512])
    header[483:495] = b"77777777777\0"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    tree = Tree.of_tar(bytes(header) + bytes(1024))
    assert tree.files == []
