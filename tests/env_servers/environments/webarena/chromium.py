"""Whether this machine has a browser."""

import pytest

from env_servers.environments.webarena.browser.chromium import AUTO, find_chromium
from env_servers.sdk import EnvironmentUnavailable

__all__ = ["needs_chromium"]


def _has_chromium():
    try:
        return bool(find_chromium(AUTO))
    except EnvironmentUnavailable:
        return False


needs_chromium = pytest.mark.skipif(not _has_chromium(), reason="no Chromium is installed")
