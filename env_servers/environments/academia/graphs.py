"""An invented world of research: 100,000 papers that cite each other, by 64,000 authors.

The two graphs fall into 200 communities of 500 papers and 320 authors, ten to a field. A few
authors write much and many write one paper; a few papers collect most citations; one citation in
six leaves the community, and one paper in eight has a guest from a neighbouring one. A community is
made from its number and one seed when it is first asked about, and kept in arrays; nothing else is
kept but the index from titles and names to numbers.

Papers point to older papers. Who wrote together is derived from the papers alone, so that the two
graphs agree.
"""

from __future__ import annotations

import random
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, NamedTuple, Protocol

from env_servers.environments.academia.fields import (
    CITIES,
    FIELDS,
    METHODS,
    ORGANISATIONS,
    QUALITIES,
    TITLES,
)
from env_servers.toolkit.tool_calls.people import CULTURES, mix_bits, permuted_index

__all__ = ["AUTHORS", "COMMUNITIES", "PAPERS", "Graphs", "InventedGraphs", "Paper"]

COMMUNITIES: Final = 200
PAPERS_EACH: Final = 500
AUTHORS_EACH: Final = 320
PAPERS: Final = COMMUNITIES * PAPERS_EACH
AUTHORS: Final = COMMUNITIES * AUTHORS_EACH
SEED: Final = 20_261_121
_GUESTS_FROM: Final = (1, 17)
"""Guests come from the communities this many numbers on."""
_FIRST_YEAR: Final = 1996
_YEARS: Final = 28
_TEAM_SIZES: Final = (1, 2, 2, 3, 3, 3, 4, 4, 5, 6)
_FULL_TEAM: Final = 8
_COMMUNITY, _ORGANISATION, _NODE = range(3)
"""What a seed is for."""


class Paper(NamedTuple):
    """The attributes of a paper."""

    authors: tuple[str, ...]
    year: int
    venue: str
    n_citation: int
    keywords: tuple[str, ...]
    doc_type: str


class Graphs(Protocol):
    """What the tools need to know of two graphs. Papers and authors are told by opaque keys."""

    def paper(self, title: str) -> Any | None:
        """Return the paper of a title; raises TypeError for what cannot be a key."""
        ...

    def author(self, name: str) -> Any | None:
        """Return the author of a name; raises TypeError for what cannot be a key."""
        ...

    def paper_attributes(self, paper: Any) -> dict[str, Any]:
        """Return what the graph keeps of a paper, in the order in which it is shown."""
        ...

    def author_attributes(self, author: Any) -> dict[str, Any]:
        """Return what the graph keeps of an author."""
        ...

    def cited_titles(self, paper: Any) -> list[str]:
        """Return the neighbours of a paper."""
        ...

    def collaborator_names(self, author: Any) -> list[str]:
        """Return the neighbours of an author."""
        ...

    def collaboration(self, one: Any, other: Any) -> dict[str, Any] | None:
        """Return what the graph keeps of an edge between authors; None where there is none."""
        ...

    def citation(self, citing: Any, cited: Any) -> dict[str, Any] | None:
        """Return what the graph keeps of an edge between papers; None where there is none."""
        ...


class _Community:
    """Who wrote and cites what in a community; authors and papers are numbered over all."""

    __slots__ = ("_author_ends", "_authors", "_cited", "_cited_ends", "citations", "years")

    def __init__(
        self,
        years: list[int],
        teams: list[list[int]],
        cited: list[list[int]],
        citations: list[int],
    ) -> None:
        self.years = array("H", years)
        self.citations = array("I", citations)
        self._authors = array("I", [author for team in teams for author in team])
        self._author_ends = array("H", accumulate(map(len, teams)))
        self._cited = array("I", [paper for papers in cited for paper in papers])
        self._cited_ends = array("H", accumulate(map(len, cited)))

    def team(self, local: int) -> list[int]:
        """Return the authors of a paper."""
        start = self._author_ends[local - 1] if local else 0
        return self._authors[start : self._author_ends[local]].tolist()

    def cited(self, local: int) -> list[int]:
        """Return what a paper cites."""
        start = self._cited_ends[local - 1] if local else 0
        return self._cited[start : self._cited_ends[local]].tolist()

    def written_by(self, author: int) -> Iterator[int]:
        """Return the papers of an author here, by their local numbers."""
        start = 0
        while True:
            try:
                index = self._authors.index(author, start)
            except ValueError:
                return
            yield bisect_right(self._author_ends, index)
            start = index + 1


