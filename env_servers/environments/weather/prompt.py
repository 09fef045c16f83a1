"""The tools of the weather environment: one declaration each, from which the prompt follows.

Names, parameters and their order are the original's; descriptions are this project's own words.
"""

from __future__ import annotations

from typing import Final

from env_servers.sdk import Parameter
from env_servers.toolkit.tool_calls import CHECK_VALID_ACTIONS, FINISH, Tool, ToolSet

__all__ = ["TOOLS"]

_PLACE: Final = (
    Parameter("latitude", "number", "Degrees north of the equator."),
    Parameter("longitude", "number", "Degrees east of Greenwich."),
)
_DAY: Final = (Parameter("current_date", "string", "Today, as YYYY-MM-DD."),)


def _span(which: str) -> tuple[Parameter, ...]:
    return (
        Parameter("start_date", "string", f"First {which} day, as YYYY-MM-DD."),
        Parameter("end_date", "string", f"Last {which} day, as YYYY-MM-DD."),
    )


def _historical(name: str, what: str) -> Tool:
    return Tool(
        f"get_historical_{name}",
        f"Look up the {what} of past days at a place, at most 31 days at once.",
        f"The {what} day by day.",
        _PLACE + _span("past"),
    )


def _forecast(name: str, what: str) -> Tool:
    return Tool(
        f"get_{name}_forecast",
        f"Look up the expected {what} of coming days at a place, at most 31 days at once.",
        f"The expected {what} day by day.",
        _PLACE + _span("coming"),
    )


def _current(name: str, what: str) -> Tool:
    return Tool(
        f"get_current_{name}", f"Look up today's {what} at a place.", f"The {what}.", _PLACE + _DAY
    )


_TEMP: Final = "temperature (highest, lowest and mean, in degrees Celsius)"
_RAIN: Final = "rainfall (in millimetres)"
_SNOW: Final = "snowfall (in centimetres)"
_AIR: Final = "air quality index (for fine dust, PM2.5)"

TOOLS: Final = ToolSet(
    (
        Tool("get_user_current_date", "Ask which day it is for the user.", "A date, YYYY-MM-DD."),
        Tool("get_user_current_location", "Ask where the user is.", "The name of a city."),
        _historical("temp", _TEMP),
        _historical("rain", _RAIN),
        _historical("snow", _SNOW),
        _forecast("snow", _SNOW),
        _current("snow", _SNOW),
        _current("temp", _TEMP),
        Tool(
            "get_latitude_longitude",
            "Find places by name.",
            "Up to three places with their coordinates, the best match first.",
            (Parameter("name", "string", "Name of a city or another place."),),
        ),
        Tool("get_elevation", "Find out how high a place lies.", "Metres above the sea.", _PLACE),
        _forecast("temp", _TEMP),
        _forecast("rain", _RAIN),
        _current("rain", _RAIN),
        Tool(
            "get_distance",
            "Measure how far two places lie apart.",
            "Kilometres as the crow flies.",
            (
                Parameter("latitude1", "number", "Latitude of the first place."),
                Parameter("longitude1", "number", "Longitude of the first place."),
                Parameter("latitude2", "number", "Latitude of the second place."),
                Parameter("longitude2", "number", "Longitude of the second place."),
            ),
        ),
        _historical("air_quality_index", _AIR),
        _current("air_quality_index", _AIR),
        Tool(
            "get_air_quality_level",
            "Put an air quality index into words.",
            "One of: good, fair, moderate, poor, very poor, extremely poor.",
            (Parameter("air_quality_index", "number", "The index."),),
        ),
        Tool(
            "convert_zipcode_to_address",
            "Not told to agents: the original knows the name, but has no service behind it.",
            "An error.",
            (Parameter("zipcode", "string", "A postal code."),),
            listed=False,
        ),
        CHECK_VALID_ACTIONS,
        FINISH,
    ),
    hints=(
        "Coordinates come from get_latitude_longitude only: do not recall or guess them.",
        "As soon as you know the answer, call finish with it.",
    ),
    example=(
        "The user asks about Lisbon, so I look up where it lies first.",
        "get_latitude_longitude",
        {"name": "Lisbon"},
    ),
)
