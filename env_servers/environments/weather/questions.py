"""Questions that users ask about the weather, and how each is answered.

The templates of generated tasks: chains of one to six calls, answers that are numbers, counts,
words, dates, cities and lists. A template draws its particulars from a `Draw` and gives the goal
with its plan; the answer comes from playing the plan, never from a shortcut. A plan that returns
None has no clear answer (a tie, say), and the generator draws again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

from env_servers.environments.weather.expert import (
    Place,
    air_index,
    air_level,
    daily,
    distance,
    elevation,
    here,
    locate,
    today,
)
from env_servers.environments.weather.gazetteer import City
from env_servers.toolkit.tool_calls import Plan, PlannedCall

__all__ = ["TEMPLATES", "Draw", "Question", "Template"]

Run = Generator[PlannedCall, Any, Any]

_FIRST_TODAY: Final = date(2022, 10, 1)
_TODAYS: Final = 1000
_WET_MM: Final = 1.0
_SIDES: Final = (
    ("highest", "temperature_2m_max"),
    ("lowest", "temperature_2m_min"),
    ("mean", "temperature_2m_mean"),
)
_MEAN: Final = "temperature_2m_mean"
_RAIN: Final = "rain_sum"
_NUMBER: Final = "Please answer with a number."
_YES_NO: Final = "Please answer with 'Yes' or 'No'."
_DATE: Final = "Please answer with a date in the form YYYY-MM-DD."
_DATES: Final = "Please answer with an array of dates in the form YYYY-MM-DD."
_CITY: Final = "Please answer with the name of the city."


@dataclass(frozen=True, slots=True)
class Draw:
    """The particulars of one task; everything comes from one generator."""

    rng: random.Random
    cities: Sequence[City]
    today: date
    home: City

    @classmethod
    def of(cls, rng: random.Random, cities: Sequence[City]) -> Draw:
        """Draw a user somewhere, some day."""
        day = _FIRST_TODAY + timedelta(days=rng.randrange(_TODAYS))
        return cls(rng, cities, day, cities[rng.randrange(len(cities))])

    def others(self, count: int) -> list[City]:
        """Return different cities, none of them the user's."""
        drawn: list[City] = []
        while len(drawn) < count:
            city = self.cities[self.rng.randrange(len(self.cities))]
            if city.name not in {self.home.name, *(other.name for other in drawn)}:
                drawn.append(city)
        return drawn

    def choose(self, *wordings: str) -> str:
        """Return one of several wordings."""
        return wordings[self.rng.randrange(len(wordings))]

    def side(self) -> tuple[str, str]:
        """(word, variable) of one of the three temperatures."""
        return _SIDES[self.rng.randrange(len(_SIDES))]


class Question(NamedTuple):
    """A goal and the plan that answers it."""

    goal: str
    plan: Plan


Template = Callable[[Draw], Question]


def _difference(one: float, other: float) -> float:
    """Rounded to one decimal, and never -0.0."""
    return round(one - other, 1) + 0.0


# One call.


def level_of_index(draw: Draw) -> Question:
    index = draw.rng.randrange(3, 130)
    goal = draw.choose(
        f"My device shows an air quality index of {index}. Which air quality level is that?",
        f"Which level does an air quality index of {index} mean?",
    )

    def run() -> Run:
        return (yield from air_level(index))

    return Question(f"{goal} Please answer with the level.", run)


def elevation_of_coordinates(draw: Draw) -> Question:
    city = draw.home
    goal = (
        f"How many metres above sea level is the place at latitude {city.latitude} and "
        f"longitude {city.longitude}? {_NUMBER}"
    )

    def run() -> Run:
        return (yield from elevation(Place("that place", city.latitude, city.longitude)))

    return Question(goal, run)


def distance_of_coordinates(draw: Draw) -> Question:
    one, other = draw.others(2)
    goal = (
        f"How many kilometres apart are the places at latitude {one.latitude}, longitude "
        f"{one.longitude} and at latitude {other.latitude}, longitude {other.longitude}? {_NUMBER}"
        " Round it to one decimal."
    )

    def run() -> Run:
        first = Place("the first place", one.latitude, one.longitude)
        second = Place("the second", other.latitude, other.longitude)
        return round((yield from distance(first, second)), 1)

    return Question(goal, run)


# Two calls.


def elevation_of_city(draw: Draw) -> Question:
    (city,) = draw.others(1)
    goal = draw.choose(
        f"How many metres above sea level is {city.name}?",
        f"What is the elevation of {city.name} in metres?",
    )

    def run() -> Run:
        place = yield from locate(city.name)
        return (yield from elevation(place))

    return Question(f"{goal} {_NUMBER}", run)