class InventedGraphs:
    """The two graphs, made as they are asked about. Shared by all episodes."""

    def __init__(self) -> None:
        self._communities: dict[int, _Community] = {}

    @cached_property
    def _papers(self) -> dict[str, int]:
        return {self.title(paper): paper for paper in range(PAPERS)}

    @cached_property
    def _authors(self) -> dict[str, int]:
        return {self.name(author): author for author in range(AUTHORS)}

    def prepare(self) -> None:
        """Build the indexes, so that no episode waits for them."""
        _ = self._papers, self._authors

    def paper(self, title: str) -> int | None:
        return self._papers.get(title)

    def author(self, name: str) -> int | None:
        return self._authors.get(name)

    def title(self, paper: int) -> str:
        """Return the title of a paper."""
        community, local = divmod(paper, PAPERS_EACH)
        generation, field = divmod(community, len(FIELDS))
        topics = FIELDS[field].topics
        size = len(QUALITIES) * len(METHODS) * len(topics) * len(TITLES)
        rest, pattern = divmod(permuted_index(generation * PAPERS_EACH + local, size), len(TITLES))
        rest, topic = divmod(rest, len(topics))
        quality, method = divmod(rest, len(METHODS))
        return TITLES[pattern].format(
            quality=QUALITIES[quality], method=METHODS[method], topic=topics[topic]
        )

    def name(self, author: int) -> str:
        """Namesakes get a number behind the name, as in the original's graph."""
        cultures = list(CULTURES.values())
        share, which = divmod(author, len(cultures))
        culture = cultures[which]
        again, index = divmod(share, min(culture.size, 4_000))
        name = culture.name(index)
        return f"{name}_{again + 1}" if again else name

    def organisation(self, author: int) -> str:
        """Return where an author works: mostly at one of a few places of the community."""
        community = author // AUTHORS_EACH
        draw = mix_bits(SEED, _ORGANISATION, author)
        places = len(CITIES) * len(ORGANISATIONS)
        near = mix_bits(SEED, _ORGANISATION, community, draw % 7 % 5) % places
        number = near if draw >> 8 & 7 else (draw >> 16) % places
        city, kind = divmod(number, len(ORGANISATIONS))
        return ORGANISATIONS[kind].format(city=CITIES[city])

    def paper_facts(self, paper: int) -> Paper:
        """Return the attributes of a paper."""
        number, local = divmod(paper, PAPERS_EACH)
        community, field = self._community(number), FIELDS[number % len(FIELDS)]
        rng = random.Random(mix_bits(SEED, _NODE, paper))
        venue, doc_type = _venue(rng, field.name)
        return Paper(
            tuple(self.name(author) for author in community.team(local)),
            community.years[local],
            venue,
            community.citations[local],
            tuple(rng.sample(field.keywords, rng.randrange(6))),
            doc_type,
        )

    def paper_attributes(self, paper: int) -> dict[str, Any]:
        facts = self.paper_facts(paper)
        return {
            "authors": list(facts.authors),
            "year": facts.year,
            "venue": facts.venue,
            "n_citation": facts.n_citation,
            "keywords": list(facts.keywords),
            "doc_type": facts.doc_type,
        }

    def author_attributes(self, author: int) -> dict[str, Any]:
        return {"name": self.name(author), "org": self.organisation(author)}

    def team(self, paper: int) -> list[int]:
        """Return the authors of a paper, by number."""
        number, local = divmod(paper, PAPERS_EACH)
        return self._community(number).team(local)

    def cited(self, paper: int) -> list[int]:
        """Return what a paper cites, by number."""
        number, local = divmod(paper, PAPERS_EACH)
        return self._community(number).cited(local)

    def papers_by(self, author: int) -> list[int]:
        """Return the papers of an author, at home and as a guest."""
        home = author // AUTHORS_EACH
        hosts = (home, *((home - step) % COMMUNITIES for step in _GUESTS_FROM))
        return [
            host * PAPERS_EACH + local
            for host in hosts
            for local in self._community(host).written_by(author)
        ]

    def collaborators(self, author: int) -> list[int]:
        """Everybody with whom an author wrote, by number."""
        others = dict.fromkeys(
            other for paper in self.papers_by(author) for other in self.team(paper)
        )
        others.pop(author, None)
        return list(others)

    def joint_papers(self, one: int, other: int) -> list[int]:
        """Return what two authors wrote together, by number."""
        if one == other:
            return []
        return [paper for paper in self.papers_by(one) if other in self.team(paper)]

    def cited_titles(self, paper: int) -> list[str]:
        return [self.title(other) for other in self.cited(paper)]

    def collaborator_names(self, author: int) -> list[str]:
        return [self.name(other) for other in self.collaborators(author)]

    def collaboration(self, one: int, other: int) -> dict[str, Any] | None:
        joint = self.joint_papers(one, other)
        return {"collaborative_papers": [self.title(paper) for paper in joint]} if joint else None

    def citation(self, citing: int, cited: int) -> dict[str, Any] | None:
        return {} if cited in self.cited(citing) else None

    def _community(self, number: int) -> _Community:
        community = self._communities.get(number)
        if community is None:
            rng = random.Random(mix_bits(SEED, _COMMUNITY, number))
            community = _build(rng, number)
            self._communities[number] = community
        return community


