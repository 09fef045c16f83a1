"""The household's words: kinds of rooms, receptacles and objects, and what goes where.

Contains facts only. The classes, their properties and which receptacle holds which object are those
of ALFWorld's games; how often a class occurs in a room is this project's choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = [
    "CLEANABLE",
    "COOLABLE",
    "HEATABLE",
    "HOLDS",
    "LAMPS",
    "OPENABLE",
    "ROOMS",
    "Furnishing",
    "Room",
    "RoomKind",
]


class RoomKind(StrEnum):
    """Where a game takes place."""

    KITCHEN = "kitchen"
    """Cooking: the only room in which things are heated and cooled."""
    LIVING_ROOM = "living_room"
    """Sitting, reading, watching."""
    BEDROOM = "bedroom"
    """Sleeping and working at a desk."""
    BATHROOM = "bathroom"
    """Washing."""


@dataclass(frozen=True, slots=True)
class Furnishing:
    """How often something is in a room."""

    least: int
    most: int
    chance: float = 1.0
    """Share of rooms that have it at all."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a kind of room may have in it."""

    receptacles: Mapping[str, Furnishing]
    objects: Mapping[str, Furnishing]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


OPENABLE: Final = _words("Cabinet Drawer Fridge Microwave Safe")
CLEANABLE: Final = _words(
    "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Kettle Knife Ladle Lettuce Mug Pan Plate"
    " Pot Potato SoapBar Spatula Spoon Tomato"
)
HEATABLE: Final = _words("Apple Bread Cup Egg Mug Plate Potato Tomato")
COOLABLE: Final = _words(
    "Apple Bowl Bread Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato WineBottle"
)
LAMPS: Final = _words("DeskLamp")
"""What can be used to look at something; they cannot be carried."""

_FOOD: Final = "Apple Bread Egg Lettuce Potato Tomato"
_CUTLERY: Final = "ButterKnife Fork Knife Ladle Spatula Spoon"
_DISHES: Final = "Bowl Cup Mug Plate"
_PAPERS: Final = "Book Newspaper Pen Pencil"
_POCKET: Final = "CellPhone CreditCard KeyChain"
_WASHING: Final = "Cloth DishSponge HandTowel SoapBar SoapBottle SprayBottle"
_SEAT: Final = f"Book Box {_POCKET} Laptop Newspaper Pillow RemoteControl"
_TABLE: Final = (
    f"AlarmClock Bowl Box {_PAPERS} {_POCKET} CD Candle Cloth Laptop Mug Plate RemoteControl"
    " Statue TissueBox Vase Watch WateringCan DeskLamp"
)

HOLDS: Final[Mapping[str, frozenset[str]]] = {
    "ArmChair": _words(f"{_SEAT} Cloth"),
    "BathtubBasin": _words("Cloth DishSponge HandTowel SoapBar"),
    "Bed": _words("Book CellPhone Laptop Pillow"),
    "Cabinet": _words(
        f"{_WASHING} {_DISHES} Book Box CD Candle Glassbottle Kettle Ladle Newspaper Pan"
        " PepperShaker Pot SaltShaker TissueBox ToiletPaper Vase WateringCan WineBottle"
    ),
    "Cart": _words(f"{_WASHING} Candle TissueBox ToiletPaper"),
    "CoffeeMachine": _words("Mug"),
    "CoffeeTable": _words(
        f"{_PAPERS} {_POCKET} Bowl Box Candle Laptop Plate RemoteControl Statue TissueBox Vase"
        " Watch WateringCan"
    ),
    "CounterTop": _words(
        f"{_FOOD} {_CUTLERY} {_DISHES} {_WASHING} {_POCKET} Book CD Candle Glassbottle Kettle Pan"
        " Pen Pencil PepperShaker Pot SaltShaker Statue TissueBox ToiletPaper Vase WineBottle"
    ),
    "Desk": _words(
        f"AlarmClock Book Bowl Box CD {_POCKET} DeskLamp Laptop Mug Pen Pencil RemoteControl Statue"
        " TissueBox Vase Watch"
    ),
    "DiningTable": _words(
        f"{_FOOD} {_CUTLERY} {_DISHES} {_PAPERS} {_POCKET} Box Candle Glassbottle Kettle Laptop Pan"
        " PepperShaker Pot RemoteControl SaltShaker SoapBottle Statue TissueBox Vase Watch"
        " WineBottle DishSponge"
    ),
    "Drawer": _words(
        f"{_CUTLERY} {_POCKET} {_PAPERS} {_WASHING} CD Candle PepperShaker RemoteControl SaltShaker"
        " TissueBox ToiletPaper Watch"
    ),
    "Dresser": _words(f"{_TABLE} SprayBottle ToiletPaper"),
    "Fridge": _words(f"{_FOOD} {_DISHES} Glassbottle Pan Pot WineBottle"),
    "GarbageCan": _words(
        "Apple Bread CD Cloth DishSponge Egg HandTowel Lettuce Newspaper Pen Pencil Potato SoapBar"
        " SoapBottle SprayBottle TissueBox ToiletPaper Tomato WineBottle"
    ),
    "HandTowelHolder": _words("HandTowel"),
    "LaundryHamper": _words("Cloth"),
    "Microwave": _words("Apple Bowl Bread Cup Egg Glassbottle Mug Plate Potato Tomato"),
    "Ottoman": _words(_SEAT),
    "Safe": _words("CD CellPhone CreditCard KeyChain Statue Vase Watch"),
    "Shelf": _words(
        f"{_TABLE} Cup DishSponge Glassbottle HandTowel Kettle PepperShaker Pot SaltShaker SoapBar"
        " SoapBottle SprayBottle ToiletPaper WineBottle"
    ),
    "SideTable": _words(
        f"{_TABLE} Cup DishSponge HandTowel PepperShaker SaltShaker SoapBar SoapBottle SprayBottle"
        " ToiletPaper"
    ),
    "SinkBasin": _words(
        f"{_CUTLERY} {_DISHES} Apple Cloth DishSponge Egg Glassbottle HandTowel Kettle Lettuce Pan"
        " Pot Potato SoapBar Tomato"
    ),
    "Sofa": _words(_SEAT),
    "StoveBurner": _words("Kettle Pan Pot"),
    "TVStand": _words("TissueBox"),
    "Toilet": _words(f"{_WASHING} Candle TissueBox ToiletPaper"),
    "ToiletPaperHanger": _words("ToiletPaper"),
    "TowelHolder": _words("Towel"),
}
"""Objects that a receptacle can hold, by class."""