def past_day(draw: Draw) -> Question:
    (city,) = draw.others(1)
    day = draw.today - timedelta(days=draw.rng.randrange(2, 700))
    word, variable = draw.side()
    goal = (
        f"Today is {draw.today}. What was the {word} temperature in {city.name} on {day}, in "
        f"degrees Celsius? {_NUMBER}"
    )

    def run() -> Run:
        place = yield from locate(city.name)
        days = yield from daily("temp", place, day, day, draw.today)
        return days[variable][0]

    return Question(goal, run)


def warmest_past_day(draw: Draw) -> Question:
    (city,) = draw.others(1)
    last = draw.today - timedelta(days=draw.rng.randrange(2, 400))
    first = last - timedelta(days=draw.rng.randrange(3, 15))
    warm = draw.rng.random() < 0.5
    word = "highest" if warm else "lowest"
    goal = (
        f"Today is {draw.today}. On which day from {first} to {last} was the mean temperature in "
        f"{city.name} {word}? {_DATE}"
    )

    def run() -> Run:
        place = yield from locate(city.name)
        days = yield from daily("temp", place, first, last, draw.today)
        return _extreme(days["time"], days[_MEAN], warm)

    return Question(goal, run)


def _extreme(names: Sequence[str], values: Sequence[float], most: bool) -> str | None:
    best = max(values) if most else min(values)
    return names[values.index(best)] if values.count(best) == 1 else None


# Three calls.


def tomorrow_in_city(draw: Draw) -> Question:
    (city,) = draw.others(1)
    word, variable = draw.side()
    goal = draw.choose(
        f"I fly to {city.name} tomorrow. What will the {word} temperature be there, in Celsius?",
        f"What is the {word} temperature in {city.name} tomorrow, in degrees Celsius?",
    )

    def run() -> Run:
        now = yield from today()
        place = yield from locate(city.name)
        day = now + timedelta(days=1)
        return (yield from daily("temp", place, day, day, now))[variable][0]

    return Question(f"{goal} {_NUMBER}", run)


def wet_days_ahead(draw: Draw) -> Question:
    (city,) = draw.others(1)
    count = draw.rng.randrange(4, 15)
    goal = (
        f"On how many of the next {count} days, from tomorrow on, will there be at least 1 mm of "
        f"rain in {city.name}? {_NUMBER}"
    )

    def run() -> Run:
        now = yield from today()
        place = yield from locate(city.name)
        first, last = now + timedelta(days=1), now + timedelta(days=count)
        days = yield from daily("rain", place, first, last, now)
        return sum(value >= _WET_MM for value in days[_RAIN])

    return Question(goal, run)


def dates_of_past_rain(draw: Draw) -> Question:
    (city,) = draw.others(1)
    count = draw.rng.randrange(4, 11)
    goal = (
        f"On which of the last {count} days, up to yesterday, was there at least 1 mm of rain in "
        f"{city.name}? {_DATES}"
    )

    def run() -> Run:
        now = yield from today()
        place = yield from locate(city.name)
        first, last = now - timedelta(days=count), now - timedelta(days=1)
        days = yield from daily("rain", place, first, last, now)
        wet = [
            name for name, value in zip(days["time"], days[_RAIN], strict=True) if value >= _WET_MM
        ]
        return wet or None

    return Question(goal, run)


def snow_of_past_days(draw: Draw) -> Question:
    (city,) = draw.others(1)
    count = draw.rng.randrange(3, 15)
    goal = (
        f"How many centimetres of snow fell in {city.name} over the last {count} days, up to "
        f"yesterday? {_NUMBER} Round it to one decimal."
    )

    def run() -> Run:
        now = yield from today()
        place = yield from locate(city.name)
        first, last = now - timedelta(days=count), now - timedelta(days=1)
        days = yield from daily("snow", place, first, last, now)
        return round(sum(days["snowfall_sum"]), 1) or None

    return Question(goal, run)


def distance_of_cities(draw: Draw) -> Question:
    one, other = draw.others(2)
    goal = draw.choose(
        f"How many kilometres is it from {one.name} to {other.name} as the crow flies?",
        f"How far apart are {one.name} and {other.name}, in kilometres?",
    )

    def run() -> Run:
        first = yield from locate(one.name)
        second = yield from locate(other.name)
        return round((yield from distance(first, second)), 1)

    return Question(f"{goal} {_NUMBER} Round it to one decimal.", run)


def air_index_of_city(draw: Draw) -> Question:
    (city,) = draw.others(1)
    goal = f"What is the air quality index of {city.name} today? {_NUMBER}"

    def run() -> Run:
        now = yield from today()
        place = yield from locate(city.name)
        return (yield from air_index(place, now))

    return Question(goal, run)


# Four calls.


