"""The tables that embedded sheets hold. Train and eval tables have different topics.

All topics are this project's own words.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from env_servers.environments.sheet.cells import Cell
from env_servers.environments.sheet.workbook import Row

__all__ = ["EVAL_TOPICS", "TRAIN_TOPICS", "Column", "Topic", "draw_rows"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers."""

    title: str
    low: int
    high: int
    """Both in units of the last decimal."""
    decimals: int = 0
    look: str = "General"

    def draw(self, rng: random.Random, count: int) -> list[float]:
        """So many different numbers."""
        numbers = rng.sample(range(self.low, self.high + 1), count)
        return [number / 10**self.decimals for number in numbers]


@dataclass(frozen=True, slots=True)
class Topic:
    """What a table is about."""

    sheet: str
    label: str
    """Title of the first column, whose texts are all different."""
    labels: tuple[str, ...]
    group: str
    """Title of the second column, whose texts repeat."""
    groups: tuple[str, ...]
    numbers: tuple[Column, ...]


def _listed(names: str) -> tuple[str, ...]:
    return tuple(names.split(","))


TRAIN_TOPICS: Final = (
    Topic(
        "Stock",
        "Item",
        _listed(
            "anvil,bellows,chisel,drill,file,gimlet,hammer,jigsaw,lathe,mallet,plane,rasp,saw,"
            "tongs,vice,wrench"
        ),
        "Shelf",
        ("North", "South", "Cellar", "Yard"),
        (
            Column("Price", 150, 9900, 2, "0.00"),
            Column("Pieces", 1, 240),
            Column("Reserved", 0, 90),
            Column("Weight", 1, 400, 1, "0.0"),
        ),
    ),
    Topic(
        "Grades",
        "Student",
        _listed(
            "Adele,Bruno,Chiara,Dmitri,Elif,Fatou,Goran,Hana,Ilias,Jelena,Kofi,Lucia,Marek,Nadia,"
            "Otto,Pilar"
        ),
        "Course",
        ("A", "B", "C"),
        (
            Column("Algebra", 40, 100),
            Column("History", 40, 100),
            Column("Drawing", 40, 100),
            Column("Sports", 40, 100),
        ),
    ),
    Topic(
        "Shifts",
        "Worker",
        _listed(
            "Abel,Beata,Cyril,Dora,Emil,Fiona,Gustav,Hilda,Ivo,Judith,Karl,Lotte,Milan,Nora,"
            "Oskar,Petra"
        ),
        "Team",
        ("Early", "Late", "Night"),
        (
            Column("Hours", 8, 60),
            Column("Breaks", 1, 40),
            Column("Wage", 1200, 4800, 2, "#,##0.00"),
        ),
    ),
    Topic(
        "Harvest",
        "Crop",
        _listed(
            "barley,beans,beet,cabbage,carrots,flax,kale,leek,oats,onions,peas,potatoes,rye,"
            "spinach,turnips,wheat"
        ),
        "Field",
        ("Hill", "River", "Forest", "Road"),
        (
            Column("Sacks", 3, 320),
            Column("Price", 200, 3900, 2, "0.00"),
            Column("Losses", 0, 60),
        ),
    ),
    Topic(
        "Trips",
        "Destination",
        _listed(
            "Agadir,Bergen,Corfu,Dundee,Evora,Fez,Ghent,Haifa,Izmir,Jaffa,Kotor,Lund,Malaga,Nice,"
            "Oran,Porto"
        ),
        "Region",
        ("Coast", "Mountains", "City"),
        (
            Column("Days", 2, 30),
            Column("Cost", 19900, 299900, 2, "#,##0.00"),
            Column("Guests", 4, 80),
            Column("Rating", 20, 50, 1, "0.0"),
        ),
    ),
    Topic(
        "Library",
        "Title",
        _listed(
            "Amber Road,Blue Lantern,Cold Harbour,Dust Year,Empty Quay,First Frost,Glass Hill,"
            "High Water,Iron Gate,Jade Comb,Last Ferry,Moon Clock,North Wind,Old Orchard,"
            "Paper Boat,Quiet Mill"
        ),
        "Genre",
        ("Novel", "Travel", "Poetry", "Crime"),
        (Column("Copies", 1, 40), Column("Loans", 0, 400), Column("Pages", 80, 900)),
    ),
)

EVAL_TOPICS: Final = (
    Topic(
        "Fleet",
        "Ship",
        _listed(
            "Albatross,Bittern,Curlew,Dunlin,Egret,Fulmar,Gannet,Heron,Ibis,Jacana,Kestrel,"
            "Lapwing,Merlin,Osprey,Petrel,Redwing"
        ),
        "Port",
        ("Aarhus", "Bilbao", "Cork"),
        (
            Column("Cargo", 20, 900),
            Column("Crew", 4, 60),
            Column("Fuel", 100, 9900, 1, "0.0"),
            Column("Fee", 10000, 990000, 2, "#,##0.00"),
        ),
    ),
    Topic(
        "Orchestra",
        "Musician",
        _listed(
            "Amara,Bastien,Celeste,Dario,Esther,Felipe,Greta,Hugo,Irina,Jasper,Kira,Leandro,Mira,"
            "Niels,Ophelia,Pavel"
        ),
        "Section",
        ("Strings", "Brass", "Woodwind"),
        (
            Column("Concerts", 1, 60),
            Column("Rehearsals", 2, 90),
            Column("Pay", 5000, 90000, 2, "#,##0.00"),
        ),
    ),
    Topic(
        "Bakery",
        "Bread",
        _listed(
            "bagel,baguette,brioche,ciabatta,cornbread,crumpet,focaccia,lavash,naan,pita,pretzel,"
            "pumpernickel,roll,scone,stollen,toast"
        ),
        "Oven",
        ("Stone", "Steel", "Clay"),
        (
            Column("Loaves", 5, 300),
            Column("Price", 80, 990, 2, "0.00"),
            Column("Minutes", 8, 95),
            Column("Unsold", 0, 50),
        ),
    ),
)


def draw_rows(rng: random.Random, topic: Topic, count: int) -> list[Row]:
    """Return a table: titles, then so many records with different numbers in each column."""
    numbers = topic.numbers[: rng.randint(2, len(topic.numbers))]
    titles = (topic.label, topic.group, *(column.title for column in numbers))
    labels = rng.sample(topic.labels, count)
    drawn = [column.draw(rng, count) for column in numbers]
    rows: list[Row] = [tuple(Cell(title) for title in titles)]
    for index, label in enumerate(labels):
        cells = [Cell(label), Cell(rng.choice(topic.groups))]
        cells += [
            Cell(values[index], column.look) for column, values in zip(numbers, drawn, strict=True)
        ]
        rows.append(tuple(cells))
    return rows
