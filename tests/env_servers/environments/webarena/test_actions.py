"""Texts become actions, or the original's refusals; a step says what was done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from env_servers.environments.webarena import actions
from env_servers.environments.webarena.actions import (
    Click,
    Direction,
    Goto,
    Press,
    Scroll,
    Stop,
    TabFocus,
    Type,
    UnreadableAction,
    describe_action,
    parse_action,
)
from env_servers.environments.webarena.addresses import Addresses
from env_servers.environments.webarena.grammar import GRAMMAR, NO_ACTION
from env_servers.sdk import ActionFormat, Advice, Rejected
from tests.kit.data import data_fixture

data_dir = data_fixture("webarena")

RECORDED_SITES = Addresses(
    {
        "forum": "http://forum.test",
        "shop": "http://shop.test",
        "shop_admin": "http://admin.test/admin",
        "code": "http://git.test",
        "encyclopedia": "http://wiki.test/wiki",
        "map": "http://map.test",
        "home": "http://home.test",
    }
)
RECORDED_NAMES = {
    "CLICK": actions.Click,
    "HOVER": actions.Hover,
    "TYPE": actions.Type,
    "KEY_PRESS": actions.Press,
    "SCROLL": actions.Scroll,
    "NEW_TAB": actions.NewTab,
    "PAGE_FOCUS": actions.TabFocus,
    "PAGE_CLOSE": actions.CloseTab,
    "GOTO_URL": actions.Goto,
    "GO_BACK": actions.GoBack,
    "GO_FORWARD": actions.GoForward,
    "STOP": actions.Stop,
}


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("click [12]", Click("12")),
        ("click[0012] because it fits", Click("0012")),
        ("type [4] [two words]", Type("4", "two words\n")),
        ("type [4] [two words] [0]", Type("4", "two words")),
        ("type [4] [a [b] c] [1]", Type("4", "a [b] c\n")),
        ("press [meta+SHIFT+pagedown]", Press("Meta+SHIFT+PageDown")),
        ("scroll [downwards]", Scroll(Direction.DOWN)),
        ("tab_focus [1]", TabFocus(1)),
        ("goto [http://a.test/]", Goto("http://a.test/")),
        ("stop", Stop("")),
        ("stop [a] [b]", Stop("a] [b")),
    ],
)
def test_a_text_is_read_as_an_action(text: str, action: actions.Action) -> None:
    assert parse_action(text) == action


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "list index out of range"),
        ("dance [1]", "Invalid action dance [1]"),
        ("click  [12]", "Invalid click action click  [12]"),
        ("type [4]", "Invalid type action type [4] [1]"),
        ("type [4] [5 €] [0]", "'€'"),
        ("type [4] [a\tb] [0]", "'\\t'"),
        ("scroll down [3]", "Invalid action scroll down [3]"),
        ("tab_focus [" + "9" * 5000 + "x]", "Invalid tab_focus action tab_focus ["),
    ],
)
def test_what_is_no_action_is_refused_in_the_originals_words(text: str, message: str) -> None:
    with pytest.raises(UnreadableAction) as refused:
        parse_action(text)
    assert str(refused.value).startswith(message)


def test_a_huge_tab_number_is_read() -> None:
    assert isinstance(parse_action("tab_focus [" + "9" * 5000 + "]"), TabFocus)


@pytest.mark.parametrize(
    "text",
    [
        "click [3]",
        "type [3] [some text] [0]",
        "hover [3]",
        "press [Tab]",
        "scroll [up]",
        "new_tab",
        "tab_focus [2]",
        "close_tab",
        "goto [http://a.test/?b=c]",
        "go_back",
        "go_forward",
        "stop [it is 5]",
    ],
)
@pytest.mark.parametrize("action_format", ActionFormat)
def test_advice_is_written_and_read_in_every_format(text: str, action_format: ActionFormat) -> None:
    reply = GRAMMAR.write(Advice(text, "That is next."), action_format)
    native = GRAMMAR.read(reply, action_format)
    assert isinstance(native, str)
    assert parse_action(native) == parse_action(text)


def test_a_reply_without_backticks_is_answered_as_the_original_client_does() -> None:
    assert GRAMMAR.read("click [1]", ActionFormat.REACT) == Rejected(NO_ACTION)


def _recorded_cases(data_dir: Path) -> list[dict[str, Any]]:
    lines = (data_dir / "webarena" / "given" / "parsing.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_every_recorded_text_is_read_and_described_as_recorded(data_dir: Path) -> None:
    nodes = json.loads((data_dir / "webarena" / "parsing_nodes.json").read_text("utf-8"))
    cases = _recorded_cases(data_dir)
    assert cases
    assert [
        case for case in cases if _as_recorded(case, nodes) != {key: case.get(key) for key in KEYS}
    ] == []


KEYS = ("action", "error", "description")


def _as_recorded(case: dict[str, Any], nodes: dict[str, str]) -> dict[str, Any]:
    """What the case's text is here, in the words of the recording."""
    seen: dict[str, Any] = dict.fromkeys(KEYS)
    text = case["input"]
    if case["kind"] == "response":
        read = GRAMMAR.read(text, ActionFormat.REACT)
        if isinstance(read, Rejected):
            assert case["client"]["state"] == read.message
            return {key: case.get(key) for key in KEYS}
        text = RECORDED_SITES.opened(read)
        assert case["extracted"] == {"ok": text}
    try:
        action = parse_action(text)
    except UnreadableAction as error:
        kind = case.get("error", {}).get("error", "UnreadableAction")
        seen["error"] = {"error": kind, "message": str(error)}
        return seen
    assert isinstance(action, RECORDED_NAMES[case["action"]["action_type"]])
    for name, value in case["action"].items():
        if name != "action_type":
            field = {"key_comb": "keys", "page_number": "number"}.get(name, name)
            held = getattr(action, field)
            assert (held.value if isinstance(held, Direction) else held) == value
    seen["action"] = case["action"]
    seen["description"] = {"ok": describe_action(action, nodes)}
    return seen
