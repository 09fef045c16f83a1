"""Names of people, streets and towns that the generated content of all sites is made of.

Word lists of our own: common given and family names, invented streets, and towns of the United
States with a postcode area each.
"""

from __future__ import annotations

import random
from typing import Final

from env_servers.environments.webarena.sites.wordlists import words

__all__ = ["FAMILY_NAMES", "GIVEN_NAMES", "STREETS", "TOWNS", "nickname", "phone", "street"]

GIVEN_NAMES: Final = words(
    "Ada Aiden Alice Amara Amir Ana Andre Anya Arlo Arthur Asha Aurora Ben Bianca Boris Bruno "
    "Camila Carl Celia Chen Clara Colin Cora Dalia Daniel Dara Dev Diana Diego Dora Edwin Elena "
    "Eli Elsa Emil Emma Enzo Erik Esther Ethan Eva Fatima Felix Fiona Frank Freya Gabriel Gina "
    "Grace Greta Hana Harold Hazel Hugo Ida Igor Imani Ines Ingrid Irene Isaac Ivan Ivy Jack "
    "Jamal Jana Jasper Joan Jonas Jude Julia Kai Karim Kate Keiko Kofi Lara Lars Laura Leah Leo "
    "Lina Lionel Lola Louis Lucas Luna Mabel Maja Malik Marco Maria Martin Maya Mei Mila Miles "
    "Mira Mona Nadia Naomi Nico Nina Noah Nora Olga Oliver Omar Opal Oscar Otto Paul Pedro Petra "
    "Priya Quinn Rafael Rana Ravi Rita Rosa Ruby Ruth Said Sam Sara Selma Simon Sofia Stella Sven "
    "Tara Theo Tina Tomas Uma Vera Victor Wanda Wes Willa Xavier Yara Yusuf Zara Zoe"
)
FAMILY_NAMES: Final = words(
    "Abbott Acosta Adler Ahmed Albright Alvarez Anders Archer Ashby Baker Barlow Becker Bennett "
    "Bishop Blake Bolton Bowen Brandt Brooks Burke Calder Cardoso Carver Castle Chandra Chapman "
    "Cohen Colby Conway Costa Crane Cruz Dalton Dawson Delgado Diaz Dixon Doyle Draper Duarte "
    "Eaton Ellis Emery Engel Farrow Fenwick Fisher Flores Foster Frost Fuller Gallo Garner Gibbs "
    "Gordon Graves Greer Gupta Hale Hanson Harper Hayes Heller Hobbs Holt Horton Hughes Ibarra "
    "Irving Ito Jansen Jensen Jordan Joshi Keller Kemp Khan Kim Kirby Knox Kowalski Lambert Lane "
    "Larsen Lee Lennox Lopez Lowe Lund Mack Maddox Marsh Mason Mercer Meyer Molina Moore Morales "
    "Munro Nash Nguyen Nolan Novak Okafor Olsen Ortiz Osborn Owens Page Park Patel Pena Perry "
    "Pierce Porter Quigley Ramos Reed Reyes Rhodes Rivera Rossi Rowe Santos Sato Sawyer Schmidt "
    "Shaw Silva Singh Sloan Snow Stark Stone Suzuki Tate Thorne Torres Tran Tucker Vance Vargas "
    "Vega Wade Walsh Watts Weber Wells West Wilde Wolfe Wong Yates York Young Zhang Ziegler"
)
_STREET_NAMES: Final = words(
    "Alder Amber Ash Aspen Beacon Birch Bluff Bridge Canal Cedar Chapel Cherry Clover College "
    "Copper Court Cypress Depot Dover Elm Falcon Fern Forge Garden Granite Grove Harbor Hazel "
    "Heron Hickory Hill Holly Iron Juniper Lake Laurel Linden Locust Magnolia Maple Market Meadow "
    "Mill Mulberry Oak Olive Orchard Park Pearl Pine Plum Poplar Prairie Quarry Ridge River Rose "
    "Sage School Spring Spruce Station Summit Sycamore Union Valley Vine Walnut Willow"
)
_STREET_KINDS: Final = words("Street Avenue Lane Road Drive Court Way")
STREETS: Final = tuple(f"{name} {kind}" for name in _STREET_NAMES for kind in _STREET_KINDS)
TOWNS: Final = (
    ("Pittsburgh", "Pennsylvania", "PA", "152"),
    ("Philadelphia", "Pennsylvania", "PA", "191"),
    ("New York", "New York", "NY", "100"),
    ("Buffalo", "New York", "NY", "142"),
    ("Boston", "Massachusetts", "MA", "021"),
    ("Worcester", "Massachusetts", "MA", "016"),
    ("Chicago", "Illinois", "IL", "606"),
    ("Springfield", "Illinois", "IL", "627"),
    ("Denver", "Colorado", "CO", "802"),
    ("Boulder", "Colorado", "CO", "803"),
    ("Seattle", "Washington", "WA", "981"),
    ("Tacoma", "Washington", "WA", "984"),
    ("Portland", "Oregon", "OR", "972"),
    ("Austin", "Texas", "TX", "787"),
    ("Houston", "Texas", "TX", "770"),
    ("San Francisco", "California", "CA", "941"),
    ("Sacramento", "California", "CA", "958"),
    ("Phoenix", "Arizona", "AZ", "850"),
    ("Atlanta", "Georgia", "GA", "303"),
    ("Miami", "Florida", "FL", "331"),
    ("Tampa", "Florida", "FL", "336"),
    ("Columbus", "Ohio", "OH", "432"),
    ("Cleveland", "Ohio", "OH", "441"),
    ("Detroit", "Michigan", "MI", "482"),
    ("Minneapolis", "Minnesota", "MN", "554"),
    ("Nashville", "Tennessee", "TN", "372"),
    ("Richmond", "Virginia", "VA", "232"),
    ("Salt Lake City", "Utah", "UT", "841"),
)
"""Town, state, its short form, and the first three digits of a postcode."""
_NICK_STARTS: Final = words(
    "amber ash blue brave bright calm clever cosmic dusty early fuzzy gentle golden happy hidden "
    "idle jolly keen lazy lucky mellow misty noble odd paper plain quiet rapid rusty salty silent "
    "silver sleepy small solar spare steady sunny swift tall tidy tiny urban velvet vivid wild"
)
_NICK_ENDS: Final = words(
    "acorn anchor badger beacon bishop cactus candle canoe cedar comet crane dingo ember falcon "
    "fiddle finch fox gecko goose harbor heron ibis island kettle lantern lemon lynx magpie maple "
    "marble moth nectar newt octopus otter owl panda pebble pepper piano pigeon plum quail quill "
    "raven river robin sailor spruce stone teapot thistle tiger turnip walrus willow wren yak"
)


def nickname(number: int) -> str:
    """Return the name of an account, another one for each number below 7,000,000."""
    starts, ends = len(_NICK_STARTS), len(_NICK_ENDS)
    pair = number * 1237 % (starts * ends)
    name = f"{_NICK_STARTS[pair % starts]}_{_NICK_ENDS[pair // starts]}"
    turn = number // (starts * ends)
    return name if turn == 0 else f"{name}{turn + 1}"


def street(draw: random.Random) -> str:
    """Return a house number and a street."""
    return f"{draw.randrange(1, 9900)} {draw.choice(STREETS)}"


def phone(draw: random.Random) -> str:
    """Return a telephone number of the range that is kept for fiction."""
    return f"({draw.randrange(201, 990)}) 555-{draw.randrange(100, 200):04d}"
