"""The places of the invented world: lands, waters, mountains, towns and what stands in them.

Contains how many there are and which facts each has. It adds to a world and knows no texts.
"""

from __future__ import annotations

from typing import Final

from env_servers.environments.searchqa.lexicon import (
    CRAFTS,
    FESTIVALS,
    FOODS,
    INGREDIENTS,
    MONTHS,
    SCHOOLS,
)
from env_servers.environments.searchqa.naming import CULTURES
from env_servers.environments.searchqa.world import PRESENT, Entity, World

__all__ = ["add_country_towns", "add_customs", "add_lands", "add_waters"]

COUNTRIES: Final = 20
RIVERS: Final = 420
MOUNTAINS: Final = 420
LAKES: Final = 180
TOWNS: Final = 2600
UNIVERSITIES: Final = 220
FESTIVAL_COUNT: Final = 260
DISHES: Final = 260

_CURRENCIES: Final = ("crown", "mark", "denar", "florin", "shilling", "lira", "taler", "peso")


def add_lands(world: World) -> None:
    """Countries; each has a culture, which gives its places and people their names."""
    names, draw = world.names, world.draw
    for number in range(COUNTRIES):
        culture = number % len(CULTURES)
        stem = names.place(culture)
        country = world.add(
            "country",
            f"{stem.rstrip('aeiouy')}{draw.pick(('ia', 'land', 'mark', 'ovia', 'or'))}",
            language=f"{stem.rstrip('aeiouy')}ish",
            currency=f"{stem.rstrip('aeiouy')}ish {draw.pick(_CURRENCIES)}",
            founded=draw.between(1150, 1870),
        )
        world.cultures[country.number] = culture


def add_waters(world: World) -> None:
    """Mountains, lakes, and rivers that rise on the ones and often end in the others."""
    names, draw = world.names, world.draw
    for _ in range(MOUNTAINS):
        country = world.any("country")
        name = names.place(world.culture(country))
        height = draw.between(900, 6900)
        world.add("mountain", f"Mount {name}", country=country, height=height)
    for _ in range(LAKES):
        country = world.any("country")
        name = names.place(world.culture(country))
        depth = draw.between(6, 480)
        world.add("lake", f"Lake {name}", country=country, depth=depth)
    for _ in range(RIVERS):
        source = world.any("mountain")
        name = names.place(world.culture(source))
        world.add(
            "river",
            f"{name} River",
            country=source.to("country"),
            source=source,
            mouth=world.any("lake"),
            length=draw.between(38, 1900),
        )


def add_country_towns(world: World) -> None:
    """Towns on rivers, capitals among them, and the universities of some."""
    names, draw = world.names, world.draw
    for _ in range(TOWNS):
        river = world.any("river")
        country = river.to("country")
        world.add(
            "town",
            names.town(world.culture(country)),
            country=country,
            river=river,
            population=draw.between(11, 9900) * draw.pick((11, 13, 37, 101)),
            founded=draw.between(870, 1890),
            craft=draw.pick(CRAFTS),
        )
    towns: dict[int, list[Entity]] = {}
    for town in world.by_kind["town"]:
        towns.setdefault(town.to("country").number, []).append(town)
        twin = world.any("town")
        if twin is not town:
            town.facts["twin"] = twin
    for country in world.by_kind["country"]:
        country.facts["capital"] = draw.pick(towns.get(country.number) or world.by_kind["town"])
        country.facts["highest"] = _highest(world, country)
    for town in draw.few(world.by_kind["town"], UNIVERSITIES):
        world.add(
            "university",
            f"University of {town.name}",
            town=town,
            founded=draw.between(max(town.amount("founded"), 1300), 1960),
            school=draw.pick(SCHOOLS),
        )


def _highest(world: World, country: Entity) -> Entity:
    mountains = [m for m in world.by_kind["mountain"] if m.facts["country"] is country]
    return max(mountains or world.by_kind["mountain"], key=lambda m: (m.amount("height"), m.name))


def add_customs(world: World) -> None:
    """Festivals and dishes of towns."""
    draw = world.draw
    for town in draw.few(world.by_kind["town"], FESTIVAL_COUNT):
        world.add(
            "festival",
            f"{town.name} {draw.pick(FESTIVALS)} Festival",
            town=town,
            founded=draw.between(max(town.amount("founded"), 1600), PRESENT - 5),
            month=draw.pick(MONTHS),
        )
    for town in draw.few(world.by_kind["town"], DISHES):
        world.add(
            "dish",
            f"{town.name} {draw.pick(FOODS)}",
            town=town,
            ingredient=draw.pick(INGREDIENTS),
            first_recorded=draw.between(max(town.amount("founded"), 1500), 1950),
        )
