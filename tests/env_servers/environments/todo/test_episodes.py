"""What a TODOList episode shows, and what it is worth."""

from __future__ import annotations

import ast
from collections import Counter
from typing import Any

import pytest

from env_servers.environments.todo import Todo
from env_servers.environments.todo.expert import find_changes
from env_servers.environments.todo.generator import CHAINS, KINDS
from env_servers.environments.todo.sessions import get_task_spec
from env_servers.sdk import EnvironmentConfig, InvalidOption, Observation, ResetOptions
from env_servers.toolkit.tool_calls import ToolTaskSet


def begin(tasks: ToolTaskSet, item: str, profile: str = "agentgym", **options: Any) -> Todo:
    episode = Todo(tasks)
    episode.reset(tasks.get(item), ResetOptions(profile=profile, options=options))
    return episode


def call(episode: Todo, tool: str, **arguments: Any) -> Observation:
    return episode.step(f"Action: {tool} with Action Input: {arguments!r}")


def value(seen: Observation) -> Any:
    text = seen.text.removeprefix("Observation: ").removesuffix("\nGive me one action.")
    return ast.literal_eval(text)


def item_of(tasks: ToolTaskSet, kind: str) -> str:
    items = tasks.item_ids("train", 0, len(KINDS))
    return next(item for item in items if tasks.get(item).category == kind)


def play(tasks: ToolTaskSet, item: str, profile: str = "agentgym") -> tuple[Observation, int]:
    episode = begin(tasks, item, profile)
    seen = Observation("")
    for step in range(episode.spec.max_rounds):
        seen = episode.step(episode.advise_expert(step).action)
        if seen.terminated:
            return seen, step + 1
    return seen, episode.spec.max_rounds


def every(tasks: ToolTaskSet, split: str, step: int = 1) -> list[str]:
    return list(tasks.item_ids(split, 0, tasks.splits()[split]))[::step]


@pytest.mark.parametrize("profile", ["agentgym", "fixed"])
def test_the_expert_solves_generated_tasks_in_the_calls_that_they_take(
    tasks: ToolTaskSet, profile: str
) -> None:
    for item in (*every(tasks, "train", 9), *every(tasks, "eval", 2)):
        seen, steps = play(tasks, item, profile)
        assert (seen.reward, seen.terminated) == (1.0, True), item
        assert steps == tasks.get(item).payload.steps


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "eval"])
def test_the_expert_solves_every_generated_task(tasks: ToolTaskSet, split: str) -> None:
    for item in every(tasks, split):
        assert play(tasks, item)[0].reward == 1.0, item


@pytest.mark.parametrize("profile", ["agentgym", "fixed"])
@pytest.mark.parametrize("split", ["official_train", "official_eval"])
def test_every_official_end_state_is_reached_by_the_expert_and_scored_1(
    official: ToolTaskSet, split: str, profile: str
) -> None:
    for item in every(official, split):
        seen, _ = play(official, item, profile)
        assert (seen.reward, seen.terminated) == (1.0, True), item


def test_splits_are_large_and_share_neither_projects_nor_tasks(tasks: ToolTaskSet) -> None:
    assert tasks.splits() == {"train": 2048, "eval": 256}
    words: dict[str, set[str]] = {}
    seen: Counter[tuple[str, str]] = Counter()
    for split in ("train", "eval"):
        words[split] = set()
        for item in every(tasks, split, 3):
            spec = get_task_spec(tasks.get(item).payload)
            seen[spec.goal, repr(spec.world)] += 1
            for project, todo in spec.world.todos():
                words[split] |= {project.name, todo.content}
    assert not words["train"] & words["eval"]
    assert max(seen.values()) == 1


def test_tasks_have_all_chain_lengths_and_several_types_of_answers(tasks: ToolTaskSet) -> None:
    for split in ("train", "eval"):
        payloads = [tasks.get(item).payload for item in every(tasks, split, 3)]
        assert {payload.steps - 1 for payload in payloads} == set(CHAINS)
        types = Counter(type(payload.subgoals[0]).__name__ for payload in payloads)
        assert set(types) == {"int", "str", "list"}
        operations = [p for p in payloads if find_changes(get_task_spec(p))]
        assert 0.2 < len(operations) / len(payloads) < 0.6


def test_the_category_in_listings_is_that_of_the_task(tasks: ToolTaskSet) -> None:
    for item in (*every(tasks, "train", 97), *every(tasks, "eval", 31)):
        assert tasks.category(item) == tasks.get(item).category


