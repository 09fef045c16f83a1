"""The graph functions answer, and refuse, as the original's do."""

from __future__ import annotations

from typing import Any

import pytest

from env_servers.environments.academia import Academia
from env_servers.environments.academia.backends import GraphSession
from env_servers.environments.academia.graphs import InventedGraphs
from env_servers.sdk import ActionFormat, ResetOptions
from env_servers.toolkit.tool_calls import Reply, ToolTaskSet


@pytest.fixture
def session(graphs: InventedGraphs) -> GraphSession:
    return GraphSession(graphs)


@pytest.fixture
def loaded(session: GraphSession) -> GraphSession:
    assert session.call("loadPaperNet", {}) == Reply("PaperNet is loaded.")
    assert session.call("loadAuthorNet", {}) == Reply("AuthorNet is loaded.")
    return session


@pytest.mark.parametrize(
    ("tool", "arguments", "graph"),
    [
        ("neighbourCheck", {"graph": "PaperNet", "node": "x"}, "PaperNet"),
        ("neighborCheck", {"graph": "AuthorNet", "node": "x"}, "AuthorNet"),
        ("paperNodeCheck", {"node": "x"}, "PaperNet"),
        ("authorNodeCheck", {"node": "x"}, "AuthorNet"),
        ("authorEdgeCheck", {"node1": "x", "node2": "y"}, "AuthorNet"),
        ("paperEdgeCheck", {"node1": "x", "node2": "y"}, "PaperNet"),
    ],
)
def test_a_graph_has_to_be_loaded_first(
    session: GraphSession, tool: str, arguments: dict[str, Any], graph: str
) -> None:
    refusal = session.call(tool, arguments)
    assert refusal == Reply(f"Please load the {graph} first.", ok=False)
    session.call(f"load{graph}", {})
    refusal = session.call(tool, arguments)
    assert refusal == Reply(f"There is no node named x in the {graph}.", ok=False)


def test_a_paper_shows_its_attributes_in_the_originals_order(
    loaded: GraphSession, graphs: InventedGraphs
) -> None:
    found = loaded.call("paperNodeCheck", {"node": graphs.title(777)}).value
    assert list(found) == ["authors", "year", "venue", "n_citation", "keywords", "doc_type"]
    assert found["doc_type"] in ("Conference", "Journal")
    assert all(graphs.author(name) is not None for name in found["authors"])


def test_an_author_shows_name_and_organization(
    loaded: GraphSession, graphs: InventedGraphs
) -> None:
    name = graphs.name(777)
    found = loaded.call("authorNodeCheck", {"node": name}).value
    assert found == {"name": name, "org": graphs.organisation(777)}


def test_neighbours_are_references_or_collaborators(
    loaded: GraphSession, graphs: InventedGraphs
) -> None:
    title, name = graphs.title(901), graphs.name(777)
    cited = loaded.call("neighbourCheck", {"graph": "PaperNet", "node": title}).value
    assert cited == [graphs.title(paper) for paper in graphs.cited(901)]
    people = loaded.call("neighbourCheck", {"graph": "AuthorNet", "node": name}).value
    assert people == [graphs.name(author) for author in graphs.collaborators(777)]
    assert cited
    assert people


def test_an_edge_between_authors_lists_what_they_wrote_together(
    loaded: GraphSession, graphs: InventedGraphs
) -> None:
    one = graphs.name(777)
    other = graphs.name(graphs.collaborators(777)[0])
    found = loaded.call("authorEdgeCheck", {"node1": one, "node2": other}).value
    assert list(found) == ["collaborative_papers"]
    for title in found["collaborative_papers"]:
        authors = loaded.call("paperNodeCheck", {"node": title}).value["authors"]
        assert {one, other} <= set(authors)


def test_an_edge_between_papers_is_a_citation_and_has_a_direction(
    loaded: GraphSession, graphs: InventedGraphs
) -> None:
    one, other = graphs.title(901), graphs.title(graphs.cited(901)[0])
    assert loaded.call("paperEdgeCheck", {"node1": one, "node2": other}).value == {}
    refusal = loaded.call("paperEdgeCheck", {"node1": other, "node2": one})
    assert refusal == Reply(f"There is no edge between {other} and {one}.", ok=False)


def test_authors_who_never_met_have_no_edge_and_nobody_meets_himself(
    loaded: GraphSession, graphs: InventedGraphs
) -> None:
    one, other = graphs.name(0), graphs.name(32_000)
    refusal = loaded.call("authorEdgeCheck", {"node1": one, "node2": other})
    assert refusal == Reply(f"There is no edge between {one} and {other}.", ok=False)
    assert not loaded.call("authorEdgeCheck", {"node1": one, "node2": one}).ok
    refusal = loaded.call("authorEdgeCheck", {"node1": one, "node2": "nobody"})
    assert refusal == Reply("There is no node named nobody in the AuthorNet.", ok=False)


def test_a_graph_that_does_not_exist_and_a_node_that_is_no_key_get_pythons_words(
    loaded: GraphSession,
) -> None:
    wrong = loaded.call("neighbourCheck", {"graph": "Papers", "node": "x"})
    assert wrong == Reply("AttributeError('str' object has no attribute 'neighbors')", ok=False)
    wrong = loaded.call("neighbourCheck", {"graph": ["PaperNet"], "node": "x"})
    assert wrong == Reply("AttributeError('list' object has no attribute 'neighbors')", ok=False)
    wrong = loaded.call("paperNodeCheck", {"node": ["x"]})
    assert wrong == Reply("TypeError(unhashable type: 'list')", ok=False)


def test_a_fork_remembers_what_was_loaded_and_loads_on_its_own(
    session: GraphSession, graphs: InventedGraphs
) -> None:
    session.call("loadPaperNet", {})
    copy = session.fork()
    copy.call("loadAuthorNet", {})
    assert copy.call("paperNodeCheck", {"node": graphs.title(3)}).ok
    assert not session.call("authorNodeCheck", {"node": graphs.name(3)}).ok


def test_what_one_episode_changes_in_a_reply_no_other_sees(
    loaded: GraphSession, graphs: InventedGraphs
) -> None:
    title = graphs.title(3)
    loaded.call("paperNodeCheck", {"node": title}).value["authors"].clear()
    assert loaded.call("paperNodeCheck", {"node": title}).value["authors"]


def test_three_tools_work_but_are_not_told_of(tasks: ToolTaskSet) -> None:
    text = Academia.spec.conversation_starts[ActionFormat.REACT].instruction
    episode = Academia(tasks)
    episode.reset(tasks.get(tasks.item_ids("train", 0, 1)[0]), ResetOptions())
    for hidden in ("neighborCheck", "paperEdgeCheck", "check_valid_actions"):
        assert hidden not in text
        seen = episode.step(f"Action: {hidden} with Action Input: {{}}")
        assert "Invalid action" not in seen.text
    assert episode.step("Action: check_valid_actions with Action Input: {}").text == (
        "Observation: You can use following valid actions: ['loadPaperNet', 'loadAuthorNet', "
        "'neighbourCheck', 'paperNodeCheck', 'authorNodeCheck', 'authorEdgeCheck', "
        "'paperEdgeCheck', 'check_valid_actions', 'finish']\nGive me one action."
    )
