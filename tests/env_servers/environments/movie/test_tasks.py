"""Movie's tasks: many, different, disjoint, of several kinds, and all of them can be solved."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from env_servers.environments.movie import Movie
from env_servers.environments.movie.questions import KINDS
from env_servers.environments.movie.tasks import AGENT_EVAL, EVAL_SIZE, TRAIN_SIZE
from env_servers.sdk import EnvironmentConfig, InvalidOption, ResetOptions
from env_servers.toolkit.tool_calls import MalformedFile, ToolTask, ToolTaskSet
from tests.kit.data import read_eval_ids


def payloads(tasks: ToolTaskSet, split: str, step: int = 1) -> list[ToolTask]:
    items = tasks.item_ids(split, 0, tasks.splits()[split])[::step]
    return [tasks.get(item).payload for item in items]


def solve_all(tasks: ToolTaskSet, split: str, step: int, profile: str = "agentgym") -> int:
    """Play the expert through a split; every episode has to earn 1 and not before its end."""
    items = tasks.item_ids(split, 0, tasks.splits()[split])[::step]
    for number, item in enumerate(items):
        episode, task = Movie(tasks), tasks.get(item)
        episode.reset(task, ResetOptions(profile=profile))
        seen = episode.step(episode.advise_expert(number).action)
        calls = 1
        while not seen.terminated:
            assert calls < Movie.spec.max_rounds, item
            seen = episode.step(episode.advise_expert(number).action)
            calls += 1
        assert seen.reward == 1.0, (item, task.payload.goal, seen.text[:300])
        assert calls == task.payload.steps, item
    return len(items)


def test_there_are_twelve_thousand_train_and_a_thousand_eval_tasks(tasks: ToolTaskSet) -> None:
    assert dict(tasks.splits()) == {"train": TRAIN_SIZE, "eval": EVAL_SIZE}
    assert (TRAIN_SIZE, EVAL_SIZE) == (12_000, 1_000)


def test_goals_are_all_different_within_and_across_splits(tasks: ToolTaskSet) -> None:
    train = {task.goal for task in payloads(tasks, "train", 11)}
    held_out = {task.goal for task in payloads(tasks, "eval")}
    assert len(train) == -(-TRAIN_SIZE // 11)
    assert len(held_out) == EVAL_SIZE
    assert not train & held_out


def test_answers_have_several_types_and_chains_have_one_to_six_calls(tasks: ToolTaskSet) -> None:
    sample = payloads(tasks, "eval")
    kinds = Counter(type(task.subgoals[0]).__name__ for task in sample)
    assert set(kinds) == {"str", "int", "float", "list"}
    assert {task.steps - 1 for task in sample} == {1, 2, 3, 4, 5, 6}
    categories = {tasks.category(item) for item in tasks.item_ids("eval", 0, 300)}
    assert categories == {kind.name for kind in KINDS}


def test_yes_is_no_safe_guess(tasks: ToolTaskSet) -> None:
    answers = Counter(
        task.subgoals[0]
        for task in payloads(tasks, "train", 3)
        if task.subgoals[0] in ("Yes", "No")
    )
    assert 0.3 < answers["Yes"] / answers.total() < 0.7


def test_the_expert_solves_every_eval_task_and_a_sample_of_train_tasks(tasks: ToolTaskSet) -> None:
    assert solve_all(tasks, "eval", 1) == EVAL_SIZE
    assert solve_all(tasks, "train", 23) > 500
    assert solve_all(tasks, "eval", 17, "fixed") > 50


@pytest.mark.slow
def test_the_expert_solves_every_train_task(tasks: ToolTaskSet) -> None:
    assert solve_all(tasks, "train", 1) == TRAIN_SIZE


def test_the_expert_goes_on_where_others_have_played_before(tasks: ToolTaskSet) -> None:
    item = tasks.item_ids("train", 40, 41)[0]
    episode = Movie(tasks)
    episode.reset(tasks.get(item), ResetOptions())
    first = episode.advise_expert(0)
    for nonsense in ("hello", "Action: get_movie_cast with Action Input: {'movie_id': 'x'}"):
        episode.step(nonsense)
        assert episode.advise_expert(0).action == first.action


def test_a_search_alone_and_doing_nothing_earn_nothing(tasks: ToolTaskSet) -> None:
    for item in tasks.item_ids("eval", 0, 60):
        episode = Movie(tasks)
        episode.reset(tasks.get(item), ResetOptions())
        for action in (episode.advise_noop().action, episode.advise_expert(0).action):
            seen = episode.step(action)
            assert (seen.reward, seen.terminated) == (0.0, False)


def test_progress_tells_the_share_of_the_way(tasks: ToolTaskSet) -> None:
    item = next(i for i in tasks.item_ids("eval", 0, 100) if tasks.get(i).payload.steps == 5)
    episode = Movie(tasks)
    episode.reset(tasks.get(item), ResetOptions(options={"reward": "binary"}))
    told: list[float] = []
    while True:
        seen = episode.step(episode.advise_expert(0).action)
        told.append((seen.info or {}).get("progress", -1.0))
        if seen.terminated:
            break
        assert seen.reward == 0.0
    assert told == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_official_tasks_have_their_ids(official: ToolTaskSet) -> None:
    sizes = official.splits()
    assert (sizes["official_train"], sizes["official_eval"]) == (218, 20)
    listed = set(read_eval_ids("tool_movie"))
    assert listed == set(official.item_ids("official_eval", 0, 99))
    assert {f"movie_{index}" for index in AGENT_EVAL} == listed
    assert official.get("movie_18").payload.subgoals == (160000000,)


def test_the_expert_plays_official_tasks_as_they_were_recorded(official: ToolTaskSet) -> None:
    assert solve_all(official, "official_eval", 1) == 20
    assert solve_all(official, "official_train", 1) == 218


def test_a_damaged_file_is_reported_with_line_and_field(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    good = {
        "id": 0,
        "goal": "g",
        "subgoals": [1],
        "additional_info": {"answer": 1, "tool": "movie"},
        "difficulty": "easy",
    }
    lines = [json.dumps(good), json.dumps({**good, "id": 1, "goal": 5})]
    (folder / "movie.jsonl").write_text("\n".join(lines))
    with pytest.raises(MalformedFile, match=r"movie\.jsonl, line 2, field goal"):
        Movie.load_tasks(EnvironmentConfig(data_dir=tmp_path))
    (folder / "movie.jsonl").write_text(lines[0])
    (tmp_path / "agenttraj_l").mkdir()
    with gzip.open(tmp_path / "agenttraj_l" / "movie.jsonl.gz", "wt") as out:
        out.write('{"item_id": "movie_0"}\n')
    with pytest.raises(MalformedFile, match="line 1, field conversations"):
        Movie.load_tasks(EnvironmentConfig(data_dir=tmp_path))


def test_settings_that_do_not_exist_are_refused() -> None:
    for settings in ({"movie.backend": "real"}, {"movie.speed": "1"}):
        with pytest.raises(InvalidOption):
            Movie.load_tasks(EnvironmentConfig(settings=settings))
