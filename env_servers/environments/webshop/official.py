"""WebShop's published product files: where they lie, how they become a shop.

Contains file names, the clean-up of raw products (options, prices, attributes) and what is said
when a file is missing or cut off. Two catalogues are known: `small`, the 1,000 products on which
AgentGym plays, held in memory; and `full`, over a million, of which only the index and byte offsets
are held and every product is read from its file when it is shown.
"""

from __future__ import annotations

import json
import mmap
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, overload

from env_servers.environments.webshop.catalogue import Product, Shop, searched_text
from env_servers.environments.webshop.json_stream import DamagedFile, entries
from env_servers.sdk import EnvironmentUnavailable
from env_servers.toolkit.retrieval.bm25 import IndexWriter

__all__ = ["CATALOGUES", "OfficialFiles", "find_files", "load_shop", "read_instructions"]

FOLDER: Final = "webshop"
CATALOGUES: Final = {
    "small": ("items_shuffle_1000.json", "items_ins_v2_1000.json"),
    "full": ("items_shuffle.json", "items_ins_v2.json"),
}
"""Product file and attribute file by catalogue."""
HUMAN_FILES: Final = ("items_human_ins.json", "items_human_ins.partial.json")
SHOP_NAME: Final = "official"

_NOT_PRICE: Final = re.compile(r"[^\d.]")
_NO_PRICE: Final = 100.0
_ASIN_LENGTH: Final = 10


@dataclass(frozen=True, slots=True)
class OfficialFiles:
    """The files of one catalogue."""

    products: Path
    attributes: Path
    human: Path | None
    """Instructions that people wrote, where the file is there."""


def find_files(data_dir: Path, catalogue: str) -> OfficialFiles | None:
    """Return the files of a catalogue, or None where there is no folder for them.

    Raises EnvironmentUnavailable where the folder lacks one.
    """
    folder = data_dir / FOLDER
    if not folder.is_dir():
        return None
    names = CATALOGUES[catalogue]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise EnvironmentUnavailable(_advice(f"lacks {', '.join(missing)}", folder, catalogue))
    human = next((folder / name for name in HUMAN_FILES if (folder / name).is_file()), None)
    return OfficialFiles(folder / names[0], folder / names[1], human)


def _advice(problem: str, folder: Path, catalogue: str) -> str:
    return (
        f"the {catalogue} catalogue of WebShop in {folder} {problem}. Expected are "
        f"{' and '.join(CATALOGUES[catalogue])}, as the setup script of the WebShop repository "
        "(princeton-nlp/WebShop) downloads them. Without that folder the embedded catalogue is "
        "played, which needs no download."
    )


def load_shop(files: OfficialFiles, catalogue: str) -> Shop:
    """Return the shop of a catalogue; raises EnvironmentUnavailable for a damaged file."""
    try:
        return _load_full(files) if catalogue == "full" else _load_small(files)
    except (DamagedFile, OSError, KeyError, TypeError, AttributeError) as error:
        problem = f"cannot be read ({type(error).__name__}: {error})"
        raise EnvironmentUnavailable(_advice(problem, files.products.parent, catalogue)) from error


def read_instructions(path: Path) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return what people wrote, by asin; raises EnvironmentUnavailable for a damaged file."""
    try:
        return {entry.key: entry.value for entry in entries(path)}
    except (DamagedFile, OSError) as error:
        raise EnvironmentUnavailable(f"cannot read {path}: {error}") from error


def _load_small(files: OfficialFiles) -> Shop:
    facts = {entry.key: entry.value for entry in entries(files.attributes)}
    products: list[Product] = []
    writer = IndexWriter()
    for _, _, raw in _usable(files.products):
        product = clean_product(raw, facts.get(raw["asin"], {}))
        products.append(product)
        writer.add(product.asin, searched_text(product))
    return Shop(SHOP_NAME, products, writer.finish())


def _load_full(files: OfficialFiles) -> Shop:
    facts = {entry.key: (entry.start, entry.end) for entry in entries(files.attributes)}
    products = _ProductFile(files)
    writer = IndexWriter()
    for start, end, raw in _usable(files.products):
        product = clean_product(raw, {})
        products.add(start, end, facts.get(product.asin, (0, 0)))
        writer.add(product.asin, searched_text(product))
    return Shop(SHOP_NAME, products, writer.finish())


def _usable(path: Path) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Raw products with their place in the file; odd ids and repetitions are left out."""
    seen: set[str] = set()
    for start, end, _, raw in entries(path):
        asin = raw["asin"]
        if asin != "nan" and len(asin) <= _ASIN_LENGTH and asin not in seen:
            seen.add(asin)
            yield start, end, raw


def clean_product(raw: Mapping[str, Any], facts: Mapping[str, Any]) -> Product:
    """Return a product of the raw file, with its entry of the attribute file."""
    prices, tag = _prices(raw.get("pricing"))
    bullets = raw["small_description"]
    images = raw.get("images") or [""]
    return Product(
        asin=raw["asin"],
        title=raw["name"],
        description=raw["full_description"],
        bullets=tuple(bullets) if isinstance(bullets, list) else (bullets,),
        prices=prices,
        price_tag=tag,
        options=_options(raw["customization_options"]),
        attributes=tuple(facts.get("attributes", ("DUMMY_ATTR",))),
        category=raw["category"],
        query=raw["query"].lower().strip(),
        product_category=raw["product_category"],
        instruction=facts.get("instruction"),
        instruction_attributes=tuple(facts.get("instruction_attributes") or ()),
        image=images[0],
    )


def _prices(text: str | None) -> tuple[tuple[float, ...], str]:
    """Return one price or the two ends of a range, and the tag; 100 dollars where none is known."""
    amounts = tuple(float(_NOT_PRICE.sub("", part)) for part in (text or "").split("$")[1:])
    if not amounts:
        return (_NO_PRICE,), f"${_NO_PRICE}"
    tag = f"${amounts[0]}" if len(amounts) == 1 else f"${amounts[0]} to ${amounts[1]}"
    return amounts[:2], tag


def _options(raw: Any) -> dict[str, tuple[str, ...]]:
    options: dict[str, tuple[str, ...]] = {}
    for name, contents in (raw or {}).items():
        if contents is not None:
            options[name.lower()] = tuple(
                content["value"].strip().replace("/", " | ").lower() for content in contents
            )
    return options


class _ProductFile(Sequence[Product]):
    """Products that stay in their files; 32 bytes each are held."""

    def __init__(self, files: OfficialFiles) -> None:
        self._products, self._facts = _mapped(files.products), _mapped(files.attributes)
        self._places = array("Q")
        """Start and end in the product file, then in the attribute file; 0, 0 = not there."""

    def add(self, start: int, end: int, fact: tuple[int, int]) -> None:
        """Append the product at [start, end) with its entry of the attribute file."""
        self._places.extend((start, end, *fact))

    def __len__(self) -> int:
        return len(self._places) // 4

    @overload
    def __getitem__(self, index: int) -> Product: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Product]: ...
    def __getitem__(self, index: int | slice) -> Product | Sequence[Product]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        position = 4 * (index % len(self))
        start, end, fact_start, fact_end = self._places[position : position + 4]
        facts = json.loads(self._facts[fact_start:fact_end] or b"{}")
        return clean_product(json.loads(self._products[start:end]), facts)


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
