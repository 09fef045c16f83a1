"""A made-up but consistent weather for every place and day.

Temperature follows latitude, height, season and passing air masses; rain and snow fall on wet days,
by temperature; dust follows the place and the season. A day at a place is a pure function of (grid
cell, day), so historical, current and forecast calls can never disagree. Values are rounded to the
original's decimals. Nothing here is a real measurement.
"""

from __future__ import annotations

import math
from datetime import date
from functools import lru_cache
from struct import pack
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

__all__ = ["Day", "day_at", "elevation_at", "grid_cell"]

SEED: Final = 20231
"""Another seed is another world; tasks and their answers change with it."""
_CELLS_PER_DEGREE: Final = 10
_YEAR: Final = 365.2425
_KEPT_DAYS: Final = 65_536

Cell = tuple[int, int]
"""(latitude, longitude) in tenths of a degree."""


class Day(NamedTuple):
    """The weather of one day in one grid cell."""

    highest: float
    """Degrees Celsius, as the two that follow."""
    lowest: float
    mean: float
    rain: float
    """Millimetres."""
    snow: float
    """Centimetres."""
    air: int
    """European air quality index for PM2.5, at noon."""


def grid_cell(latitude: float, longitude: float) -> Cell:
    """Return the grid cell of a place."""
    east = (longitude + 180.0) % 360.0 - 180.0
    return round(latitude * _CELLS_PER_DEGREE), round(east * _CELLS_PER_DEGREE)


def cell_centre(cell: Cell) -> tuple[float, float]:
    """(latitude, longitude) of a cell's centre."""
    return cell[0] / _CELLS_PER_DEGREE, cell[1] / _CELLS_PER_DEGREE


def _unit(kind: int, a: int, b: int, c: int = 0) -> float:
    """Return a number in [0, 1) that looks random and is the same everywhere."""
    return xxh3_64_intdigest(pack("<4q", kind, a, b, c), SEED) / 2**64


def _smooth(kind: int, cell: Cell, position: float) -> float:
    """Noise in [-1, 1] that changes smoothly with the position, with knots at whole numbers."""
    left = math.floor(position)
    part = position - left
    weight = part * part * (3 - 2 * part)
    one, other = _unit(kind, *cell, left), _unit(kind, *cell, left + 1)
    return 2 * (one + (other - one) * weight) - 1


def _relief(kind: int, latitude: float, longitude: float) -> float:
    """Noise in [-1, 1] that changes smoothly over the map, with knots at whole numbers."""
    south, west = math.floor(latitude), math.floor(longitude)
    down, right = latitude - south, longitude - west
    down, right = down * down * (3 - 2 * down), right * right * (3 - 2 * right)
    corners = [_unit(kind, south + i, west + j) for i in (0, 1) for j in (0, 1)]
    near = corners[0] + (corners[1] - corners[0]) * right
    far = corners[2] + (corners[3] - corners[2]) * right
    return 2 * (near + (far - near) * down) - 1


def elevation_at(latitude: float, longitude: float) -> float:
    """Metres above the sea, whole: hills upon highlands; lowlands are commonest."""
    lat, lon = round(latitude, 2), round(longitude, 2)
    highland = max(0.0, _relief(1, lat / 7, lon / 7) + 0.1) ** 2
    hills = _relief(2, lat * 2, lon * 2)
    bumps = _relief(3, lat * 20, lon * 20)
    height = 60 + 2400 * highland + (90 + 500 * highland) * hills + 25 * bumps
    return float(round(max(1.0, height)))


@lru_cache(maxsize=4096)
def _character(cell: Cell) -> tuple[float, float, float, float, float]:
    """(yearly mean, half of summer minus winter, share of wet days, daily span, dust)."""
    latitude, longitude = cell_centre(cell)
    far = abs(latitude) / 90
    height = elevation_at(latitude, longitude)
    inland = (_relief(4, latitude / 9, longitude / 9) + 1) / 2
    mean = 28 - 52 * far**1.7 - 0.0055 * height + 3 * _relief(5, latitude / 5, longitude / 5)
    swing = 1 + (24 + 8 * inland) * far**1.15
    wet = 0.1 + 0.38 * _unit(6, *cell) + 0.1 * (1 - inland)
    span = 5 + 8 * inland
    dust = 10 + 45 * _unit(7, *cell) ** 2
    return mean, swing, wet, span, dust


@lru_cache(maxsize=_KEPT_DAYS)
def day_at(cell: Cell, ordinal: int) -> Day:
    """Return the weather of a day; `ordinal` as of `datetime.date`."""
    mean_of_year, swing, wet, span, dust = _character(cell)
    season = math.cos(2 * math.pi * (ordinal - 19) / _YEAR)  # 1 in mid-January
    if cell[0] >= 0:
        season = -season
    unrest = 1 + swing / 8
    air_mass = 2.2 * _smooth(11, cell, ordinal / 5) + 1.3 * _smooth(12, cell, ordinal / 2)
    mean = mean_of_year + swing * season / 2 + unrest * air_mass
    mean += 0.03 * (ordinal - date(2000, 1, 1).toordinal()) / _YEAR
    is_wet = (_smooth(13, cell, ordinal / 2.5) + 1) / 2 * 0.6 + 0.4 * _unit(14, *cell, ordinal)
    depth = max(0.0, is_wet - (1 - wet) * 0.75)
    water = 60 * depth**1.6 * (0.4 + _unit(15, *cell, ordinal))
    half = span * (0.5 if depth else 0.75) * (0.7 + 0.6 * _unit(16, *cell, ordinal))
    frozen = min(1.0, max(0.0, (1.5 - mean) / 3))
    index = dust * (1 - 0.2 * season) * (1 + 0.4 * _smooth(17, cell, ordinal / 3))
    index *= 0.75 if depth else 1.0
    middle = round(mean, 1)
    return Day(
        highest=round(max(mean + half, middle), 1),
        lowest=round(min(mean - half, middle), 1),
        mean=middle,
        rain=round(water * (1 - frozen), 1),
        snow=round(water * frozen * 0.7, 2),
        air=max(1, round(index)),
    )
