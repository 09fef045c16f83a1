"""A page as lines of HTML, from a snapshot of its layout."""

import msgspec

from env_servers.environments.webarena.observation.markup import read_markup
from env_servers.environments.webarena.observation.rectangles import Rectangle
from env_servers.environments.webarena.observation.reports import SnapshotReport

STRINGS = ["BODY", "A", "href", "/cart", "onclick", "steal()", "#text", " My\n cart ", "INPUT", "q"]
STRINGS += ["name", "lamp", "P", "Far below"]
SNAPSHOT = msgspec.convert(
    {
        "documents": [
            {
                "title": -1,
                "documentURL": -1,
                "nodes": {
                    "backendNodeId": [7, 8, 9, 10, 11, 12],
                    "nodeName": [0, 1, 6, 8, 12, 6],
                    "parentIndex": [-1, 0, 1, 0, 0, 4],
                    "nodeValue": [-1, -1, 7, -1, -1, 13],
                    "attributes": [[], [4, 5, 2, 3], [], [10, 9], [], []],
                    "inputValue": {"index": [3], "value": [11]},
                },
                "layout": {"nodeIndex": [], "bounds": []},
            }
        ],
        "strings": STRINGS,
    },
    SnapshotReport,
)
BOXES = {
    7: Rectangle(0, 0, 1280, 4000),
    **{node: Rectangle(10, 10, 50, 20) for node in (8, 9, 10)},
    **{node: Rectangle(10, 3000, 50, 20) for node in (11, 12)},
}


def numbered():
    numbers = {}
    return lambda number: numbers.setdefault(number, str(len(numbers) + 1))


def test_lines_have_what_can_be_read_and_acted_on():
    tree = read_markup(SNAPSHOT, BOXES, numbered())
    assert tree.text == "[1] <a href='/cart'> My cart\n[2] <input name='q' value='lamp'>"
    assert tree.elements["2"].rectangle == BOXES[10]
    assert tree.elements["2"].backend_id == 10


def test_a_full_page_has_what_is_below_the_window_too():
    tree = read_markup(SNAPSHOT, BOXES, numbered(), full=True)
    assert tree.text.splitlines()[2:] == ["[3] <p> Far below"]