def _build(rng: random.Random, number: int) -> _Community:
    years = sorted(_FIRST_YEAR + int(_YEARS * rng.random() ** 0.6) for _ in range(PAPERS_EACH))
    ladder = list(accumulate((rank + 3) ** -0.75 for rank in range(AUTHORS_EACH)))
    teams = [_team(rng, number, ladder) for _ in range(PAPERS_EACH)]
    cited: list[list[int]] = []
    received = [0] * PAPERS_EACH
    urn: list[int] = []
    for local in range(PAPERS_EACH):
        references = _cited(rng, number, local, urn)
        cited.append(references)
        urn.append(local)
        for paper in references:
            if paper // PAPERS_EACH == number:
                received[paper % PAPERS_EACH] += 1
                urn.append(paper % PAPERS_EACH)
    citations = [count + int(count * rng.expovariate(0.7)) for count in received]
    return _Community(years, teams, cited, citations)


def _team(rng: random.Random, number: int, ladder: list[float]) -> list[int]:
    size = rng.choice(_TEAM_SIZES)
    if rng.random() < 0.05:
        size = _FULL_TEAM
    base = number * AUTHORS_EACH
    # Groups: most of a team stands close together on the ladder of a community.
    lead = rng.choices(range(AUTHORS_EACH), cum_weights=ladder)[0]
    members = [lead]
    while len(members) < size:
        near = lead ^ rng.randrange(8) if rng.random() < 0.7 else rng.randrange(AUTHORS_EACH)
        members.append(near % AUTHORS_EACH)
    team = [base + local for local in dict.fromkeys(members)]
    if rng.random() < 0.125:
        host = (number + rng.choice(_GUESTS_FROM)) % COMMUNITIES
        guest = rng.choices(range(AUTHORS_EACH), cum_weights=ladder)[0]
        team.insert(rng.randrange(len(team) + 1), host * AUTHORS_EACH + guest)
    return team


def _cited(rng: random.Random, number: int, local: int, urn: list[int]) -> list[int]:
    """Older papers: of the community by how often they were cited, of others by chance."""
    count = min(int(rng.paretovariate(1.6) * 2.5), 40, local)
    references: dict[int, None] = {}
    for _ in range(count):
        if rng.random() < 1 / 6:
            community = rng.randrange(COMMUNITIES)
            # Communities fill at the same pace, so that a much lower number is an older paper.
            paper = community * PAPERS_EACH + rng.randrange(max(1, local - 60))
        else:
            paper = number * PAPERS_EACH + rng.choice(urn)
        references[paper] = None
    return list(references)


def _venue(rng: random.Random, field: str) -> tuple[str, str]:
    if rng.random() < 0.6:
        patterns = (
            f"International Conference on {field}",
            f"Annual Symposium on {field}",
            f"European Workshop on {field}",
            f"Asian Conference on {field}",
        )
        return rng.choice(patterns), "Conference"
    patterns = (
        f"Journal of {field}",
        f"Transactions on {field}",
        f"Letters in {field}",
        f"{field} Review",
    )
    return rng.choice(patterns), "Journal"
