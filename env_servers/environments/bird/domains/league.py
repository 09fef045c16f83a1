"""The database of a football league: clubs, players, matches, goals and cards.

Dirty on purpose: heights are written in metres and in centimetres, positions in words and in
short forms, the attendance of a match without spectators is NULL.
"""

from __future__ import annotations

import random
from typing import Any, Final

from env_servers.environments.bird.domains.retail import FIRST, LAST
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

__all__ = ["LEAGUE"]

_DDL: Final = """
CREATE TABLE stadium (
  stadium_id INTEGER PRIMARY KEY, stadium_name TEXT NOT NULL, city TEXT NOT NULL,
  capacity INTEGER NOT NULL);
CREATE TABLE club (
  club_id INTEGER PRIMARY KEY, club_name TEXT NOT NULL, founded INTEGER,
  stadium_id INTEGER NOT NULL REFERENCES stadium(stadium_id));
CREATE TABLE player (
  player_id INTEGER PRIMARY KEY, player_name TEXT NOT NULL, country TEXT,
  birth_date TEXT NOT NULL, height TEXT, position TEXT NOT NULL);
CREATE TABLE contract (
  player_id INTEGER NOT NULL REFERENCES player(player_id),
  club_id INTEGER NOT NULL REFERENCES club(club_id), season INTEGER NOT NULL,
  shirt INTEGER NOT NULL, weekly_wage INTEGER NOT NULL, PRIMARY KEY (player_id, season));
CREATE TABLE game (
  game_id INTEGER PRIMARY KEY, season INTEGER NOT NULL, played TEXT NOT NULL,
  home_club INTEGER NOT NULL REFERENCES club(club_id),
  away_club INTEGER NOT NULL REFERENCES club(club_id),
  home_goals INTEGER NOT NULL, away_goals INTEGER NOT NULL, attendance INTEGER);
CREATE TABLE goal (
  goal_id INTEGER PRIMARY KEY, game_id INTEGER NOT NULL REFERENCES game(game_id),
  player_id INTEGER NOT NULL REFERENCES player(player_id), minute INTEGER NOT NULL,
  penalty INTEGER NOT NULL);
CREATE TABLE card (
  card_id INTEGER PRIMARY KEY, game_id INTEGER NOT NULL REFERENCES game(game_id),
  player_id INTEGER NOT NULL REFERENCES player(player_id), minute INTEGER NOT NULL,
  colour TEXT NOT NULL)
"""

_TOWNS: Final = (
    *("Arlen", "Bexley", "Corvin", "Drayton", "Elford", "Farnley", "Gorton", "Halsey"),
    *("Ilmer", "Jarrow", "Kelby", "Lorne", "Marden", "Norwell", "Oakham", "Penrith"),
)
_CLUB_ENDS: Final = ("United", "Rovers", "City", "Athletic")
_CLUBS: Final = [f"{town} {_CLUB_ENDS[n % 4]}" for n, town in enumerate(_TOWNS)]
_COUNTRIES: Final = ("England", "Spain", "Ghana", "Brazil", "Sweden", "Poland", "Korea", None)
_POSITIONS: Final = (
    *("goalkeeper", "GK", "defender", "defender", "DF", "Defender", "midfielder", "MF"),
    *("Midfielder", "forward", "FW", "Forward"),
)
_SEASONS: Final = range(2012, 2024)
_SQUAD: Final = 24


def _rows(rng: random.Random) -> Rows:
    ends = ("Park", "Stadium", "Arena", "Ground")
    stadiums = [
        (n + 1, f"{town} {ends[n % 4]}", town, 8000 + 500 * rng.randrange(90))
        for n, town in enumerate(_TOWNS)
    ]
    yield "stadium", stadiums
    founded = [None if n == 11 else 1870 + rng.randrange(60) for n in range(len(_CLUBS))]
    yield "club", [(n + 1, name, founded[n], n + 1) for n, name in enumerate(_CLUBS)]
    squads, players, contracts = _squads(rng)
    yield "player", players
    yield "contract", contracts
    yield from _games(rng, squads, [stadium[3] for stadium in stadiums])


