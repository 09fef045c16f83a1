"""Which goals there are, in which splits, and that they are the same everywhere."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

from env_servers.environments.webshop import WebShop
from env_servers.environments.webshop.catalogue import draw_price
from env_servers.environments.webshop.embedded import product_types_text, read_product_types
from env_servers.environments.webshop.goals import price_steps
from env_servers.environments.webshop.reward import GoalSpec, score_purchase
from env_servers.environments.webshop.tasks import EVAL_BASE, WebShopTasks
from env_servers.sdk import (
    EMBEDDED_BASE,
    EnvironmentConfig,
    EnvironmentUnavailable,
    InvalidOption,
    ResetOptions,
    UnknownItem,
    UnknownSplit,
    load_environment,
)
from tests.env_servers.environments.webshop.conftest import LAMP_FACTS, raw_product, write_catalogue

EVERYTHING = 10**6


def sentences(tasks: WebShopTasks, split: str) -> list[str]:
    items = tasks.item_ids(split, 0, EVERYTHING)
    return [tasks.get(item).payload.goal.instruction for item in items]


def test_the_registry_finds_the_environment() -> None:
    assert load_environment("webshop") is WebShop


def test_without_data_there_are_embedded_splits_only(embedded: WebShopTasks) -> None:
    assert embedded.splits() == {"train": 11_225, "eval": 975}
    assert embedded.item_ids("train", 0, 1) == [f"webshop_{EMBEDDED_BASE}"]
    assert embedded.item_ids("eval", 0, 1) == [f"webshop_{EVAL_BASE}"]
    assert len(embedded.shops["embedded"]) == 12_200


def test_no_sentence_is_in_train_and_eval(embedded: WebShopTasks) -> None:
    train, held_out = sentences(embedded, "train"), sentences(embedded, "eval")
    assert set(train).isdisjoint(held_out)
    assert len(set(train)) > 11_000


def test_the_embedded_catalogue_is_the_same_everywhere(embedded: WebShopTasks) -> None:
    digest = hashlib.sha256()
    for product in embedded.shops["embedded"].products:
        digest.update(repr(product).encode())
    for split in ("train", "eval"):
        digest.update("\n".join(sentences(embedded, split)).encode())
    assert digest.hexdigest()[:16] == "48a7b52a9cf79c4d"


def test_embedded_products_are_whole_and_distinct(embedded: WebShopTasks) -> None:
    products = embedded.shops["embedded"].products
    assert len({product.asin for product in products}) == len(products)
    assert {product.category for product in products} == {
        *("fashion", "beauty", "electronics", "garden", "grocery")
    }
    for product in products:
        assert product.options
        assert len(product.asin) == 10
        assert 0 < product.prices[0] <= product.prices[-1] < 980
        assert set(product.instruction_attributes) <= set(product.attributes)


def test_every_embedded_option_value_can_be_matched_by_the_reward(embedded: WebShopTasks) -> None:
    product = embedded.shops["embedded"].products[0]
    for product_type in read_product_types(product_types_text()):
        for name, values in product_type.options.items():
            for value in values:
                goal_spec = GoalSpec("", "", "", (), ((name, value),), 10**6)
                assert score_purchase(product, {name: value}, 1.0, goal_spec).options == 1, value


def test_categories_are_departments(embedded: WebShopTasks) -> None:
    found = {embedded.category(item) for item in embedded.item_ids("eval", 0, EVERYTHING)}
    assert found == {"fashion", "beauty", "electronics", "garden", "grocery"}


def test_unknown_items_and_splits_are_refused(embedded: WebShopTasks) -> None:
    for item in ("webshop_0", "webshop_1020000", "webshop_x", "maze_1000000", "webshop_999999999"):
        with pytest.raises(UnknownItem):
            embedded.get(item)
    with pytest.raises(UnknownSplit):
        embedded.item_ids("official_train", 0, 1)


def test_official_splits_are_agentgyms(official: WebShopTasks) -> None:
    assert official.splits() == {
        "train": 11_225,
        "eval": 975,
        "official_train": 6710,
        "official_eval": 200,
    }
    assert "webshop_5238" in official.item_ids("official_eval", 0, 200)
    assert official.digest() != WebShop.load_tasks(EnvironmentConfig()).digest()


def test_every_recorded_goal_is_the_one_of_its_id(official: WebShopTasks, data_dir: Path) -> None:
    exact = 0
    with gzip.open(data_dir / "agenttraj_l" / "webshop.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        recorded = row["conversations"][2]["value"].split(" [SEP] ")[2]
        task_spec = official.get(row["item_id"]).payload
        product = task_spec.shop.products[task_spec.goal.number]
        plain = re.sub(r", and price lower than [0-9.]+ dollars$", "", recorded)
        assert task_spec.goal.instruction == plain
        if len(product.prices) == 1:
            limit = task_spec.goal.limit(draw_price(product, 0))
            assert task_spec.goal.sentence(limit) == recorded
            exact += 1
    assert (len(rows), exact) == (402, 217)


@pytest.mark.parametrize(
    ("price", "steps"),
    [
        (0.5, (10.0, 20.0, 30.0, 40.0)),
        (50.0, (60.0, 70.0, 80.0, 90.0)),
        (959.0, (960.0, 970.0, 980.0, 990.0)),
        (985.0, (990.0,)),
        (2000.0, ()),
    ],
)
def test_price_limits_are_the_next_tens(price: float, steps: tuple[float, ...]) -> None:
    assert tuple(price_steps(price)) == steps


def test_people_wrote_goals_too(tmp_path: Path) -> None:
    human = {
        "B000000000": [
            {
                "instruction": "i need a lamp.",
                "instruction_attributes": ["clear glass"],
                "instruction_options": ["blue"],
            },
            {"instruction": "any", "instruction_attributes": [], "instruction_options": []},
        ]
    }
    folder = write_catalogue(tmp_path, [raw_product(0)], {"B000000000": LAMP_FACTS}, human=human)
    tasks = WebShop.load_tasks(EnvironmentConfig(folder, {"webshop.goals": "human"}))
    assert tasks.splits()["official_eval"] == 4
    shown = {WebShop(tasks).reset(tasks.get(f"webshop_{n}"), ResetOptions()).text for n in range(4)}
    assert shown == {
        "WebShop [SEP] Instruction: [SEP] i need a lamp, and price lower than "
        f"{limit}.00 dollars [SEP] Search"
        for limit in (20, 30, 40, 50)
    }


def test_the_full_catalogue_stays_in_its_files(tmp_path: Path) -> None:
    products = [raw_product(n, name=f"L\u00e4mp {n} \u2014 Glass") for n in range(40)]
    products += [raw_product(7), raw_product(8, asin="TOO-LONG-ASIN"), raw_product(9, asin="nan")]
    facts = {f"B0000000{n:02d}": LAMP_FACTS for n in range(39)}
    folder = write_catalogue(tmp_path, products, facts, "full")
    settings = {"webshop.catalogue": "full", "webshop.goals": "synthetic"}
    tasks = WebShop.load_tasks(EnvironmentConfig(folder, settings))
    shop = tasks.shops["official"]
    assert len(shop) == 40
    assert shop.products[39].title == "L\u00e4mp 39 \u2014 Glass"
    assert [product.asin for product in shop.products[37:]] == [
        f"B0000000{n}" for n in (37, 38, 39)
    ]
    assert shop.products[5].attributes == ("clear glass", "easy install")
    assert shop.products[39].attributes == ("DUMMY_ATTR",)
    assert shop.products[0].options == {"color": ("red | gold", "blue")}
    assert tasks.splits()["official_train"] == 78
    assert len(shop.search("l\u00e4mp")) == 40


@pytest.mark.parametrize("missing", ["items_shuffle_1000.json", "items_ins_v2_1000.json"])
def test_a_missing_file_is_named_with_its_place(tmp_path: Path, missing: str) -> None:
    folder = write_catalogue(tmp_path, [raw_product(0)], {})
    (folder / "webshop" / missing).unlink()
    with pytest.raises(EnvironmentUnavailable, match=f"lacks {missing}") as caught:
        WebShop.load_tasks(EnvironmentConfig(folder))
    assert str(folder) in str(caught.value)
    assert "embedded catalogue" in str(caught.value)


@pytest.mark.parametrize("catalogue", ["small", "full"])
def test_a_half_downloaded_file_is_told_with_its_byte(tmp_path: Path, catalogue: str) -> None:
    folder = write_catalogue(tmp_path, [raw_product(n) for n in range(3)], {}, catalogue, {})
    name = "items_shuffle_1000.json" if catalogue == "small" else "items_shuffle.json"
    path = folder / "webshop" / name
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(EnvironmentUnavailable, match=f"{name} is cut off or damaged at byte"):
        WebShop.load_tasks(EnvironmentConfig(folder, {"webshop.catalogue": catalogue}))


@pytest.mark.parametrize("content", ["", "7", "[1 2]", '{"a" 1}', "[{}]", "[null]"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: str) -> None:
    folder = write_catalogue(tmp_path, [], {})
    (folder / "webshop" / "items_shuffle_1000.json").write_text(content)
    with pytest.raises(EnvironmentUnavailable):
        WebShop.load_tasks(EnvironmentConfig(folder))


def test_a_folder_without_webshop_files_leaves_the_embedded_tasks(tmp_path: Path) -> None:
    tasks = WebShop.load_tasks(EnvironmentConfig(tmp_path))
    assert list(tasks.splits()) == ["train", "eval"]


def test_unknown_settings_values_and_missing_human_goals_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="small, full"):
        WebShop.load_tasks(EnvironmentConfig(None, {"webshop.catalogue": "huge"}))
    folder = write_catalogue(tmp_path, [raw_product(0)], {"B000000000": LAMP_FACTS})
    with pytest.raises(EnvironmentUnavailable, match=r"items_human_ins\.json"):
        WebShop.load_tasks(EnvironmentConfig(folder, {"webshop.goals": "human"}))
