"""The database of a railway: stations, lines, trains, trips with their delays, and tickets.

Dirty on purpose: the kind of a train is written in several ways, a cancelled trip has the delay
-1, ticket prices are whole cents, and times are texts without leading zeros on the hour.
"""

from __future__ import annotations

import random
from typing import Any, Final

from env_servers.environments.bird.domains.template import (
    Domain,
    Level,
    Pool,
    Rows,
    Template,
    days,
    pick,
    pool,
)

__all__ = ["RAILWAY"]

_DDL: Final = """
CREATE TABLE station (
  station_id INTEGER PRIMARY KEY, station_name TEXT NOT NULL, zone INTEGER NOT NULL,
  platforms INTEGER NOT NULL, step_free INTEGER);
CREATE TABLE line (
  line_id INTEGER PRIMARY KEY, line_name TEXT NOT NULL, colour TEXT NOT NULL);
CREATE TABLE stop (
  line_id INTEGER NOT NULL REFERENCES line(line_id), position INTEGER NOT NULL,
  station_id INTEGER NOT NULL REFERENCES station(station_id), km REAL NOT NULL,
  PRIMARY KEY (line_id, position));
CREATE TABLE train (
  train_id INTEGER PRIMARY KEY, kind TEXT NOT NULL, seats INTEGER NOT NULL,
  built INTEGER NOT NULL, last_check TEXT);
CREATE TABLE trip (
  trip_id INTEGER PRIMARY KEY, line_id INTEGER NOT NULL REFERENCES line(line_id),
  train_id INTEGER NOT NULL REFERENCES train(train_id), trip_date TEXT NOT NULL,
  departure TEXT NOT NULL, delay_minutes INTEGER NOT NULL);
CREATE TABLE ticket (
  ticket_id INTEGER PRIMARY KEY, trip_id INTEGER NOT NULL REFERENCES trip(trip_id),
  from_station INTEGER NOT NULL REFERENCES station(station_id),
  to_station INTEGER NOT NULL REFERENCES station(station_id),
  class INTEGER NOT NULL, price_cents INTEGER NOT NULL, discount TEXT)
"""

_NAMES: Final = (
    *("Alder", "Birch", "Cedar", "Elm", "Fir", "Hazel", "Juniper", "Larch", "Maple", "Oak"),
    *("Pine", "Rowan", "Spruce", "Willow"),
)
_ENDS: Final = ("ton", " Cross", " Park", "field")
_LINES: Final = (
    ("Coast Line", "blue"),
    ("Valley Line", "green"),
    ("Ring Line", "red"),
    ("Airport Express", "black"),
    ("Forest Line", "brown"),
    ("Lake Line", "cyan"),
    ("Summit Line", "white"),
    ("Border Line", "purple"),
)
_KINDS: Final = (
    *("regional", "Regional", "REG", "express", "Express", "EXP", "intercity", "Intercity", "IC"),
)
_DISCOUNTS: Final = (None, None, None, "student", "senior", "group")
_TRIPS: Final = 8000


def _rows(rng: random.Random) -> Rows:
    stations: list[tuple[Any, ...]] = []
    for number in range(1, 57):
        name = f"{_NAMES[(number - 1) % 14]}{_ENDS[(number - 1) // 14]}"
        step_free = (None, 0, 1, 1)[rng.randrange(4)]
        stations.append((number, name, 1 + rng.randrange(5), 1 + rng.randrange(12), step_free))
    yield "station", stations
    yield "line", [(number, *line) for number, line in enumerate(_LINES, 1)]
    stops = _stops(rng)
    yield "stop", stops
    checks = days(2022, 900)
    yield (
        "train",
        [
            (
                number,
                pick(rng, _KINDS),
                100 + 20 * rng.randrange(25),
                1985 + rng.randrange(38),
                None if rng.random() < 0.1 else checks[rng.randrange(900)],
            )
            for number in range(1, 121)
        ],
    )
    yield from _traffic(rng, stops)


def _stops(rng: random.Random) -> list[tuple[Any, ...]]:
    """Stops of all lines; stations without a line come first, so that none is left over."""
    rows: list[tuple[Any, ...]] = []
    unserved = list(range(1, 57))
    for line in range(1, len(_LINES) + 1):
        free = list(range(1, 57))
        tenths = 0
        for position in range(1, 11 + rng.randrange(6)):
            fresh = [station for station in unserved if station in free]
            source = fresh if fresh and position % 4 else free
            station = source[rng.randrange(len(source))]
            free.remove(station)
            if station in unserved:
                unserved.remove(station)
            rows.append((line, position, station, tenths / 10))
            tenths += 12 + rng.randrange(150)
    return rows


