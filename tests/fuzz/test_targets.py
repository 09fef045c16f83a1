"""Every target on a few examples, always the same ones; for a while in the slow suite."""

import pytest

from tests.fuzz.driver import fuzz
from tests.fuzz.targets import TARGETS

SECONDS = 2.5


@pytest.mark.parametrize("name", TARGETS)
def test_what_arrives_is_answered_or_refused(name):
    TARGETS[name]()


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_random_input_is_answered_or_refused(name):
    assert fuzz(TARGETS[name], SECONDS, seed=1) > 10