def _squads(
    rng: random.Random,
) -> tuple[dict[tuple[int, int], list[int]], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Players by (season, club), the players and their contracts."""
    born = days(1974, 9800)
    squads: dict[tuple[int, int], list[int]] = {}
    players: list[tuple[Any, ...]] = []
    contracts: list[tuple[Any, ...]] = []
    for season in _SEASONS:
        for club in range(1, len(_CLUBS) + 1):
            squad = squads.get((season - 1, club), [])
            squad = [player for player in squad if rng.random() < 0.75]
            while len(squad) < _SQUAD:
                number = len(players) + 1
                name = f"{FIRST[number % 20]} {pick(rng, LAST)}-{pick(rng, LAST)}"
                height = 165 + rng.randrange(35)
                written = (f"{height} cm", f"{height / 100:.2f} m", None)[rng.randrange(9) // 4]
                when = born[rng.randrange(9800)]
                row = (number, name, pick(rng, _COUNTRIES), when, written, pick(rng, _POSITIONS))
                players.append(row)
                squad.append(number)
            squads[season, club] = squad
            for shirt, player in enumerate(squad, 1):
                wage = 500 * (1 + int(120 * rng.random() ** 3))
                contracts.append((player, club, season, shirt, wage))
    return squads, players, contracts


def _games(
    rng: random.Random, squads: dict[tuple[int, int], list[int]], capacity: list[int]
) -> Rows:
    games: list[tuple[Any, ...]] = []
    goals: list[tuple[Any, ...]] = []
    cards: list[tuple[Any, ...]] = []
    clubs = range(1, len(_CLUBS) + 1)
    for season in _SEASONS:
        dates = days(season, 300)
        for home, away in ((home, away) for home in clubs for away in clubs if home != away):
            number = len(games) + 1
            scored = int(5 * rng.random() ** 1.6), int(4.5 * rng.random() ** 2)
            fans = int(capacity[home - 1] * (0.4 + 0.6 * rng.random()))
            seen = None if rng.random() < 0.03 else fans
            when = dates[rng.randrange(300)]
            games.append((number, season, when, home, away, *scored, seen))
            for club, count in zip((home, away), scored, strict=True):
                squad = squads[season, club]
                for _ in range(count):
                    who = squad[int(_SQUAD * rng.random() ** 2)]
                    minute, penalty = 1 + rng.randrange(94), int(rng.random() < 0.1)
                    goals.append((len(goals) + 1, number, who, minute, penalty))
                for _ in range(rng.randrange(5)):
                    colour = "red" if rng.random() < 0.07 else "yellow"
                    who = squad[rng.randrange(_SQUAD)]
                    cards.append((len(cards) + 1, number, who, 1 + rng.randrange(94), colour))
    yield "game", games
    yield "goal", goals
    yield "card", cards


_CLUB: Final = pool("club", _CLUBS)
_SEASON: Final = pool("season", _SEASONS)
_COUNTRY: Final = pool("country", [name for name in _COUNTRIES if name])
_POSITION: Final[Pool] = [
    {"position": "goalkeeper", "short": "gk"},
    {"position": "defender", "short": "df"},
    {"position": "midfielder", "short": "mf"},
    {"position": "forward", "short": "fw"},
]
_COLOUR: Final = pool("colour", ("yellow", "red"))
_POSITION_HINT: Final = (
    "a position is a word or a short form (GK, DF, MF, FW), in upper or lower case"
)
_HEIGHT_HINT: Final = "height is a text such as 183 cm or 1.83 m, NULL where unknown"
_FANS_HINT: Final = "attendance is NULL for a game without spectators"
_S, _M, _C = Level.SIMPLE, Level.MODERATE, Level.CHALLENGING

_TEMPLATES: Final = (
    Template(
        _S,
        "What is the capacity of the stadium of {club}?",
        "SELECT s.capacity FROM stadium AS s JOIN club AS c ON c.stadium_id = s.stadium_id"
        " WHERE c.club_name = '{club}'",
        "every club has one stadium",
        (_CLUB,),
    ),
    Template(
        _S,
        "How many players from {country} were born in {born} or later?",
        "SELECT COUNT(*) FROM player WHERE country = '{country}' AND birth_date >= '{born}-01-01'",
        "dates of birth in ISO form compare as texts",
        (_COUNTRY, pool("born", (1980, 1985, 1990, 1995))),
    ),
    Template(
        _S,
        "How many goals were scored from penalties in the season {season}?",
        "SELECT COUNT(*) FROM goal AS g JOIN game AS m ON m.game_id = g.game_id"
        " WHERE m.season = {season} AND g.penalty = 1",
        "the season belongs to the game, and penalty is 1",
        (_SEASON,),
    ),
    Template(
        _S,
        "How many home games did {club} win in the season {season}?",
        "SELECT COUNT(*) FROM game AS m JOIN club AS c ON c.club_id = m.home_club"
        " WHERE c.club_name = '{club}' AND m.season = {season} AND m.home_goals > m.away_goals",
        "a home win has more home goals than away goals",
        (_CLUB, _SEASON),
    ),
    Template(
        _S,
        "Who wore shirt number {shirt} for {club} in the season {season}? Give the name.",
        "SELECT p.player_name FROM player AS p JOIN contract AS k ON k.player_id = p.player_id"
        " JOIN club AS c ON c.club_id = k.club_id WHERE c.club_name = '{club}'"
        " AND k.season = {season} AND k.shirt = {shirt}",
        "the contract names the shirt for a season",
        (_CLUB, pool("shirt", (1, 7, 10)), _SEASON),
    ),
    Template(
        _M,
        "How many {position}s are from {country}?",
        "SELECT COUNT(*) FROM player WHERE LOWER(position) IN ('{position}', '{short}')"
        " AND country = '{country}'",
        "in lower case a position is the word or its short form",
        (_POSITION, _COUNTRY),
        _POSITION_HINT,
    ),
    Template(
        _M,
        "How many {position}s did {club} have under contract in the season {season}?",
        "SELECT COUNT(*) FROM player AS p JOIN contract AS k ON k.player_id = p.player_id"
        " JOIN club AS c ON c.club_id = k.club_id WHERE c.club_name = '{club}'"
        " AND k.season = {season} AND LOWER(p.position) IN ('{position}', '{short}')",
        "contracts link players to clubs by season, and positions need cleaning",
        (_POSITION, _CLUB, _SEASON),
        _POSITION_HINT,
    ),
    Template(
        _M,
        "How many players from {country} are taller than {height} centimetres?",
        "SELECT COUNT(*) FROM player WHERE country = '{country}' AND CASE"
        " WHEN height LIKE '%cm' THEN CAST(height AS INTEGER)"
        " ELSE CAST(ROUND(CAST(height AS REAL) * 100) AS INTEGER) END > {height}",
        "metres become centimetres before the comparison, and NULL drops out",
        (_COUNTRY, pool("height", (175, 185, 190))),
        _HEIGHT_HINT,
    ),
    Template(
        _M,
        "How many goals did {club} score away from home in the season {season}?",
        "SELECT SUM(m.away_goals) FROM game AS m JOIN club AS c ON c.club_id = m.away_club"
        " WHERE c.club_name = '{club}' AND m.season = {season}",
        "I sum away_goals over the games in which the club was the guest",
        (_CLUB, _SEASON),
    ),
    Template(
        _M,
        "What was the average attendance of the home games of {club} in the season {season}, games"
        " without spectators left out, rounded to a whole number?",
        "SELECT ROUND(AVG(m.attendance)) FROM game AS m JOIN club AS c ON c.club_id = m.home_club"
        " WHERE c.club_name = '{club}' AND m.season = {season}",
        "AVG leaves out NULL, which is what a game without spectators has",
        (_CLUB, _SEASON),
        _FANS_HINT,
    ),
    Template(
        _M,
        "Which clubs paid more than {wage} in weekly wages to all their players together in the"
        " season {season}? Give their names.",
        "SELECT c.club_name FROM club AS c JOIN contract AS k ON k.club_id = c.club_id"
        " WHERE k.season = {season} GROUP BY c.club_id HAVING SUM(k.weekly_wage) > {wage}",
        "wages are summed by club, and the sums compared with {wage}",
        (pool("wage", (360000, 400000)), _SEASON),
    ),
    Template(
        _M,
        "How many {colour} cards did players of {club} get in home games of the season {season}?",
        "SELECT COUNT(*) FROM card AS x JOIN game AS m ON m.game_id = x.game_id"
        " JOIN club AS c ON c.club_id = m.home_club JOIN contract AS k"
        " ON k.player_id = x.player_id AND k.season = m.season AND k.club_id = c.club_id"
        " WHERE x.colour = '{colour}' AND c.club_name = '{club}' AND m.season = {season}",
        "the contract of the same season tells whether the player belongs to the home club",
        (pool("colour", ("yellow",)), _CLUB, _SEASON),
    ),
    Template(
        _M,
        "For each colour, how many cards were shown in the season {season} after the {minute}th"
        " minute? Give colour and number.",
        "SELECT x.colour, COUNT(*) FROM card AS x JOIN game AS m ON m.game_id = x.game_id"
        " WHERE m.season = {season} AND x.minute > {minute} GROUP BY x.colour",
        "I filter by season and minute and group by colour",
        (_SEASON, pool("minute", (45, 60, 80))),
    ),
    Template(
        _C,
        "Who scored the most goals in the season {season}? Give the name; on equal numbers, take"
        " the lowest player_id.",
        "SELECT p.player_name FROM player AS p JOIN goal AS g ON g.player_id = p.player_id"
        " JOIN game AS m ON m.game_id = g.game_id WHERE m.season = {season}"
        " GROUP BY p.player_id ORDER BY COUNT(*) DESC, p.player_id LIMIT 1",
        "I count goals by player within the season and take the first",
        (_SEASON,),
    ),
    Template(
        _C,
        "Who was the best scorer of {club} in the season {season}? Give the name and the number of"
        " goals; on equal numbers, take the lowest player_id.",
        "SELECT p.player_name, COUNT(*) AS goals FROM goal AS g JOIN game AS m"
        " ON m.game_id = g.game_id JOIN contract AS k ON k.player_id = g.player_id"
        " AND k.season = m.season JOIN club AS c ON c.club_id = k.club_id"
        " JOIN player AS p ON p.player_id = g.player_id WHERE c.club_name = '{club}'"
        " AND m.season = {season} GROUP BY p.player_id ORDER BY goals DESC, p.player_id LIMIT 1",
        "the contract of the season gives the club of each scorer",
        (_CLUB, _SEASON),
    ),
    Template(
        _C,
        "How many points did {club} win in the season {season}, with three for a win and one for a"
        " draw?",
        "SELECT SUM(CASE WHEN own > other THEN 3 WHEN own = other THEN 1 ELSE 0 END) FROM"
        " (SELECT home_goals AS own, away_goals AS other FROM game AS m JOIN club AS c"
        " ON c.club_id = m.home_club WHERE c.club_name = '{club}' AND season = {season}"
        " UNION ALL SELECT away_goals, home_goals FROM game AS m JOIN club AS c"
        " ON c.club_id = m.away_club WHERE c.club_name = '{club}' AND season = {season})",
        "home and away games are put together first, seen from the club's side",
        (_CLUB, _SEASON),
    ),
    Template(
        _C,
        "How many players played for {club} in the season {season} but not in the season before?",
        "SELECT COUNT(*) FROM (SELECT k.player_id FROM contract AS k JOIN club AS c"
        " ON c.club_id = k.club_id WHERE c.club_name = '{club}' AND k.season = {season}"
        " EXCEPT SELECT k.player_id FROM contract AS k JOIN club AS c ON c.club_id = k.club_id"
        " WHERE c.club_name = '{club}' AND k.season = {season} - 1)",
        "EXCEPT takes the players of the earlier season away",
        (_CLUB, pool("season", range(2013, 2024))),
        "a player plays for a club in the seasons of the contract",
    ),
    Template(
        _C,
        "In the season {season}, what percentage of the games of {club}, home and away, were"
        " draws, rounded to two decimals?",
        "SELECT ROUND(100.0 * SUM(m.home_goals = m.away_goals) / COUNT(*), 2) FROM game AS m"
        " WHERE m.season = {season} AND (SELECT club_id FROM club WHERE club_name = '{club}')"
        " IN (m.home_club, m.away_club)",
        "the club may stand on either side, so I look for it in both columns",
        (_SEASON, _CLUB),
    ),
    Template(
        _C,
        "For every club, who had the highest weekly wage in the season {season}? Give club and"
        " player for the clubs founded before {founded}; list all players with that wage.",
        "SELECT club_name, player_name FROM (SELECT c.club_name, p.player_name, RANK() OVER"
        " (PARTITION BY c.club_id ORDER BY k.weekly_wage DESC) AS place FROM contract AS k"
        " JOIN club AS c ON c.club_id = k.club_id JOIN player AS p ON p.player_id = k.player_id"
        " WHERE k.season = {season} AND c.founded < {founded}) WHERE place = 1",
        "a rank within each club by the wage keeps ties",
        (_SEASON, pool("founded", (1890, 1910))),
    ),
    Template(
        _C,
        "How old in full years was the oldest {position} of {club} on 1 January {season}, among"
        " those under contract in the season {season}?",
        "SELECT MAX({season} - CAST(STRFTIME('%Y', p.birth_date) AS INTEGER)"
        " - (STRFTIME('%m-%d', p.birth_date) > '01-01')) FROM player AS p JOIN contract AS k"
        " ON k.player_id = p.player_id JOIN club AS c ON c.club_id = k.club_id"
        " WHERE c.club_name = '{club}' AND k.season = {season}"
        " AND LOWER(p.position) IN ('{position}', '{short}')",
        "the difference of the years is one too much if the birthday is still to come",
        (_POSITION, _CLUB, _SEASON),
        _POSITION_HINT,
    ),
)

LEAGUE: Final = Domain(
    name="league",
    seed=105,
    ddl=_DDL,
    rows=_rows,
    templates=_TEMPLATES,
    indexes=(
        *("contract(club_id, season)", "game(season)", "game(home_club)", "game(away_club)"),
        *("goal(game_id)", "goal(player_id)", "card(game_id)", "card(player_id)"),
    ),
)
