"""The embedded source: an invented world, its encyclopedia, and questions about it.

Contains which questions are asked of which entities and in which split. Every entity is the subject
of exactly one question, the subjects of `train` and `eval` are disjoint, and whatever a question
needs stands in the passages of its clues. Equal on every machine and Python version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final

from env_servers.environments.searchqa.encyclopedia import (
    Phrasebook,
    Relation,
    load_phrases,
    passage,
    phrases_text,
    with_articles,
)
from env_servers.environments.searchqa.geography import (
    add_country_towns,
    add_customs,
    add_lands,
    add_waters,
)
from env_servers.environments.searchqa.naming import Draw
from env_servers.environments.searchqa.passages import Passage
from env_servers.environments.searchqa.questions import Clue, Question
from env_servers.environments.searchqa.society import (
    add_arts,
    add_buildings,
    add_enterprises,
    add_nature,
    add_people,
)
from env_servers.environments.searchqa.world import Entity, Value, World, list_answers, shown

__all__ = ["EVAL_SIZE", "EmbeddedSource", "build_world", "load_embedded"]

SEED: Final = 20_251_118
EVAL_SIZE: Final = 2000
"""Entities whose questions are held out; the others are for training."""
_LONGEST: Final = 3
"""Facts in the longest chain of a question."""
_TURNS: Final = ("one hop", "bridge", "bridge", "comparison", "bridge", "one hop", "long bridge")
"""Kinds of questions, which subjects take in turns."""
_NEVER_LINKS: Final = ("twin", "spouse", "known_as")
"""Facts that a chain does not pass through: they may lead back to where it began."""


def build_world() -> World:
    """Return the world, from nothing."""
    world = World(SEED)
    for add in (
        add_lands,
        add_waters,
        add_country_towns,
        add_people,
        add_arts,
        add_buildings,
        add_enterprises,
        add_nature,
        add_customs,
    ):
        add(world)
    return world


class EmbeddedSource:
    """The world's passages, and its questions by split."""

    def __init__(self) -> None:
        self.world = build_world()
        self.book: Phrasebook = load_phrases()
        order = sorted(self.world.entities, key=lambda entity: _hashed(entity.name))
        self.subjects: Mapping[str, Sequence[Entity]] = {
            "train": order[EVAL_SIZE:],
            "eval": order[:EVAL_SIZE],
        }
        self._peers: dict[tuple[str, str], list[Entity]] = {}
        for split, subjects in self.subjects.items():
            for subject in subjects:
                self._peers.setdefault((split, subject.kind), []).append(subject)

    @cached_property
    def digest(self) -> bytes:
        """Identifies world and phrases."""
        digest = hashlib.blake2b(phrases_text().encode(), digest_size=8)
        for entity in self.world.entities:
            values = [v.name if isinstance(v, Entity) else v for v in entity.facts.values()]
            digest.update(repr((entity.name, *entity.facts, *values)).encode())
        return digest.digest()

    def passages(self) -> list[Passage]:
        """Return a passage for every entity, in the order of their numbers."""
        return [
            Passage(f"{e.number:05d}", f'"{e.name}"', passage(e, self.book))
            for e in self.world.entities
        ]

    def question(self, split: str, index: int) -> Question:
        """Return the question about the subject of this index; a pure function."""
        subject = self.subjects[split][index]
        draw = Draw(SEED + 1 + subject.number)
        turn = _TURNS[index % len(_TURNS)]
        if turn == "comparison":
            return self._comparison(split, subject, draw)
        hops = {"one hop": 1, "bridge": 2}.get(turn, _LONGEST)
        return self._chain(subject, hops, draw)

    # ------------------------------------------------------------------ chains of facts

    def _chain(self, subject: Entity, hops: int, draw: Draw) -> Question:
        """Asks for a fact of a fact of the subject; shorter where it has no such chain."""
        steps: list[tuple[Entity, str]] = []
        spoken, current = subject.called, subject
        while len(steps) < hops - 1:
            fact = self._link(current, [entity for entity, _ in steps], draw)
            if fact is None:
                break
            steps.append((current, fact))
            phrase = draw.pick(self._relation(current, fact).phrase)
            spoken, current = phrase.format(x=spoken), current.to(fact)
        entities = [subject, *(entity for entity, _ in steps)]
        last = draw.pick([f for f in self._facts(current) if current.facts[f] not in entities])
        steps.append((current, last))
        text = draw.pick(self._relation(current, last).ask).format(x=spoken)
        clues = tuple(self._clue(entity, fact, draw) for entity, fact in steps)
        category = ("one hop", "bridge of two", "bridge of three")[len(steps) - 1]
        return Question(text, list_answers(last, current.facts[last]), clues, category)

    def _link(self, entity: Entity, passed: Sequence[Entity], draw: Draw) -> str | None:
        """Return a fact that leads on to another entity with facts of its own."""
        options = [
            fact
            for fact in self._facts(entity)
            if isinstance(linked := entity.facts[fact], Entity)
            and fact not in _NEVER_LINKS
            and linked not in passed
            and linked.kind != "country"
        ]
        return draw.pick(options) if options else None

    # ------------------------------------------------------------------ comparisons

    def _comparison(self, split: str, subject: Entity, draw: Draw) -> Question:
        """Asks which of two has more of something, or whether they have something in common."""
        facts = self._facts(subject)
        alike = [fact for fact in facts if self._relation(subject, fact).same]
        if alike and draw.chance(0.35):
            return self._likeness(split, subject, draw.pick(alike), draw)
        amounts = [fact for fact in facts if self._relation(subject, fact).more]
        if not amounts:
            return self._chain(subject, 2, draw)
        fact = draw.pick(amounts)
        other = self._peer(split, subject, fact, draw, like=False)
        if other is None:
            return self._chain(subject, 2, draw)
        relation = self._relation(subject, fact)
        more = draw.chance(0.5)
        one, two = draw.few((subject, other), 2)
        text = draw.pick(relation.more if more else relation.less)
        greater = max(subject, other, key=lambda entity: entity.amount(fact))
        answer = greater if more else (other if greater is subject else subject)
        return Question(
            text.format(x=one.called, z=two.called),
            list_answers(fact, answer),
            tuple(self._clue(entity, fact, draw) for entity in (one, two)),
            "comparison",
        )

    def _likeness(self, split: str, subject: Entity, fact: str, draw: Draw) -> Question:
        like = draw.chance(0.5)
        other = self._peer(split, subject, fact, draw, like=like)
        if other is None:
            like, other = False, self._peer(split, subject, fact, draw, like=False)
        if other is None:
            return self._chain(subject, 2, draw)
        text = draw.pick(self._relation(subject, fact).same)
        return Question(
            text.format(x=subject.called, z=other.called),
            ("yes",) if like else ("no",),
            tuple(self._clue(entity, fact, draw) for entity in (subject, other)),
            "yes or no",
        )

    def _peer(
        self, split: str, subject: Entity, fact: str, draw: Draw, *, like: bool
    ) -> Entity | None:
        """Another subject of the split and kind whose fact is the same, or is not."""
        mine = subject.facts[fact]
        peers = [
            peer
            for peer in self._peers[split, subject.kind]
            if peer is not subject and fact in peer.facts and (peer.facts[fact] == mine) is like
        ]
        return draw.pick(peers) if peers else None

    # ------------------------------------------------------------------ shared

    def _facts(self, entity: Entity) -> list[str]:
        """Return the facts that can be asked for."""
        relations = self.book.relations[entity.kind]
        return [fact for fact in entity.facts if fact in relations]

    def _relation(self, entity: Entity, fact: str) -> Relation:
        return self.book.relations[entity.kind][fact]

    def _clue(self, entity: Entity, fact: str, draw: Draw) -> Clue:
        relation, name = self._relation(entity, fact), entity.called
        value: Value = entity.facts[fact]
        query = draw.pick(relation.ask).format(x=name)
        short = f"{entity.plain} {relation.words}"
        first = (query, short) if draw.chance(0.4) else (short, query)
        return Clue(
            title=f'"{entity.name}"',
            queries=(*first, f"{entity.name} {entity.name} {entity.kind}", entity.plain),
            aim=relation.phrase[0].format(x=name),
            finding=with_articles(draw.pick(relation.says).format(x=name, y=shown(fact, value))),
        )


def _hashed(name: str) -> tuple[bytes, str]:
    return hashlib.blake2b(name.encode(), digest_size=8).digest(), name


@lru_cache(maxsize=1)
def load_embedded() -> EmbeddedSource:
    """Return the embedded source, built once per process."""
    return EmbeddedSource()
