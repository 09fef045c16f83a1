"""The weather tools: the original's rules and texts, and one weather whatever the call."""

from __future__ import annotations

import ast
from datetime import date, timedelta
from typing import Any

import pytest

from env_servers.environments.weather import Weather
from env_servers.environments.weather.climate import day_at, elevation_at, grid_cell
from env_servers.environments.weather.gazetteer import load_gazetteer
from env_servers.environments.weather.geodesy import distance_km
from env_servers.toolkit.tool_calls import ToolTask, ToolTaskSet
from tests.env_servers.environments.weather.conftest import ask, begin

TASK = ToolTask(
    goal="", subgoals=(1,), init={"current_date": "2023-05-01", "current_location": "Paris"}
)
HERE = {"latitude": 48.85, "longitude": 2.35}


@pytest.fixture
def episode(embedded: ToolTaskSet) -> Weather:
    return begin(embedded, embedded.item_ids("train", 3, 4)[0])


@pytest.fixture
def today(episode: Weather) -> date:
    return date.fromisoformat(ask(episode, "get_user_current_date"))


def days_of(text: str) -> dict[str, list[Any]]:
    return ast.literal_eval(text)["daily"]


def span(first: date, last: date) -> dict[str, object]:
    return {**HERE, "start_date": first.isoformat(), "end_date": last.isoformat()}


@pytest.mark.parametrize("kind", ["temp", "rain", "snow"])
def test_historical_days_lie_before_today_and_forecasts_after(
    episode: Weather, today: date, kind: str
) -> None:
    one = timedelta(days=1)
    past, coming = f"get_historical_{kind}", f"get_{kind}_forecast"
    assert ask(episode, past, **span(today, today)) == (
        "Error: start_date should be earlier than current_date"
    )
    assert ask(episode, past, **span(today - one, today)) == (
        "Error: end_date should be earlier than current_date"
    )
    assert ask(episode, coming, **span(today, today + one)) == (
        "Error: start_date should be later than current_date"
    )
    assert ask(episode, coming, **span(today + one, today)) == (
        "Error: end_date should be later than current_date"
    )
    assert days_of(ask(episode, past, **span(today - one, today - one)))["time"] == [
        str(today - one)
    ]
    assert len(days_of(ask(episode, coming, **span(today + one, today + 31 * one)))["time"]) == 31
    assert ask(episode, coming, **span(today + one, today + 32 * one)).startswith(
        "Error: Sorry, at present, we support a maximum time span of 30 days"
    )


def test_the_calls_for_past_present_and_future_agree_on_every_day(
    embedded: ToolTaskSet, episode: Weather, today: date
) -> None:
    """Users who live on other days see the same day as past, present and future."""
    seen: dict[str, dict[str, Any]] = {}
    for item in embedded.item_ids("train", 0, 300):
        other = begin(embedded, item)
        now = date.fromisoformat(ask(other, "get_user_current_date"))
        if now == today:
            continue
        tool = "get_historical_temp" if today < now else "get_temp_forecast"
        seen[tool] = days_of(ask(other, tool, **span(today, today)))
    current = days_of(ask(episode, "get_current_temp", **HERE, current_date=str(today)))
    assert set(seen) == {"get_historical_temp", "get_temp_forecast"}
    assert all(days == current for days in seen.values())


def test_replies_have_the_originals_shapes(episode: Weather, today: date) -> None:
    day = str(today)
    temp = ast.literal_eval(ask(episode, "get_current_temp", **HERE, current_date=day))
    assert list(temp) == ["latitude", "longitude", "daily_units", "daily"]
    assert temp["daily_units"] == {
        "time": "iso8601",
        "temperature_2m_max": "°C",
        "temperature_2m_min": "°C",
        "temperature_2m_mean": "°C",
    }
    air = ast.literal_eval(ask(episode, "get_current_air_quality_index", **HERE, current_date=day))
    assert air["daily_units"] == {"time": "iso8601", "european_aqi_pm2_5": "EAQI"}
    assert air["daily"]["time"] == [f"{day}T12:00"]
    found = ast.literal_eval(ask(episode, "get_latitude_longitude", name="Paris"))
    assert list(found["results"][0]) == ["name", "latitude", "longitude", "country_code"]
    assert found["results"][0]["country_code"] == "FR"
    assert list(ast.literal_eval(ask(episode, "get_elevation", **HERE))) == ["elevation"]


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("get_latitude_longitude", {"name": "Nowhere at all"}, "ERROR | KeyError('results')"),
        ("convert_zipcode_to_address", {"zipcode": "84323"}, "ERROR | KeyError('zipcode')"),
        (
            "get_current_temp",
            {**HERE, "current_date": "tomorrow"},
            "ERROR | ValueError(time data 'tomorrow' does not match format '%Y-%m-%d')",
        ),
        (
            "get_current_temp",
            {**HERE, "current_date": 5},
            "ERROR | TypeError(strptime() argument 1 must be str, not int)",
        ),
        (
            "get_historical_air_quality_index",
            {**HERE, "start_date": "2022-01-14", "end_date": "2022-01-21"},
            '{"error":true,"reason":"Parameter \'start_date\' is out of allowed range from '
            '2022-07-29 to 2049-12-31"}',
        ),
        (
            "get_elevation",
            {"latitude": 95, "longitude": 0},
            '{"error":true,"reason":"Latitude must be in range of -90 to 90°. Given: 95.0."}',
        ),
        (
            "get_distance",
            {"latitude1": 95, "longitude1": 0, "latitude2": 0, "longitude2": 0},
            "ERROR | ValueError(Latitude must be in the [-90; 90] range.)",
        ),
    ],
)
def test_questions_that_cannot_be_answered(
    episode: Weather, tool: str, arguments: dict[str, object], text: str
) -> None:
    assert ask(episode, tool, **arguments) == text


