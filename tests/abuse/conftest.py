"""No attack may exhaust the machine: each has a limit of memory and one of time."""

import contextlib
import threading
from pathlib import Path

import psutil
import pytest

FOLDER = Path(__file__).parent
SECONDS = 240
"""For each test; the attacks take a few."""
MAX_GROWTH = 4 * 2**30
"""Bytes that a test's own process and all that it started may take beyond what was there."""
INTERVAL = 0.1


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(autouse=True)
def memory_watchdog():
    """Kill what a test started as soon as it takes too much; the test then fails by that."""
    this, done, exceeded = psutil.Process(), threading.Event(), []
    # What other tests left running, a browser for example, is nothing of this one's.
    allowed = _resident([this, *this.children(recursive=True)]) + MAX_GROWTH

    def watch():
        while not done.wait(INTERVAL):
            family = [this, *this.children(recursive=True)]
            if (taken := _resident(family)) > allowed:
                exceeded.append(taken)
                for process in family[1:]:
                    with contextlib.suppress(psutil.Error):
                        process.kill()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    yield
    done.set()
    watcher.join()
    assert not exceeded, f"the attack took {max(exceeded) >> 20:,} MiB"


def _resident(family):
    total = 0
    for process in family:
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total
