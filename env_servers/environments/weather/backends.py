"""The three sources of weather: made up in this process, recorded, and Open-Meteo itself.

A recording may put a span of days together from recorded days; Open-Meteo's replies are cleaned as
the original cleans them. The tools' rules are the session's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, ClassVar, Final, cast

from env_servers.environments.weather.prompt import TOOLS
from env_servers.environments.weather.service import AIR, VARIABLES, EmbeddedService, WeatherService
from env_servers.environments.weather.session import WeatherSession
from env_servers.toolkit.tool_calls import (
    EMBEDDED,
    LIVE,
    Backend,
    NotRecorded,
    RecordedBackend,
    Recording,
    Reply,
    Session,
    ToolSettings,
    ToolTask,
    parse_reply,
)
from env_servers.toolkit.tool_calls.live import Answer, LiveService, Rate
from env_servers.toolkit.tool_calls.recordings import Exchange

__all__ = [
    "EmbeddedWeather",
    "LiveWeather",
    "OpenMeteo",
    "RecordedService",
    "RecordedWeather",
]

_KINDS: Final = {
    f"get_{shape}": kind
    for kind in VARIABLES
    for shape in (f"historical_{kind}", f"{kind}_forecast", f"current_{kind}")
} | {
    "get_historical_air_quality_index": "air",
    "get_current_air_quality_index": "air",
}
"""Which values a tool asks for."""
_SURPLUS: Final = (
    "elevation",
    "generationtime_ms",
    "timezone",
    "timezone_abbreviation",
    "utc_offset_seconds",
)
_HOSTS: Final = {
    "archive": "https://archive-api.open-meteo.com/v1/archive",
    "search": "https://geocoding-api.open-meteo.com/v1/search",
    "air-quality": "https://air-quality-api.open-meteo.com/v1/air-quality",
    "elevation": "https://api.open-meteo.com/v1/elevation",
}
_CALLS_PER_MINUTE: Final = 600
"""What Open-Meteo allows without a key."""
_NOON: Final = 12


class EmbeddedWeather(Backend):
    """Made-up weather; all episodes share it."""

    name: ClassVar[str] = EMBEDDED

    def __init__(self) -> None:
        self.service = EmbeddedService()

    def open(self, task: ToolTask) -> Session:
        return _session(self.service, task)


class RecordedWeather(RecordedBackend):
    """What Open-Meteo answered to the original."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording)
        self.service = RecordedService(recording)

    def open(self, task: ToolTask) -> Session:
        return _session(self.service, task)


class LiveWeather(Backend):
    """Open-Meteo itself; needs no key."""

    name: ClassVar[str] = LIVE

    def __init__(self, settings: ToolSettings) -> None:
        calls = round(settings.number("calls_per_minute", _CALLS_PER_MINUTE))
        self._live = LiveService(
            "Open-Meteo", rate=Rate(max(1, calls), 60.0), timeout=settings.number("timeout", 20.0)
        )
        base = settings.text("base_url", "").rstrip("/")
        self._urls = {path: f"{base}/v1/{path}" if base else url for path, url in _HOSTS.items()}

    def open(self, task: ToolTask) -> Session:
        return _session(OpenMeteo(self._live, self._urls), task)

    def close(self) -> None:
        self._live.close()


def _session(service: WeatherService, task: ToolTask) -> WeatherSession:
    return WeatherSession(service, task.init["current_date"], task.init["current_location"])