@pytest.mark.parametrize(
    ("index", "level"),
    [
        (20, "good"),
        (20.5, "extremely poor"),
        (21, "extremely poor"),
        (22, "fair"),
        (40, "fair"),
        (41, "extremely poor"),
        (60, "moderate"),
        (80, "poor"),
        (100, "very poor"),
        (101, "extremely poor"),
    ],
)
def test_air_quality_levels_have_the_originals_holes(
    episode: Weather, index: float, level: str
) -> None:
    assert ask(episode, "get_air_quality_level", air_quality_index=index) == level


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((29.76328, -95.36327), (25.77427, -80.19366), 1557.81056449014),
        ((29.76328, -95.36327), (28.53834, -81.37924), 1366.5125333931778),
        ((30.26715, -97.74306), (29.42412, -98.49363), 118.29400395517676),
    ],
)
def test_distances_are_the_recorded_ones_to_the_last_digits(
    one: tuple[float, float], other: tuple[float, float], expected: float
) -> None:
    assert distance_km(*one, *other) == pytest.approx(expected, rel=1e-13)


def test_coordinates_within_fifty_kilometres_satisfy_a_subgoal(embedded: ToolTaskSet) -> None:
    weather = Weather(embedded)
    subgoal = {"latitude": 48.85, "longitude": 2.35, "daily": {"time": ["2023-01-01"]}}
    assert weather.matches(subgoal, {**subgoal, "latitude": 49.0})
    assert not weather.matches(subgoal, {**subgoal, "latitude": 49.5})
    assert not weather.matches(subgoal, {**subgoal, "daily": {}})
    assert not weather.matches(subgoal, {**subgoal, "latitude": "x"})
    assert not weather.matches(18.5, "18.5")
    assert not weather.matches(20.0, 20.000000000000004)


def test_a_distance_satisfies_a_subgoal_that_another_machine_reckoned(
    embedded: ToolTaskSet,
) -> None:
    session = embedded.backend(TASK).open(TASK)
    given = {"latitude1": 30.26715, "longitude1": -97.74306}
    reply = session.call("get_distance", {**given, "latitude2": 29.42412, "longitude2": -98.49363})
    assert Weather(embedded).matches(118.29400395517676, reply.compared)
    assert not Weather(embedded).matches(118.294003956, reply.compared)
    assert not Weather(embedded).matches("118.29400395517676", reply.compared)


def test_any_satisfied_subgoal_counts_as_one(official: ToolTaskSet) -> None:
    episode = begin(official, "weather_39")  # its answer is published with two roundings
    seen = episode.step('Action: finish with Action Input: {"answer": 6.4}')
    assert (seen.reward, seen.terminated) == (1.0, True)
    dense = begin(official, "weather_39", reward="dense")
    assert dense.step('Action: finish with Action Input: {"answer": 6.4}').reward == 0.5


def test_the_climate_makes_sense() -> None:
    def year(latitude: float, longitude: float) -> list[Any]:
        start = date(2023, 1, 1).toordinal()
        cell = grid_cell(latitude, longitude)
        return [day_at(cell, start + day) for day in range(365)]

    for place in ((0.3, 32.6), (48.85, 2.35), (-33.9, 151.2), (64.1, -21.9), (-89.0, 0.0)):
        days = year(*place)
        assert all(day.lowest <= day.mean <= day.highest for day in days)
        assert all(day.rain >= 0 and day.snow >= 0 and day.air >= 1 for day in days)
        assert any(day.rain > 0 or day.snow > 0 for day in days)
    north, south = year(48.85, 2.35), year(-33.9, 151.2)
    july, january = slice(181, 212), slice(0, 31)
    assert mean(north[july]) > mean(north[january]) + 5
    assert mean(south[july]) < mean(south[january]) - 5
    assert mean(year(0.3, 32.6)) > mean(north) > mean(year(80.0, 2.35))


def mean(days: list[Any]) -> float:
    return sum(day.mean for day in days) / len(days)


def test_neighbouring_places_and_days_are_alike() -> None:
    assert abs(elevation_at(48.85, 2.35) - elevation_at(48.86, 2.35)) < 100
    assert grid_cell(48.82, 362.32) == grid_cell(48.82, 2.32)
    assert grid_cell(48.82, 2.32) == grid_cell(48.79, 2.34)


def test_cities_are_found_without_case_and_accents() -> None:
    gazetteer = load_gazetteer()
    assert len(gazetteer.cities) > 12_000
    assert gazetteer.search("zurich")[0].name == "Zürich"
    assert gazetteer.search("NEW YORK")[0].country == "US"
    assert gazetteer.search("San Franc")[0].name == "San Francisco"
    assert gazetteer.search("") == []
    assert gazetteer.search("x" * 100_000) == []
    assert all(-90 <= city.latitude <= 90 for city in gazetteer.cities)
