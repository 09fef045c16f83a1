"""The invented world hangs together, and every question about it can be answered by searching."""

from __future__ import annotations

from collections import Counter

import pytest

from env_servers.environments.searchqa import SearchQA
from env_servers.environments.searchqa.embedded import EVAL_SIZE, EmbeddedSource, build_world
from env_servers.environments.searchqa.encyclopedia import passage
from env_servers.environments.searchqa.scoring import normalised
from env_servers.environments.searchqa.tasks import EVAL_BASE, SearchQATasks
from env_servers.environments.searchqa.world import PRESENT, Entity, shown
from env_servers.sdk import EMBEDDED_BASE
from tests.env_servers.environments.searchqa.conftest import start

EVERY = 97
"""Of all tasks, so many are left out between two that the default tests look at."""


def test_the_world_is_the_same_each_time(source: EmbeddedSource) -> None:
    again = build_world()
    assert [entity.name for entity in again.entities] == [
        entity.name for entity in source.world.entities
    ]
    assert source.digest.hex() == "62e5fa4f12960f66"


def test_there_is_plenty_of_it(source: EmbeddedSource) -> None:
    assert len(source.world.entities) > 20_000
    assert len(source.subjects["train"]) > 20_000
    assert len(source.subjects["eval"]) == EVAL_SIZE


def test_nothing_is_named_twice(source: EmbeddedSource) -> None:
    names = [entity.name for entity in source.world.entities]
    assert len(set(names)) == len(names)
    answers = Counter(
        value
        for entity in source.world.entities
        if isinstance(value := entity.facts.get("known_as"), str)
    )
    assert max(answers.values()) == 1
    assert not set(answers).intersection(names)


def test_lives_and_works_agree(source: EmbeddedSource) -> None:
    for person in source.world.by_kind["person"]:
        assert 1780 <= person.amount("born") < PRESENT
        if "died" in person.facts:
            assert 40 < person.amount("died") - person.amount("born") < 100
        if "teacher" in person.facts:
            assert person.to("teacher").amount("born") < person.amount("born")
        if "spouse" in person.facts:
            assert person.to("spouse").facts["spouse"] is person
    for novel in source.world.by_kind["novel"]:
        assert novel.amount("published") > novel.to("author").amount("born") + 20
        assert novel.amount("published") <= PRESENT
    for film in source.world.by_kind["film"]:
        assert film.amount("released") >= film.to("star").amount("born") + 18
        if "novel" in film.facts:
            assert film.amount("released") > film.to("novel").amount("published")
    for album in source.world.by_kind["album"]:
        assert album.amount("released") > album.to("band").amount("founded") - 1
    for bridge in source.world.by_kind["bridge"]:
        assert bridge.facts["river"] is bridge.to("town").facts["river"]


def test_every_fact_that_is_asked_for_stands_in_the_passage(source: EmbeddedSource) -> None:
    for entity in source.world.entities[::7]:
        text = passage(entity, source.book)
        for fact in source.book.relations[entity.kind]:
            value = entity.facts.get(fact)
            if value is not None:
                said = value.plain if isinstance(value, Entity) else shown(fact, value)
                assert said in text, (entity.name, fact, text)
        assert "{" not in text


def test_every_kind_can_be_written_and_asked_about(source: EmbeddedSource) -> None:
    book = source.book
    for kind, entities in source.world.by_kind.items():
        assert book.kinds[kind].lead
        assert book.kinds[kind].again
        assert book.kinds[kind].aside
        stated = {fact for entity in entities for fact in entity.facts}
        assert stated - set(book.relations[kind]) <= {"gender", "death_date", "body"}
        for fact, relation in book.relations[kind].items():
            assert fact in stated, (kind, fact)
            assert relation.says, (kind, fact)
            assert relation.ask, (kind, fact)
            assert relation.phrase, (kind, fact)
            assert relation.words, (kind, fact)
            assert bool(relation.more) == bool(relation.less), (kind, fact)


