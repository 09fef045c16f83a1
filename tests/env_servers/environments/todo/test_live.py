"""TODOList on a (fake) Todoist account: safe, and as good as the account in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("todoist_api_python")

from env_servers.environments.todo import Todo
from env_servers.sdk import (
    EnvironmentConfig,
    EnvironmentUnavailable,
    Execution,
    Observation,
    ResetOptions,
)
from env_servers.toolkit.tool_calls import ServiceUnavailable
from tests.env_servers.environments.todo.fake_todoist import FakeTodoist, serving

Make = Callable[..., Todo]


@pytest.fixture
def fake() -> FakeTodoist:
    return FakeTodoist()


@pytest.fixture
def live(fake: FakeTodoist, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes environments on the fake, with further settings."""
    monkeypatch.setenv("TODO_KEY", "secret-key")
    made: list[Todo] = []
    with serving(fake) as url:

        def make(**settings: str) -> Todo:
            named = {"backend": "live", "base_url": url, "calls_per_minute": "600000", **settings}
            config = EnvironmentConfig(settings={f"todo.{k}": v for k, v in named.items()})
            found = Todo.configured(config)
            assert issubclass(found, Todo)
            made.append(found(found.load_tasks(config)))
            return made[-1]

        yield make
        for environment in made:
            environment.close()
            environment.tasks.close()


def begin(environment: Todo, index: int) -> Observation:
    item = environment.tasks.item_ids("train", index, index + 1)[0]
    return environment.reset(environment.tasks.get(item), ResetOptions())


def play(environment: Todo, index: int) -> Observation:
    seen = begin(environment, index)
    for step in range(environment.spec.max_rounds):
        seen = environment.step(environment.advise_expert(step).action)
        if seen.terminated:
            break
    return seen


@pytest.mark.parametrize("index", [9, 15, 19, 20, 21, 22, 25, 28, 31])
def test_the_expert_solves_on_the_live_account_what_it_solves_in_memory(
    live: Make, index: int
) -> None:
    assert play(live(), index).reward == 1.0


def test_an_episode_sees_and_changes_nothing_that_it_did_not_make(
    live: Make, fake: FakeTodoist
) -> None:
    before = [todo for todo in fake.store.todos() if todo.project_id == fake.private.id]
    environment = live()
    begin(environment, 0)
    seen = environment.step("Action: get_projects with Action Input: {}")
    assert "Private" not in seen.text
    for tool in ("complete_task", "delete_task", "get_task_description"):
        call = f"Action: {tool} with Action Input: {{'task_id': '{fake.secret.id}'}}"
        assert f"Task {fake.secret.id} is not exists." in environment.step(call).text
    call = f"Action: get_tasks with Action Input: {{'project_id': '{fake.private.id}'}}"
    assert f"Project {fake.private.id} is not exists." in environment.step(call).text
    environment.close()
    assert [todo for todo in fake.store.todos() if todo.project_id == fake.private.id] == before
    assert [project.name for project in fake.store.projects()] == ["Inbox", "Private"]


def test_the_account_is_emptied_only_with_consent(live: Make, fake: FakeTodoist) -> None:
    begin(live(), 0)
    assert fake.private in fake.store.projects()
    begin(live(allow_destructive="yes"), 0)
    assert fake.private not in fake.store.projects()
    assert "Inbox" in [project.name for project in fake.store.projects()]


def test_the_key_is_sent_and_its_absence_is_named(
    live: Make, fake: FakeTodoist, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(live(), 0)
    assert fake.keys == {"Bearer secret-key"}
    monkeypatch.delenv("TODO_KEY")
    with pytest.raises(EnvironmentUnavailable, match="TODO_KEY"):
        live()


@pytest.mark.parametrize("status", [429, 500, 503, 401])
def test_a_service_that_refuses_is_a_fault_of_infrastructure_and_changes_nothing(
    live: Make, fake: FakeTodoist, status: int
) -> None:
    environment = live()
    begin(environment, 0)
    fake.failing = [status]
    with pytest.raises(ServiceUnavailable, match=f"Todoist answers with {status}") as caught:
        environment.step("Action: get_projects with Action Input: {}")
    assert caught.value.retry_after == (7.0 if status == 429 else None)
    again = environment.step("Action: get_projects with Action Input: {}")
    assert again.text.startswith("Observation: [{'id'")


def test_a_service_that_is_too_slow_is_a_fault_of_infrastructure(
    live: Make, fake: FakeTodoist
) -> None:
    environment = live(timeout="0.2")
    begin(environment, 0)
    fake.slow = True
    with pytest.raises(ServiceUnavailable, match="Todoist"):
        environment.step("Action: get_projects with Action Input: {}")
    fake.slow = False


def test_a_failed_reset_leaves_nothing_behind(live: Make, fake: FakeTodoist) -> None:
    environment = live()
    original = fake.answer

    def answer(method: str, target: str, body: dict[str, Any]) -> Any:
        if method == "POST" and len(fake.store.projects()) == 4:
            fake.failing = [503]
        return original(method, target, body)

    fake.answer = answer  # type: ignore[method-assign]
    with pytest.raises(ServiceUnavailable):
        begin(environment, 0)
    assert [project.name for project in fake.store.projects()] == ["Inbox", "Private"]


def test_live_episodes_run_in_threads_and_promise_no_determinism(live: Make) -> None:
    spec = live().spec
    assert spec.execution is Execution.THREAD
    assert not spec.deterministic
    assert Todo.spec.deterministic