@dataclass(slots=True)
class _Series:
    """Recorded days of one kind of values at one place."""

    head: Mapping[str, Any]
    """The reply without its days."""
    days: dict[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    """Values by the reply's name of the day."""


class RecordedService(WeatherService):
    """Answers what was answered; raises NotRecorded for everything else."""

    def __init__(self, recording: Recording) -> None:
        self._exact: dict[tuple[Any, ...], str] = {}
        self._series: dict[tuple[str, float, float], _Series] = {}
        for exchange in recording.exchanges:
            if isinstance(exchange.arguments, dict):
                self._learn(exchange, cast("dict[str, Any]", exchange.arguments))

    def daily(self, kind: str, latitude: Any, longitude: Any, start: Any, end: Any) -> Reply:
        return self._span(kind, latitude, longitude, start, end)

    def air_quality(self, latitude: Any, longitude: Any, start: Any, end: Any) -> Reply:
        return self._span("air", latitude, longitude, start, end)

    def geocode(self, name: Any) -> Reply:
        return self._find("get_latitude_longitude", name)

    def elevation(self, latitude: Any, longitude: Any) -> Reply:
        return self._find("get_elevation", latitude, longitude)

    def distance(self, latitude1: Any, longitude1: Any, latitude2: Any, longitude2: Any) -> Reply:
        coordinates = (latitude1, longitude1, latitude2, longitude2)
        try:
            return self._find("get_distance", *coordinates)
        except NotRecorded:
            return super().distance(*coordinates)

    def _find(self, tool: str, *arguments: Any) -> Reply:
        text = self._exact.get((tool, *map(_plain, arguments)))
        if text is None:
            raise NotRecorded(tool, arguments)
        return parse_reply(text)

    def _span(self, kind: str, latitude: Any, longitude: Any, start: Any, end: Any) -> Reply:
        arguments = (latitude, longitude, start, end)
        text = self._exact.get((kind, *map(_plain, arguments)))
        if text is not None:
            return parse_reply(text)
        series = self._series.get((kind, _plain(latitude), _plain(longitude)))
        names = _day_names(kind, start, end)
        if series is None or not names or not all(name in series.days for name in names):
            raise NotRecorded(f"a reply with {kind}", arguments)
        columns = zip(*(series.days[name] for name in names), strict=True)
        variables = VARIABLES.get(kind, (AIR,))
        daily = {"time": names, **dict(zip(variables, map(list, columns), strict=True))}
        return Reply({**series.head, "daily": daily})

    def _learn(self, exchange: Exchange, arguments: dict[str, Any]) -> None:
        """Keep a reply, but for refusals that the tools' own rules make."""
        text = exchange.reply or ""
        if text.startswith("Error:"):
            return
        kind = _KINDS.get(exchange.tool)
        if kind is None:
            tool = TOOLS.get(exchange.tool)
            if tool is not None:
                values = (arguments.get(parameter.name) for parameter in tool.parameters)
                self._exact[(tool.name, *map(_plain, values))] = text
            return
        start = arguments.get("start_date", arguments.get("current_date"))
        end = arguments.get("end_date", arguments.get("current_date"))
        coordinates = (_plain(arguments.get("latitude")), _plain(arguments.get("longitude")))
        self._exact[(kind, *coordinates, _plain(start), _plain(end))] = text
        if text.startswith("{'"):
            self._learn_days((kind, *coordinates), parse_reply(text).value)

    def _learn_days(self, key: tuple[str, Any, Any], value: dict[str, Any]) -> None:
        head = {name: part for name, part in value.items() if name != "daily"}
        series = self._series.setdefault(key, _Series(head))
        names, *columns = value["daily"].values()
        series.days.update(zip(names, zip(*columns, strict=True), strict=True))


def _plain(value: Any) -> Any:
    """An argument as it is compared: numbers by value, also where they were written as texts."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return repr(value)
    try:
        return float(value)
    except (ValueError, OverflowError):
        return value


def _day_names(kind: str, start: Any, end: Any) -> list[str]:
    """Return the days of a span as replies name them; none where the dates are no dates."""
    try:
        first, last = date.fromisoformat(start), date.fromisoformat(end)
    except (TypeError, ValueError):
        return []
    suffix = f"T{_NOON}:00" if kind == "air" else ""
    days = range((last - first).days + 1)
    return [(first + timedelta(days=number)).isoformat() + suffix for number in days]


class OpenMeteo(WeatherService):
    """Open-Meteo's public service, for one episode."""

    def __init__(self, live: LiveService, urls: Mapping[str, str]) -> None:
        self._live = live
        self._urls = urls

    def daily(self, kind: str, latitude: Any, longitude: Any, start: Any, end: Any) -> Reply:
        answer = self._ask(
            "archive",
            latitude=latitude,
            longitude=longitude,
            start_date=start,
            end_date=end,
            timezone="GMT",
            daily=",".join(VARIABLES[kind]),
        )
        return Reply(_trimmed(self._read(answer))) if answer.ok else _refused(answer)

    def air_quality(self, latitude: Any, longitude: Any, start: Any, end: Any) -> Reply:
        answer = self._ask(
            "air-quality",
            latitude=latitude,
            longitude=longitude,
            start_date=start,
            end_date=end,
            timezone="GMT",
            hourly=AIR,
        )
        if not answer.ok:
            return _refused(answer)
        body = _trimmed(self._read(answer))
        hours = body["hourly"]
        noons = range(_NOON, len(hours["time"]) // 24 * 24, 24)
        return Reply(
            {
                "latitude": body["latitude"],
                "longitude": body["longitude"],
                "daily_units": body["hourly_units"],
                "daily": {name: [column[n] for n in noons] for name, column in hours.items()},
            }
        )

    def geocode(self, name: Any) -> Reply:
        answer = self._ask("search", name=name, count=3, language="en", format="json")
        if not answer.ok:
            return _refused(answer)
        body = self._read(answer)
        body["results"] = [_place(item) for item in body["results"]]
        body.pop("generationtime_ms", None)
        return Reply(body)

    def elevation(self, latitude: Any, longitude: Any) -> Reply:
        answer = self._ask("elevation", latitude=latitude, longitude=longitude)
        return Reply(self._read(answer)) if answer.ok else _refused(answer)

    def cancel(self) -> None:
        self._live.cancel(self)

    def _ask(self, path: str, **parameters: Any) -> Answer:
        """GET; what is None is left out, and the rest goes as text, as the original's does."""
        params = {name: str(value) for name, value in parameters.items() if value is not None}
        return self._live.get(self._urls[path], params, owner=self)

    def _read(self, answer: Answer) -> dict[str, Any]:
        try:
            body: Any = json.loads(answer.text)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise self._live.unavailable(f"answers with what is no JSON: {answer.text[:100]!r}")
        return cast("dict[str, Any]", body)


def _refused(answer: Answer) -> Reply:
    return Reply(answer.text, ok=False)


def _trimmed(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in _SURPLUS}


def _place(item: Mapping[str, Any]) -> dict[str, Any]:
    """A match with its name, place and country code; sic: a code without a country is an error."""
    entry = dict(item)
    if "country_code" in entry:
        entry.pop("country")
    for name in ("elevation", "feature_code", "timezone", "population", "postcodes"):
        entry.pop(name, None)
    return {
        name: value
        for name, value in entry.items()
        if not name.endswith("id") and "admin" not in name
    }
