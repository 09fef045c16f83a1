"""Whatever a tool returns can be shown as tables."""

import pytest

from env_servers.toolkit.tool_calls.picture import tables_of


def shown(value):
    return [table.text() for table in tables_of(value)]


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("done", ["done"]),
        (None, [""]),
        ([1, 2], ["1\n2"]),
        ([{"a": 1}, {"b": 2}], ["a  b\n-  -\n1\n   2"]),
        ({"day": ["x", "y"], "rain": [0, 5]}, ["day  rain\n---  ----\nx    0\ny    5"]),
        ({"id": 1, "cast": [{"name": "A"}]}, ["id  1", "cast\nname\n----\nA"]),
        ([[1, [2]], {"a": 1}], ["[1, [2]]\n{'a': 1}"]),
        ({}, []),
        ([], [""]),
    ],
)
def test_values_become_tables(value, texts):
    assert shown(value) == texts


def test_deep_and_wide_values_are_cut():
    deep = []
    for _ in range(150):
        deep = [deep]
    assert len("".join(shown({"a": {"b": {"c": deep}}}))) < 1_000
    assert len("".join(shown([{f"n{k}": k for k in range(1_000)}] * 1_000))) < 10_000
