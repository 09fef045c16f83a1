"""The invented graphs are large, lifelike, and agree with each other."""

from __future__ import annotations

import hashlib
from statistics import mean

from env_servers.environments.academia.fields import FIELDS, ORGANISATIONS, TITLES
from env_servers.environments.academia.graphs import (
    AUTHORS,
    AUTHORS_EACH,
    COMMUNITIES,
    PAPERS,
    PAPERS_EACH,
    InventedGraphs,
)


def test_there_are_over_a_hundred_thousand_nodes_and_no_two_share_a_name(
    graphs: InventedGraphs,
) -> None:
    assert (PAPERS, AUTHORS) == (100_000, 64_000)
    assert len({graphs.title(paper) for paper in range(PAPERS)}) == PAPERS
    assert len({graphs.name(author) for author in range(AUTHORS)}) == AUTHORS


def test_titles_and_names_lead_back_to_their_nodes(graphs: InventedGraphs) -> None:
    assert all(graphs.paper(graphs.title(n)) == n for n in range(0, PAPERS, 131))
    assert all(graphs.author(graphs.name(n)) == n for n in range(0, AUTHORS, 131))
    assert graphs.paper("no such paper") is None
    assert graphs.author(graphs.title(0)) is None


def test_no_topic_belongs_to_two_fields_and_no_pattern_occurs_twice() -> None:
    topics = [topic for field in FIELDS for topic in field.topics]
    assert len(set(topics)) == len(topics) == 12 * len(FIELDS)
    assert all(len(set(field.keywords)) == 10 for field in FIELDS)
    assert len(set(TITLES)) == 10
    assert len(set(ORGANISATIONS)) == 4


def test_namesakes_are_told_apart_by_a_number(graphs: InventedGraphs) -> None:
    names = [graphs.name(author) for author in range(AUTHORS)]
    second = [name for name in names if name.endswith("_2")]
    assert len(second) > 1_000
    assert {name.removesuffix("_2") for name in second} <= set(names)


def test_papers_cite_older_papers_each_once_and_never_themselves(graphs: InventedGraphs) -> None:
    for paper in range(0, PAPERS, 397):
        cited = graphs.cited(paper)
        assert len(set(cited)) == len(cited)
        assert paper not in cited
        year = graphs.paper_facts(paper).year
        assert all(graphs.paper_facts(other).year <= year for other in cited)


def test_most_citations_stay_in_the_community_and_some_leave_it(graphs: InventedGraphs) -> None:
    stay = [
        other // PAPERS_EACH == paper // PAPERS_EACH
        for paper in range(0, PAPERS, 37)
        for other in graphs.cited(paper)
    ]
    assert 0.7 < mean(stay) < 0.9


def test_a_few_papers_collect_most_citations_and_a_few_authors_write_much(
    graphs: InventedGraphs,
) -> None:
    counts = sorted((graphs.paper_facts(p).n_citation for p in range(0, PAPERS, 50)), reverse=True)
    assert sum(counts[: len(counts) // 10]) > sum(counts) / 2
    assert counts[len(counts) // 2] <= 2
    written = sorted(len(graphs.papers_by(author)) for author in range(0, AUTHORS, 64))
    assert written[-1] > 20
    assert 2 <= written[len(written) // 2] <= 6


def test_the_number_of_citations_is_at_least_what_the_community_gave(
    graphs: InventedGraphs,
) -> None:
    base = 11 * PAPERS_EACH
    given = [
        other
        for paper in range(base, base + PAPERS_EACH)
        for other in graphs.cited(paper)
        if other // PAPERS_EACH == 11
    ]
    for paper in range(base, base + PAPERS_EACH):
        assert graphs.paper_facts(paper).n_citation >= given.count(paper)


def test_collaboration_is_mutual_and_proved_by_papers(graphs: InventedGraphs) -> None:
    for author in range(0, AUTHORS, 501):
        for other in graphs.collaborators(author):
            joint = graphs.joint_papers(author, other)
            assert joint
            assert sorted(graphs.joint_papers(other, author)) == sorted(joint)
            assert author in graphs.collaborators(other)
            assert all({author, other} <= set(graphs.team(paper)) for paper in joint)


def test_guests_join_communities(graphs: InventedGraphs) -> None:
    guests = [
        author // AUTHORS_EACH != paper // PAPERS_EACH
        for paper in range(0, PAPERS, 29)
        for author in graphs.team(paper)
    ]
    assert 0.02 < mean(guests) < 0.08
    assert COMMUNITIES == 200


def test_colleagues_share_organizations_more_often_than_strangers(graphs: InventedGraphs) -> None:
    near = [
        graphs.organisation(author) == graphs.organisation(author + 1)
        for author in range(0, AUTHORS - 1, 97)
    ]
    far = [
        graphs.organisation(author) == graphs.organisation((author + 5_000) % AUTHORS)
        for author in range(0, AUTHORS, 97)
    ]
    assert mean(near) > 0.1 > 0.03 > mean(far)


def test_the_graphs_are_the_same_on_every_machine(graphs: InventedGraphs) -> None:
    digest = hashlib.blake2b(digest_size=8)
    for paper in range(0, PAPERS, 997):
        digest.update(repr((graphs.title(paper), graphs.paper_facts(paper))).encode())
        digest.update(repr(graphs.cited(paper)).encode())
    for author in range(0, AUTHORS, 997):
        digest.update(repr(graphs.author_attributes(author)).encode())
        digest.update(repr(graphs.collaborators(author)).encode())
    assert digest.hexdigest() == "b6032761b27da6f6"
