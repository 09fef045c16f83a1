"""Questions about the invented research: what is asked, what is right, and how it is found out.

A kind takes a subject (a number that names a paper and an author), words a goal and takes the
answer from the graphs' facts; its plan finds the same answer with the functions alone, so that
either proves the other. KINDS is the table of all kinds; the functions before it make the kinds
that are alike. A question depends on its kind, its subject and a number, and on nothing else:
changing the order of draws changes tasks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from env_servers.environments.academia.expert import (
    Run,
    collaborators,
    joint_papers,
    load,
    organisation,
    organisations,
    paper_facts,
    papers_facts,
    references,
)
from env_servers.environments.academia.graphs import (
    AUTHORS,
    AUTHORS_EACH,
    PAPERS_EACH,
    InventedGraphs,
    Paper,
)
from env_servers.toolkit.tool_calls import Plan

__all__ = ["KINDS", "SUBJECTS", "Kind", "Question", "make_question"]

SUBJECTS: Final = AUTHORS
"""Numbers of subjects run below this."""
MOST_LOOKUPS: Final = 6


class Question(NamedTuple):
    """A goal with its answer and a plan that leads there."""

    kind: str
    goal: str
    answer: Any
    plan: Plan
    lookups: int
    """Calls before `finish`, without those that load a graph."""
    loads: int


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of question."""

    name: str
    ask: Callable[[Subject], Question | None]
    """The question about a subject, or None where the subject has no such thing."""


class Subject:
    """What is asked about, with what a kind may draw."""

    def __init__(self, graphs: InventedGraphs, number: int, rng: random.Random) -> None:
        self.graphs = graphs
        self.paper = number
        self.author = number
        self.rng = rng

    @property
    def title(self) -> str:
        """The paper's title."""
        return self.graphs.title(self.paper)

    @property
    def name(self) -> str:
        """The author's name."""
        return self.graphs.name(self.author)

    @property
    def facts(self) -> Paper:
        """What is known of the paper."""
        return self.graphs.paper_facts(self.paper)

    def pick(self, *wordings: str, **words: object) -> str:
        """Return one of several wordings, filled in."""
        wording = self.rng.choice(wordings)
        return wording.format(paper=f"'{self.title}'", author=self.name, **words)

    def other_paper(self, prefer: Callable[[Paper], bool]) -> int:
        """Return another paper; one of the preferred ones in half of the cases, where there is any.

        Looked for in the community, among papers of about the same year (they are numbered by
        year), and among those of the same authors.
        """
        base = self.paper - self.paper % PAPERS_EACH
        near = [base + (self.paper - base + step) % PAPERS_EACH for step in range(-16, 17)]
        own = [
            paper for who in self.graphs.team(self.paper) for paper in self.graphs.papers_by(who)
        ]
        drawn = [base + self.rng.randrange(PAPERS_EACH) for _ in range(8)]
        return self._other(
            self.paper, drawn, near + own, lambda paper: prefer(self.graphs.paper_facts(paper))
        )

    def other_author(self, prefer: Callable[[int], bool]) -> int:
        """Return another author of the community; a preferred one in half of the cases."""
        base = self.author - self.author % AUTHORS_EACH
        drawn = [base + self.rng.randrange(AUTHORS_EACH) for _ in range(12)]
        return self._other(self.author, drawn, [], prefer)

    def _other(
        self, own: int, drawn: list[int], nearby: list[int], prefer: Callable[[int], bool]
    ) -> int:
        others = [number for number in drawn if number != own]
        if self.rng.random() < 0.5:
            return others[0]
        self.rng.shuffle(nearby)
        preferred = (number for number in others + nearby if number != own and prefer(number))
        return next(preferred, others[0])


def _yes(value: object) -> str:
    return "Yes" if value else "No"


def _mean(values: Sequence[int]) -> float:
    return round(sum(values) / len(values), 2)


def _single_best(citations: Mapping[str, int]) -> str | None:
    """Return the title with the most citations; None where two share the first place."""
    best = max(citations.values(), default=0)
    leaders = [title for title, count in citations.items() if count == best]
    return leaders[0] if len(leaders) == 1 else None


_PAPER: Final = "PaperNet"
_AUTHOR: Final = "AuthorNet"
_LIST: Final = "Please answer with a list of strings."
_NUMBER: Final = "Please answer with a number."
_TEXT: Final = "Please answer with a string."
_TITLE: Final = "Please answer with the title of the paper."
_YES_NO: Final = "Please answer with Yes or No."


