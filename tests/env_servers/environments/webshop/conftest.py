"""Task sets shared by the WebShop tests, and where recorded data is found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from env_servers.environments.webshop import WebShop
from env_servers.environments.webshop.tasks import WebShopTasks
from env_servers.sdk import EnvironmentConfig, ResetOptions
from tests.kit.data import data_fixture

data_dir = data_fixture("webshop")


@pytest.fixture(scope="session")
def embedded() -> WebShopTasks:
    return WebShop.load_tasks(EnvironmentConfig())


@pytest.fixture(scope="session")
def official(data_dir: Path) -> WebShopTasks:
    return WebShop.load_tasks(EnvironmentConfig(data_dir))


def start(
    tasks: WebShopTasks, item: str, profile: str = "agentgym", seed: int = 0, **options: object
) -> WebShop:
    """An episode just begun."""
    episode = WebShop(tasks)
    episode.reset(tasks.get(item), ResetOptions(seed=seed, profile=profile, options=options))
    return episode


def play(episode: WebShop, *actions: str) -> list[str]:
    """The observations of actions."""
    return [episode.step(action).text for action in actions]


def raw_product(number: int, **changes: Any) -> dict[str, Any]:
    """A product as the official files have it."""
    return {
        "name": f"Acme Lamp {number}",
        "full_description": "A lamp of clear glass.",
        "pricing": "$12.50",
        "images": ["https://example.org/lamp.jpg"],
        "product_category": "Home \u203a Lighting \u203a Lamps",
        "average_rating": "",
        "small_description": ["Bright ", "Made of glass "],
        "customization_options": {
            "Color": [{"value": " Red/Gold ", "image": None}, {"value": "Blue"}],
            "Size": None,
        },
        "asin": f"B0000000{number:02d}",
        "category": "garden",
        "query": "Desk Lamps ",
        "page": 1,
    } | changes


def write_catalogue(
    folder: Path,
    products: list[dict[str, Any]],
    facts: Mapping[str, Any],
    catalogue: str = "small",
    human: Mapping[str, Any] | None = None,
) -> Path:
    """Official files of a few products; returns the data folder."""
    ending = "_1000" if catalogue == "small" else ""
    shop = folder / "webshop"
    shop.mkdir()
    (shop / f"items_shuffle{ending}.json").write_text(json.dumps(products, ensure_ascii=False))
    (shop / f"items_ins_v2{ending}.json").write_text(json.dumps(facts))
    if human is not None:
        (shop / "items_human_ins.json").write_text(json.dumps(human))
    return folder


LAMP_FACTS = {
    "attributes": ["clear glass", "easy install"],
    "instruction": "Find me desk lamps with clear glass",
    "instruction_attributes": ["clear glass"],
}
