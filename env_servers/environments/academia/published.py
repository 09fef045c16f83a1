"""AgentBoard's published graphs, for users who have them.

Converts the six pickled files (`data/tool-query/academia/raw` of AgentBoard's archive) into one
compressed text file, and reads that file as graphs. Nothing that the pickles name is run.

    python -m env_servers.environments.academia.published RAW_FOLDER TARGET

where TARGET is DATA/tools/academia_graphs.jsonl.gz
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from env_servers.environments.academia.pickle_reader import (
    GraphObject,
    UnreadablePickle,
    read_pickle,
)
from env_servers.sdk import EnvironmentUnavailable
from env_servers.toolkit.tool_calls import MalformedFile
from env_servers.toolkit.tool_calls.official import FOLDER, read_objects

__all__ = ["FILE", "PublishedGraphs", "convert", "main", "read_published"]

FILE: Final = "academia_graphs.jsonl.gz"
"""Below `tools/` of the folder of official data."""
_PAPER_FIELDS: Final = {"paper": str, "attributes": dict, "cites": list}
_AUTHOR_FIELDS: Final = {"author": str, "attributes": dict, "wrote_with": list}


@dataclass(slots=True)
class PublishedGraphs:
    """The two graphs by title and name."""

    papers: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    authors: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    cites: dict[str, dict[str, dict[str, Any]]] = field(
        default_factory=dict[str, dict[str, dict[str, Any]]]
    )
    """Attributes of a paper's edges, by the title at the other end, in the graph's order."""
    wrote_with: dict[str, dict[str, dict[str, Any]]] = field(
        default_factory=dict[str, dict[str, dict[str, Any]]]
    )

    def paper(self, title: str) -> str | None:
        """Return the title itself, where there is such a paper."""
        return title if title in self.papers else None

    def author(self, name: str) -> str | None:
        """Return the name itself, where there is such an author."""
        return name if name in self.authors else None

    def paper_attributes(self, paper: str) -> dict[str, Any]:
        """Return what the file has about a paper."""
        return dict(self.papers[paper])

    def author_attributes(self, author: str) -> dict[str, Any]:
        """Return what the file has about an author."""
        return dict(self.authors[author])

    def cited_titles(self, paper: str) -> list[str]:
        """Return the neighbours of a paper."""
        return list(self.cites[paper])

    def collaborator_names(self, author: str) -> list[str]:
        """Return the neighbours of an author."""
        return list(self.wrote_with[author])

    def collaboration(self, one: str, other: str) -> dict[str, Any] | None:
        """Return what the file has about two authors' work."""
        return self.wrote_with[one].get(other)

    def citation(self, citing: str, cited: str) -> dict[str, Any] | None:
        """Return what the file has about a citation."""
        return self.cites[citing].get(cited)


def read_published(data_dir: Path) -> PublishedGraphs | None:
    """Return the converted graphs, or None where there is no file; raises MalformedFile."""
    path = data_dir / FOLDER / FILE
    if not path.is_file():
        return None
    graphs = PublishedGraphs()
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, entry in read_objects(path, iter(lines)):
                _take(graphs, path, number, entry)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise EnvironmentUnavailable(f"cannot read {path}: {error}") from error
    return graphs


def _take(graphs: PublishedGraphs, path: Path, line: int, entry: Mapping[str, Any]) -> None:
    fields = _PAPER_FIELDS if "paper" in entry else _AUTHOR_FIELDS
    for name, kind in fields.items():
        if not isinstance(entry.get(name), kind):
            raise MalformedFile(path, line, name, f"must be of type {kind.__name__}")
    key, _, edges = fields
    try:
        nearby = {other: dict(attributes) for other, attributes in entry[edges]}
    except (TypeError, ValueError) as error:
        raise MalformedFile(path, line, edges, "must be pairs") from error
    if key == "paper":
        graphs.papers[entry[key]], graphs.cites[entry[key]] = entry["attributes"], nearby
    else:
        graphs.authors[entry[key]], graphs.wrote_with[entry[key]] = entry["attributes"], nearby


def convert(raw: Path, target: Path) -> tuple[int, int]:
    """Write the published pickles as one text file; returns (papers, authors).

    Raises EnvironmentUnavailable for a missing or unreadable file.
    """
    titles, names = _load(raw, "id2title_dict"), _load(raw, "id2author_dict")
    papers, authors = _load(raw, "paper_net"), _load(raw, "author_net")
    counts = (0, 0)
    with gzip.open(target, "wt", encoding="utf-8") as out:
        for title, attributes, edges in _nodes(papers, titles, raw / "paper_net.pkl"):
            entry = {"paper": title, "attributes": attributes, "cites": edges}
            out.write(json.dumps(entry, ensure_ascii=False) + "\n")
            counts = (counts[0] + 1, 0)
        for name, attributes, edges in _nodes(authors, names, raw / "author_net.pkl"):
            neighbours = [(other, _with_titles(edge, titles)) for other, edge in edges]
            entry = {"author": name, "attributes": attributes, "wrote_with": neighbours}
            out.write(json.dumps(entry, ensure_ascii=False) + "\n")
            counts = (counts[0], counts[1] + 1)
    return counts


def _load(raw: Path, name: str) -> Any:
    path = raw / f"{name}.pkl"
    try:
        with path.open("rb") as file:
            return read_pickle(file)
    except (OSError, UnreadablePickle) as error:
        raise EnvironmentUnavailable(f"cannot read {path}: {error}") from error


def _nodes(
    graph: Any, names: Any, path: Path
) -> Iterator[tuple[str, dict[str, Any], list[tuple[str, dict[str, Any]]]]]:
    """(name, attributes, edges by the neighbour's name) of every node that has a name."""
    if not (isinstance(graph, GraphObject) and isinstance(names, dict)):
        raise EnvironmentUnavailable(f"{path} holds no graph")
    # Directed graphs keep their edges in `_succ`, which is `_adj` under another name.
    state = graph.state
    nodes, edges = state.get("_node"), state.get("_adj") or state.get("_succ")
    if not (isinstance(nodes, dict) and isinstance(edges, dict)):
        raise EnvironmentUnavailable(f"{path} holds a graph without nodes and edges")
    for key, attributes in nodes.items():
        if key in names:
            near = [(names[n], edge) for n, edge in edges.get(key, {}).items() if n in names]
            yield names[key], attributes, near


def _with_titles(edge: Mapping[str, Any], titles: Mapping[Any, str]) -> dict[str, Any]:
    """Return an edge whose papers are told by title; the original translates them at every call."""
    papers = edge.get("collaborative_papers", [])
    return {**edge, "collaborative_papers": [titles.get(paper, paper) for paper in papers]}


def main(arguments: list[str]) -> int:
    """Convert RAW_FOLDER into TARGET."""
    if len(arguments) != 2:
        sys.stderr.write(
            "usage: python -m env_servers.environments.academia.published RAW_FOLDER TARGET\n"
        )
        return 2
    try:
        papers, authors = convert(Path(arguments[0]), Path(arguments[1]))
    except (EnvironmentUnavailable, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stderr.write(f"{papers} papers and {authors} authors written to {arguments[1]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