def today_at_home(draw: Draw) -> Question:
    word, variable = draw.side()
    goal = draw.choose(
        f"What is today's {word} temperature where I am, in degrees Celsius?",
        f"Tell me the {word} temperature of today in my city, in Celsius.",
    )

    def run() -> Run:
        now = yield from today()
        place = yield from locate((yield from here()))
        return (yield from daily("temp", place, now, now, now))[variable][0]

    return Question(f"{goal} {_NUMBER}", run)


def rain_at_home(draw: Draw) -> Question:
    ahead = draw.rng.randrange(1, 8)
    when = "tomorrow" if ahead == 1 else f"in {ahead} days"
    goal = draw.choose(
        f"Do I need an umbrella {when}, because it will rain in my city?",
        f"Will it rain where I live {when}?",
    )

    def run() -> Run:
        place = yield from locate((yield from here()))
        now = yield from today()
        day = now + timedelta(days=ahead)
        days = yield from daily("rain", place, day, day, now)
        return "Yes" if days[_RAIN][0] > 0 else "No"

    return Question(f"{goal} {_YES_NO}", run)


def higher_city(draw: Draw) -> Question:
    one, other = draw.others(2)
    goal = f"Which city lies higher above the sea, {one.name} or {other.name}? {_CITY}"

    def run() -> Run:
        first = yield from locate(one.name)
        second = yield from locate(other.name)
        heights = (yield from elevation(first)), (yield from elevation(second))
        return _name_of_more((one.name, other.name), heights)

    return Question(goal, run)


def _name_of_more(names: Sequence[str], values: Sequence[float]) -> str | None:
    if values[0] == values[1]:
        return None
    return names[0] if values[0] > values[1] else names[1]


def air_level_of_city(draw: Draw) -> Question:
    (city,) = draw.others(1)
    goal = draw.choose(
        f"I want to go running in {city.name} today. Which level does the air quality have there?",
        f"Which air quality level does {city.name} have today?",
    )

    def run() -> Run:
        now = yield from today()
        place = yield from locate(city.name)
        return (yield from air_level((yield from air_index(place, now))))

    return Question(f"{goal} Please answer with the level.", run)


def coldest_day_at_home(draw: Draw) -> Question:
    count = draw.rng.randrange(3, 11)
    warm = draw.rng.random() < 0.5
    word = "warmest" if warm else "coldest"
    goal = (
        f"Which of the next {count} days, from tomorrow on, will be the {word} in my city, by its "
        f"mean temperature? {_DATE}"
    )

    def run() -> Run:
        place = yield from locate((yield from here()))
        now = yield from today()
        first, last = now + timedelta(days=1), now + timedelta(days=count)
        days = yield from daily("temp", place, first, last, now)
        return _extreme(days["time"], days[_MEAN], warm)

    return Question(goal, run)


def highs_at_home(draw: Draw) -> Question:
    count = draw.rng.randrange(2, 6)
    goal = (
        f"What were the highest temperatures of the last {count} days, up to yesterday, where I "
        "am, in degrees Celsius? Please answer with an array of numbers."
    )

    def run() -> Run:
        now = yield from today()
        place = yield from locate((yield from here()))
        first, last = now - timedelta(days=count), now - timedelta(days=1)
        return (yield from daily("temp", place, first, last, now))["temperature_2m_max"]

    return Question(goal, run)


# Five calls.


def warmer_city_tomorrow(draw: Draw) -> Question:
    one, other = draw.others(2)
    goal = draw.choose(
        f"Will {one.name} or {other.name} be warmer tomorrow, by the mean temperature?",
        f"Tomorrow I can travel to {one.name} or to {other.name}. Where will it be warmer on "
        "average?",
    )

    def run() -> Run:
        now = yield from today()
        day = now + timedelta(days=1)
        first = yield from locate(one.name)
        second = yield from locate(other.name)
        mean = (yield from daily("temp", first, day, day, now))[_MEAN][0]
        other_mean = (yield from daily("temp", second, day, day, now))[_MEAN][0]
        return _name_of_more((one.name, other.name), (mean, other_mean))

    return Question(f"{goal} {_CITY}", run)


def difference_today(draw: Draw) -> Question:
    one, other = draw.others(2)
    word, variable = draw.side()
    goal = (
        f"By how many degrees is today's {word} temperature in {one.name} above that in "
        f"{other.name}? {_NUMBER} Round it to one decimal; it is negative where {one.name} is "
        "colder."
    )

    def run() -> Run:
        now = yield from today()
        values: list[float] = []
        for name in (one.name, other.name):
            place = yield from locate(name)
            values.append((yield from daily("temp", place, now, now, now))[variable][0])
        return _difference(values[0], values[1])

    return Question(goal, run)


def air_level_at_home(draw: Draw) -> Question:
    goal = draw.choose(
        "Which level does the air quality in my city have today?",
        "Is the air outside fit for sports? Tell me today's air quality level where I am.",
    )

    def run() -> Run:
        place = yield from locate((yield from here()))
        now = yield from today()
        return (yield from air_level((yield from air_index(place, now))))

    return Question(f"{goal} Please answer with the level.", run)


