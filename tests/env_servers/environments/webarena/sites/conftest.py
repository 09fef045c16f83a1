"""Visitors of the embedded sites, each in a world of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from env_servers.environments.webarena.sites.embedded import embedded_network, new_world
from tests.env_servers.environments.webarena.sites.browsing import Visitor


@pytest.fixture
def visit() -> Callable[..., Visitor]:
    """Return a function that opens a site: `visit("shop", account="17")`."""

    def open_site(site: str, account: str = "") -> Visitor:
        visitor = Visitor(embedded_network(), new_world(), f"http://{site}.test/")
        return visitor.signed_in(site, account) if account else visitor

    return open_site
