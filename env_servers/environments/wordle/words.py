"""Word lists: the official forty words, the lists of this package, and official files.

A `Vocabulary` holds at least one word, each of five lower-case letters, none twice, in an order
that never changes. Sources and licences stand in the README.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Final

from env_servers.sdk import InvalidOption

__all__ = ["OFFICIAL_FILES", "OFFICIAL_WORDS", "Vocabularies", "Vocabulary"]

_FORTY: Final = """
    panic solar shire proxy point robot prick wince crimp knoll sugar whack mount perky could wrung
    light those moist shard pleat aloft skill elder frame humor pause ulcer ultra robin cynic aroma
    caulk shake dodge swill tacit other thorn trove
    """
OFFICIAL_WORDS: Final = tuple(_FORTY.split())
"""LMRL-Gym's `tweet_words`, in file order, which decides what a seed draws."""

OFFICIAL_FILES: Final = (
    "tweet_words",
    "wordle_official",
    "wordle_official_400",
    "wordle_official_guess",
)
"""Lists of LMRL-Gym that are read from `<data_dir>/wordle/<name>.txt` where present."""

_WORD: Final = re.compile(r"[a-z]{5}")
_MOST_WORDS: Final = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The words that a game accepts."""

    name: str
    words: tuple[str, ...]
    digest: bytes = field(init=False)
    """Identifies the words and their order."""
    _known: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        text = " ".join(self.words).encode()
        object.__setattr__(self, "digest", hashlib.blake2b(text, digest_size=8).digest())
        object.__setattr__(self, "_known", frozenset(self.words))

    def __contains__(self, word: object) -> bool:
        return word in self._known

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def checked(cls, name: str, words: Iterable[object]) -> Vocabulary:
        """Return a vocabulary from outside; raises InvalidOption unless it keeps the invariant."""
        words_checked: dict[str, None] = {}
        for word in words:
            if not (isinstance(word, str) and _WORD.fullmatch(word)):
                raise InvalidOption(f"vocabulary {name} has {word!r}", valid="five letters a to z")
            words_checked[word] = None
        if not 0 < len(words_checked) <= _MOST_WORDS:
            raise InvalidOption(f"vocabulary {name} has 0 or more than {_MOST_WORDS} words")
        return cls(name, tuple(words_checked))


class Vocabularies:
    """Named vocabularies; each is read once."""

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self._read: dict[str, Vocabulary] = {"tweet_words": Vocabulary("tweet", OFFICIAL_WORDS)}

    @property
    def official(self) -> Vocabulary:
        """The forty words of today's AgentGym server."""
        return self._read["tweet_words"]

    @property
    def answers(self) -> Vocabulary:
        """2,048 common words, from which hidden words are taken."""
        return self._packaged("answers")

    @property
    def guesses(self) -> Vocabulary:
        """4,579 words, among them all answers, that games without a listed vocabulary accept."""
        return self._packaged("guesses")

    def named(self, name: str) -> Vocabulary:
        """`answers`, `guesses`, or an official list; raises InvalidOption where there is none."""
        if name in ("answers", "guesses"):
            return self._packaged(name)
        if name not in OFFICIAL_FILES:
            valid = ("answers", "guesses", *OFFICIAL_FILES)
            raise InvalidOption(f"unknown vocabulary {name!r}", valid=valid)
        if name not in self._read:
            self._read[name] = self._official_file(name)
        return self._read[name]

    def _official_file(self, name: str) -> Vocabulary:
        if self._data_dir is None:
            raise InvalidOption(f"vocabulary {name!r} needs the official data (AGENTGYM_DATA)")
        path = self._data_dir / "wordle" / f"{name}.txt"
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidOption(f"vocabulary {name!r}: cannot read {path}") from error
        return Vocabulary.checked(name, text.split())

    def _packaged(self, name: str) -> Vocabulary:
        if name not in self._read:
            resource = files("env_servers.environments.wordle") / "words" / f"{name}.txt"
            self._read[name] = Vocabulary(name, tuple(resource.read_text("utf-8").split()))
        return self._read[name]
