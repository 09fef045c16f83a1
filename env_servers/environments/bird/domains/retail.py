"""The database of a chain of shops for household goods.

Dirty on purpose: order states come in mixed case and with blanks, list prices are texts with a
dollar sign, telephone numbers are missing as NULL and as ''.
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

__all__ = ["RETAIL"]

_DDL: Final = """
CREATE TABLE region (region_id INTEGER PRIMARY KEY, region_name TEXT NOT NULL);
CREATE TABLE store (
  store_id INTEGER PRIMARY KEY, store_name TEXT NOT NULL, city TEXT NOT NULL,
  region_id INTEGER NOT NULL REFERENCES region(region_id), opened TEXT NOT NULL,
  floor_area INTEGER);
CREATE TABLE category (category_id INTEGER PRIMARY KEY, category_name TEXT NOT NULL);
CREATE TABLE product (
  product_id INTEGER PRIMARY KEY, product_name TEXT NOT NULL,
  category_id INTEGER NOT NULL REFERENCES category(category_id),
  list_price TEXT NOT NULL, discontinued INTEGER NOT NULL);
CREATE TABLE customer (
  customer_id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL,
  city TEXT NOT NULL, phone TEXT, joined TEXT NOT NULL, card TEXT);
CREATE TABLE orders (
  order_id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customer(customer_id),
  store_id INTEGER NOT NULL REFERENCES store(store_id), order_date TEXT NOT NULL,
  status TEXT NOT NULL);
CREATE TABLE order_item (
  order_id INTEGER NOT NULL REFERENCES orders(order_id),
  product_id INTEGER NOT NULL REFERENCES product(product_id),
  quantity INTEGER NOT NULL, unit_price REAL NOT NULL, PRIMARY KEY (order_id, product_id))
