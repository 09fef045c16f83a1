"""WebShop's tasks: which goal of which shop an item id stands for.

Contains item ids, splits and both shops with their goals. Tasks depend on the catalogue alone; what
a price range leaves open is settled per episode.

Official ids are AgentGym's `webshop_<goal index>`. Goals are built when they are asked for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from env_servers.environments.webshop.catalogue import Shop
from env_servers.environments.webshop.embedded import (
    EmbeddedGoals,
    divide_goals,
    load_embedded_shop,
    product_types_text,
)
from env_servers.environments.webshop.goals import Goal, Goals, HumanGoals, SyntheticGoals
from env_servers.environments.webshop.official import (
    CATALOGUES,
    OfficialFiles,
    find_files,
    load_shop,
    read_instructions,
)
from env_servers.sdk import (
    EMBEDDED_BASE,
    EnvironmentConfig,
    EnvironmentUnavailable,
    InvalidOption,
    Task,
    TaskSet,
    UnknownItem,
    UnknownSplit,
    item_index,
)

__all__ = ["EVAL_BASE", "TaskSpec", "WebShopTasks", "load_tasks"]

EVAL_BASE: Final = EMBEDDED_BASE + 500_000
"""First index of the embedded eval split."""
EVAL_IDS: Final = Path("agenteval", "webshop_test.json")
"""AgentEval's item ids, in the folder of official data."""
HUMAN_EVAL: Final = 500
"""Of human goals the first are held out, as in the WebShop paper."""
_NAME: Final = "webshop"
_CATALOGUE: Final = "webshop.catalogue"
_GOALS: Final = "webshop.goals"
_DIGEST_BYTES: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """What a task asks for, in which shop."""

    shop: Shop
    goal: Goal

    def __repr__(self) -> str:
        return f"Errand({self.shop.name!r}, {self.goal!r})"


@dataclass(frozen=True, slots=True)
class _Source:
    """A shop with its goals, and the indexes of each split."""

    shop: Shop
    goals: Goals
    splits: Mapping[str, tuple[int, Sequence[int]]]
    """Split to (first item index, goal indexes)."""
    digest: bytes


class WebShopTasks(TaskSet):
    """All tasks, and the shops that they play in."""

    def __init__(self, official: Sequence[_Source]) -> None:
        """The embedded shop is there besides; it is made when it is first asked about."""
        self._official = tuple(official)

    @cached_property
    def _sources(self) -> tuple[_Source, ...]:
        return (_embedded_source(), *self._official)

    @cached_property
    def shops(self) -> Mapping[str, Shop]:
        """The shops by name."""
        return {source.shop.name: source.shop for source in self._sources}

    def prepare(self) -> None:
        _ = self._sources

    def splits(self) -> Mapping[str, int]:
        return {
            name: len(indexes)
            for source in self._sources
            for name, (_, indexes) in source.splits.items()
        }

    def item_ids(self, split: str, start: int, stop: int) -> Sequence[str]:
        for source in self._sources:
            if split in source.splits:
                base, indexes = source.splits[split]
                if base:
                    return [f"{_NAME}_{base + n}" for n in range(len(indexes))[start:stop]]
                return [f"{_NAME}_{index}" for index in indexes[start:stop]]
        raise UnknownSplit(f"unknown split {split[:100]!r}", valid=self.splits())

    def get(self, item_id: str) -> Task:
        index = item_index(item_id, names=(_NAME,))
        source, offset = self._locate(item_id, index)
        goal = source.goals[offset]
        category = source.shop.products[goal.number].category
        return Task(f"{_NAME}_{index}", TaskSpec(source.shop, goal), category)

    def _locate(self, item_id: str, index: int) -> tuple[_Source, int]:
        """Return the source of an item index and the goal's index there."""
        for source in self._sources:
            for base, indexes in source.splits.values():
                if base and base <= index < base + len(indexes):
                    return source, indexes[index - base]
                if not base and index < len(source.goals):
                    return source, index
        spans: list[str] = []
        for source in self._sources:
            for name, (base, indexes) in source.splits.items():
                last = base + len(indexes) - 1 if base else len(source.goals) - 1
                spans.append(f"{base}..{last} ({name})")
        raise UnknownItem(f"unknown item {item_id[:100]!r}", valid=spans)

    def digest(self) -> bytes:
        digest = hashlib.blake2b(super().digest(), digest_size=8)
        for source in self._sources:
            digest.update(source.digest)
        return digest.digest()


