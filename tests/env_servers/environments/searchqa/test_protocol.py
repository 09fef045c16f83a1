"""Tags are read as the original's regular expressions read them, in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.environments.searchqa.passages import Passage, as_contents, from_contents
from env_servers.environments.searchqa.prompt import GRAMMAR
from env_servers.environments.searchqa.protocol import (
    Move,
    information,
    last_answer,
    read_move,
    without_thoughts,
)
from env_servers.sdk import ActionFormat, Advice

PIECES = (
    "<search>",
    "</search>",
    "<answer>",
    "</answer>",
    "<think>",
    "</think>",
    "<information>",
    "x",
    " y ",
    "\n",
    "<search",
    "answer>",
    "\0",
)
replies = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


def original_move(reply: str) -> Move:
    match = re.search(r"<(search|answer)>(.*?)</\1>", reply, re.DOTALL)
    return Move(match[1], match[2].strip()) if match else Move("", "")


def original_answer(reply: str) -> str:
    matches = re.findall(r"<answer>(.*?)</answer>", reply, re.DOTALL)
    return matches[-1].strip() if matches else ""


@settings(max_examples=600)
@given(replies)
def test_any_reply_is_read_as_by_the_original_patterns(reply: str) -> None:
    assert read_move(reply) == original_move(reply)
    assert last_answer(reply) == original_answer(reply)


@settings(max_examples=600)
@given(replies)
def test_leaving_out_the_thought_does_not_change_what_a_reply_does(reply: str) -> None:
    read = GRAMMAR.read(reply, ActionFormat.REACT)
    assert isinstance(read, str)
    assert read_move(read) == read_move(reply)
    if read_move(reply).verb == "answer":
        assert last_answer(read) == last_answer(reply)
    assert read_move(without_thoughts(read)) == read_move(without_thoughts(reply))


def test_the_first_closed_tag_decides() -> None:
    assert read_move("<answer> a </answer><search>b</search>") == ("answer", "a")
    assert read_move("<answer> a <search> b </search>") == ("search", "b")
    assert read_move("<search> a <search> b </search>") == ("search", "a <search> b")
    assert read_move("<SEARCH>a</SEARCH>") == ("", "")


@pytest.mark.parametrize(
    "reply",
    [
        "<search>" * 125_000,
        "</answer>" * 110_000,
        "<search>" + "x" * 1_000_000 + "</search>",
        "<think>" * 140_000,
        "<answer></answer>" * 60_000,
        "\0\x1b[31m" * 200_000,
    ],
)
def test_a_megabyte_of_anything_is_read(reply: str) -> None:
    move = read_move(reply)
    assert move.verb in ("", "search", "answer")
    assert len(last_answer(reply)) <= len(reply)
    assert len(without_thoughts(reply)) <= len(reply)


def test_thoughts_are_cut_out_also_when_they_do_not_end() -> None:
    assert without_thoughts("a<think>b</think>c<think>d") == "ac"
    assert without_thoughts("no thoughts </think>") == "no thoughts </think>"


def test_information_shows_titles_and_texts_numbered() -> None:
    found = [Passage("7", '"A"', "Text of A."), Passage("9", '"B"', "Text\nof B.")]
    assert information(found) == (
        '<information>Doc 1(Title: "A") Text of A.\nDoc 2(Title: "B") Text\nof B.</information>'
    )
    assert information([]) == "<information></information>"


@given(st.text(), st.text().filter(lambda text: "\n" not in text))
def test_contents_are_a_title_line_and_a_text(text: str, title: str) -> None:
    passage = Passage("1", title, text)
    assert from_contents("1", as_contents(passage)) == passage


def test_scripted_players_speak_with_tags() -> None:
    advice = Advice("<search> a b </search>", "I look.")
    written = GRAMMAR.write(advice, ActionFormat.REACT)
    assert written == "<think> I look. </think>\n\n<search> a b </search>"
    assert GRAMMAR.read(written, ActionFormat.REACT) == advice.action
