"""What is drawn is well-formed whatever text it is given, and trees and tables keep their shape."""

from env_servers.sdk.contract.hostile import TEXTS
from env_servers.sdk.views import content_flaws
from env_servers.toolkit.drawing import (
    Drawing,
    Table,
    TreeNode,
    document,
    element,
    facts,
    place,
    section,
    text_view,
    tree_lines,
)

HOSTILE = [*TEXTS.values(), "<script>alert(1)</script>", "\u202e", "\x1b[31m", "\ud800", "]]>", '"']


def test_hostile_text_stays_text():
    for text in HOSTILE:
        short = text[:2_000]
        drawing = Drawing(100, 50)
        drawing.rectangle(0, 0, 10, 10, fill=short, tip=short)
        drawing.text(5, 5, short)
        page = document("page", "Page", section(short, short), facts({short: short}))
        table = document("table", "Table", Table([short], [[short], [None]], short).html())
        lines = text_view("lines", "Lines", f"{short}\n{Table([short], [[short]]).text()}")
        for view in (drawing.view("map", "Map"), page, table, lines):
            assert list(content_flaws(view)) == [], (short[:50], view.content[-200:])


def test_attributes_are_written_as_markup_has_them():
    assert element("p", "a", class_="x", font_size=2, title=None) == (
        '<p class="x" font-size="2">a</p>'
    )


def test_a_table_says_what_it_leaves_out():
    table = Table(["name", "n"], [["a", 1], ["bb", 22], ["c", 3]], max_rows=2)
    assert table.text() == "name  n\n----  --\na     1\nbb    22\n(1 more rows)"
    assert "1 more rows" in table.html()


TREE = TreeNode(
    "root", children=(TreeNode("a", children=(TreeNode("b"), TreeNode("c"))), TreeNode("d"))
)


def test_a_tree_as_lines():
    assert tree_lines(TREE) == ["root", "├─ a", "│  ├─ b", "│  └─ c", "└─ d"]


def test_leaves_have_rows_of_their_own_and_parents_stand_amid_them():
    places = {it.node.label: (it.column, it.row) for it in place(TREE).walk()}
    assert places == {"root": (0, 1.25), "a": (1, 0.5), "b": (2, 0), "c": (2, 1), "d": (1, 2)}