def test_passages_are_varied(source: EmbeddedSource) -> None:
    passages = source.passages()
    assert len({p.id for p in passages}) == len({p.title for p in passages}) == len(passages)
    assert len({p.text for p in passages}) == len(passages)
    openings = Counter(" ".join(p.text.split()[-6:]) for p in passages)
    assert openings.most_common(1)[0][1] < len(passages) / 10


def test_train_and_eval_ask_of_different_subjects(source: EmbeddedSource) -> None:
    subjects = {split: {e.number for e in found} for split, found in source.subjects.items()}
    assert subjects["train"].isdisjoint(subjects["eval"])
    texts = {
        split: [source.question(split, n).text for n in range(0, len(found), 5)]
        for split, found in source.subjects.items()
    }
    assert set(texts["train"]).isdisjoint(texts["eval"])
    assert len(set(texts["train"])) == len(texts["train"])


def test_questions_are_of_several_kinds(source: EmbeddedSource) -> None:
    found = Counter(source.question("eval", n).category for n in range(EVAL_SIZE))
    assert set(found) == {
        "one hop",
        "bridge of two",
        "bridge of three",
        "comparison",
        "yes or no",
    }
    assert min(found.values()) > 40
    verdicts = Counter(
        question.answers
        for n in range(EVAL_SIZE)
        if (question := source.question("eval", n)).category == "yes or no"
    )
    assert min(verdicts[("yes",)], verdicts[("no",)]) > 15


def test_answers_say_something(source: EmbeddedSource) -> None:
    for n in range(0, len(source.subjects["train"]), 11):
        question = source.question("train", n)
        assert question.answers
        assert all(normalised(answer) for answer in question.answers)
        assert question.clues
        assert normalised(question.answers[0]) not in ("it", "she", "he")


def played(tasks: SearchQATasks, item: str) -> tuple[float | None, int, bool]:
    """The expert's reward, its steps, and whether it found everything that it looked for."""
    episode = start(tasks, item)
    for step in range(1, SearchQA.spec.max_rounds + 1):
        advice = episode.advise_expert(step)
        seen = episode.step(advice.action)
        if seen.terminated:
            state = episode.episode
            found = state.seen >= {clue.title for clue in state.question.clues}
            return seen.reward, step, found
    return None, SearchQA.spec.max_rounds, False


def all_found(tasks: SearchQATasks, every: int) -> tuple[int, int]:
    """Plays every so-many-th task; returns how many, and the longest episode."""
    steps: list[int] = []
    for split in ("eval", "train"):
        for item in tasks.item_ids(split, 0, 100_000)[::every]:
            reward, count, found = played(tasks, item)
            assert (reward, found) == (1.0, True), item
            steps.append(count)
    return len(steps), max(steps)


def test_the_expert_finds_what_a_question_needs(embedded: SearchQATasks) -> None:
    count, longest = all_found(embedded, EVERY)
    assert count > 200
    assert longest <= 10


@pytest.mark.slow
def test_the_expert_finds_what_every_question_needs(embedded: SearchQATasks) -> None:
    count, longest = all_found(embedded, 1)
    assert count == sum(embedded.splits().values())
    assert longest <= 10


def test_doing_nothing_and_guessing_earn_nothing(embedded: SearchQATasks) -> None:
    for item in embedded.item_ids("eval", 0, 50):
        episode = start(embedded, item)
        assert episode.step(episode.advise_noop().action).reward == 0.0
        assert episode.step("<answer> </answer>").reward == 0.0


def test_ids_begin_where_embedded_ids_begin(embedded: SearchQATasks) -> None:
    assert embedded.item_ids("train", 0, 1) == [f"searchqa_{EMBEDDED_BASE}"]
    assert embedded.item_ids("eval", 0, 1) == [f"searchqa_{EVAL_BASE}"]