_ONE: Final = Furnishing(1, 1)


def _some(text: str, most: int = 3, chance: float = 0.9) -> dict[str, Furnishing]:
    """Up to `most` of each class, in a share of the rooms."""
    return {name: Furnishing(1, most, chance) for name in text.split()}


ROOMS: Final[Mapping[RoomKind, Room]] = {
    RoomKind.KITCHEN: Room(
        {
            "Cabinet": Furnishing(4, 16),
            "CoffeeMachine": _ONE,
            "CounterTop": Furnishing(1, 3),
            "DiningTable": Furnishing(1, 2, 0.5),
            "Drawer": Furnishing(3, 12),
            "Fridge": _ONE,
            "GarbageCan": _ONE,
            "Microwave": _ONE,
            "Shelf": Furnishing(2, 3, 0.4),
            "SideTable": Furnishing(1, 1, 0.2),
            "SinkBasin": _ONE,
            "StoveBurner": Furnishing(4, 4),
        },
        _some(f"{_FOOD} {_DISHES} ButterKnife Fork Knife Spatula Spoon Pan Pot DishSponge")
        | _some("PepperShaker SaltShaker SoapBottle", 3, 0.9)
        | _some("Kettle Ladle Glassbottle Statue Vase WineBottle", 2, 0.4)
        | _some("Book CellPhone CreditCard Pen Pencil SprayBottle", 2, 0.15),
    ),
    RoomKind.LIVING_ROOM: Room(
        {
            "ArmChair": Furnishing(1, 3),
            "Cabinet": Furnishing(2, 6, 0.3),
            "CoffeeTable": Furnishing(1, 2, 0.7),
            "DiningTable": Furnishing(1, 1, 0.3),
            "Drawer": Furnishing(2, 9, 0.8),
            "Dresser": Furnishing(1, 1, 0.5),
            "GarbageCan": _ONE,
            "Ottoman": Furnishing(1, 1, 0.2),
            "Safe": Furnishing(1, 1, 0.3),
            "Shelf": Furnishing(2, 8, 0.5),
            "SideTable": Furnishing(1, 3),
            "Sofa": Furnishing(1, 2),
            "TVStand": Furnishing(1, 1, 0.3),
        },
        _some("Box CreditCard KeyChain Laptop Newspaper Pillow RemoteControl Statue TissueBox")
        | _some("CellPhone Plate Vase Watch", 3, 0.6)
        | _some("Book Bowl Candle Pen Pencil WateringCan", 2, 0.3)
        | {"DeskLamp": Furnishing(1, 1, 0.5)},
    ),
    RoomKind.BEDROOM: Room(
        {
            "ArmChair": Furnishing(1, 2, 0.3),
            "Bed": _ONE,
            "Cabinet": Furnishing(1, 4, 0.2),
            "Desk": Furnishing(1, 2, 0.8),
            "Drawer": Furnishing(2, 10),
            "Dresser": Furnishing(1, 1, 0.5),
            "GarbageCan": _ONE,
            "LaundryHamper": Furnishing(1, 1, 0.4),
            "Safe": Furnishing(1, 1, 0.3),
            "Shelf": Furnishing(2, 8, 0.7),
            "SideTable": Furnishing(1, 2),
        },
        _some("AlarmClock Book CD CellPhone CreditCard KeyChain Laptop Pen Pencil Pillow")
        | _some("Bowl Cloth Mug", 3, 0.5)
        | _some("Box RemoteControl Statue TissueBox Vase Watch", 2, 0.2)
        | {"DeskLamp": Furnishing(1, 1, 0.75)},
    ),
    RoomKind.BATHROOM: Room(
        {
            "BathtubBasin": Furnishing(1, 1, 0.5),
            "Cabinet": Furnishing(2, 8, 0.7),
            "Cart": Furnishing(1, 1, 0.15),
            "CounterTop": Furnishing(1, 2),
            "Drawer": Furnishing(1, 6, 0.5),
            "GarbageCan": _ONE,
            "HandTowelHolder": Furnishing(1, 3),
            "Shelf": Furnishing(1, 4, 0.3),
            "SideTable": Furnishing(1, 1, 0.2),
            "SinkBasin": Furnishing(1, 2),
            "Toilet": _ONE,
            "ToiletPaperHanger": _ONE,
            "TowelHolder": Furnishing(1, 2),
        },
        _some("Candle Cloth SoapBar SoapBottle SprayBottle ToiletPaper")
        | _some("DishSponge TissueBox", 2, 0.3)
        | {"HandTowel": Furnishing(1, 2), "Towel": Furnishing(1, 2)},
    ),
}
