"""What a weather service answers, and the one in this process.

Replies are cleaned as the original cleans them; the embedded service stands on the gazetteer and
the climate model. A refusal in words is `Reply(text, ok=False)`, as the original shows the text of
any answer but 200.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import date
from typing import Any, Final

from env_servers.environments.weather.climate import (
    Day,
    cell_centre,
    day_at,
    elevation_at,
    grid_cell,
)
from env_servers.environments.weather.gazetteer import Gazetteer, load_gazetteer
from env_servers.environments.weather.geodesy import distance_km
from env_servers.toolkit.tool_calls import Reply

__all__ = ["VARIABLES", "EmbeddedService", "WeatherService"]

VARIABLES: Final = {
    "temp": ("temperature_2m_max", "temperature_2m_min", "temperature_2m_mean"),
    "rain": ("rain_sum",),
    "snow": ("snowfall_sum",),
}
"""Open-Meteo's daily variables by the name that tools use."""
UNITS: Final = {"temp": "\N{DEGREE SIGN}C", "rain": "mm", "snow": "cm"}
AIR: Final = "european_aqi_pm2_5"
_FIRST_DAY: Final = date(1940, 1, 1)
_FIRST_AIR_DAY: Final = date(2022, 7, 29)
_LAST_DAY: Final = date(2049, 12, 31)

_VALUES: Final[dict[str, tuple[Callable[[Day], float], ...]]] = {
    "temp": (lambda day: day.highest, lambda day: day.lowest, lambda day: day.mean),
    "rain": (lambda day: day.rain,),
    "snow": (lambda day: day.snow,),
}


class WeatherService(ABC):
    """The four questions that the tools ask. Arguments are whatever the agent wrote."""

    @abstractmethod
    def daily(self, kind: str, latitude: Any, longitude: Any, start: Any, end: Any) -> Reply:
        """Daily values of `temp`, `rain` or `snow` from the first to the last day."""

    @abstractmethod
    def air_quality(self, latitude: Any, longitude: Any, start: Any, end: Any) -> Reply:
        """Return the index at noon of each day."""

    @abstractmethod
    def geocode(self, name: Any) -> Reply:
        """Up to three places; raises KeyError("results") where there is none."""

    @abstractmethod
    def elevation(self, latitude: Any, longitude: Any) -> Reply:
        """Metres above the sea."""

    def distance(self, latitude1: Any, longitude1: Any, latitude2: Any, longitude2: Any) -> Reply:
        """Kilometres between two places; reckoned here, whatever the service."""
        return Reply(distance_km(latitude1, longitude1, latitude2, longitude2))

    def cancel(self) -> None:
        """Called from another thread: let a question that waits return early."""


class _Refused(Exception):
    """When a question cannot be answered; the text is the reason."""


class EmbeddedService(WeatherService):
    """Made-up weather at real places; never waits, never changes."""

    def __init__(self, gazetteer: Gazetteer | None = None) -> None:
        self.gazetteer = gazetteer or load_gazetteer()

    def daily(self, kind: str, latitude: Any, longitude: Any, start: Any, end: Any) -> Reply:
        try:
            cell = grid_cell(*_place(latitude, longitude))
            days = _days(start, end, _FIRST_DAY)
        except _Refused as refusal:
            return _error(str(refusal))
        weather = [day_at(cell, day) for day in days]
        columns = dict(zip(VARIABLES[kind], _VALUES[kind], strict=True))
        north, east = cell_centre(cell)
        return Reply(
            {
                "latitude": north,
                "longitude": east,
                "daily_units": {"time": "iso8601", **dict.fromkeys(columns, UNITS[kind])},
                "daily": {
                    "time": [date.fromordinal(day).isoformat() for day in days],
                    **{name: [of(day) for day in weather] for name, of in columns.items()},
                },
            }
        )

    def air_quality(self, latitude: Any, longitude: Any, start: Any, end: Any) -> Reply:
        try:
            cell = grid_cell(*_place(latitude, longitude))
            days = _days(start, end, _FIRST_AIR_DAY)
        except _Refused as refusal:
            return _error(str(refusal))
        north, east = cell_centre(cell)
        return Reply(
            {
                "latitude": north,
                "longitude": east,
                "daily_units": {"time": "iso8601", AIR: "EAQI"},
                "daily": {
                    "time": [f"{date.fromordinal(day).isoformat()}T12:00" for day in days],
                    AIR: [day_at(cell, day).air for day in days],
                },
            }
        )

    def geocode(self, name: Any) -> Reply:
        cities = self.gazetteer.search(str(name))
        if not cities:
            raise KeyError("results")
        return Reply(
            {
                "results": [
                    {
                        "name": city.name,
                        "latitude": city.latitude,
                        "longitude": city.longitude,
                        "country_code": city.country,
                    }
                    for city in cities
                ]
            }
        )

    def elevation(self, latitude: Any, longitude: Any) -> Reply:
        try:
            return Reply({"elevation": [elevation_at(*_place(latitude, longitude))]})
        except _Refused as refusal:
            return _error(str(refusal))


def _error(reason: str) -> Reply:
    return Reply(f'{{"error":true,"reason":"{reason}"}}', ok=False)


def _place(latitude: Any, longitude: Any) -> tuple[float, float]:
    north, east = _degrees(latitude, "Latitude", 90), _degrees(longitude, "Longitude", 180)
    return north, east


def _degrees(value: Any, what: str, most: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _Refused(f"{what} is no number")
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise _Refused(f"{what} is no number") from None
    if not abs(number) <= most:
        raise _Refused(
            f"{what} must be in range of -{most} to {most}\N{DEGREE SIGN}. Given: {number}."
        )
    return number


def _days(start: Any, end: Any, first: date) -> range:
    """Ordinals of the days; both dates were read before, so they are texts."""
    days: list[date] = []
    for name, text in (("start_date", start), ("end_date", end)):
        try:
            day = date.fromisoformat(text) if len(text) == 10 else None
        except (TypeError, ValueError):
            day = None
        if day is None:
            raise _Refused("Invalid date format. Make sure to use 'YYYY-MM-DD'")
        if not first <= day <= _LAST_DAY:
            raise _Refused(
                f"Parameter '{name}' is out of allowed range from {first} to {_LAST_DAY}"
            )
        days.append(day)
    if days[1] < days[0]:
        raise _Refused("End-date must be larger or equals than start-date")
    return range(days[0].toordinal(), days[1].toordinal() + 1)
