"""The invented world as entities and facts: who and what there is, and how it hangs together.

Contains the entity, its facts and how it is called in a sentence. Once built, a world never
changes, and every fact that names an entity names one of the same world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from env_servers.environments.searchqa.naming import Draw, Register

__all__ = ["PRESENT", "Entity", "Value", "World", "list_answers", "shown"]

PRESENT: Final = 2020
"""The year in which the world's encyclopedia was written."""

_CALLED: Final = {
    "novel": "the novel {}",
    "film": "the film {}",
    "album": "the album {}",
    "painting": "the painting {}",
    "band": "the band {}",
    "newspaper": "the newspaper {}",
    "ship": "the ship {}",
    "company": "the company {}",
    "river": "the {}",
    "museum": "the {}",
    "bridge": "the {}",
    "species": "the {}",
    "festival": "the {}",
    "award": "the {}",
    "railway": "the {}",
    "expedition": "the {}",
    "club": "the football club {}",
    "university": "the {}",
}
"""How entities are called in a sentence where their bare name will not do."""
_SHORT: Final = {
    "river": " River",
    "mountain": "Mount ",
    "lake": "Lake ",
    "bridge": " Bridge",
    "museum": " Museum",
    "novel": "The ",
    "film": "The ",
    "album": "The ",
    "band": "The ",
}
"""What an answer may leave out of a name."""


@dataclass(slots=True, eq=False)
class Entity:
    """Somebody or something that has a passage of its own."""

    number: int
    kind: str
    name: str
    """The title of its passage, which no other has."""
    facts: dict[str, Value] = field(default_factory=dict["str", "Value"], repr=False)

    @property
    def plain(self) -> str:
        """The name without what only tells it from another of that name."""
        return self.name.removesuffix(" (film)").removesuffix(" (album)")

    @property
    def called(self) -> str:
        """The name as a sentence has it, articles included."""
        return _CALLED.get(self.kind, "{}").format(self.plain)

    def to(self, relation: str) -> Entity:
        """Return the entity that a fact names; raises TypeError where it names none."""
        value = self.facts[relation]
        if not isinstance(value, Entity):
            raise TypeError(f"{relation} of {self.name} is no entity")
        return value

    def amount(self, relation: str) -> int:
        """Return the number that a fact states; raises TypeError where it states none."""
        value = self.facts[relation]
        if not isinstance(value, int):
            raise TypeError(f"{relation} of {self.name} is no number")
        return value


Value = Entity | int | str
"""What a fact says: another entity, a number or year, or words."""


class World:
    """All entities by kind, in the order in which they were made."""

    def __init__(self, seed: int) -> None:
        self.draw = Draw(seed)
        self.names = Register(self.draw)
        self.entities: list[Entity] = []
        self.by_kind: dict[str, list[Entity]] = {}
        self.cultures: dict[int, int] = {}
        """The culture of each country, by the country's number."""
        self.paired: set[frozenset[str]] = set()
        """Pairs of words that stand together in the title of a work."""

    def add(self, kind: str, name: str, **facts: Value) -> Entity:
        """Return a new entity."""
        entity = Entity(len(self.entities), kind, name, dict(facts))
        self.entities.append(entity)
        self.by_kind.setdefault(kind, []).append(entity)
        return entity

    def any(self, kind: str) -> Entity:
        """Return a drawn entity of the kind."""
        return self.draw.pick(self.by_kind[kind])

    def culture(self, place: Entity) -> int:
        """Return the culture of a country, or of the country that a place is in."""
        country = place if place.kind == "country" else place.to("country")
        return self.cultures[country.number]


def shown(relation: str, value: Value) -> str:
    """Return a fact's value as texts write it, with its unit."""
    if isinstance(value, Entity):
        return value.called
    if isinstance(value, str):
        return value
    unit = _UNITS.get(relation)
    return str(value) if unit is None else f"{value:,} {unit}".rstrip()


_UNITS: Final = {
    "length": "kilometres",
    "span": "metres",
    "height": "metres",
    "depth": "metres",
    "population": "",
}
"""Of facts that are quantities; other numbers are years."""


def list_answers(relation: str, value: Value) -> tuple[str, ...]:
    """Return the wordings of a value that are right as an answer, the fullest first."""
    if isinstance(value, int):
        unit = _UNITS.get(relation)
        if unit is None:
            return (str(value),)
        short = {"kilometres": "km", "metres": "m"}.get(unit)
        units = (unit, short) if short else ("inhabitants", "people")
        return _distinct((shown(relation, value), f"{value:,}", *(f"{value:,} {u}" for u in units)))
    if isinstance(value, str):
        return (value,)
    name, cut = value.plain, _SHORT.get(value.kind, "")
    short = name.removesuffix(cut) if cut.startswith(" ") else name.removeprefix(cut)
    answers = [name, short, value.name, value.called]
    if value.kind == "river":
        answers.append(f"River {short}")
    if value.kind == "university":
        answers.append(f"{name.removeprefix('University of ')} University")
    if isinstance(known_as := value.facts.get("known_as"), str):
        answers.append(known_as)
    return _distinct(answers)


def _distinct(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
