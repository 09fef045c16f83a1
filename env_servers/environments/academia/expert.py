"""The expert's steps through the graphs: what it asks for, and why.

Each step is a generator of calls; plans of questions are made of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

from env_servers.toolkit.tool_calls import PlannedCall

__all__ = [
    "Run",
    "collaborators",
    "joint_papers",
    "load",
    "look_up",
    "organisation",
    "organisations",
    "paper_facts",
    "papers_facts",
    "references",
]

Run = Generator[PlannedCall, Any, Any]
"""A plan under way: yields calls, is sent what they returned, returns the answer."""

_WHY: Final = (
    "I need {purpose}.",
    "Next I look up {purpose}.",
    "To go on I have to know {purpose}.",
    "What is missing is {purpose}, so I ask for it.",
)
_LOAD: Final = (
    "{graph} has to be loaded before I can look into it.",
    "The question is about {graph}, so I load that first.",
    "First I load {graph}.",
)


def load(*graphs: str) -> Run:
    """Load graphs."""
    for graph in graphs:
        yield PlannedCall(f"load{graph}", {}, [why.format(graph=graph) for why in _LOAD])


def look_up(tool: str, arguments: Mapping[str, Any], purpose: str) -> Run:
    """Make a call and return what it returned."""
    return (yield PlannedCall(tool, arguments, [why.format(purpose=purpose) for why in _WHY]))


def paper_facts(title: str) -> Run:
    """Return the attributes of a paper."""
    return (yield from look_up("paperNodeCheck", {"node": title}, f"the facts about '{title}'"))


def organisation(name: str) -> Run:
    """Return where an author works."""
    node = yield from look_up("authorNodeCheck", {"node": name}, f"the organization of {name}")
    return node["org"]


def collaborators(name: str) -> Run:
    """Return the names of those an author wrote with."""
    arguments = {"graph": "AuthorNet", "node": name}
    return (yield from look_up("neighbourCheck", arguments, f"the collaborators of {name}"))


def references(title: str) -> Run:
    """Return the titles that a paper cites."""
    arguments = {"graph": "PaperNet", "node": title}
    return (yield from look_up("neighbourCheck", arguments, f"what '{title}' cites"))


def joint_papers(one: str, other: str) -> Run:
    """Return the titles that two authors wrote together."""
    arguments = {"node1": one, "node2": other}
    purpose = f"what {one} and {other} wrote together"
    edge = yield from look_up("authorEdgeCheck", arguments, purpose)
    return edge["collaborative_papers"]


def papers_facts(
    titles: Iterable[str],
) -> Generator[PlannedCall, Any, dict[str, Mapping[str, Any]]]:
    """Return the attributes of papers by title."""
    facts: dict[str, Mapping[str, Any]] = {}
    for title in titles:
        facts[title] = yield from paper_facts(title)
    return facts


def organisations(names: Iterable[str]) -> Generator[PlannedCall, Any, dict[str, str]]:
    """Return where authors work, by name."""
    by_name: dict[str, str] = {}
    for name in names:
        by_name[name] = yield from organisation(name)
    return by_name
