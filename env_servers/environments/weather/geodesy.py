"""How far two places lie apart, reckoned as the original reckons it.

Coordinates are read as geopy reads them; distances are the geodesic on WGS 84 (Karney's, of
geographiclib). Other machines' mathematics libraries may differ in the last digits.
"""

from __future__ import annotations

from math import isclose, isfinite
from typing import Any, Final

from geographiclib.geodesic import Geodesic  # pyright: ignore[reportMissingTypeStubs]

__all__ = ["Kilometres", "distance_km"]

_EARTH: Final = Geodesic(6378.137, 1 / 298.257223563)
"""WGS 84, in kilometres."""
_SAME: Final = 1e-12
"""Relative difference that comes of another machine's mathematics library."""


class Kilometres(float):
    """A distance that equals the same distance reckoned on another machine."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and isclose(self, other, rel_tol=_SAME, abs_tol=0.0)

    __hash__ = float.__hash__


def distance_km(latitude1: Any, longitude1: Any, latitude2: Any, longitude2: Any) -> float:
    """Length of the geodesic on WGS 84; raises ValueError, TypeError for what is no place."""
    north1, east1 = _point(latitude1, longitude1)
    north2, east2 = _point(latitude2, longitude2)
    inverse: dict[str, float] = _EARTH.Inverse(north1, east1, north2, east2, Geodesic.DISTANCE)
    return float(inverse["s12"])


def _point(latitude: Any, longitude: Any) -> tuple[float, float]:
    north, east = float(latitude or 0.0), float(longitude or 0.0)
    if not (isfinite(north) and isfinite(east)):
        raise ValueError("Point coordinates must be finite.")
    if abs(north) > 90:
        raise ValueError("Latitude must be in the [-90; 90] range.")
    if abs(east) > 180:
        east = (east + 180.0) % 360.0 - 180.0
    return north, east