# One lookup.


def _paper_kind(
    name: str, field: str, read: Callable[[Any], Any], truth: Callable[[Paper], Any], *words: str
) -> Kind:
    def ask(subject: Subject) -> Question | None:
        answer, title = truth(subject.facts), subject.title
        if answer == []:
            return None

        def plan() -> Run:
            yield from load(_PAPER)
            return read((yield from paper_facts(title))[field])

        return Question(name, subject.pick(*words), answer, plan, 1, 1)

    return Kind(name, ask)


def _neighbours_kind(
    name: str, graph: str, read: Callable[[list[str]], Any], most: int, *words: str
) -> Kind:
    """Return a kind about the neighbours of the paper or the author, where there are few enough."""

    def ask(subject: Subject) -> Question | None:
        if graph == _PAPER:
            node, neighbours = subject.title, subject.graphs.cited_titles(subject.paper)
        else:
            node, neighbours = subject.name, subject.graphs.collaborator_names(subject.author)
        if not 0 < len(neighbours) <= most:
            return None

        def plan() -> Run:
            yield from load(graph)
            look_up = references if graph == _PAPER else collaborators
            return read((yield from look_up(node)))

        return Question(name, subject.pick(*words), read(neighbours), plan, 1, 1)

    return Kind(name, ask)


def _ask_org(subject: Subject) -> Question:
    name = subject.name

    def plan() -> Run:
        yield from load(_AUTHOR)
        return (yield from organisation(name))

    goal = subject.pick(
        f"Which organization does {{author}} work for? {_TEXT}",
        f"What is the affiliation of {{author}}? {_TEXT}",
    )
    return Question("organization", goal, subject.graphs.organisation(subject.author), plan, 1, 1)


def _partner(subject: Subject, least: int, most: int) -> tuple[str, list[int]] | None:
    """Return a collaborator with whom the author wrote so many papers, and the papers."""
    for other in subject.graphs.collaborators(subject.author):
        joint = subject.graphs.joint_papers(subject.author, other)
        if least <= len(joint) <= most:
            return subject.graphs.name(other), joint
    return None


def _pair_kind(name: str, read: Callable[[list[str]], Any], *words: str) -> Kind:
    def ask(subject: Subject) -> Question | None:
        partnership = _partner(subject, subject.rng.randrange(1, 4), 8)
        if partnership is None:
            return None
        partner, joint = partnership
        own = subject.name

        def plan() -> Run:
            yield from load(_AUTHOR)
            return read((yield from joint_papers(own, partner)))

        titles = [subject.graphs.title(paper) for paper in joint]
        return Question(name, subject.pick(*words, other=partner), read(titles), plan, 1, 1)

    return Kind(name, ask)


# Two lookups.


def _comparison_kind(
    name: str,
    decide: Callable[[Mapping[str, Mapping[str, Any]]], Any],
    prefer: Callable[[Paper, Paper], bool],
    *words: str,
) -> Kind:
    """Return a kind that decides between two papers; `decide` sees their attributes by title."""

    def ask(subject: Subject) -> Question | None:
        own = subject.facts
        other = subject.other_paper(lambda facts: prefer(own, facts))
        titles = (subject.title, subject.graphs.title(other))
        numbers = dict(zip(titles, (subject.paper, other), strict=True))
        answer = decide({t: subject.graphs.paper_attributes(n) for t, n in numbers.items()})
        if answer is None:
            return None

        def plan() -> Run:
            yield from load(_PAPER)
            return decide((yield from papers_facts(titles)))

        goal = subject.pick(*words, other=f"'{titles[1]}'")
        return Question(name, goal, answer, plan, 2, 1)

    return Kind(name, ask)


def _most_cited(papers: Mapping[str, Mapping[str, Any]]) -> str | None:
    return _single_best({title: facts["n_citation"] for title, facts in papers.items()})


def _earliest(papers: Mapping[str, Mapping[str, Any]]) -> str | None:
    return (
        _single_best({title: -facts["year"] for title, facts in papers.items()})
        if all(facts["year"] for facts in papers.values())
        else None
    )


