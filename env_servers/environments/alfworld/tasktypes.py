"""The six kinds of household tasks, by the names of ALFWorld's folders.

Contains the names and how a folder's name is read.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["TaskType", "type_of_folder"]


class TaskType(StrEnum):
    """What is asked for; the value is how ALFWorld's folders begin."""

    PLACE = "pick_and_place_simple"
    """Put an object somewhere."""
    LOOK = "look_at_obj_in_light"
    """Hold an object beside a lamp that is on."""
    CLEAN = "pick_clean_then_place_in_recep"
    """Put an object somewhere that was cleaned in a sink."""
    HEAT = "pick_heat_then_place_in_recep"
    """Put an object somewhere that was heated in a microwave."""
    COOL = "pick_cool_then_place_in_recep"
    """Put an object somewhere that was cooled in a fridge."""
    TWO = "pick_two_obj_and_place"
    """Put two objects of a class in one place."""


def type_of_folder(folder: str) -> str:
    """Return the kind of task of a folder `<kind>-<object>-<other>-<place>-<scene>`."""
    return folder.partition("-")[0]
