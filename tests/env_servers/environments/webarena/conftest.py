"""What tests in a browser share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from env_servers.environments.webarena.browser.shared_browser import SharedBrowser
from env_servers.sdk import EnvironmentUnavailable


@pytest.fixture
async def browser() -> AsyncIterator[SharedBrowser]:
    shared = SharedBrowser()
    try:
        try:
            await shared.process_id()
        except EnvironmentUnavailable as error:
            pytest.skip(str(error))
        yield shared
    finally:
        await shared.close()
