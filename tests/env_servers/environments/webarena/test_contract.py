"""WebArena keeps the contract of all environments."""

import pytest

from env_servers.sdk.contract import EnvironmentContract, Terms
from tests.env_servers.environments.webarena.chromium import needs_chromium

# Through a browser, some minutes in the default sizes.
pytestmark = [pytest.mark.slow, needs_chromium]


class TestWebArena(EnvironmentContract):
    environment_name = "webarena"
    terms = Terms(items_per_split=1, expert_items_per_split=2, steps=6)
