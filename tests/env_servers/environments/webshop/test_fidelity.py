"""AgentTraj-L's conversations, played again: the same actions give the same pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark.fidelity.recordings import SOURCES, read_recordings
from env_servers.environments.webshop import WebShop
from env_servers.environments.webshop.tasks import WebShopTasks
from env_servers.sdk import ActionFormat, Rejected
from tests.env_servers.environments.webshop.conftest import start


def test_every_recorded_page_comes_back_and_every_purchase_earns_one(
    official: WebShopTasks, data_dir: Path
) -> None:
    if not (data_dir / "agenttraj_l" / "webshop.jsonl.gz").is_file():
        pytest.skip("needs AgentTraj-L")
    episodes = steps = 0
    for recording in read_recordings(SOURCES["webshop"], data_dir):
        episode = start(official, recording.item_id, **recording.options)
        seen = [episode.step("").text]
        reward = None
        for reply in recording.replies:
            action = WebShop.spec.grammar.read(reply, ActionFormat.REACT)
            assert not isinstance(action, Rejected)
            text, reward, *_ = episode.step(action)
            seen.append(text)
        assert tuple(seen[: len(recording.observations)]) == recording.observations
        assert reward == 1.0
        episodes += 1
        steps += len(recording.observations) - 1
    assert (episodes, steps) == (402, 1640)


def test_a_purchase_of_the_wrong_thing_earns_what_was_published(official: WebShopTasks) -> None:
    """A reward that the original gave in public: a shirt bought in place of a jumpsuit."""
    episode = start(official, "webshop_5457")
    episode.step("search[women jumpsuits]")
    episode.step("click[b09qgk5xhz]")
    assert episode.step("click[buy now]").reward == 0.03333333333333333
