"""Pens for the views of environments: escaped markup, SVG drawings, HTML documents, tables, trees.

What comes out is whole by itself, without script, and readable in light and dark.
"""

from env_servers.toolkit.drawing.document import document, facts, section
from env_servers.toolkit.drawing.markup import Markup, element, join
from env_servers.toolkit.drawing.svg import Drawing
from env_servers.toolkit.drawing.table import Table
from env_servers.toolkit.drawing.text import text_view
from env_servers.toolkit.drawing.tree import Placed, TreeNode, draw_tree, place, tree_lines

__all__ = [
    "Drawing",
    "Markup",
    "Placed",
    "Table",
    "TreeNode",
    "document",
    "draw_tree",
    "element",
    "facts",
    "join",
    "place",
    "section",
    "text_view",
    "tree_lines",
]
