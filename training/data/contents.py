"""What a task is, whatever it is called: a digest of the state that its episode begins in.

Two items of equal digest are one task twice, so item ids that differ are no proof that an agent is
judged on what it did not learn. A digest is of what the environment gives at a reset: its text
`content` in the observation's info, where the state hash tells apart more than contents (a seed of
draws that are still to come), else the state hash, which covers the hidden state (R25) or, where an
environment cannot tell it, what is seen. Options and profile are part of a state, so
digests are compared only between episodes that were played alike.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from agentgym.episode.v1 import episode_pb2
from orchestrator.atomic_file import write_atomically
from training.errors import Contaminated, DataError

__all__ = [
    "HeldOutContents",
    "content_digest",
    "find_shared",
    "list_some",
    "record_content",
]

_INFO_KEY: Final = "content"
"""Of the info of a reset's observation; see docs/protocol.md, R25."""
_LISTED: Final = 12
"""Most names in a message."""


def content_digest(environment: str, state_hash: bytes, info: Mapping[str, Any] | None) -> str:
    """Return the digest of the state after a reset: 16 hexadecimal digits.

    Args:
        environment: Its name, which is part of the digest.
        state_hash: Of the reset's observation; empty = not recorded.
        info: Of the same observation; None = it has none.

    Returns:
        The digest; empty where there is nothing to tell a state by.
    """
    told = (info or {}).get(_INFO_KEY)
    proof = told.encode() if isinstance(told, str) else state_hash
    if not proof:
        return ""
    name = environment.encode()
    return hashlib.blake2b(proof, digest_size=8, key=name[:64], person=b"content").hexdigest()


def record_content(episode: episode_pb2.Episode) -> str:
    """Return the digest of the state in which a recorded episode began; empty = it has none."""
    if not episode.steps:
        return ""
    first = episode.steps[0]
    info = dict(first.info) if first.HasField("info") else None
    return content_digest(episode.environment, first.state_hash, info)


def find_shared(parts: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return the contents that are in more than one part: digest -> part -> one of its items.

    Args:
        parts: Part -> item id -> digest.
    """
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for part, contents in parts.items():
        for item, digest in contents.items():
            found[digest].setdefault(part, item)
    return {digest: where for digest, where in found.items() if len(where) > 1}


def list_some(names: Iterable[str]) -> str:
    """Return names for a message: all of them, or the first ones and how many more there are."""
    every = sorted(names)
    shown = ", ".join(every[:_LISTED])
    return shown if len(every) <= _LISTED else f"{shown} and {len(every) - _LISTED} more"


class HeldOutContents:
    """Contents that nobody may learn from, in a file: environment -> digest -> item id."""

    def __init__(self, by_environment: Mapping[str, Mapping[str, str]]) -> None:
        """Keep contents, each with the item that it is held out for."""
        self._contents = by_environment
        self._met: dict[str, str] = {}
        self._untold: set[str] = set()

    @classmethod
    def read(cls, path: Path, *, field: str = "data.held_out_contents") -> HeldOutContents:
        """Read a file that `write` wrote; raises DataError, which names the recipe's field."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return cls({name: dict(contents) for name, contents in content.items()})
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path} cannot be read ({error}); `python -m training.contents` writes such files",
                field=field,
            ) from error

    def of(self, environment: str) -> Mapping[str, str]:
        """Return the contents of an environment: digest -> item that it is held out for."""
        return self._contents.get(environment, {})

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(cast("Any", self._contents), indent=1) + "\n")

    def note(self, environment: str, item: str, name: str, content: str) -> None:
        """Look at a record that is to be learned from; `refuse` tells of those that must not be.

        Args:
            environment: Of the record.
            item: Its item id.
            name: How a report calls the record.
            content: The digest of its first state; empty = unknown.
        """
        held_out = self._contents.get(environment)
        if not held_out:
            return
        if not content:
            self._untold.add(name)
        elif content in held_out:
            self._met[item] = held_out[content]

    def refuse(
        self, *, field: str = "data.sources", option: str = "data.held_out_contents"
    ) -> None:
        """Raise Contaminated where a record begins in a state that is held out, or cannot tell.

        Args:
            field: Of the recipe, that names the records.
            option: Of the recipe, that names the contents.
        """
        if self._met:
            pairs = (
                item if item == other else f"{item} (as {other})"
                for item, other in self._met.items()
            )
            raise Contaminated(
                f"{len(self._met)} tasks are learned from whose contents are held out: "
                f"{list_some(pairs)}. Take them out of the sources, or judge on others",
                field=field,
            )
        if self._untold:
            raise Contaminated(
                f"{len(self._untold)} records do not tell in which state they began "
                f"({list_some(self._untold)}): learn from run folders, or leave {option} empty",
                field=field,
            )
