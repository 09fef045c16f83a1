"""Places on the map, and how they are addressed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from env_servers.environments.webarena.sites.tables import Order, Table

__all__ = ["BY_NAME", "PLACES", "Place", "meters_between"]

_EARTH = 6_371_000.0


@dataclass(frozen=True, slots=True)
class Place:
    """Something that has a name and stands at a street."""

    id: int
    name: str
    kind: str
    """Lower-case, as the tag of the original's data: `cafe`, `fuel`."""
    title: str
    """What a person calls the kind: `Cafe`, `Filling station`."""
    house: int
    street: str
    district: str
    town: str
    state: str
    postcode: str
    latitude: float
    longitude: float
    crossing: int
    """The nearest crossing of the road graph."""
    tags: tuple[tuple[str, str], ...]
    """Telephone, hours and whatever else is known."""

    @property
    def address(self) -> str:
        """Everything after the name, from the house number to the country."""
        parts = (str(self.house), self.street, self.district, self.town, self.state, self.postcode)
        return ", ".join((*parts, "United States"))

    @property
    def full_name(self) -> str:
        """Name and address."""
        return f"{self.name}, {self.address}"

    @property
    def point(self) -> tuple[float, float]:
        """Latitude and longitude."""
        return self.latitude, self.longitude


def _text(place: Place) -> str:
    return f"{place.name} {place.name} {place.title} {place.kind} {place.address}"


PLACES = Table("map.places", Place, indexed=("town", "kind", "name"), text=_text)
BY_NAME: Order[Place] = Order("name", lambda place: (place.name, place.id))


def meters_between(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return the length of the great circle between two points in degrees."""
    north_a, north_b = math.radians(a[0]), math.radians(b[0])
    east = math.radians(b[1] - a[1])
    half = (
        math.sin((north_b - north_a) / 2) ** 2
        + math.cos(north_a) * math.cos(north_b) * math.sin(east / 2) ** 2
    )
    return 2 * _EARTH * math.asin(math.sqrt(half))
