"""The places of the map: 84 in each of 28 towns, made of word lists of our own.

Every name but those of chains is unique, so that a question about a place has one answer. What a
town has one of (airport, university, stadium) is named after it, so that other sites can speak of
it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

from env_servers.environments.webarena.sites.map.places import PLACES, Place
from env_servers.environments.webarena.sites.map.towns import SIDE, Town, towns
from env_servers.environments.webarena.sites.people import FAMILY_NAMES, phone
from env_servers.environments.webarena.sites.tables import Content
from env_servers.environments.webarena.sites.wordlists import entries, words

__all__ = ["KINDS", "Kind", "build", "places"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of place: how many a town has, and how they are called."""

    tag: str
    title: str
    key: str
    """The tag's key: `amenity`, `tourism`."""
    count: int
    names: tuple[str, ...]
    """Patterns with `{town}`, `{family}`, `{thing}`, `{street}`."""
    hours: tuple[str, ...] = ()
    searched: tuple[str, ...] = ()
    """Other words by which people look for it."""


_HOURS: Final[Mapping[str, tuple[str, ...]]] = {
    "": (),
    "always": ("24/7",),
    "shop": ("Mo-Sa 09:00-18:00", "Mo-Sa 08:00-20:00", "Mo-Su 10:00-19:00", "24/7"),
    "meal": ("Mo-Su 11:00-22:00", "Tu-Su 17:00-23:00", "Mo-Sa 07:00-15:00"),
    "night": ("Mo-Su 16:00-02:00", "Tu-Su 18:00-01:00"),
    "visit": ("Tu-Su 10:00-17:00", "We-Mo 09:00-18:00", "Mo-Su 10:00-16:00"),
    "office": ("Mo-Fr 09:00-17:00",),
}


def _read_kinds() -> Iterator[Kind]:
    """The kinds of `kinds.txt`: tag, title, key, number in a town, names, hours, other words."""
    text = (Path(__file__).parent / "kinds.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        tag, title, key, count, names, hours, *searched = map(str.strip, line.split("|"))
        yield Kind(
            tag, title, key, int(count), entries(names), _HOURS[hours], words(" ".join(searched))
        )


KINDS: Final = tuple(_read_kinds())
"""All kinds, in the order in which a town's places are numbered."""
_THINGS: Final = words(
    "Acorn Amber Anchor Apple Arrow Basil Beacon Bell Birch Bluebird Bramble Brass Candle Cedar "
    "Chestnut Cinder Clover Cobalt Compass Copper Coral Cricket Crown Daisy Delta Dogwood Dove "
    "Driftwood Eagle Ember Fable Falcon Fennel Fern Firefly Flint Foxglove Garnet Ginger Gold "
    "Granite Harvest Hawthorn Hazel Hearth Heron Honey Indigo Iris Ivory Ivy Jade Jasmine Juniper "
    "Kestrel Lantern Larch Lark Laurel Lemon Lilac Lily Lotus Magpie Maple Marble Marigold Meadow "
    "Mint Mirror Moon Moss Mulberry Nectar Nettle Nutmeg Oak Oasis Olive Onyx Opal Orchid Otter "
    "Owl Paper Peach Pearl Pebble Pepper Pine Plum Poppy Prism Quartz Quill Raven Reed River "
    "Robin Rosemary Rowan Rustic Saffron Sage Sail Salt Sapphire Shell Silver Sorrel Sparrow "
    "Spruce Star Sumac Summit Sun Swallow Swan Sycamore Teal Thistle Thyme Tulip Umber Velvet "
    "Vesper Violet Walnut Wheat Willow Winter Wren Yarrow Zephyr"
)
_SUBJECTS: Final = words("Art Glass Railways Science Textiles Ships Maps Music Printing Clocks")
_OPERATORS: Final = entries(
    "Northline Group; Harbor & Sons; Blue Ridge Partners; Civic Trust; Lakeside Holdings; "
    "Meridian Services; Old Mill Company; Prairie Ventures; Summit Hospitality; Tidewater Group"
)
_CUISINES: Final = words("italian mexican thai indian french greek korean vegan seafood american")


@cache
def places() -> tuple[Place, ...]:
    """Return all places; their numbers begin at 100001."""
    found: list[Place] = []
    taken: set[str] = set()
    for town in towns():
        draw = random.Random(f"map.places/{town.name}")
        for kind in KINDS:
            for number in range(kind.count):
                name = _name(draw, kind, town, number, taken)
                found.append(_place(draw, 100_001 + len(found), name, kind, town))
    return tuple(found)


def build() -> Sequence[Content[Any]]:
    """Build the map's database."""
    return [Content(PLACES, places())]


def _name(draw: random.Random, kind: Kind, town: Town, number: int, taken: set[str]) -> str:
    """Return a name that no other place has; the town or its direction makes it different."""
    pattern = kind.names[number % len(kind.names)]

    def draw_name() -> str:
        return pattern.format(
            town=town.name,
            family=draw.choice(FAMILY_NAMES),
            thing=draw.choice(_THINGS),
            street=draw.choice(town.rows + town.columns),
            subject=draw.choice(_SUBJECTS),
            number=number + 1,
        )

    names = chain((draw_name() for _ in range(40)), _variants(draw_name, town))
    name = next(name for name in names if name not in taken)
    taken.add(name)
    return name


def _variants(draw_name: Callable[[], str], town: Town) -> Iterator[str]:
    name = draw_name()
    yield f"{name} {town.name}"
    for number in range(2, 1000):
        yield f"{name} {town.name} {number}"


def _place(draw: random.Random, number: int, name: str, kind: Kind, town: Town) -> Place:
    row, column = draw.randrange(SIDE), draw.randrange(SIDE)
    aside = draw.uniform(-0.45, 0.45)
    along_row = draw.random() < 0.5
    street = town.rows[row] if along_row else town.columns[column]
    north, east = (row, column + aside) if along_row else (row + aside, column)
    latitude, longitude = town.point(north, east)
    steps = column + aside if along_row else row + aside
    return Place(
        id=number,
        name=name,
        kind=kind.tag,
        title=kind.title,
        house=100 + round((steps + 1) * 100),
        street=street,
        district=town.district(north, east),
        town=town.name,
        state=town.state,
        postcode=f"{town.postcode}{10 + row * 2 + (column >= SIDE / 2):02d}",
        latitude=latitude,
        longitude=longitude,
        crossing=town.crossing(row, column),
        tags=tuple(_tags(draw, name, kind)),
    )


def _tags(draw: random.Random, name: str, kind: Kind) -> Iterator[tuple[str, str]]:
    yield kind.key, kind.tag
    if kind.tag in ("restaurant", "fast_food"):
        yield "cuisine", draw.choice(_CUISINES)
    if kind.tag == "hotel":
        yield "stars", str(draw.randrange(2, 6))
        yield "rooms", str(draw.randrange(20, 400))
    if kind.tag == "parking":
        yield "capacity", str(draw.randrange(20, 900))
    if kind.tag in ("stadium", "theatre", "cinema"):
        yield "capacity", str(draw.randrange(2, 400) * 50)
    if kind.hours:
        yield "opening_hours", draw.choice(kind.hours)
    if kind.key in ("amenity", "tourism", "shop", "aeroway") and kind.tag != "parking":
        yield "phone", phone(draw)
        site = "".join(letter for letter in name.lower() if letter.isalnum())
        yield "website", f"http://{site}.example"
    if draw.random() < 0.6:
        yield "operator", draw.choice(_OPERATORS)
    yield "wheelchair", draw.choice(("yes", "no", "limited"))
