"""The weather functions as one episode sees them, with the original's rules.

Which days historical and forecast calls may ask for, the 30 days, the levels of air quality with
their holes, what of a reply counts for subgoals. A session holds only the user's date and place,
which never change, so forks share it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, cast

from env_servers.environments.weather.geodesy import Kilometres
from env_servers.environments.weather.prompt import TOOLS
from env_servers.environments.weather.service import VARIABLES, WeatherService
from env_servers.toolkit.tool_calls import Reply, ToolSet
from env_servers.toolkit.tool_calls.backends import TooledSession

__all__ = ["WeatherSession"]

NOT_EARLIER: Final = "Error: {name} should be earlier than current_date"
NOT_LATER: Final = "Error: {name} should be later than current_date"
TOO_LONG: Final = (
    "Error: Sorry, at present, we support a maximum time span of 30 days between start_date and "
    "end_date in a single query. Your input exceeds this range. You can split your current query "
    "into multiple sub-queries that meet our criteria."
)
_ISO: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LONGEST: Final = timedelta(days=30)
_LEVELS: Final = (
    (-float("inf"), 20, "good"),
    (21, 40, "fair"),
    (41, 60, "moderate"),
    (61, 80, "poor"),
    (81, 100, "very poor"),
)
"""(above, at most, level): sic, between 20 and 21 and so on there are holes."""
_WORST: Final = "extremely poor"


class WeatherSession(TooledSession):
    """The tools for one user."""

    toolset: ClassVar[ToolSet] = TOOLS

    def __init__(self, service: WeatherService, current_date: str, current_location: str) -> None:
        self.service = service
        self.current_date = current_date
        self.current_location = current_location

    def get_user_current_date(self) -> str:
        return self.current_date

    def get_user_current_location(self) -> str:
        return self.current_location

    def get_historical_temp(
        self, latitude: Any, longitude: Any, start_date: Any, end_date: Any
    ) -> Reply:
        return self._past("temp", latitude, longitude, start_date, end_date)

    def get_historical_rain(
        self, latitude: Any, longitude: Any, start_date: Any, end_date: Any
    ) -> Reply:
        return self._past("rain", latitude, longitude, start_date, end_date)

    def get_historical_snow(
        self, latitude: Any, longitude: Any, start_date: Any, end_date: Any
    ) -> Reply:
        return self._past("snow", latitude, longitude, start_date, end_date)

    def get_temp_forecast(
        self, latitude: Any, longitude: Any, start_date: Any, end_date: Any
    ) -> Reply:
        return self._coming("temp", latitude, longitude, start_date, end_date)

    def get_rain_forecast(
        self, latitude: Any, longitude: Any, start_date: Any, end_date: Any
    ) -> Reply:
        return self._coming("rain", latitude, longitude, start_date, end_date)

    def get_snow_forecast(
        self, latitude: Any, longitude: Any, start_date: Any, end_date: Any
    ) -> Reply:
        return self._coming("snow", latitude, longitude, start_date, end_date)

    def get_current_temp(self, latitude: Any, longitude: Any, current_date: Any) -> Reply:
        return self._daily("temp", latitude, longitude, current_date, current_date)

    def get_current_rain(self, latitude: Any, longitude: Any, current_date: Any) -> Reply:
        return self._daily("rain", latitude, longitude, current_date, current_date)

    def get_current_snow(self, latitude: Any, longitude: Any, current_date: Any) -> Reply:
        return self._daily("snow", latitude, longitude, current_date, current_date)

    def get_latitude_longitude(self, name: Any) -> Reply:
        return self.service.geocode(name)

    def get_elevation(self, latitude: Any, longitude: Any) -> Reply:
        return self.service.elevation(latitude, longitude)

    def get_distance(
        self, latitude1: Any, longitude1: Any, latitude2: Any, longitude2: Any
    ) -> Reply:
        reply = self.service.distance(latitude1, longitude1, latitude2, longitude2)
        return reply._replace(output=Kilometres(reply.value))

    def get_historical_air_quality_index(
        self, latitude: Any, longitude: Any, start_date: Any, end_date: Any
    ) -> Reply:
        refusal = self._not_past(start_date, end_date) or _too_long(start_date, end_date)
        if refusal:
            return Reply(refusal, ok=False)
        return self.service.air_quality(latitude, longitude, start_date, end_date)

    def get_current_air_quality_index(
        self, latitude: Any, longitude: Any, current_date: Any
    ) -> Reply:
        refusal = _too_long(current_date, current_date)
        if refusal:
            return Reply(refusal, ok=False)
        return self.service.air_quality(latitude, longitude, current_date, current_date)

    def get_air_quality_level(self, air_quality_index: Any) -> str:
        if air_quality_index <= _LEVELS[0][1]:
            return _LEVELS[0][2]
        for above, most, level in _LEVELS[1:]:
            if above < air_quality_index <= most:
                return level
        return _WORST

    def convert_zipcode_to_address(self, zipcode: Any) -> Reply:
        raise KeyError("zipcode")

    def cancel(self) -> None:
        self.service.cancel()

    def _past(self, kind: str, latitude: Any, longitude: Any, start: Any, end: Any) -> Reply:
        refusal = self._not_past(start, end)
        if refusal:
            return Reply(refusal, ok=False)
        return self._daily(kind, latitude, longitude, start, end)

    def _coming(self, kind: str, latitude: Any, longitude: Any, start: Any, end: Any) -> Reply:
        for name, day in (("start_date", start), ("end_date", end)):
            if day is not None and _read(day) <= _read(self.current_date):
                return Reply(NOT_LATER.format(name=name), ok=False)
        return self._daily(kind, latitude, longitude, start, end)

    def _not_past(self, start: Any, end: Any) -> str:
        for name, day in (("start_date", start), ("end_date", end)):
            if day is not None and _read(day) >= _read(self.current_date):
                return NOT_EARLIER.format(name=name)
        return ""

    def _daily(self, kind: str, latitude: Any, longitude: Any, start: Any, end: Any) -> Reply:
        refusal = _too_long(start, end)
        if refusal:
            return Reply(refusal, ok=False)
        reply = self.service.daily(kind, latitude, longitude, start, end)
        return reply._replace(output=compared(reply.value)) if reply.ok else reply


def _read(day: Any) -> datetime:
    """Return a day as the original reads it; raises TypeError, ValueError with its texts."""
    if type(day) is str and _ISO.fullmatch(day):
        with suppress(ValueError):
            return datetime.fromisoformat(day)  # reads the same, a tenth of the time
    return datetime.strptime(day, "%Y-%m-%d")


def _too_long(start: Any, end: Any) -> str:
    return TOO_LONG if _read(end) - _read(start) > _LONGEST else ""


def compared(value: Any) -> Any:
    """Return what of a daily reply counts for subgoals: temperatures do not."""
    if not isinstance(value, dict) or VARIABLES["temp"][0] not in value.get("daily", ()):
        return cast("Any", value)
    fields = cast("dict[str, Any]", value)
    daily = {key: days for key, days in fields["daily"].items() if key not in VARIABLES["temp"]}
    return {**fields, "daily": daily}