def load_tasks(config: EnvironmentConfig) -> WebShopTasks:
    """Embedded tasks, and the official ones where their files are in `data_dir`.

    Settings: `webshop.catalogue` = small (default) or full; `webshop.goals` = synthetic (default
    of small) or human (default of full).
    """
    catalogue = _setting(config, _CATALOGUE, tuple(CATALOGUES))
    default = ("synthetic", "human") if catalogue == "small" else ("human", "synthetic")
    kind = _setting(config, _GOALS, default)
    sources: list[_Source] = []
    official_files = find_files(config.data_dir, catalogue) if config.data_dir is not None else None
    if official_files is not None and config.data_dir is not None:
        sources.append(_official_source(official_files, config.data_dir, catalogue, kind))
    return WebShopTasks(sources)


def _setting(config: EnvironmentConfig, name: str, values: Sequence[str]) -> str:
    """Return a setting's value; the first value is the default."""
    value = config.settings.get(name, values[0])
    if value not in values:
        raise InvalidOption(f"setting {name}={value!r:.100}", valid=values)
    return value


def _embedded_source() -> _Source:
    shop = load_embedded_shop()
    goals = EmbeddedGoals(shop)
    train, held_out = divide_goals(goals)
    splits = {"train": (EMBEDDED_BASE, train), "eval": (EVAL_BASE, held_out)}
    digest = hashlib.blake2b(product_types_text().encode(), digest_size=8).digest()
    return _Source(shop, goals, splits, digest)


def _official_source(
    official_files: OfficialFiles, data_dir: Path, catalogue: str, kind: str
) -> _Source:
    if kind == "human" and official_files.human is None:
        folder = official_files.products.parent
        raise EnvironmentUnavailable(
            f"{_GOALS}=human needs items_human_ins.json in {folder}, from the same place as "
            f"{official_files.products.name}; without {folder} the embedded catalogue is played"
        )
    shop = load_shop(official_files, catalogue)
    goals: Goals
    if kind == "human" and official_files.human is not None:
        goals = HumanGoals(shop, read_instructions(official_files.human))
        held_out = set(range(min(HUMAN_EVAL, len(goals))))
    else:
        goals = SyntheticGoals(shop)
        held_out = _agent_eval(data_dir / EVAL_IDS, len(goals))
    splits = {
        "official_train": [n for n in range(len(goals)) if n not in held_out],
        "official_eval": sorted(held_out),
    }
    return _Source(
        shop,
        goals,
        {name: (0, split) for name, split in splits.items() if split},
        _digest(official_files),
    )


def _agent_eval(path: Path, size: int) -> set[int]:
    """AgentEval's goal indexes; none where the list is missing or not of these goals."""
    if not path.is_file():
        return set()
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        indexes = {item_index(row["item_id"], names=(_NAME,)) for row in rows}
    except (ValueError, TypeError, KeyError) as error:
        raise EnvironmentUnavailable(f"cannot read {path}: {error}") from error
    return {index for index in indexes if index < size}


def _digest(official_files: OfficialFiles) -> bytes:
    """Of the files' sizes and first megabytes, which tells any two catalogues apart."""
    digest = hashlib.blake2b(digest_size=8)
    for path in (official_files.products, official_files.attributes, official_files.human):
        if path is not None:
            digest.update(path.stat().st_size.to_bytes(8, "big"))
            with path.open("rb") as file:
                digest.update(file.read(_DIGEST_BYTES))
    return digest.digest()
