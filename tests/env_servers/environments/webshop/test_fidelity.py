"""AgentTraj-L's conversations, played again: the same actions give the same pages."""

from __future__ import annotations

import pytest

from env_servers.environments.webshop import WebShop
from env_servers.environments.webshop.tasks import WebShopTasks
from tests.env_servers.environments.webshop.conftest import start
from tests.kit.fidelity import FidelityContract


class TestRecordedConversations(FidelityContract):
    """The same pages, and every purchase earns 1."""

    environment = WebShop
    counts = (402, 1640)

    @pytest.fixture(scope="class")
    @classmethod
    def replayed_tasks(cls, official: WebShopTasks) -> WebShopTasks:
        return official


def test_a_purchase_of_the_wrong_thing_earns_what_was_published(official: WebShopTasks) -> None:
    """A reward that the original gave in public: a shirt bought in place of a jumpsuit."""
    episode = start(official, "webshop_5457")
    episode.step("search[women jumpsuits]")
    episode.step("click[b09qgk5xhz]")
    assert episode.step("click[buy now]").reward == 0.03333333333333333
