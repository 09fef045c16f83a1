"""The live backend against a local server that answers as Open-Meteo does."""

from __future__ import annotations

import ast
import json
import threading
from collections.abc import Iterator
from datetime import date, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from env_servers.sdk import EnvironmentConfig, Execution, InvalidOption, ResetOptions
from env_servers.server.instance import LoadedEnvironment
from env_servers.toolkit.tool_calls import ServiceUnavailable, ToolEnvironment
from tests.env_servers.environments.weather.conftest import ask, shown

DAY = "2023-05-01"
SURPLUS = {"generationtime_ms": 0.1, "utc_offset_seconds": 0, "timezone": "GMT", "elevation": 9.0}


class _OpenMeteo(BaseHTTPRequestHandler):
    """Answers in Open-Meteo's form; at 0.0 N it is down, 95.0 N it refuses."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.server.asked.append((parts.path, given))  # type: ignore[attr-defined]
        status, body = _answer(parts.path, given)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep quiet."""


def _answer(path: str, given: dict[str, str]) -> tuple[int, Any]:
    if given.get("latitude") == "0.0":
        return 503, {}
    if given.get("latitude") == "95.0":
        return 400, {"error": True, "reason": "Latitude must be in range"}
    if path == "/v1/search":
        if given["name"] == "Aconcagua":
            return 200, {"results": [{"name": "Aconcagua", "country_code": "AR"}]}
        if given["name"] == "Nowhere":
            return 200, {"generationtime_ms": 0.5}
        place = {
            "id": 1,
            "name": "Paris",
            "latitude": 48.85341,
            "longitude": 2.3488,
            "elevation": 42.0,
            "feature_code": "PPLC",
            "country_code": "FR",
            "admin1_id": 2,
            "timezone": "Europe/Paris",
            "population": 2138551,
            "postcodes": ["75001"],
            "country_id": 3,
            "country": "France",
            "admin1": "Ile",
        }
        lake = {"id": 2, "name": "Paris Lake", "latitude": 1.5, "longitude": 2.5}
        return 200, {"results": [place, lake], "generationtime_ms": 0.5}
    if path == "/v1/elevation":
        return 200, {"elevation": [38.0]}
    head = {"latitude": 48.8, "longitude": 2.3, **SURPLUS}
    if path == "/v1/air-quality":
        hours = [f"{DAY}T{hour:02}:00" for hour in range(24)]
        units = {"time": "iso8601", "european_aqi_pm2_5": "EAQI"}
        return 200, {
            **head,
            "hourly_units": units,
            "hourly": {"time": hours, "european_aqi_pm2_5": list(range(24))},
        }
    values = {name: [1.5] for name in given["daily"].split(",")}
    units = {"time": "iso8601", **dict.fromkeys(values, "x")}
    return 200, {**head, "daily_units": units, "daily": {"time": [given["start_date"]], **values}}


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadingHTTPServer]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), _OpenMeteo)
    made.asked = []  # type: ignore[attr-defined]
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture(scope="module")
def family(server: ThreadingHTTPServer) -> Iterator[LoadedEnvironment]:
    address = f"http://127.0.0.1:{server.server_port}"
    settings = {"weather.backend": "live", "weather.base_url": address, "weather.timeout": "5"}
    made = LoadedEnvironment("weather", EnvironmentConfig(settings=settings))
    yield made
    made.tasks.close()


@pytest.fixture
def episode(family: LoadedEnvironment) -> ToolEnvironment:
    made = family.environment(family.tasks)
    assert isinstance(made, ToolEnvironment)
    item = family.tasks.item_ids("train", 3, 4)[0]
    made.reset(family.tasks.get(item), ResetOptions())
    return made


def test_a_live_environment_runs_in_threads(family: LoadedEnvironment) -> None:
    assert family.spec.name == "weather"
    assert family.spec.execution is Execution.THREAD
    assert not family.spec.deterministic


def test_daily_values_are_asked_of_the_archive_and_cleaned(
    episode: Any, server: ThreadingHTTPServer
) -> None:
    day = date.fromisoformat(ask(episode, "get_user_current_date")) + timedelta(days=2)
    text = ask(
        episode,
        "get_rain_forecast",
        latitude=48.85,
        longitude=2.35,
        start_date=str(day),
        end_date=str(day),
    )
    assert ast.literal_eval(text) == {
        "latitude": 48.8,
        "longitude": 2.3,
        "daily_units": {"time": "iso8601", "rain_sum": "x"},
        "daily": {"time": [str(day)], "rain_sum": [1.5]},
    }
    path, given = server.asked[-1]  # type: ignore[attr-defined]
    assert path == "/v1/archive"
    assert given == {
        "latitude": "48.85",
        "longitude": "2.35",
        "start_date": str(day),
        "end_date": str(day),
        "timezone": "GMT",
        "daily": "rain_sum",
    }


def test_air_quality_is_the_value_at_noon(episode: Any) -> None:
    text = ask(
        episode, "get_current_air_quality_index", latitude=1.5, longitude=2, current_date=DAY
    )
    assert ast.literal_eval(text)["daily"] == {
        "time": [f"{DAY}T12:00"],
        "european_aqi_pm2_5": [12],
    }


def test_places_are_cleaned(episode: Any) -> None:
    found = ast.literal_eval(ask(episode, "get_latitude_longitude", name="Paris"))
    assert found == {
        "results": [
            {"name": "Paris", "latitude": 48.85341, "longitude": 2.3488, "country_code": "FR"},
            {"name": "Paris Lake", "latitude": 1.5, "longitude": 2.5},
        ]
    }
    assert ask(episode, "get_latitude_longitude", name="Nowhere") == "ERROR | KeyError('results')"
    text = ask(episode, "get_latitude_longitude", name="Aconcagua")
    assert text == "ERROR | KeyError('country')"
    assert ask(episode, "get_elevation", latitude=1.5, longitude=2) == "{'elevation': [38.0]}"


def test_a_refused_question_is_shown_as_the_service_put_it(episode: Any) -> None:
    text = ask(episode, "get_elevation", latitude=95.0, longitude=2)
    assert text == '{"error": true, "reason": "Latitude must be in range"}'


def test_a_service_that_is_down_is_no_observation_and_no_reward(episode: Any) -> None:
    with pytest.raises(ServiceUnavailable, match="Open-Meteo answers with 503"):
        ask(episode, "get_elevation", latitude=0.0, longitude=2)
    assert ask(episode, "get_elevation", latitude=1.5, longitude=2) == "{'elevation': [38.0]}"


def test_official_tasks_play_live_too(family: LoadedEnvironment, episode: Any) -> None:
    seen = episode.step("Action: get_user_current_location with Action Input: {}")
    assert shown(seen)


@pytest.mark.parametrize(("key", "value"), [("timeout", "0"), ("calls_per_minute", "many")])
def test_settings_must_be_positive_numbers(key: str, value: str) -> None:
    settings = {"weather.backend": "live", f"weather.{key}": value}
    with pytest.raises(InvalidOption, match=f"weather.{key} must be a positive number"):
        LoadedEnvironment("weather", EnvironmentConfig(settings=settings))
