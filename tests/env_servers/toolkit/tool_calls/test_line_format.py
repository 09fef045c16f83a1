"""The line in which tools are called: read as the original reads it, and never evaluated."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import SupportsIndex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.toolkit.tool_calls.line_format import (
    BAD_INPUT,
    FORMAT_ERROR,
    NO_ACTION,
    Call,
    Unreadable,
    call_key,
    express,
    read_call,
    read_call_leniently,
    read_reply,
    write_call,
)

LINE = 'Action: get_elevation with Action Input: {"latitude": 1.5, "longitude": 2}'
ARGUMENTS = {"latitude": 1.5, "longitude": 2}


def called(text: str) -> Call:
    call = read_call(text)
    assert isinstance(call, Call), call
    return call


@pytest.mark.parametrize(
    "reply",
    [
        LINE,
        f"Thought: hm.\n\n{LINE}",
        f"Thought: hm.\n\n{LINE}\n",
        f"{LINE}".replace('"', "'"),
        LINE.replace(" with ", "\nwith "),
        LINE.replace("Input: ", "Input:\n"),
        f"Action: foo with Action Input: {{}}\n{LINE}",
    ],
)
def test_the_call_on_the_last_line_is_read(reply: str) -> None:
    call = called(reply)
    assert (call.tool, call.arguments) == ("get_elevation", ARGUMENTS)


@pytest.mark.parametrize(
    "reply",
    ["", "hello", "Action: f", f"{LINE}\nThat is all.", LINE.replace(", ", ",\n"), f"{LINE}\n\n"],
)
def test_anything_after_the_line_is_a_format_error(reply: str) -> None:
    assert read_call(reply) == Unreadable(FORMAT_ERROR, is_format_error=True)


def test_a_name_without_action_before_it_is_the_originals_type_error() -> None:
    assert read_call('finish with Action Input: {"answer": 1}') == Unreadable(NO_ACTION)


@pytest.mark.parametrize(
    "text", ["{", "true", '{"a": null}', "f()", "", "{'a': b}", "a.b", "[0]*9"]
)
def test_what_is_no_literal_is_the_originals_error(text: str) -> None:
    assert read_call(f"Action: f with Action Input: {text}") == Unreadable(BAD_INPUT)


def test_sums_of_numbers_are_reckoned_as_eval_reckoned_them() -> None:
    call = called('Action: finish with Action Input: {"answer": (18.2 + 6.0 - 0.5) / 2}')
    assert call.arguments == {"answer": (18.2 + 6.0 - 0.5) / 2}


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["Action:", " with ", "with", "Action Input:", "\n", " ", "f", "{}", "\t", "Thought: a"]
        ),
        max_size=14,
    ).map("".join)
)
def test_texts_are_split_exactly_where_the_original_splits_them(text: str) -> None:
    found = re.search(r"\s*(.*?)\s*with\s*Action Input:\s*(.*?)$", text)
    expected = text if found is None else f"{found[1]} with Action Input: {found[2]}"
    assert read_reply(text) == expected


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["Action:", " with Action Input: ", "\n", " ", "f", "1", "Action: f"]),
        max_size=8,
    ).map("".join)
)
def test_names_are_found_exactly_where_the_original_finds_them(text: str) -> None:
    line = read_reply(text)
    found = re.match(
        r".*?Action:\s*(.*?)\s*with\s*Action Input:\s*(.*?)$", line, re.MULTILINE | re.DOTALL
    )
    call = read_call(text)
    if isinstance(call, Call):
        assert found is not None
        assert (call.tool, str(call.arguments)) == (found[1], found[2].strip())


class _Metered(str):
    """A text that counts the characters that are copied out of it."""

    __slots__ = ()
    copied = 0

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        part = super().__getitem__(key)
        _Metered.copied += len(part)
        return part


def _work(read: Callable[[str], object], text: str) -> int:
    """Calls that a reading makes, plus characters that it copies."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    metered, _Metered.copied = _Metered(text), 0
    sys.setprofile(count)
    try:
        read(metered)
    finally:
        sys.setprofile(None)
    return calls + _Metered.copied


@pytest.mark.parametrize("read", [read_call, read_call_leniently, read_reply])
@pytest.mark.parametrize(
    "repeated",
    [
        ("with Action Input:", ""),
        ("with Action Input:\n", ""),
        ("Action: f with Action Input: {}\n", "the end"),
        ("\n", "with Action Input:"),
        (" ", ""),
        ("with ", "Action Input:"),
    ],
)
def test_twice_the_text_is_at_most_twice_the_work(
    read: Callable[[str], object], repeated: tuple[str, str]
) -> None:
    part, end = repeated
    once, twice = (_work(read, part * count + end) for count in (2_000, 4_000))
    assert twice <= 2.1 * once + 100
    # A reading that copies the text for every mark would do millions.
    assert once <= 10 * len(part * 2_000 + end) + 100


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("with Action Input:" * 50_000, NO_ACTION),
        (" " * 1_000_000, FORMAT_ERROR),
        ("\n" * 500_000 + "with Action Input:", NO_ACTION),
    ],
)
def test_a_megabyte_without_a_call_gets_the_error_of_a_short_text(text: str, error: str) -> None:
    call = read_call(text)
    assert isinstance(call, Unreadable)
    assert call.text == error
    assert isinstance(read_call_leniently(text), Unreadable)


def test_a_written_call_is_read_back_whatever_its_values() -> None:
    for value in (
        "Zürich",
        'a "quoted" \\ text',
        "true story",
        True,
        None,
        [1, "b"],
        "a\nb",
        "\u2028",
    ):
        action = write_call("f", {"a": value})
        assert express(action) == ("f", {"a": value})
        assert express(read_reply(f"Thought: x\n\n{action}")) == ("f", {"a": value})


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "a": true,\n  "b": null\n}',
        '{"a": true, "b": null}\nObservation: I imagine this',
        "{'a': True,\n 'b': None}",
    ],
)
def test_the_lenient_reading_takes_json_and_python_over_several_lines(text: str) -> None:
    assert read_call_leniently(f"Thought: x\nAction: f with Action Input: {text}") == Call(
        "f", {"a": True, "b": None}
    )


def test_calls_are_the_same_whatever_the_order_of_their_arguments() -> None:
    assert call_key("f", {"a": 1, "b": 2}) == call_key("f", {"b": 2, "a": 1})
    assert call_key("f", {"a": 1}) != call_key("f", {"a": 1.0})
    assert call_key("f", {"a": "x" * 10_000}) is None