def test_replies_have_the_shapes_of_the_recordings(tasks: ToolTaskSet) -> None:
    episode = begin(tasks, item_of(tasks, "complete"))
    projects = value(call(episode, "get_projects"))
    assert list(projects[0]) == ["id", "order", "color", "name", "is_favorite"]
    project = projects[0]["id"]
    todos = value(call(episode, "get_tasks", project_id=project))
    listed = ["id", "order", "content", "is_completed", "priority", "due_date"]
    assert list(todos[0]) == listed
    todo = todos[0]["id"]
    assert list(value(call(episode, "get_task_description", task_id=todo))) == [
        "id",
        "content",
        "description",
    ]
    assert value(call(episode, "get_task_duration", task_id=todo))["duration"].endswith("(minute)")
    moved = value(call(episode, "update_task", task_id=todo, due_date="2024-02-29"))
    assert moved["message"] == "Update the task successfully"
    assert moved["task"] == {**todos[0], "due_date": "2024-02-29"}
    favoured = value(call(episode, "update_project", project_id=project, is_favorite="True"))
    assert favoured["message"] == "Update the project successfully."
    assert favoured["project"]["is_favorite"] is True
    done = value(call(episode, "complete_task", task_id=todo))
    assert done["message"] == "Complete task successfully."
    assert list(done["task"]) == ["id", "order", "content", "priority", "due_date"]
    other = todos[1]["id"]
    gone = value(call(episode, "delete_task", task_id=other))
    assert gone == {"message": "Delete the task successfully.", "task": todos[1]}
    for lost in (todo, other, "12"):
        seen = call(episode, "complete_task", task_id=lost)
        assert seen.text == f"Observation: Task {lost} is not exists.\nGive me one action."


def test_wrong_arguments_are_refused_in_words_and_change_nothing(tasks: ToolTaskSet) -> None:
    episode = begin(tasks, item_of(tasks, "complete"))
    project = value(call(episode, "get_projects"))[0]
    todo = value(call(episode, "get_tasks", project_id=project["id"]))[0]
    for arguments in ({"due_date": "tomorrow"}, {"due_date": 5}, {"due_date": "2024-02-30"}):
        seen = call(episode, "update_task", task_id=todo["id"], **arguments)
        assert seen.text.startswith("Observation: Error: ")
    seen = call(episode, "update_project", project_id=project["id"], is_favorite="maybe")
    assert "must be True or False" in seen.text
    assert "KeyError('due_date')" in call(episode, "update_task", task_id=todo["id"]).text
    assert "Project 9 is not exists." in call(episode, "get_tasks", project_id="9").text
    assert value(call(episode, "get_tasks", project_id=project["id"]))[0] == todo
    assert value(call(episode, "get_projects"))[0] == project


def test_an_operation_counts_only_with_the_right_end_state(tasks: ToolTaskSet) -> None:
    item = item_of(tasks, "complete")
    assert call(begin(tasks, item), "finish", answer="done").reward == 0.0
    episode = begin(tasks, item)
    while "finish" not in (action := episode.advise_expert(0).action):
        episode.step(action)
    assert episode.fork().step(action).reward == 1.0
    extra = next(
        todo["id"]
        for project in value(call(episode, "get_projects"))
        for todo in value(call(episode, "get_tasks", project_id=project["id"]))
    )
    call(episode, "delete_task", task_id=extra)
    seen = episode.step(action)
    assert (seen.reward, seen.terminated) == (0.0, True)


def test_a_query_counts_only_if_the_account_is_as_it_was(tasks: ToolTaskSet) -> None:
    item = item_of(tasks, "count projects")
    answer = tasks.get(item).payload.subgoals[0]
    assert call(begin(tasks, item), "finish", answer=answer).reward == 1.0
    assert call(begin(tasks, item), "finish", answer=answer + 1).reward == 0.0
    assert call(begin(tasks, item), "finish", answer=str(answer)).reward == 0.0
    assert call(begin(tasks, item, "fixed"), "finish", answer=str(answer)).reward == 1.0
    episode = begin(tasks, item)
    project = value(call(episode, "get_projects"))[0]
    flipped = str(not project["is_favorite"])
    call(episode, "update_project", project_id=project["id"], is_favorite=flipped)
    assert call(episode, "finish", answer=answer).reward == 0.0


def test_a_list_that_cannot_be_sorted_ends_nothing(tasks: ToolTaskSet) -> None:
    episode = begin(tasks, item_of(tasks, "favorites"))
    seen = call(episode, "finish", answer=[{"a": 1}, {"a": 2}])
    expected = "ERROR | TypeError('<' not supported between instances of 'dict' and 'dict')"
    assert seen.text.startswith(f"Observation: {expected.split('(')[0]}(")
    assert not seen.terminated


def test_doing_nothing_earns_nothing_in_any_unit(tasks: ToolTaskSet) -> None:
    for reward in ("original", "dense", "binary"):
        episode = begin(tasks, item_of(tasks, "due date"), reward=reward)
        assert episode.step(episode.advise_noop().action).reward == 0.0


def test_progress_grows_with_every_call_of_the_expert(tasks: ToolTaskSet) -> None:
    episode = begin(tasks, item_of(tasks, "shift 4"))
    reached = [0.0]
    while True:
        seen = episode.step(episode.advise_expert(0).action)
        reached.append((seen.info or {}).get("progress", reached[-1]))
        if seen.terminated:
            break
    assert reached == sorted(reached)
    assert len(set(reached)) == len(reached)
    assert reached[-1] == 1.0


def test_settings_that_do_not_exist_are_refused() -> None:
    for name, given in (("todo.backend", "cloud"), ("todo.colour", "red")):
        with pytest.raises(InvalidOption):
            Todo.load_tasks(EnvironmentConfig(settings={name: given}))
    with pytest.raises(InvalidOption, match="recorded"):
        Todo.load_tasks(EnvironmentConfig(settings={"todo.backend": "recorded"}))