def _traffic(rng: random.Random, stops: list[tuple[Any, ...]]) -> Rows:
    dates = days(2022, 730)
    stations = {
        line: [stop[2] for stop in stops if stop[0] == line] for line in range(1, len(_LINES) + 1)
    }
    trips: list[tuple[Any, ...]] = []
    tickets: list[tuple[Any, ...]] = []
    for number in range(1, _TRIPS + 1):
        line = 1 + int(len(_LINES) * rng.random() ** 1.2)
        delay = -1 if rng.random() < 0.04 else int(90 * rng.random() ** 6)
        when = f"{5 + rng.randrange(19)}:{5 * rng.randrange(12):02d}"
        date = dates[rng.randrange(730)]
        trips.append((number, line, 1 + rng.randrange(116), date, when, delay))
        for _ in range(rng.randrange(6)):
            start = rng.randrange(len(stations[line]) - 1)
            end = start + 1 + rng.randrange(len(stations[line]) - start - 1)
            first = 1 + int(rng.random() < 0.8)
            price = (180 + 95 * (end - start)) * (3 - first)
            ends = stations[line][start], stations[line][end]
            ticket = (len(tickets) + 1, number, *ends, first, price, pick(rng, _DISCOUNTS))
            tickets.append(ticket)
    yield "trip", trips
    yield "ticket", tickets


_LINE: Final = pool("line", [name for name, _ in _LINES])
_STATION: Final = pool("station", [f"{name}{end}" for name in _NAMES for end in _ENDS])
_YEAR: Final = pool("year", (2022, 2023))
_ZONE: Final = pool("zone", (1, 2, 3, 4, 5))
_KIND: Final[Pool] = [
    {"kind": "regional", "short": "reg"},
    {"kind": "express", "short": "exp"},
    {"kind": "intercity", "short": "ic"},
]
_DISCOUNT: Final = pool("discount", ("student", "senior", "group"))
_MONTH: Final[Pool] = [
    {"month": "January", "mm": "01"},
    {"month": "April", "mm": "04"},
    {"month": "July", "mm": "07"},
    {"month": "August", "mm": "08"},
    {"month": "October", "mm": "10"},
    {"month": "December", "mm": "12"},
]
_KIND_HINT: Final = (
    "the kind of a train is a word or a short form (REG, EXP, IC), in upper or lower case"
)
_DELAY_HINT: Final = "delay_minutes is -1 for a cancelled trip"
_CENTS_HINT: Final = "prices are stored in cents"
_TIME_HINT: Final = "departure is a text such as 7:05 or 18:30, without a leading zero"
_S, _M, _C = Level.SIMPLE, Level.MODERATE, Level.CHALLENGING

