"""What satisfies a subgoal: exactly as in the original, or by value."""

from __future__ import annotations

import pytest

from env_servers.toolkit.tool_calls import Subgoals, equal_exactly, equal_in_value


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        (18.5, "18.50"),
        (18.5, 18.500000001),
        ("18.5", 18.5),
        (5, 5.0),
        ("Yes", "yes "),
        ("'The Dark Knight'", "the dark knight"),
        (["a", "b"], ["B", "a"]),
        ([1, "x"], ("x", "1")),
        (["Paris"], "Paris"),
        ({"a": 1}, {"a": "1"}),
    ],
)
def test_profile_fixed_compares_values(expected: object, given: object) -> None:
    assert equal_in_value(expected, given)


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        (18.5, 18.6),
        (1, True),
        ("Yes", True),
        ("Yes", "No"),
        (["a", "a"], ["a", "b"]),
        (["a"], ["a", "a"]),
        ({"a": 1}, {"b": 1}),
        (0.0, None),
        ("nan", "nan2"),
        (1, "1" * 5000),
    ],
)
def test_profile_fixed_is_not_lenient_about_values(expected: object, given: object) -> None:
    assert not equal_in_value(expected, given)


def test_each_output_satisfies_one_subgoal_and_a_share_never_falls() -> None:
    subgoals = Subgoals.of(["a", "a", 1])
    subgoals.note("a")
    subgoals.update(equal_exactly)
    assert subgoals.share == pytest.approx(1 / 3)
    subgoals.note("x")
    subgoals.note("1")
    subgoals.update(equal_exactly)
    assert subgoals.share == pytest.approx(1 / 3)
    subgoals.note("a")
    subgoals.note(1.0)
    subgoals.update(equal_exactly)
    assert subgoals.share == 1.0


def test_outputs_wait_for_the_next_update() -> None:
    subgoals = Subgoals.of(["a"])
    subgoals.note("a")
    assert subgoals.share == 0.0
    copy = subgoals.copy()
    copy.update(equal_exactly)
    assert (copy.share, subgoals.share) == (1.0, 0.0)
