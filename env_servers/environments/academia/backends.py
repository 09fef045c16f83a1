"""The graph functions, on the invented graphs or, where a user has them, on the published ones.

Replies and refusals are the original's.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Self

from env_servers.environments.academia.graphs import Graphs, InventedGraphs
from env_servers.environments.academia.prompt import TOOLS
from env_servers.toolkit.tool_calls import (
    RECORDED,
    Backend,
    Reply,
    Session,
    TooledSession,
    ToolTask,
)

__all__ = ["GraphSession", "InventedResearch", "PublishedResearch", "invented_graphs"]


@cache
def invented_graphs() -> InventedGraphs:
    """Return the graphs of this process, ready to be asked."""
    graphs = InventedGraphs()
    graphs.prepare()
    return graphs


def _refuse(text: str) -> Reply:
    return Reply(text, ok=False)


def _unloaded(graph: str) -> Reply:
    return _refuse(f"Please load the {graph} first.")


def _no_node(node: Any, graph: str) -> Reply:
    return _refuse(f"There is no node named {node} in the {graph}.")


class GraphSession(TooledSession):
    """The functions as one episode sees them: a graph has to be loaded before it answers."""

    toolset = TOOLS

    def __init__(self, graphs: Graphs) -> None:
        self._graphs = graphs
        self.loaded: set[str] = set()

    def fork(self) -> Self:
        copy = type(self)(self._graphs)
        copy.loaded = set(self.loaded)
        return copy

    def loadPaperNet(self) -> str:  # noqa: N802 - the original's name
        self.loaded.add("PaperNet")
        return "PaperNet is loaded."

    def loadAuthorNet(self) -> str:  # noqa: N802
        self.loaded.add("AuthorNet")
        return "AuthorNet is loaded."

    def neighbourCheck(self, graph: Any, node: Any) -> Any:  # noqa: N802
        if graph not in ("PaperNet", "AuthorNet"):
            kind = type(graph).__name__
            return _refuse(f"AttributeError('{kind}' object has no attribute 'neighbors')")
        if graph not in self.loaded:
            return _unloaded(graph)
        papers = graph == "PaperNet"
        key = self._node(graph, node)
        if isinstance(key, Reply):
            return key
        graphs = self._graphs
        return graphs.cited_titles(key) if papers else graphs.collaborator_names(key)

    def neighborCheck(self, graph: Any, node: Any) -> Any:  # noqa: N802
        return self.neighbourCheck(graph, node)

    def paperNodeCheck(self, node: Any) -> Any:  # noqa: N802
        if "PaperNet" not in self.loaded:
            return _unloaded("PaperNet")
        key = self._node("PaperNet", node)
        return key if isinstance(key, Reply) else self._graphs.paper_attributes(key)

    def authorNodeCheck(self, node: Any) -> Any:  # noqa: N802
        if "AuthorNet" not in self.loaded:
            return _unloaded("AuthorNet")
        key = self._node("AuthorNet", node)
        return key if isinstance(key, Reply) else self._graphs.author_attributes(key)

    def authorEdgeCheck(self, node1: Any, node2: Any) -> Any:  # noqa: N802
        return self._edge("AuthorNet", node1, node2)

    def paperEdgeCheck(self, node1: Any, node2: Any) -> Any:  # noqa: N802
        return self._edge("PaperNet", node1, node2)

    def _node(self, graph: str, node: Any) -> Any:
        """Return the key of a node, or the refusal that the agent sees."""
        find = self._graphs.paper if graph == "PaperNet" else self._graphs.author
        try:
            key = find(node)
        except TypeError as error:
            return _refuse(f"TypeError({error})")
        return _no_node(node, graph) if key is None else key

    def _edge(self, graph: str, node1: Any, node2: Any) -> Any:
        if graph not in self.loaded:
            return _unloaded(graph)
        keys: list[Any] = []
        for node in (node1, node2):
            key = self._node(graph, node)
            if isinstance(key, Reply):
                return key
            keys.append(key)
        look = self._graphs.citation if graph == "PaperNet" else self._graphs.collaboration
        edge = look(*keys)
        return _refuse(f"There is no edge between {node1} and {node2}.") if edge is None else edge


class InventedResearch(Backend):
    """The invented graphs."""

    def prepare(self) -> None:
        invented_graphs()

    def open(self, task: ToolTask) -> Session:
        return GraphSession(invented_graphs())


class PublishedResearch(Backend):
    """The graphs that AgentBoard published, converted."""

    name: ClassVar[str] = RECORDED

    def __init__(self, graphs: Graphs) -> None:
        self._graphs = graphs

    def open(self, task: ToolTask) -> Session:
        return GraphSession(self._graphs)