_TEMPLATES: Final = (
    Template(
        _S,
        "Which stations of zone {zone} have more than {count} platforms? Give their names.",
        "SELECT station_name FROM station WHERE zone = {zone} AND platforms > {count}",
        "zone and platforms are columns of station",
        (_ZONE, pool("count", (4, 6))),
    ),
    Template(
        _S,
        "How many stations does the {line} stop at?",
        "SELECT COUNT(*) FROM stop AS s JOIN line AS l ON l.line_id = s.line_id"
        " WHERE l.line_name = '{line}'",
        "the stops of a line are rows of stop",
        (_LINE,),
    ),
    Template(
        _S,
        "Which lines stop at {station}? Give their names.",
        "SELECT l.line_name FROM line AS l JOIN stop AS s ON s.line_id = l.line_id"
        " JOIN station AS t ON t.station_id = s.station_id WHERE t.station_name = '{station}'",
        "stop connects lines with stations",
        (_STATION,),
    ),
    Template(
        _S,
        "How many trips did the {line} have in {month} {year}, cancelled ones included?",
        "SELECT COUNT(*) FROM trip AS t JOIN line AS l ON l.line_id = t.line_id"
        " WHERE l.line_name = '{line}' AND t.trip_date LIKE '{year}-{mm}-%'",
        "the date begins with year and month",
        (_LINE, _MONTH, _YEAR),
    ),
    Template(
        _S,
        "How many tickets with a {discount} discount were sold for class {class}?",
        "SELECT COUNT(*) FROM ticket WHERE discount = '{discount}' AND class = {class}",
        "discount and class are columns of ticket",
        (_DISCOUNT, pool("class", (1, 2))),
    ),
    Template(
        _M,
        "How many {kind} trains were built after {built}?",
        "SELECT COUNT(*) FROM train WHERE LOWER(kind) IN ('{kind}', '{short}') AND built > {built}",
        "in lower case the kind is either the word or its short form",
        (_KIND, pool("built", (1990, 2000, 2010))),
        _KIND_HINT,
    ),
    Template(
        _M,
        "How many trips of the {line} were cancelled in {year}?",
        "SELECT COUNT(*) FROM trip AS t JOIN line AS l ON l.line_id = t.line_id"
        " WHERE l.line_name = '{line}' AND t.trip_date LIKE '{year}-%'"
        " AND t.delay_minutes = -1",
        "cancelled trips carry the delay -1",
        (_LINE, _YEAR),
        _DELAY_HINT,
    ),
    Template(
        _M,
        "What was the average delay in minutes of the trips on the {line} in {month} {year},"
        " cancelled trips left out, rounded to two decimals?",
        "SELECT ROUND(AVG(t.delay_minutes), 2) FROM trip AS t JOIN line AS l"
        " ON l.line_id = t.line_id WHERE l.line_name = '{line}'"
        " AND t.trip_date LIKE '{year}-{mm}-%' AND t.delay_minutes >= 0",
        "the -1 of cancelled trips would spoil the average, so I leave them out",
        (_LINE, _MONTH, _YEAR),
        _DELAY_HINT,
    ),
    Template(
        _M,
        "What did the tickets for trips on the {line} bring in {year}, in whole currency units"
        " rounded to two decimals?",
        "SELECT ROUND(SUM(k.price_cents) / 100.0, 2) FROM ticket AS k JOIN trip AS t"
        " ON t.trip_id = k.trip_id JOIN line AS l ON l.line_id = t.line_id"
        " WHERE l.line_name = '{line}' AND t.trip_date LIKE '{year}-%'",
        "I sum the cents and divide by 100.0, so that the fraction stays",
        (_LINE, _YEAR),
        _CENTS_HINT,
    ),
    Template(
        _M,
        "How many trips on the {line} left before {hour} o'clock in the morning in {year}?",
        "SELECT COUNT(*) FROM trip AS t JOIN line AS l ON l.line_id = t.line_id"
        " WHERE l.line_name = '{line}' AND t.trip_date LIKE '{year}-%'"
        " AND CAST(t.departure AS INTEGER) < {hour}",
        "a cast to a number takes the hour, which stands before the colon",
        (_LINE, pool("hour", (6, 7, 8, 9)), _YEAR),
        _TIME_HINT,
    ),
    Template(
        _M,
        "How many passengers with a ticket got on at {station}, and how many got off there? Give"
        " both numbers in one row.",
        "SELECT (SELECT COUNT(*) FROM ticket WHERE from_station = s.station_id),"
        " (SELECT COUNT(*) FROM ticket WHERE to_station = s.station_id) FROM station AS s"
        " WHERE s.station_name = '{station}'",
        "a ticket refers to stations twice, so I count it in two subqueries",
        (_STATION,),
    ),
    Template(
        _M,
        "Which lines had more than {count} trips with a delay of at least {minutes} minutes in"
        " {year}? Give their names.",
        "SELECT l.line_name FROM line AS l JOIN trip AS t ON t.line_id = l.line_id"
        " WHERE t.delay_minutes >= {minutes} AND t.trip_date LIKE '{year}-%'"
        " GROUP BY l.line_id HAVING COUNT(*) > {count}",
        "I group the late trips by line and keep the large groups",
        (pool("count", (30, 50, 70)), pool("minutes", (20, 30, 45)), _YEAR),
    ),
    Template(
        _M,
        "How long is the {line} from its first to its last stop, in kilometres?",
        "SELECT MAX(s.km) FROM stop AS s JOIN line AS l ON l.line_id = s.line_id"
        " WHERE l.line_name = '{line}'",
        "km counts from the first stop, so the largest value is the length",
        (_LINE,),
        "km is the distance from the first stop of the line",
    ),
    Template(
        _M,
        "For each class, how many tickets were sold for trips of {kind} trains in {year}? Give"
        " class and number.",
        "SELECT k.class, COUNT(*) FROM ticket AS k JOIN trip AS t ON t.trip_id = k.trip_id"
        " JOIN train AS n ON n.train_id = t.train_id"
        " WHERE LOWER(n.kind) IN ('{kind}', '{short}') AND t.trip_date LIKE '{year}-%'"
        " GROUP BY k.class",
        "tickets lead over trips to trains, whose kind has two spellings in lower case",
        (_KIND, _YEAR),
        _KIND_HINT,
    ),
    Template(
        _C,
        "Which stations can be reached from {station} without changing trains? Give the names of"
        " the other stations of its lines.",
        "SELECT DISTINCT b.station_name FROM station AS a JOIN stop AS x"
        " ON x.station_id = a.station_id JOIN stop AS y ON y.line_id = x.line_id"
        " JOIN station AS b ON b.station_id = y.station_id"
        " WHERE a.station_name = '{station}' AND b.station_id <> a.station_id",
        "stop joined with itself over the line gives all pairs of stations on it",
        (_STATION,),
    ),
    Template(
        _C,
        "On which date of {year} did the {line} collect the most minutes of delay, cancelled trips"
        " left out? On equal sums, the earliest date.",
        "SELECT t.trip_date FROM trip AS t JOIN line AS l ON l.line_id = t.line_id"
        " WHERE l.line_name = '{line}' AND t.trip_date LIKE '{year}-%' AND t.delay_minutes >= 0"
        " GROUP BY t.trip_date ORDER BY SUM(t.delay_minutes) DESC, t.trip_date LIMIT 1",
        "I sum the delays by date and sort by the sum and then by the date",
        (_LINE, _YEAR),
        _DELAY_HINT,
    ),
    Template(
        _C,
        "What percentage of the {line} trips of {year} that ran was at most {minutes} minutes late,"
        " rounded to two decimals?",
        "SELECT ROUND(100.0 * SUM(t.delay_minutes <= {minutes}) / COUNT(*), 2) FROM trip AS t"
        " JOIN line AS l ON l.line_id = t.line_id WHERE l.line_name = '{line}'"
        " AND t.trip_date LIKE '{year}-%' AND t.delay_minutes >= 0",
        "a comparison is 1 or 0, so its sum counts the punctual trips among those that ran",
        (_LINE, _YEAR, pool("minutes", (3, 5, 10))),
        _DELAY_HINT,
    ),
    Template(
        _C,
        "How many tickets for the {line} were bought for at least {count} stops' distance?",
        "SELECT COUNT(*) FROM ticket AS k JOIN trip AS t ON t.trip_id = k.trip_id"
        " JOIN line AS l ON l.line_id = t.line_id JOIN stop AS a ON a.line_id = l.line_id"
        " AND a.station_id = k.from_station JOIN stop AS b ON b.line_id = l.line_id"
        " AND b.station_id = k.to_station WHERE l.line_name = '{line}'"
        " AND b.position - a.position >= {count}",
        "the positions of both stations on the line tell how many stops lie between",
        (_LINE, pool("count", (3, 5, 7))),
        "the distance in stops is the difference of the positions on the line",
    ),
    Template(
        _C,
        "Which trains were planned for more than half of all lines in {month} {year}? Give their"
        " train_id; cancelled trips count.",
        "SELECT train_id FROM trip WHERE trip_date LIKE '{year}-{mm}-%' GROUP BY train_id"
        " HAVING 2 * COUNT(DISTINCT line_id) > (SELECT COUNT(*) FROM line)",
        "twice a train's number of different lines has to exceed the number of all lines",
        (_MONTH, _YEAR),
    ),
    Template(
        _C,
        "What is the share of discounted tickets in percent for trips on the {line} in {month}"
        " {year}, rounded to one decimal?",
        "SELECT ROUND(100.0 * COUNT(k.discount) / COUNT(*), 1) FROM ticket AS k JOIN trip AS t"
        " ON t.trip_id = k.trip_id JOIN line AS l ON l.line_id = t.line_id"
        " WHERE l.line_name = '{line}' AND t.trip_date LIKE '{year}-{mm}-%'",
        "COUNT of a column leaves out NULL, which stands for no discount",
        (_LINE, _MONTH, _YEAR),
        "discount is NULL for a ticket at the full price",
    ),
    Template(
        _C,
        "For the {line}, which three months of {year} had the most trips? Give the months as two"
        " digits; on equal numbers, the earlier month.",
        "SELECT STRFTIME('%m', t.trip_date) AS month FROM trip AS t JOIN line AS l"
        " ON l.line_id = t.line_id WHERE l.line_name = '{line}'"
        " AND STRFTIME('%Y', t.trip_date) = '{year}'"
        " GROUP BY month ORDER BY COUNT(*) DESC, month LIMIT 3",
        "I group by month, sort by the count and keep three",
        (_LINE, _YEAR),
    ),
)

RAILWAY: Final = Domain(
    name="railway",
    seed=104,
    ddl=_DDL,
    rows=_rows,
    templates=_TEMPLATES,
    indexes=(
        *("stop(station_id)", "trip(line_id)", "trip(train_id)", "ticket(trip_id)"),
        *("ticket(from_station)", "ticket(to_station)"),
    ),
)
