"""What the browser reports becomes the original's text: rectangles, lines, repetitions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from env_servers.environments.webarena.observation.chromium112 import translate_nodes
from env_servers.environments.webarena.observation.prompt import frame_observation, list_tabs
from env_servers.environments.webarena.observation.rectangles import (
    Layout,
    Rectangle,
    read_layout,
)
from env_servers.environments.webarena.observation.reports import (
    Label,
    Node,
    Property,
    SnapshotReport,
    Value,
)
from env_servers.environments.webarena.observation.tree import Tree, candidates, read_tree

SHOWN = Rectangle(10, 10, 100, 20)


def node(
    number: int, role: str, name: str | None, children: tuple[int, ...] = (), **properties: Any
) -> Node:
    return Node(
        node_id=str(number),
        backend_id=number,
        role=Label(role),
        name=None if name is None else Label(name),
        properties=tuple(Property(key, Value(v)) for key, v in properties.items()),
        child_ids=tuple(str(child) for child in children),
    )


def tree_of(*nodes: Node, hidden: tuple[int, ...] = (), full: bool = False) -> Tree:
    rectangles = {each.backend_id: SHOWN for each in nodes if each.backend_id not in hidden}
    numbers: dict[str, str] = {}

    def number(each: Node) -> str:
        return numbers.setdefault(each.node_id, str(len(numbers) + 1))

    return read_tree(nodes, rectangles, number, full=full)


def layout_of(snapshot: dict[str, Any]) -> Layout:
    return read_layout(msgspec.convert(snapshot, SnapshotReport))


def test_a_line_has_number_role_quoted_name_and_properties_in_their_order() -> None:
    tree = tree_of(
        node(7, "RootWebArea", "It's", (9,), focusable=True, focused=True, url="http://a.test/"),
        node(9, "textbox", 'a "b" \u200b', required=False, editable="plaintext"),
    )
    assert tree.text == (
        '[1] RootWebArea "It\'s" focused: True url: http://a.test/\n'
        "\t[2] textbox 'a \"b\" \\u200b' required: False"
    )


def test_children_of_what_is_no_line_move_up() -> None:
    tree = tree_of(
        node(1, "RootWebArea", "Page", (2, 3)),
        node(2, "generic", "", (4,)),
        node(3, "none", None, (5,)),
        node(4, "link", "In"),
        node(5, "image", ""),
    )
    assert tree.text == "[1] RootWebArea 'Page'\n\t[2] link 'In'\n\t[3] image ''"


def test_what_is_outside_of_the_window_is_left_out_but_its_children_stay() -> None:
    nodes = (
        node(1, "RootWebArea", "Page", (2,)),
        node(2, "region", "Half", (3, 4)),
        node(3, "link", "Above"),
        node(4, "link", "Below"),
    )
    assert tree_of(*nodes, hidden=(2, 4)).text == "[1] RootWebArea 'Page'\n\t[2] link 'Above'"
    assert len(tree_of(*nodes, hidden=(2, 4), full=True).elements) == 4


@pytest.mark.parametrize(
    ("rectangle", "in_view"),
    [
        (Rectangle(1279, 100, 100, 30), True),
        (Rectangle(1279, 100, 1000, 30), True),
        (Rectangle(100, 719.9, 100, 10), True),
        (Rectangle(100, 719.95, 100, 10), False),
        (Rectangle(100, 720, 100, 20), False),
        (Rectangle(0, 0, 0, 20), False),
        (Rectangle(-50, -50, 40, 40), False),
    ],
)
def test_the_score_of_the_window_is_the_originals(rectangle: Rectangle, in_view: bool) -> None:
    assert rectangle.in_view is in_view


def test_equal_pages_are_equal_whatever_numbers_the_browser_gave_their_elements() -> None:
    texts = [
        tree_of(
            node(at, "RootWebArea", "Page", (at + 1, at + 2)),
            node(at + 1, "link", "Sold"),
            node(at + 2, "StaticText", "24"),
        ).text
        for at in (1, 22, 23, 24, 240)
    ]
    assert texts == ["[1] RootWebArea 'Page'\n\t[2] link 'Sold'\n\t[3] StaticText '24'"] * 5


def test_a_text_that_stands_in_one_of_three_lines_before_is_left_out() -> None:
    tree = tree_of(
        node(1, "RootWebArea", "Page", (2, 3, 4, 5, 6)),
        node(2, "link", "Buy tea", (7,)),
        node(7, "StaticText", "tea"),
        node(3, "button", "One"),
        node(4, "button", "Two"),
        node(5, "button", "Three"),
        node(6, "StaticText", "tea"),
    )
    assert [line.split("] ")[1] for line in tree.text.split("\n")] == [
        "RootWebArea 'Page'",
        "link 'Buy tea'",
        "button 'One'",
        "button 'Two'",
        "button 'Three'",
        "StaticText 'tea'",
    ]
    assert len(tree.elements) == 7


def test_a_line_that_only_speaks_of_statictext_is_dropped() -> None:
    tree = tree_of(node(1, "RootWebArea", "P", (2,)), node(2, "link", "about statictext"))
    assert tree.text == "[1] RootWebArea 'P'"


def test_a_tree_deeper_than_pythons_stack_is_read() -> None:
    chain = [node(n, "group", "g", (n + 1,)) for n in range(1, 5000)]
    assert tree_of(*chain).text.count("\n") == 4998


def test_rectangles_are_in_the_windows_coordinates_and_pseudo_elements_have_none() -> None:
    layout = layout_of(
        {
            "strings": ["Title", "http://a.test/"],
            "documents": [
                {
                    "title": 0,
                    "documentURL": 1,
                    "scrollOffsetX": 0,
                    "scrollOffsetY": 100,
                    "nodes": {
                        "backendNodeId": [1, 2, 3, 4],
                        "pseudoType": {"index": [3], "value": [0]},
                    },
                    "layout": {
                        "nodeIndex": [1, 1, 3],
                        "bounds": [[0, 110, 50, 20], [40, 120, 50, 20], [0, 0, 5, 5]],
                    },
                }
            ],
        }
    )
    assert layout.rectangles == {2: Rectangle(0, 10, 90, 30)}
    assert layout.unknown([2, 4, 77]) == [77]
    assert (layout.title, layout.url, layout.scroll) == ("Title", "http://a.test/", (0, 100))


def test_only_nodes_with_a_name_are_candidates_for_lines() -> None:
    assert list(candidates([node(1, "link", "a"), node(2, "none", None)])) == [1]


def test_an_observation_is_framed_as_the_original_frames_it() -> None:
    content = f"{list_tabs(['One', ''], 1)}\n\n[1] RootWebArea ''"
    assert frame_observation(content, url="u", objective="o", previous_action="None") == (
        "OBSERVATION:\nTab 0: One | Tab 1 (current): \n\n[1] RootWebArea ''\n"
        "URL: u\nOBJECTIVE: o\nPREVIOUS ACTION: None"
    )


def test_a_tree_is_translated_into_chromium_112s_words() -> None:
    names = ["#document", "FORM", "IMG", "TD", "BUTTON", "aria-controls", "more", "LABEL", "INPUT"]
    layout = layout_of(
        {
            "strings": [*names, " Tea"],
            "documents": [
                {
                    "title": -1,
                    "documentURL": -1,
                    "nodes": {
                        "backendNodeId": [1, 2, 3, 4, 5, 6, 7, 8],
                        "nodeName": [0, 1, 2, 3, 4, 7, 8, 0],
                        "attributes": [[], [], [], [], [5, 6], [], [], []],
                    },
                    "layout": {"nodeIndex": [7], "bounds": [[0, 0, 9, 9]], "text": [9]},
                }
            ],
        }
    )
    nodes = [
        node(1, "RootWebArea", "P", (2,), url="http://a.test/"),
        node(2, "form", "", (3, 4, 5, 6)),
        node(3, "image", "Lamp", url="http://a.test/lamp.png"),
        node(4, "cell", "B1"),
        node(5, "button", "Show", expanded=False),
        node(6, "none", None, (7, 8)),
        node(7, "checkbox", "Tea", checked="true"),
        node(8, "none", None),
    ]
    translated = tree_of(*translate_nodes(nodes, layout))
    assert [line.split("] ")[1] for line in translated.text.split("\n")] == [
        "RootWebArea 'P'",
        "img 'Lamp'",
        "gridcell 'B1' required: False",
        "button 'Show' expanded: False controls: more",
        "checkbox ' Tea' checked: true",
    ]
