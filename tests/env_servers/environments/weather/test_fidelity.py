"""AgentTraj-L's weather conversations on the recorded backend, which looks their calls up.

The rewards that the original gave are not in the recordings. They are reckoned here a second time,
from the recorded texts alone, by the original's rule: any subgoal among the values returned or
handed in is worth 1.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest

from benchmark.fidelity.recordings import Recording
from env_servers.environments.weather import Weather
from env_servers.sdk import EnvironmentConfig, InvalidOption, TaskSet
from env_servers.toolkit.tool_calls import ToolTaskSet
from tests.env_servers.environments.weather.conftest import begin, play_expert, shown
from tests.kit.data import read_eval_ids
from tests.kit.fidelity import FidelityContract, Replay, recordings, replay

PROMPT = "\nGive me one action."


class TestRecordedConversations(FidelityContract):
    environment = Weather
    counts = (156, 689)

    @pytest.fixture(scope="class")
    @classmethod
    def replayed_tasks(cls, official: ToolTaskSet) -> ToolTaskSet:
        return official

    def final_reward(self, tasks: TaskSet, episode: Replay) -> float:
        return reward_by_rule(tasks, episode.recording)

    def test_the_rule_gives_121_conversations_a_reward(self, replays: list[Replay]) -> None:
        """The others hand in prose, or values that are not the published answer."""
        rewards = [episode.last.reward for episode in replays]
        assert (rewards.count(1.0), rewards.count(0.0)) == (121, 35)


def test_what_this_projects_code_answers_without_any_recorded_call(official: ToolTaskSet) -> None:
    """What is neither is a distance that differs in its last digits."""
    same = missing = 0
    for recording in recordings("weather"):
        options = {**recording.options, "recorded_calls": "none"}
        episode = replay(Weather, official, recording, options)
        same += sum(ours == theirs for ours, theirs in episode.pairs[1:])
        missing += sum("NotRecorded(" in ours for ours, _ in episode.pairs)
        assert episode.last.reward == reward_by_rule(official, recording)
    assert (same, missing) == (263, 416)


def test_what_may_be_looked_up_is_a_matter_of_the_recorded_backend(embedded: ToolTaskSet) -> None:
    with pytest.raises(InvalidOption, match="recorded_calls: backend embedded has none"):
        begin(embedded, "weather_1000000", recorded_calls="none")
    with pytest.raises(InvalidOption, match="other_tasks"):
        begin(embedded, "weather_1000000", recorded_calls="mine")


def reward_by_rule(tasks: TaskSet, recording: Recording) -> float:
    returned = [
        literal(text.removeprefix("Observation: ").removesuffix(PROMPT))
        for text in recording.observations[1:]
    ]
    answer = re.search(r"with Action Input: (.*)$", recording.replies[-1])
    handed_in = arithmetic(answer[1])["answer"] if answer else None
    returned.append(sorted(handed_in) if isinstance(handed_in, list) else handed_in)
    return float(any(goal in returned for goal in tasks.get(recording.item_id).payload.subgoals))


def literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def arithmetic(text: str) -> Any:
    """The recorded answers that are no literals are sums, which are worth nothing or a number."""
    try:
        return ast.literal_eval(text)
    except ValueError:
        tree = ast.parse(text, mode="eval").body
        assert isinstance(tree, ast.Dict)
        return {"answer": reckon(tree.values[0])}


def reckon(node: ast.expr) -> float:
    if not isinstance(node, ast.BinOp):
        return ast.literal_eval(node)
    left, right = reckon(node.left), reckon(node.right)
    if isinstance(node.op, ast.Add):
        return left + right
    return left - right if isinstance(node.op, ast.Sub) else left / right


def test_all_official_tasks_load_with_their_ids(official: ToolTaskSet) -> None:
    sizes = official.splits()
    assert (sizes["official_train"], sizes["official_eval"]) == (323, 20)
    ids = {*official.item_ids("official_train", 0, 999), *official.item_ids("official_eval", 0, 99)}
    assert ids == {f"weather_{number}" for number in range(343)}


def test_the_held_out_tasks_are_agent_evals(official: ToolTaskSet) -> None:
    expected = set(read_eval_ids("tool_weather"))
    assert set(official.item_ids("official_eval", 0, 99)) == expected


@pytest.mark.parametrize("profile", Weather.spec.profiles)
def test_the_expert_solves_all_official_tasks(official: ToolTaskSet, profile: str) -> None:
    for split in ("official_train", "official_eval"):
        for item in official.item_ids(split, 0, 999):
            seen, _ = play_expert(begin(official, item, profile))
            assert seen.reward == 1.0, (item, seen.text[:200])


def test_a_call_that_was_not_recorded_is_named_and_counted(official: ToolTaskSet) -> None:
    episode = begin(official, "weather_0")
    call = 'Action: get_elevation with Action Input: {"latitude": 1.5, "longitude": 2.5}'
    seen = episode.step(call)
    assert shown(seen) == "ERROR | NotRecorded(get_elevation was never recorded with (1.5, 2.5))"
    seen = episode.step('Action: finish with Action Input: {"answer": 18.5}')
    assert (seen.reward, seen.info) == (1.0, {"progress": 1.0, "not_recorded": 1.0})


def test_recorded_days_are_put_together_to_other_spans(official: ToolTaskSet) -> None:
    episode = begin(official, "weather_5")  # Pittsburgh, 2023-05-15
    place = '"latitude": 44.97997, "longitude": -93.26384'
    whole = '"start_date": "2023-01-09", "end_date": "2023-01-15"'
    part = '"start_date": "2023-01-10", "end_date": "2023-01-12"'
    found = [
        literal(
            shown(
                episode.step(f"Action: get_historical_rain with Action Input: {{{place}, {days}}}")
            )
        )
        for days in (whole, part)
    ]
    assert found[1]["daily"]["rain_sum"] == found[0]["daily"]["rain_sum"][1:4]
    assert found[1]["daily"]["time"] == ["2023-01-10", "2023-01-11", "2023-01-12"]


def test_the_recorded_backend_says_what_it_needs() -> None:
    with pytest.raises(Exception, match=r"weather\.jsonl\.gz.*AGENTGYM_DATA"):
        Weather.load_tasks(EnvironmentConfig(settings={"weather.backend": "recorded"}))