def _equal_fields(*fields: str) -> Callable[[Mapping[str, Mapping[str, Any]]], str]:
    def decide(papers: Mapping[str, Mapping[str, Any]]) -> str:
        one, other = papers.values()
        return _yes(all(one[field] == other[field] for field in fields))

    return decide


def _both_conference(papers: Mapping[str, Mapping[str, Any]]) -> str:
    return _yes(all(facts["doc_type"] == "Conference" for facts in papers.values()))


def _shared_authors(papers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    one, other = papers.values()
    return sorted(set(one["authors"]) & set(other["authors"]))


def _share_authors(one: Paper, other: Paper) -> bool:
    return bool(set(one.authors) & set(other.authors))


def _ask_same_org(subject: Subject) -> Question:
    home = subject.graphs.organisation(subject.author)
    other = subject.other_author(lambda author: subject.graphs.organisation(author) == home)
    names = (subject.name, subject.graphs.name(other))

    def plan() -> Run:
        yield from load(_AUTHOR)
        by_name = yield from organisations(names)
        return _yes(by_name[names[0]] == by_name[names[1]])

    goal = subject.pick(
        f"Do {{author}} and {{other}} work for the same organization? {_YES_NO}",
        f"Is {{other}} affiliated with the organization of {{author}}? {_YES_NO}",
        other=names[1],
    )
    answer = _yes(subject.graphs.organisation(other) == home)
    return Question("same organization", goal, answer, plan, 2, 1)


def _mutual_kind(name: str, read: Callable[[list[str]], Any], *words: str) -> Kind:
    def ask(subject: Subject) -> Question | None:
        friends = subject.graphs.collaborators(subject.author)
        if not friends:
            return None
        other = subject.rng.choice(friends)
        shared = set(friends) & set(subject.graphs.collaborators(other))
        if not 0 < len(shared) <= 12:
            return None
        names = (subject.name, subject.graphs.name(other))

        def plan() -> Run:
            yield from load(_AUTHOR)
            first = yield from collaborators(names[0])
            second = yield from collaborators(names[1])
            return read(sorted(set(first) & set(second)))

        answer = read(sorted(subject.graphs.name(author) for author in shared))
        return Question(name, subject.pick(*words, other=names[1]), answer, plan, 2, 1)

    return Kind(name, ask)


def _ask_first_author_org(subject: Subject) -> Question:
    title, lead = subject.title, subject.graphs.team(subject.paper)[0]

    def plan() -> Run:
        yield from load(_PAPER, _AUTHOR)
        return (yield from organisation((yield from paper_facts(title))["authors"][0]))

    goal = subject.pick(
        f"Which organization does the first author of {{paper}} belong to? {_TEXT}",
        f"Where does the author listed first on {{paper}} work? {_TEXT}",
    )
    return Question("first author's org", goal, subject.graphs.organisation(lead), plan, 2, 2)


# Three to six lookups.


def _ask_orgs_of_paper(subject: Subject) -> Question | None:
    team, title = subject.graphs.team(subject.paper), subject.title
    if not 2 <= len(team) < MOST_LOOKUPS:
        return None

    def plan() -> Run:
        yield from load(_PAPER, _AUTHOR)
        names = (yield from paper_facts(title))["authors"]
        return sorted(set((yield from organisations(names)).values()))

    goal = subject.pick(
        f"Which organizations were involved in the paper {{paper}}? {_LIST}",
        f"For which organizations do the authors of {{paper}} work? {_LIST}",
    )
    answer = sorted({subject.graphs.organisation(author) for author in team})
    return Question("organizations of a paper", goal, answer, plan, 1 + len(team), 2)


def _joint_papers_kind(name: str, decide: Callable[[Mapping[str, int]], Any], *words: str) -> Kind:
    """Return a kind that decides from the citations of what two authors wrote together."""

    def ask(subject: Subject) -> Question | None:
        partnership = _partner(subject, 2, MOST_LOOKUPS - 1)
        if partnership is None:
            return None
        partner, joint = partnership
        graphs, own = subject.graphs, subject.name
        answer = decide({graphs.title(p): graphs.paper_facts(p).n_citation for p in joint})
        if answer is None:
            return None

        def plan() -> Run:
            yield from load(_AUTHOR, _PAPER)
            papers = yield from papers_facts((yield from joint_papers(own, partner)))
            return decide({title: facts["n_citation"] for title, facts in papers.items()})

        goal = subject.pick(*words, other=partner)
        return Question(name, goal, answer, plan, 1 + len(joint), 2)

    return Kind(name, ask)


def _colleagues_kind(name: str, *words: str, same: bool) -> Kind:
    """Return a kind about the collaborators who do (or do not) work where the author works."""

    def ask(subject: Subject) -> Question | None:
        friends = subject.graphs.collaborators(subject.author)
        home, own = subject.graphs.organisation(subject.author), subject.name
        colleagues = [f for f in friends if (subject.graphs.organisation(f) == home) is same]
        if not (colleagues and len(friends) + 2 <= MOST_LOOKUPS):
            return None

        def plan() -> Run:
            yield from load(_AUTHOR)
            home = yield from organisation(own)
            places = yield from organisations((yield from collaborators(own)))
            return sorted(who for who, org in places.items() if (org == home) is same)

        answer = sorted(subject.graphs.name(friend) for friend in colleagues)
        return Question(name, subject.pick(*words), answer, plan, 2 + len(friends), 1)

    return Kind(name, ask)


def _references_kind(
    name: str,
    decide: Callable[[Mapping[str, Mapping[str, Any]]], Any],
    *words: str,
) -> Kind:
    """Return a kind that decides from the attributes of everything that a paper cites."""

    def ask(subject: Subject) -> Question | None:
        cited, title = subject.graphs.cited(subject.paper), subject.title
        if not 2 <= len(cited) < MOST_LOOKUPS:
            return None
        graphs = subject.graphs
        answer = decide({graphs.title(p): graphs.paper_attributes(p) for p in cited})
        if answer is None:
            return None

        def plan() -> Run:
            yield from load(_PAPER)
            return decide((yield from papers_facts((yield from references(title)))))

        return Question(name, subject.pick(*words), answer, plan, 1 + len(cited), 1)

    return Kind(name, ask)


def _venue_of_most_cited(papers: Mapping[str, Mapping[str, Any]]) -> str | None:
    best = _most_cited(papers)
    return papers[best]["venue"] if best is not None else None


def _oldest_year(papers: Mapping[str, Mapping[str, Any]]) -> int:
    return min(facts["year"] for facts in papers.values())


def _mean_citations(papers: Mapping[str, Mapping[str, Any]]) -> float:
    return _mean([facts["n_citation"] for facts in papers.values()])


def _ask_org_behind_reference(subject: Subject) -> Question | None:
    cited, title, graphs = subject.graphs.cited(subject.paper), subject.title, subject.graphs
    if not 1 <= len(cited) <= MOST_LOOKUPS - 2:
        return None
    counts = {graphs.title(paper): graphs.paper_facts(paper).n_citation for paper in cited}
    best = _single_best(counts)
    if best is None:
        return None
    lead = graphs.team(cited[list(counts).index(best)])[0]

    def plan() -> Run:
        yield from load(_PAPER, _AUTHOR)
        papers = yield from papers_facts((yield from references(title)))
        leading = _most_cited(papers)
        return (yield from organisation(papers[leading or ""]["authors"][0]))

    goal = subject.pick(
        "Of the papers that {paper} cites, take the one with the most citations. Which "
        f"organization does its first author belong to? {_TEXT}",
        f"Where does the first author of the most cited reference of {{paper}} work? {_TEXT}",
    )
    answer = graphs.organisation(lead)
    return Question("org behind a reference", goal, answer, plan, 2 + len(cited), 2)


def _ask_best_connected(subject: Subject) -> Question | None:
    team, title, graphs = subject.graphs.team(subject.paper), subject.title, subject.graphs
    if not 2 <= len(team) < MOST_LOOKUPS:
        return None
    best = _single_best({graphs.name(who): len(graphs.collaborators(who)) for who in team})
    if best is None:
        return None

    def plan() -> Run:
        yield from load(_PAPER, _AUTHOR)
        counts: dict[str, int] = {}
        for name in (yield from paper_facts(title))["authors"]:
            counts[name] = len((yield from collaborators(name)))
        return _single_best(counts)

    goal = subject.pick(
        "Which author of {paper} has the most collaborators? Please answer with the name.",
        "Among the authors of {paper}, who has written with the most people? Please answer with "
        "the name.",
    )
    return Question("best connected author", goal, best, plan, 1 + len(team), 2)


KINDS: Final[tuple[Kind, ...]] = (
    _paper_kind(
        "year",
        "year",
        int,
        lambda facts: facts.year,
        f"In which year was the paper {{paper}} published? {_NUMBER}",
        "When did {paper} come out? Please answer with the year as a number.",
    ),
    _paper_kind(
        "venue",
        "venue",
        str,
        lambda facts: facts.venue,
        "Where was the paper {paper} published? Please answer with the venue.",
        f"What is the publication venue of {{paper}}? {_TEXT}",
    ),
    _paper_kind(
        "citations",
        "n_citation",
        int,
        lambda facts: facts.n_citation,
        f"How often has the paper {{paper}} been cited? {_NUMBER}",
        f"What is the number of citations of {{paper}}? {_NUMBER}",
    ),
    _paper_kind(
        "keywords",
        "keywords",
        sorted,
        lambda facts: sorted(facts.keywords),
        f"Which keywords does the paper {{paper}} have? {_LIST}",
        f"What are the keywords of {{paper}}? {_LIST}",
    ),
    _paper_kind(
        "authors",
        "authors",
        sorted,
        lambda facts: sorted(facts.authors),
        f"Who wrote the paper titled {{paper}}? {_LIST}",
        f"Who are the authors of {{paper}}? {_LIST}",
    ),
    _paper_kind(
        "number of authors",
        "authors",
        len,
        lambda facts: len(facts.authors),
        f"How many authors does the paper {{paper}} have? {_NUMBER}",
        f"By how many people was {{paper}} written? {_NUMBER}",
    ),
    _paper_kind(
        "document type",
        "doc_type",
        str,
        lambda facts: facts.doc_type,
        f"What type of document is {{paper}}? {_TEXT}",
        f"As what type of document was {{paper}} published? {_TEXT}",
    ),
    Kind("organization", _ask_org),
    _neighbours_kind(
        "number of collaborators",
        _AUTHOR,
        len,
        1_000,
        f"With how many people has {{author}} written papers? {_NUMBER}",
        f"How many collaborators does {{author}} have? {_NUMBER}",
    ),
    _neighbours_kind(
        "collaborators",
        _AUTHOR,
        sorted,
        8,
        f"Who has written papers together with {{author}}? {_LIST}",
        f"Who are the collaborators of {{author}}? {_LIST}",
    ),
    _neighbours_kind(
        "number of references",
        _PAPER,
        len,
        1_000,
        f"How many papers of the network does {{paper}} cite? {_NUMBER}",
        f"How many references into the citation network does {{paper}} have? {_NUMBER}",
    ),
    _neighbours_kind(
        "references",
        _PAPER,
        sorted,
        6,
        f"Which papers of the network does {{paper}} cite? {_LIST}",
        f"What are the titles of the papers that {{paper}} refers to? {_LIST}",
    ),
    _pair_kind(
        "number of joint papers",
        len,
        f"How many papers have {{author}} and {{other}} written together? {_NUMBER}",
        f"On how many papers are both {{author}} and {{other}} authors? {_NUMBER}",
    ),
    _pair_kind(
        "joint papers",
        sorted,
        f"Which papers have {{author}} and {{other}} written together? {_LIST}",
        f"What are the titles of the papers by both {{author}} and {{other}}? {_LIST}",
    ),
    _comparison_kind(
        "more citations",
        _most_cited,
        lambda one, other: one.n_citation != other.n_citation,
        f"Which paper has more citations, {{paper}} or {{other}}? {_TITLE}",
        f"Of {{paper}} and {{other}}, which has been cited more often? {_TITLE}",
    ),
    _comparison_kind(
        "published first",
        _earliest,
        lambda one, other: one.year != other.year,
        f"Which was published earlier, {{paper}} or {{other}}? {_TITLE}",
        f"Of {{paper}} and {{other}}, which one came out first? {_TITLE}",
    ),
    _comparison_kind(
        "same venue",
        _equal_fields("venue"),
        lambda one, other: one.venue == other.venue,
        f"Did {{paper}} and {{other}} appear at the same venue? {_YES_NO}",
        f"Is the venue of {{paper}} the same as that of {{other}}? {_YES_NO}",
    ),
    _comparison_kind(
        "same venue and year",
        _equal_fields("venue", "year"),
        lambda one, other: (one.venue, one.year) == (other.venue, other.year),
        f"Were {{paper}} and {{other}} published at the same venue in the same year? {_YES_NO}",
        f"Do {{paper}} and {{other}} agree in both venue and year? {_YES_NO}",
    ),
    _comparison_kind(
        "both conference papers",
        _both_conference,
        lambda one, other: one.doc_type == other.doc_type == "Conference",
        f"Are {{paper}} and {{other}} both conference papers? {_YES_NO}",
        f"Is it true that both {{paper}} and {{other}} were published at conferences? {_YES_NO}",
    ),
    _comparison_kind(
        "overlap of authors",
        lambda papers: _yes(_shared_authors(papers)),
        _share_authors,
        f"Do the authors of {{paper}} and {{other}} overlap? {_YES_NO}",
        f"Did anybody write both {{paper}} and {{other}}? {_YES_NO}",
    ),
    _comparison_kind(
        "mean citations",
        _mean_citations,
        lambda one, other: True,
        f"What is the mean number of citations of {{paper}} and {{other}}? {_NUMBER}",
        f"How often have {{paper}} and {{other}} been cited on average? {_NUMBER}",
    ),
    Kind("same organization", _ask_same_org),
    _mutual_kind(
        "number of mutual collaborators",
        len,
        f"How many collaborators do {{author}} and {{other}} have in common? {_NUMBER}",
        f"How many people have written with both {{author}} and {{other}}? {_NUMBER}",
    ),
    _mutual_kind(
        "mutual collaborators",
        lambda names: names,
        f"Which collaborators do {{author}} and {{other}} have in common? {_LIST}",
        f"Who has written both with {{author}} and with {{other}}? {_LIST}",
    ),
    Kind("first author's org", _ask_first_author_org),
    Kind("organizations of a paper", _ask_orgs_of_paper),
    _joint_papers_kind(
        "citations of joint papers",
        lambda counts: sum(counts.values()),
        f"How many citations do the papers by both {{author}} and {{other}} have in all? {_NUMBER}",
        f"Add up the citations of what {{author}} and {{other}} wrote together. {_NUMBER}",
    ),
    _joint_papers_kind(
        "most cited joint paper",
        _single_best,
        f"Which paper by both {{author}} and {{other}} has the most citations? {_TITLE}",
        f"Of what {{author}} and {{other}} wrote together, what is cited most? {_TITLE}",
    ),
    _colleagues_kind(
        "collaborators of the same org",
        f"Which collaborators of {{author}} work for the same organization? {_LIST}",
        f"With whom has {{author}} written who is at the same organization? {_LIST}",
        same=True,
    ),
    _colleagues_kind(
        "collaborators of other orgs",
        f"Which collaborators of {{author}} work for another organization? {_LIST}",
        f"With whom has {{author}} written who is at a different organization? {_LIST}",
        same=False,
    ),
    _references_kind(
        "most cited reference",
        _most_cited,
        f"Of the papers that {{paper}} cites, which has the most citations itself? {_TITLE}",
        f"Which reference of {{paper}} is cited most? {_TITLE}",
    ),
    _references_kind(
        "mean citations of references",
        _mean_citations,
        "What is the mean number of citations of the papers that {paper} cites, rounded to two "
        f"decimals? {_NUMBER}",
        "How often have the references of {paper} been cited on average? Round to two decimals. "
        f"{_NUMBER}",
    ),
    _references_kind(
        "venue of most cited reference",
        _venue_of_most_cited,
        f"At which venue did the most cited reference of {{paper}} appear? {_TEXT}",
        f"Where was the most cited of the papers that {{paper}} cites published? {_TEXT}",
    ),
    _references_kind(
        "oldest reference",
        _oldest_year,
        f"In which year was the oldest paper that {{paper}} cites published? {_NUMBER}",
        f"What is the earliest publication year among the references of {{paper}}? {_NUMBER}",
    ),
    Kind("org behind a reference", _ask_org_behind_reference),
    Kind("best connected author", _ask_best_connected),
)
"""All kinds, from short plans to long ones. Their order decides which task asks what."""


def make_question(graphs: InventedGraphs, kind: int, number: int, seed: int) -> Question:
    """Return the question of a kind (or of the next kind that fits) about a subject."""
    for step in range(len(KINDS)):
        subject = Subject(graphs, number, random.Random(seed + step))
        question = KINDS[(kind + step) % len(KINDS)].ask(subject)
        if question is not None:
            return question
    raise AssertionError(f"no question fits subject {number}")  # the first kinds fit every paper
