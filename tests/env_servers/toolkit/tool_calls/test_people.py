"""Invented names: distinct, many, and the same everywhere."""

from __future__ import annotations

import pytest

from env_servers.toolkit.tool_calls.people import CULTURES, mix_bits, permuted_index


@pytest.mark.parametrize("culture", CULTURES)
def test_every_number_has_a_name_of_its_own(culture: str) -> None:
    names = CULTURES[culture]
    assert names.size > 3_000
    assert len({names.name(index) for index in range(names.size)}) == names.size


def test_no_name_is_in_two_cultures() -> None:
    listed = [c.name(i) for c in CULTURES.values() for i in range(min(c.size, 4_000))]
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("size", [1, 2, 7, 500, 30_000, 43_200])
def test_scattering_reaches_every_number_once(size: int) -> None:
    assert sorted(permuted_index(index, size) for index in range(size)) == list(range(size))


def test_mixing_is_pinned_and_sensitive_to_every_part() -> None:
    assert mix_bits() == 0x9E3779B97F4A7C15
    assert mix_bits(1, 2) == 9550467469912592448
    assert len({mix_bits(a, b) for a in range(50) for b in range(50)}) == 2_500
    assert 0 <= mix_bits(-1, 2**80) < 2**64


def test_no_name_ends_an_episode_of_a_tool_environment() -> None:
    """The word "finish" anywhere in a call does."""
    for culture in CULTURES.values():
        names = (culture.name(index) for index in range(min(culture.size, 4_000)))
        assert not any("finish" in name.casefold() for name in names)
