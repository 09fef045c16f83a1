"""The account behaves as the original's REST service does."""

from __future__ import annotations

import pytest

from env_servers.environments.todo.store import (
    NotFound,
    ProjectSeed,
    TodoSeed,
    TodoStore,
    World,
    parse_date,
)
from env_servers.environments.todo.task_spec import current_end_state

WORLD = World(
    (
        ProjectSeed(
            "Garden",
            (
                TodoSeed("Dig", "2024-05-01", 2, comments=("Mind the bulbs.",), section="Later"),
                TodoSeed("Plant", "2024-05-02"),
                TodoSeed("Water", "2024-05-03"),
            ),
            sections=("Later",),
        ),
        ProjectSeed("Kitchen", (TodoSeed("Cook", "2024-05-04"),), is_favorite=True),
    )
)


@pytest.fixture
def store() -> TodoStore:
    return TodoStore.of(WORLD, seed=3)


def test_orders_count_from_one_within_their_parent(store: TodoStore) -> None:
    assert [project.order for project in store.projects()] == [1, 2]
    assert [(todo.content, todo.order) for todo in store.todos()] == [
        ("Dig", 1),
        ("Plant", 2),
        ("Water", 3),
        ("Cook", 1),
    ]


def test_ids_are_different_digits_and_follow_from_the_seed(store: TodoStore) -> None:
    ids = [found.id for found in (*store.projects(), *store.todos())]
    assert len(set(ids)) == len(ids)
    assert all(known.isdigit() and len(known) == 10 for known in ids)
    again = TodoStore.of(WORLD, seed=3)
    assert store.content() == again.content()
    assert store.content() != TodoStore.of(WORLD, seed=4).content()


def test_ids_can_be_given_by_name() -> None:
    store = TodoStore.of(WORLD, ids={"Garden": "g", "Plant": "p"})
    assert store.project("g").name == "Garden"
    assert store.todo("p").project_id == "g"


def test_completed_and_deleted_tasks_are_gone_and_the_others_keep_their_order(
    store: TodoStore,
) -> None:
    dig, plant, water, _ = store.todos()
    assert store.complete_todo(dig.id) == dig
    assert store.delete_todo(plant.id) == plant
    assert store.todos(dig.project_id) == [water]
    for gone in (dig, plant):
        for act in (store.todo, store.complete_todo, store.delete_todo, store.comments):
            with pytest.raises(NotFound):
                act(gone.id)


def test_new_tasks_come_last(store: TodoStore) -> None:
    garden = store.projects()[0]
    assert store.add_todo(garden.id, TodoSeed("Rake", "2024-06-01")).order == 4


def test_due_dates_must_be_dates(store: TodoStore) -> None:
    todo = store.todos()[0]
    for bad in ("", "2024-2-1", "tomorrow", "٢٠٢٤-01-01", "2024-01-01T10:00"):
        with pytest.raises(ValueError, match="no date"):
            parse_date(bad)
    with pytest.raises(ValueError, match="month"):
        store.update_todo(todo.id, due_date="2024-13-01")
    assert store.todo(todo.id) == todo


def test_sections_and_comments_belong_to_their_project_and_task(store: TodoStore) -> None:
    garden, kitchen = store.projects()
    dig = store.todos()[0]
    assert [section.name for section in store.sections(garden.id)] == ["Later"]
    assert dig.section_id == store.sections(garden.id)[0].id
    assert [comment.content for comment in store.comments(dig.id)] == ["Mind the bulbs."]
    assert store.sections(kitchen.id) == []


def test_deleting_a_project_takes_everything_in_it_along(store: TodoStore) -> None:
    garden, kitchen = store.projects()
    store.delete_project(garden.id)
    assert store.projects() == [kitchen]
    assert [todo.content for todo in store.todos()] == ["Cook"]
    _, sections, _, comments = store.content()
    assert (sections, comments) == ((), ())


def test_a_fork_is_equal_and_independent(store: TodoStore) -> None:
    copy = store.fork()
    assert copy.content() == store.content()
    copy.delete_todo(copy.todos()[0].id)
    assert len(store.todos()) == 4
    assert copy.add_project("New").id == store.add_project("New").id


def test_the_end_state_has_no_ids(store: TodoStore) -> None:
    assert current_end_state(store) == current_end_state(TodoStore.of(WORLD, seed=9))
    store.update_project(store.projects()[0].id, is_favorite=True)
    assert current_end_state(store) != current_end_state(TodoStore.of(WORLD, seed=3))
