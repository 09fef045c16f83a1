"""The texts of the invented world: a passage for every entity, from the phrases of `phrases.txt`.

Contains the phrase book and how a passage is put together. A passage states every fact of its
entity that questions ask for, and nothing that is not a fact but a word of colour. The wording
depends on the entity's number alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Final

from env_servers.environments.searchqa.naming import Draw
from env_servers.environments.searchqa.world import Entity, Value, shown

__all__ = [
    "Kind",
    "Phrasebook",
    "Relation",
    "load_phrases",
    "passage",
    "phrases_text",
    "with_articles",
]

FILE: Final = "phrases.txt"
_IN_LEAD: Final = {"dates": ("born", "birth_date", "died", "death_date"), "river_name": ("river",)}
"""Fields of first sentences that state facts of other names."""
_UNTOLD: Final = ("gender", "death_date")
"""Facts that have no sentence of their own."""
_NAMED_FIRST: Final = 0.25
"""Share of sentences that repeat the name."""
_INDEFINITE: Final = re.compile(r"\b([Aa])(?= [aeio])")


@dataclass(frozen=True, slots=True)
class Relation:
    """How a fact is stated and asked for; see the head of `phrases.txt`."""

    says: tuple[str, ...]
    ask: tuple[str, ...]
    phrase: tuple[str, ...]
    words: str
    more: tuple[str, ...]
    less: tuple[str, ...]
    same: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """How passages of a kind begin and go on."""

    lead: tuple[str, ...]
    again: tuple[str, ...]
    aside: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Phrasebook:
    """All phrases."""

    kinds: Mapping[str, Kind]
    relations: Mapping[str, Mapping[str, Relation]]
    """By kind, then by fact."""


def phrases_text() -> str:
    """Return the phrase file as it is."""
    return resources.files(__package__ or "").joinpath(FILE).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def load_phrases() -> Phrasebook:
    """Return the phrase book, read once per process."""
    kinds: dict[str, Kind] = {}
    relations: dict[str, dict[str, Relation]] = {}
    for name, lines in _sections(phrases_text()).items():
        kind, _, fact = name.partition(".")
        if not fact:
            kinds[kind] = Kind(*(tuple(lines.get(key, ())) for key in ("lead", "again", "aside")))
            continue
        says, ask, phrase, more, less, same = (
            tuple(lines.get(key, ())) for key in ("says", "ask", "phrase", "more", "less", "same")
        )
        words = " ".join(lines.get("words", ()))
        relation = Relation(says, ask, phrase, words, more, less, same)
        relations.setdefault(kind, {})[fact] = relation
    return Phrasebook(kinds, relations)


def _sections(text: str) -> dict[str, dict[str, list[str]]]:
    sections: dict[str, dict[str, list[str]]] = {}
    current: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition(": ")
            current.setdefault(key, []).append(value.strip())
    return sections


def passage(entity: Entity, book: Phrasebook) -> str:
    """Return the entity's passage, without its title."""
    draw = Draw(entity.number)
    kind = book.kinds[entity.kind]
    fields = _fields(entity)
    lead = draw.pick(kind.lead)
    writers = {
        name for field in re.findall(r"{(\w+)}", lead) for name in _IN_LEAD.get(field, (field,))
    }
    sentences = [lead.format_map(fields)]
    open_facts = [
        fact
        for fact in entity.facts
        if fact not in writers and fact not in _UNTOLD and fact in book.relations[entity.kind]
    ]
    for fact in draw.few(open_facts, len(open_facts)):
        says = draw.pick(book.relations[entity.kind][fact].says)
        again = draw.pick(kind.again).format_map(fields)
        subject = entity.called if draw.chance(_NAMED_FIRST) else again
        sentences.append(says.format(x=subject, y=shown(fact, entity.facts[fact])) + ".")
    asides = draw.few(kind.aside, draw.between(1, 2))
    sentences[1:1] = [aside.format_map(fields) for aside in asides[1:]]
    sentences += [aside.format_map(fields) for aside in asides[:1]]
    return with_articles(" ".join(text[0].upper() + text[1:] for text in sentences))


def with_articles(text: str) -> str:
    """Return the text with "an" where a vowel follows, as its phrases have "a" throughout."""
    return _INDEFINITE.sub(r"\1n", text)


def _fields(entity: Entity) -> dict[str, str]:
    fields = {fact: _plain(fact, value) for fact, value in entity.facts.items()}
    fields["x"] = entity.plain
    river = entity.facts.get("river")
    if isinstance(river, Entity):
        fields["river_name"] = river.plain
    if entity.kind == "person":
        dead = "death_date" in entity.facts
        birth = fields["birth_date"]
        fields["dates"] = f"{birth} \u2013 {fields['death_date']}" if dead else f"born {birth}"
        fields["be"] = "was" if dead else "is"
        fields["she"] = fields["gender"].title()
        fields["surname"] = entity.name.split(" ", 1)[1]
    return fields


def _plain(fact: str, value: Value) -> str:
    """Return a value as first sentences write it: names bare, but rivers with their article."""
    if isinstance(value, Entity) and value.kind != "river":
        return value.plain
    return shown(fact, value)
