from __future__ import annotations

from pathlib import Path

import pytest

from tests.orchestrator.records import build_episode
from tests.training.makers import chatml_renderer, write_run
from training.data.dataset import DataConfig, TokenDataset, build_datasets
from training.data.pairs import PairConfig, find_pairs
from training.data.sources import SourceConfig
from training.errors import NothingToTrainOn

REWARDS = {"maze_1": (0.0, 1.0, 0.95), "maze_2": (0.5, 0.5), "maze_3": (0.8, 0.2), "maze_4": (1,)}


@pytest.fixture
def dataset(tmp_path: Path) -> TokenDataset:
    episodes = [
        build_episode(item, sample=sample, reward=reward, tokens=False)
        for item, rewards in REWARDS.items()
        for sample, reward in enumerate(rewards)
    ]
    data = DataConfig(
        sources=(SourceConfig(path=str(write_run(tmp_path / "run", episodes))),), context=2048
    )
    return build_datasets(
        data, chatml_renderer(tmp_path / "model"), tmp_path / "data", vocabulary=9999
    )[0]


def samples(dataset: TokenDataset, config: PairConfig) -> list[tuple[str, int, int]]:
    origins = list(dataset.origins())
    return [
        (it.item_id, origins[it.chosen[0]].sample, origins[it.rejected[0]].sample)
        for it in find_pairs(dataset, config)
    ]


def test_the_best_meets_the_worst_of_the_same_item(dataset: TokenDataset) -> None:
    assert samples(dataset, PairConfig()) == [("maze_1", 1, 0)]
    assert samples(dataset, PairConfig(min_best=0.7)) == [("maze_1", 1, 0), ("maze_3", 0, 1)]


def test_all_pairs_that_meet_the_bounds_when_asked_for(dataset: TokenDataset) -> None:
    found = samples(dataset, PairConfig(per_item="all"))
    assert found == [("maze_1", 1, 0), ("maze_1", 2, 0)]
    close = samples(dataset, PairConfig(per_item="all", min_gap=0.01))
    assert ("maze_1", 1, 2) in close and len(close) == 3


def test_rewards_of_another_unit_are_scaled(dataset: TokenDataset) -> None:
    config = PairConfig(reward_scale={"maze": 0.8})
    assert [it[0] for it in samples(dataset, config)] == ["maze_1", "maze_3"]
    with pytest.raises(NothingToTrainOn, match="4 items with a reward, 3 with several"):
        samples(dataset, PairConfig(reward_scale={"maze": 100.0}))
