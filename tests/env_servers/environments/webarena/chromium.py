"""Whether this machine has a browser."""

import pytest

from env_servers.environments.webarena.browser.chromium import AUTO, find_chromium
from env_servers.sdk import EnvironmentUnavailable

__all__ = ["needs_chromium", "skip_without_chromium"]


def _has_chromium():
    try:
        return bool(find_chromium(AUTO))
    except EnvironmentUnavailable:
        return False


_HERE, _REASON = _has_chromium(), "no Chromium is installed"
needs_chromium = pytest.mark.skipif(not _HERE, reason=_REASON)


def skip_without_chromium():
    """Skip a module that loads tasks as it is imported, which a server without browser refuses."""
    if not _HERE:
        pytest.skip(_REASON, allow_module_level=True)