def warmer_than_last_year(draw: Draw) -> Question:
    goal = draw.choose(
        "Is it warmer in my city today than on the same day last year, by the mean temperature?",
        "Does today's mean temperature where I am exceed that of this date one year ago?",
    )

    def run() -> Run:
        now = yield from today()
        place = yield from locate((yield from here()))
        before = _year_before(now)
        current = (yield from daily("temp", place, now, now, now))[_MEAN][0]
        earlier = (yield from daily("temp", place, before, before, now))[_MEAN][0]
        if current == earlier:
            return None
        return "Yes" if current > earlier else "No"

    return Question(f"{goal} {_YES_NO}", run)


def _year_before(day: date) -> date:
    return day.replace(year=day.year - 1, day=min(day.day, 28) if day.month == 2 else day.day)


# Six calls.


def warmer_there_than_here(draw: Draw) -> Question:
    (city,) = draw.others(1)
    ahead = draw.rng.randrange(1, 10)
    when = "tomorrow" if ahead == 1 else f"in {ahead} days"
    goal = draw.choose(
        f"I travel to {city.name} {when}. Will it be warmer there than at my place on that day, "
        "by the mean temperature?",
        f"Compare the mean temperatures {when}: is {city.name} warmer than my city?",
    )

    def run() -> Run:
        (home, there), now = yield from _both(city.name)
        day = now + timedelta(days=ahead)
        near = (yield from daily("temp", home, day, day, now))[_MEAN][0]
        far = (yield from daily("temp", there, day, day, now))[_MEAN][0]
        if near == far:
            return None
        return "Yes" if far > near else "No"

    return Question(f"{goal} {_YES_NO}", run)


def _both(name: str) -> Generator[PlannedCall, Any, tuple[tuple[Place, Place], date]]:
    """Return the user's city, another, and today."""
    now = yield from today()
    home = yield from locate((yield from here()))
    there = yield from locate(name)
    return (home, there), now


def warmer_dates(draw: Draw) -> Question:
    (city,) = draw.others(1)
    count = draw.rng.randrange(3, 8)
    goal = (
        f"On which of the next {count} days, from tomorrow on, will {city.name} be warmer than my "
        f"city, by the mean temperature? {_DATES}"
    )

    def run() -> Run:
        (home, there), now = yield from _both(city.name)
        first, last = now + timedelta(days=1), now + timedelta(days=count)
        near = yield from daily("temp", home, first, last, now)
        far = yield from daily("temp", there, first, last, now)
        pairs = zip(near["time"], near[_MEAN], far[_MEAN], strict=True)
        return [name for name, one, other in pairs if other > one] or None

    return Question(goal, run)


def wetter_days(draw: Draw) -> Question:
    (city,) = draw.others(1)
    count = draw.rng.randrange(4, 15)
    goal = (
        f"On how many of the last {count} days, up to yesterday, did it rain more in {city.name} "
        f"than in my city? {_NUMBER}"
    )

    def run() -> Run:
        (home, there), now = yield from _both(city.name)
        first, last = now - timedelta(days=count), now - timedelta(days=1)
        near = yield from daily("rain", home, first, last, now)
        far = yield from daily("rain", there, first, last, now)
        return sum(b > a for a, b in zip(near[_RAIN], far[_RAIN], strict=True))

    return Question(goal, run)


def colder_by(draw: Draw) -> Question:
    (city,) = draw.others(1)
    goal = (
        f"By how many degrees will tomorrow's lowest temperature in {city.name} be below the one "
        f"in my city? {_NUMBER} Round it to one decimal; it is negative where {city.name} is "
        "warmer."
    )

    def run() -> Run:
        (home, there), now = yield from _both(city.name)
        day = now + timedelta(days=1)
        near = (yield from daily("temp", home, day, day, now))["temperature_2m_min"][0]
        far = (yield from daily("temp", there, day, day, now))["temperature_2m_min"][0]
        return _difference(near, far)

    return Question(goal, run)


TEMPLATES: Final[tuple[Template, ...]] = (
    level_of_index,
    elevation_of_city,
    tomorrow_in_city,
    today_at_home,
    warmer_city_tomorrow,
    warmer_there_than_here,
    elevation_of_coordinates,
    past_day,
    wet_days_ahead,
    rain_at_home,
    difference_today,
    warmer_dates,
    distance_of_coordinates,
    warmest_past_day,
    dates_of_past_rain,
    higher_city,
    air_level_at_home,
    wetter_days,
    snow_of_past_days,
    distance_of_cities,
    air_level_of_city,
    coldest_day_at_home,
    warmer_than_last_year,
    colder_by,
    air_index_of_city,
    highs_at_home,
)
"""In the order in which consecutive tasks take them."""
