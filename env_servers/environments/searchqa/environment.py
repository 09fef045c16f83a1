"""One SearchQA episode: search for passages until a question can be answered.

Contains the episode's life: its question, what was searched and shown, and what a reply becomes.
The reward is 1 for an answer that matches, which ends the episode, and 0 for everything else. The
retriever, with its queue, is shared by all episodes of a process.

Steps run in threads: a search may wait for another machine, and searches that wait at the same time
are asked together.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from env_servers.environments.searchqa import picture
from env_servers.environments.searchqa.expert import advise, noop_advice, random_advice
from env_servers.environments.searchqa.official import DATASETS
from env_servers.environments.searchqa.passages import Passage
from env_servers.environments.searchqa.prompt import CONVERSATION_STARTS, GRAMMAR, first_observation
from env_servers.environments.searchqa.protocol import (
    ANSWER,
    INVALID,
    RIGHT,
    SEARCH,
    WRONG,
    WRONG_FINAL,
    information,
    last_answer,
    read_move,
    without_thoughts,
)
from env_servers.environments.searchqa.questions import Question
from env_servers.environments.searchqa.scoring import exact_match, normalised
from env_servers.environments.searchqa.tasks import Assignment, SearchQATasks, load_tasks
from env_servers.sdk import (
    Advice,
    EnvironmentConfig,
    EnvironmentSpec,
    EpisodeEnvironment,
    Execution,
    Observation,
    ResetOptions,
    StopReason,
    Task,
    View,
)

__all__ = ["SearchQA"]

_SHOWN_QUERIES: Final = 30


@dataclass(frozen=True, slots=True)
class _Episode:
    """The state of one episode; a step makes a new one."""

    assignment: Assignment
    fixed: bool
    searched: frozenset[str] = frozenset()
    """Those queries of the clues that were searched for."""
    seen: frozenset[str] = frozenset()
    """Those titles of the clues that were shown; an empty one = a passage that has the answer."""
    steps: int = 0
    queries: tuple[str, ...] = ()
    """The last ones, shortened, for the picture."""
    passages: tuple[Passage, ...] = ()
    """What the last search found, for the picture."""

    @property
    def question(self) -> Question:
        return self.assignment.question


class SearchQA(EpisodeEnvironment[_Episode]):
    """Answer a question with the help of a search engine."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="searchqa",
        version="1.0.0",
        description="Answer questions, often of several hops, with a search engine over passages.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=30,
        has_views=True,
        profiles=("agentgym", "fixed"),
        execution=Execution.THREAD,
        episode_bytes=48 * 1024,
        item_prefixes=DATASETS,
    )
    tasks: SearchQATasks

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> SearchQATasks:
        return load_tasks(config)

    def start(self, task: Task, options: ResetOptions) -> tuple[_Episode, Observation]:
        assignment: Assignment = task.payload
        episode = _Episode(assignment, options.profile == "fixed")
        return episode, Observation(first_observation(assignment.question.text))

    def step(self, action: str) -> Observation:
        episode = self.episode
        text = without_thoughts(action) if episode.fixed else action
        verb, content = read_move(text)
        if verb == SEARCH:
            return self._search(episode, content)
        self.episode = replace(episode, steps=episode.steps + 1)
        if verb != ANSWER:
            return Observation(INVALID, reward=0.0)
        # The original acts on the first tag and scores the last answer of the reply.
        answer = content if episode.fixed else last_answer(text)
        if exact_match(answer, episode.question.answers):
            return Observation(
                RIGHT, reward=1.0, terminated=True, stop_reason=StopReason.GOAL_REACHED
            )
        if episode.fixed:
            return Observation(
                WRONG_FINAL, reward=0.0, terminated=True, stop_reason=StopReason.ANSWERED
            )
        return Observation(WRONG, reward=0.0)

    def _search(self, episode: _Episode, query: str) -> Observation:
        """Search for passages; where the retriever fails, the episode stays as it was."""
        passages = self.tasks.queue(episode.assignment.source).search(query)
        clues = episode.question.clues
        shown = {passage.title for passage in passages}
        if any(not clue.title for clue in clues) and _tells(passages, episode.question):
            shown.add("")
        self.episode = replace(
            episode,
            searched=episode.searched.union(
                q for clue in clues for q in clue.queries if q == query
            ),
            seen=episode.seen.union(clue.title for clue in clues if clue.title in shown),
            steps=episode.steps + 1,
            queries=(*episode.queries, query[: picture.QUERY_CHARS])[-_SHOWN_QUERIES:],
            passages=tuple(passages),
        )
        return Observation(information(passages), reward=0.0)

    def fork_episode(self, episode: _Episode) -> _Episode:
        return episode

    def render(self) -> Sequence[View]:
        episode = self.episode
        return picture.draw(episode.question, episode.queries, episode.passages, episode.seen)

    def advise_expert(self, seed: int) -> Advice:
        episode = self.episode
        wording = seed + episode.steps
        return advise(episode.question, episode.searched, episode.seen, wording)

    def advise_random(self, rng: random.Random) -> Advice:
        return random_advice(self.episode.question, rng)

    def advise_noop(self) -> Advice:
        return noop_advice()


def _tells(passages: Iterable[Passage], question: Question) -> bool:
    """Whether an answer stands in the passages, by the words that are compared in the end."""
    text = f" {normalised(' '.join(passage.text for passage in passages))} "
    answers = filter(None, map(normalised, question.answers))
    return any(f" {answer} " in text for answer in answers)