"""

REGIONS: Final = ("North", "East", "South", "West")
CITIES: Final = (
    *("Ashford", "Brightwater", "Coldbrook", "Dunmore", "Eastvale", "Fairhaven", "Glenrock"),
    *("Harrowgate", "Ironbridge", "Kingsport"),
)
CATEGORIES: Final = (
    *("Kitchen", "Lighting", "Garden", "Bedding", "Storage", "Tools", "Cleaning", "Bathroom"),
)
_NOUNS: Final = (
    ("Pan", "Kettle", "Knife Set", "Cutting Board", "Bowl"),
    ("Desk Lamp", "Floor Lamp", "Lantern", "Bulb Pack", "Ceiling Light"),
    ("Rake", "Hose", "Planter", "Watering Can", "Pruner"),
    ("Pillow", "Blanket", "Sheet Set", "Duvet", "Mattress Cover"),
    ("Shelf", "Basket", "Drawer Unit", "Hook Rail", "Crate"),
    ("Hammer", "Drill", "Screwdriver Set", "Saw", "Spirit Level"),
    ("Mop", "Broom", "Bucket", "Sponge Pack", "Duster"),
    ("Towel", "Bath Mat", "Mirror", "Soap Dish", "Shower Curtain"),
)
_STYLES: Final = ("Classic", "Compact", "Deluxe", "Eco", "Nordic", "Studio", "Urban", "Vintage")
FIRST: Final = (
    *("Alma", "Bruno", "Clara", "David", "Elena", "Felix", "Greta", "Hugo", "Irene", "Jonas"),
    *("Klara", "Leon", "Maria", "Nils", "Olga", "Paul", "Rosa", "Simon", "Tessa", "Viktor"),
)
LAST: Final = (
    *("Abbot", "Becker", "Carver", "Dalton", "Ellis", "Fischer", "Gardner", "Holm", "Ivers"),
    *("Jensen", "Keller", "Lind", "Mercer", "Novak", "Olsen", "Porter", "Quinn", "Reyes"),
    *("Sutton", "Turner"),
)
_STATES: Final = (
    *("delivered",) * 12,
    *("Delivered", "DELIVERED ", "shipped", "Shipped", "cancelled", "Cancelled ", "returned"),
    *(" Returned", "pending"),
)
_CARDS: Final = ("silver", "gold", "platinum", None, None)


def _rows(rng: random.Random) -> Rows:
    dates = days(2021, 1095)
    yield "region", list(enumerate(REGIONS, 1))
    yield "store", _stores(rng)
    yield "category", list(enumerate(CATEGORIES, 1))
    products, prices = _products(rng)
    yield "product", products
    yield (
        "customer",
        [
            (
                number,
                pick(rng, FIRST),
                pick(rng, LAST),
                pick(rng, CITIES, 1.4),
                pick(rng, (None, "", *(f"555-{1000 + rng.randrange(9000)}",) * 4)),
                dates[rng.randrange(len(dates))],
                pick(rng, _CARDS),
            )
            for number in range(1, 2401)
        ],
    )
    orders: list[tuple[Any, ...]] = []
    items: list[tuple[Any, ...]] = []
    for number in range(1, 9001):
        buyer = 1 + int(2300 * rng.random() ** 1.3)
        when = dates[rng.randrange(len(dates))]
        orders.append((number, buyer, 1 + rng.randrange(36), when, pick(rng, _STATES)))
        for product in sorted({1 + rng.randrange(310) for _ in range(1 + rng.randrange(3))}):
            share = (100, 100, 90, 85)[rng.randrange(4)]
            price = prices[product] * share // 100 / 100
            items.append((number, product, 1 + int(6 * rng.random() ** 2), price))
    yield "orders", orders
    yield "order_item", items


def _stores(rng: random.Random) -> list[tuple[Any, ...]]:
    opened = days(1995, 9000)
    rows: list[tuple[Any, ...]] = []
    for number in range(1, 39):
        city = CITIES[number % len(CITIES)]
        area = None if rng.random() < 0.15 else 200 + 10 * rng.randrange(180)
        name = f"{city} {('Central', 'Riverside', 'Mall', 'Station')[number // 10]}"
        when = opened[rng.randrange(len(opened))]
        rows.append((number, name, city, 1 + (number % len(CITIES)) % 4, when, area))
    return rows


def _products(rng: random.Random) -> tuple[list[tuple[Any, ...]], dict[int, int]]:
    """Products, and their prices in cents."""
    rows: list[tuple[Any, ...]] = []
    prices: dict[int, int] = {}
    for kind, nouns in enumerate(_NOUNS):
        for noun in nouns:
            for style in _STYLES:
                number = len(rows) + 1
                prices[number] = 299 + 100 * int(120 * rng.random() ** 2)
                price = f"${prices[number] / 100:.2f}"
                gone = int(rng.random() < 0.1)
                rows.append((number, f"{style} {noun}", kind + 1, price, gone))
    return rows, prices


_CITY: Final = pool("city", CITIES)
_REGION: Final = pool("region", REGIONS)
_CATEGORY: Final = pool("category", CATEGORIES)
_YEAR: Final = pool("year", (2021, 2022, 2023))
_CARD: Final = pool("card", ("silver", "gold", "platinum"))
_STATE: Final = pool("state", ("delivered", "shipped", "cancelled", "returned"))
_MONTH: Final[Pool] = [
    {"month": name, "mm": f"{number:02d}"}
    for number, name in enumerate(
        (
            *("January", "February", "March", "April", "May", "June", "July", "August"),
            *("September", "October", "November", "December"),
        ),
        1,
    )
]
_CLEAN: Final = "the state of an order is stored in mixed case and with blanks around it"
_PRICE: Final = "list_price is a text such as $12.50: take off the dollar sign for the number"
_SPENT: Final = "the value of an order item is quantity * unit_price"
_S, _M, _C = Level.SIMPLE, Level.MODERATE, Level.CHALLENGING

_TEMPLATES: Final = (
    Template(
        _S,
        "How many customers live in {city}?",
        "SELECT COUNT(*) FROM customer WHERE city = '{city}'",
        "customers carry their city, so I count those of {city}",
        (_CITY,),
    ),
    Template(
        _S,
        "What are the names of the stores in {city}?",
        "SELECT store_name FROM store WHERE city = '{city}'",
        "every store has a city and a name",
        (_CITY,),
    ),
    Template(
        _S,
        "How many orders were placed in {month} {year}?",
        "SELECT COUNT(*) FROM orders WHERE order_date LIKE '{year}-{mm}-%'",
        "dates are stored as YYYY-MM-DD, so {month} {year} is the prefix {year}-{mm}",
        (_MONTH, _YEAR),
    ),
    Template(
        _S,
        "Which products of the category {category} are discontinued? Give their names.",
        "SELECT p.product_name FROM product AS p JOIN category AS c"
        " ON c.category_id = p.category_id"
        " WHERE c.category_name = '{category}' AND p.discontinued = 1",
        "the category's name is in its own table, and discontinued is 1 for such products",
        (_CATEGORY,),
    ),
    Template(
        _S,
        "How many customers with a {card} card joined in {year}?",
        "SELECT COUNT(*) FROM customer WHERE card = '{card}' AND joined LIKE '{year}-%'",
        "both the card and the date of joining are columns of customer",
        (_CARD, _YEAR),
    ),
    Template(
        _S,
        "How many stores of the {region} region have an unknown floor area or one below"
        " {area} square metres?",
        "SELECT COUNT(*) FROM store AS s JOIN region AS r ON r.region_id = s.region_id"
        " WHERE r.region_name = '{region}' AND (s.floor_area IS NULL OR s.floor_area < {area})",
        "an unknown area is NULL, which no comparison finds, so I ask for it separately",
        (_REGION, pool("area", (700, 900, 1200, 1500))),
    ),
    Template(
        _M,
        "How many orders are {state}?",
        "SELECT COUNT(*) FROM orders WHERE LOWER(TRIM(status)) = '{state}'",
        "the states have to be trimmed and put into lower case before they compare",
        (_STATE,),
        _CLEAN,
    ),
    Template(
        _M,
        "How many orders of {year} in {city} stores were {state}?",
        "SELECT COUNT(*) FROM orders AS o JOIN store AS s ON s.store_id = o.store_id"
        " WHERE s.city = '{city}' AND o.order_date LIKE '{year}-%'"
        " AND LOWER(TRIM(o.status)) = '{state}'",
        "the city belongs to the store, and the states have to be cleaned first",
        (_YEAR, _CITY, _STATE),
        _CLEAN,
    ),
    Template(
        _M,
        "What is the highest list price, as a number, of a product in the category {category}?",
        "SELECT MAX(CAST(REPLACE(p.list_price, '$', '') AS REAL)) FROM product AS p"
        " JOIN category AS c ON c.category_id = p.category_id"
        " WHERE c.category_name = '{category}'",
        "as texts the prices would compare by their first digit, so I make numbers of them",
        (_CATEGORY,),
        _PRICE,
    ),
    Template(
        _M,
        "How many {category} products have a list price above {price} dollars?",
        "SELECT COUNT(*) FROM product AS p JOIN category AS c ON c.category_id = p.category_id"
        " WHERE c.category_name = '{category}'"
        " AND CAST(REPLACE(p.list_price, '$', '') AS REAL) > {price}",
        "the dollar sign has to go before a price can be compared with {price}",
        (_CATEGORY, pool("price", (20, 30, 45, 60))),
        _PRICE,
    ),
    Template(
        _M,
        "How many customers of {city} have no telephone number?",
        "SELECT COUNT(*) FROM customer WHERE city = '{city}' AND (phone IS NULL OR phone = '')",
        "a missing number is NULL or empty, and both have to be counted",
        (_CITY,),
        "a missing telephone number is stored as NULL or as an empty text",
    ),
    Template(
        _M,
        "For each region, how many orders were placed in its stores in {month} {year}? Give the"
        " region's name and the number.",
        "SELECT r.region_name, COUNT(*) FROM orders AS o JOIN store AS s"
        " ON s.store_id = o.store_id JOIN region AS r ON r.region_id = s.region_id"
        " WHERE o.order_date LIKE '{year}-{mm}-%' GROUP BY r.region_id",
        "orders lead to stores and stores to regions, by which I group",
        (_MONTH, _YEAR),
    ),
    Template(
        _M,
        "Which stores in the {region} region took more than {count} orders in {year}? Give their"
        " names.",
        "SELECT s.store_name FROM store AS s JOIN orders AS o ON o.store_id = s.store_id"
        " JOIN region AS r ON r.region_id = s.region_id WHERE r.region_name = '{region}'"
        " AND o.order_date LIKE '{year}-%' GROUP BY s.store_id HAVING COUNT(*) > {count}",
        "I count the orders of each store and keep the groups above {count}",
        (_REGION, pool("count", (70, 80, 85)), _YEAR),
    ),
    Template(
        _M,
        "How many pieces of {category} products were sold in {year}?",
        "SELECT SUM(i.quantity) FROM order_item AS i JOIN orders AS o ON o.order_id = i.order_id"
        " JOIN product AS p ON p.product_id = i.product_id"
        " JOIN category AS c ON c.category_id = p.category_id"
        " WHERE c.category_name = '{category}' AND o.order_date LIKE '{year}-%'",
        "pieces are the sum of the quantities, the year is the order's",
        (_CATEGORY, _YEAR),
    ),
    Template(
        _M,
        "What was the total value of the order items of {city} stores in {month} {year}, rounded"
        " to two decimals?",
        "SELECT ROUND(SUM(i.quantity * i.unit_price), 2) FROM order_item AS i"
        " JOIN orders AS o ON o.order_id = i.order_id JOIN store AS s ON s.store_id = o.store_id"
        " WHERE s.city = '{city}' AND o.order_date LIKE '{year}-{mm}-%'",
        "the value is summed over items, the city is the store's, the month the order's",
        (_CITY, _MONTH, _YEAR),
        _SPENT,
    ),
    Template(
        _C,
        "Which {category} product sold the most pieces in {year}? If several did, take the one"
        " whose name comes first in the alphabet.",
        "SELECT p.product_name FROM product AS p JOIN category AS c"
        " ON c.category_id = p.category_id JOIN order_item AS i ON i.product_id = p.product_id"
        " JOIN orders AS o ON o.order_id = i.order_id WHERE c.category_name = '{category}'"
        " AND o.order_date LIKE '{year}-%' GROUP BY p.product_id"
        " ORDER BY SUM(i.quantity) DESC, p.product_name LIMIT 1",
        "I sum the quantities by product, sort by the sum and then by the name, and take the first",
        (_CATEGORY, _YEAR),
    ),
    Template(
        _C,
        "Which products of the category {category} were never ordered? Give their names.",
        "SELECT p.product_name FROM product AS p JOIN category AS c"
        " ON c.category_id = p.category_id WHERE c.category_name = '{category}'"
        " AND NOT EXISTS (SELECT 1 FROM order_item AS i WHERE i.product_id = p.product_id)",
        "a product without orders has no item, which NOT EXISTS finds",
        (pool("category", ("Bathroom",)),),
    ),
    Template(
        _C,
        "How many customers from {city} placed orders in {year} but none in {later}?",
        "SELECT COUNT(*) FROM customer AS c WHERE c.city = '{city}' AND EXISTS (SELECT 1 FROM"
        " orders AS o WHERE o.customer_id = c.customer_id AND o.order_date LIKE '{year}-%')"
        " AND NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.customer_id = c.customer_id"
        " AND o.order_date LIKE '{later}-%')",
        "one subquery asks for an order in {year}, another one for the lack of any in {later}",
        (
            _CITY,
            (
                {"year": "2021", "later": "2022"},
                {"year": "2022", "later": "2023"},
                {"year": "2021", "later": "2023"},
            ),
        ),
    ),
    Template(
        _C,
        "What percentage of the orders taken in {city} stores in {year} was {state}, rounded to"
        " two decimals?",
        "SELECT ROUND(100.0 * SUM(CASE WHEN LOWER(TRIM(o.status)) = '{state}' THEN 1 ELSE 0 END)"
        " / COUNT(*), 2) FROM orders AS o JOIN store AS s ON s.store_id = o.store_id"
        " WHERE s.city = '{city}' AND o.order_date LIKE '{year}-%'",
        "a conditional sum over all orders of the stores gives the share",
        (_CITY, _YEAR, _STATE),
        _CLEAN,
    ),
    Template(
        _C,
        "Of the stores in {city}, which one had the largest value of order items in {year}, and"
        " what was it, rounded to two decimals? Give the name and the value.",
        "WITH sales AS (SELECT s.store_name AS name, ROUND(SUM(i.quantity * i.unit_price), 2) AS"
        " total FROM store AS s JOIN orders AS o ON o.store_id = s.store_id"
        " JOIN order_item AS i ON i.order_id = o.order_id WHERE s.city = '{city}'"
        " AND o.order_date LIKE '{year}-%' GROUP BY s.store_id)"
        " SELECT name, total FROM sales ORDER BY total DESC LIMIT 1",
        "I total the sales of each store first and then take the largest total",
        (_CITY, _YEAR),
        _SPENT,
    ),
    Template(
        _C,
        "For each category, which product has the highest list price? Give category and product"
        " for the categories whose name starts with {letter}; on equal prices list all of them.",
        "SELECT category_name, product_name FROM (SELECT c.category_name, p.product_name,"
        " RANK() OVER (PARTITION BY c.category_id"
        " ORDER BY CAST(REPLACE(p.list_price, '$', '') AS REAL) DESC) AS place"
        " FROM product AS p JOIN category AS c ON c.category_id = p.category_id)"
        " WHERE place = 1 AND category_name LIKE '{letter}%'",
        "a rank within each category, by the price as a number, keeps ties",
        (pool("letter", ("K", "L", "G", "B", "S", "T", "C")),),
        _PRICE,
    ),
    Template(
        _C,
        "In which months of {year} did the {region} region have more orders than the monthly"
        " average of that region and year? Give the months as two digits.",
        "WITH monthly AS (SELECT STRFTIME('%m', o.order_date) AS month, COUNT(*) AS orders"
        " FROM orders AS o JOIN store AS s ON s.store_id = o.store_id JOIN region AS r"
        " ON r.region_id = s.region_id WHERE r.region_name = '{region}'"
        " AND STRFTIME('%Y', o.order_date) = '{year}' GROUP BY month)"
        " SELECT month FROM monthly WHERE orders > (SELECT AVG(orders) FROM monthly)",
        "I count by month in a common table expression and compare with its own average",
        (_YEAR, _REGION),
    ),
)

RETAIL: Final = Domain(
    name="retail",
    seed=101,
    ddl=_DDL,
    rows=_rows,
    templates=_TEMPLATES,
    indexes=(
        *("orders(customer_id)", "orders(store_id)", "orders(order_date)"),
        *("order_item(product_id)", "product(category_id)"),
    ),
)
