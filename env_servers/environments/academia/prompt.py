"""The graph functions as agents are told of them.

Names, parameters and results are the original's interface, the words are not. Like the original,
three functions work but are not told of.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from env_servers.sdk import Parameter
from env_servers.toolkit.tool_calls import CHECK_VALID_ACTIONS, FINISH, Tool, ToolSet

__all__ = ["TOOLS"]

_GRAPH: Final = Parameter(
    "graph", "string", "Which graph to look into.", enum=("PaperNet", "AuthorNet")
)
_NODE: Final = Parameter("node", "string", "Title of the paper or name of the author.")


class _Tools(ToolSet):
    """The original's list of valid actions has two names more than its instruction."""

    def names(self) -> list[str]:
        return [tool.name for tool in self.tools if tool.name != "neighborCheck"]


_NEIGHBOURS: Final = Tool(
    "neighbourCheck",
    "List the direct neighbours of a node: the papers that a paper cites (PaperNet), or the people "
    "with whom an author has written (AuthorNet).",
    "A list of titles or names.",
    (_GRAPH, _NODE),
)

TOOLS: Final = _Tools(
    (
        Tool(
            "loadPaperNet",
            "Load PaperNet, the graph of papers, whose edges are citations.",
            "A confirmation.",
        ),
        Tool(
            "loadAuthorNet",
            "Load AuthorNet, the graph of authors, whose edges are collaborations.",
            "A confirmation.",
        ),
        _NEIGHBOURS,
        replace(_NEIGHBOURS, name="neighborCheck", listed=False),
        Tool(
            "paperNodeCheck",
            "Look up what PaperNet knows of a paper.",
            "authors, year, venue, n_citation (how often it was cited), keywords and doc_type.",
            (Parameter("node", "string", "Title of the paper."),),
        ),
        Tool(
            "authorNodeCheck",
            "Look up what AuthorNet knows of an author.",
            "name and org (the organization where the author works).",
            (Parameter("node", "string", "Name of the author."),),
        ),
        Tool(
            "authorEdgeCheck",
            "Look up what two authors have done together.",
            "collaborative_papers: the titles of the papers that both wrote.",
            (
                Parameter("node1", "string", "Name of one author."),
                Parameter("node2", "string", "Name of the other author."),
            ),
        ),
        Tool(
            "paperEdgeCheck",
            "Look up what is known of a citation.",
            "The attributes of the edge.",
            (
                Parameter("node1", "string", "Title of the paper that cites."),
                Parameter("node2", "string", "Title of the paper that is cited."),
            ),
            listed=False,
        ),
        replace(CHECK_VALID_ACTIONS, listed=False),
        FINISH,
    ),
    hints=(
        "Load a graph with loadPaperNet or loadAuthorNet before you look into it.",
        "When you know the answer, call finish with it.",
    ),
    example=(
        "The question is about a paper, so the graph of papers has to be loaded first.",
        "loadPaperNet",
        {},
    ),
)
"""All tools, in the order in which the original lists them."""
