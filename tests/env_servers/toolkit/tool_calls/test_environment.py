"""An episode on the tool layer, on a market stall: what is shown, scored, and left untouched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agentgym.env.v1 import types_pb2
from env_servers.sdk import (
    ActionFormat,
    EnvironmentConfig,
    Execution,
    InvalidOption,
    Observation,
    ResetOptions,
    StopReason,
)
from env_servers.server.errors import REASONS, CommandError
from env_servers.toolkit.tool_calls import Reply, ServiceUnavailable, ToolTaskSet
from tests.env_servers.toolkit.tool_calls.stall import TOOLS, Stall, StallSession

CONFIG = EnvironmentConfig()


@pytest.fixture(scope="module")
def tasks() -> ToolTaskSet:
    return Stall.load_tasks(CONFIG)


def begin(tasks: ToolTaskSet, profile: str = "agentgym", **options: object) -> Stall:
    episode = Stall(tasks)
    item = tasks.item_ids("train", 0, 1)[0]
    episode.reset(tasks.get(item), ResetOptions(profile=profile, options=options))
    return episode


def call(tool: str, text: str = "{}") -> str:
    return f"Thought: x\n\nAction: {tool} with Action Input: {text}"


def answer_of(episode: Stall) -> str:
    return episode.episode.task.subgoals[0]


def shown(seen: Observation) -> str:
    return seen.text.removeprefix("Observation: ").removesuffix("\nGive me one action.")


def test_the_goal_opens_the_episode_in_the_originals_words(tasks: ToolTaskSet) -> None:
    item = tasks.item_ids("train", 0, 1)[0]
    seen = Stall(tasks).reset(tasks.get(item), ResetOptions())
    assert seen.text == (
        "Now new trial starts.\nYou should perform actions to accomplish the goal: What is "
        "dearest? Answer with its name.\nGive me one action."
    )


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (call("fly"), "ERROR | Invalid action: fly."),
        (call("get_price"), "ERROR | KeyError('thing')"),
        (call("get_price", '{"thing": "gold"}'), "ERROR | there is no gold"),
        (
            call("get_price", "[1]"),
            "ERROR | TypeError(list indices must be integers or slices, not str)",
        ),
        (call("get_price", "1"), "ERROR | TypeError('int' object is not subscriptable)"),
        (call("get_price", '{"thing": [1]}'), "ERROR | TypeError(unhashable type: 'list')"),
        (
            call("check_valid_actions", "1"),
            "You can use following valid actions: "
            "['get_things', 'get_price', 'check_valid_actions', 'finish']",
        ),
    ],
)
def test_mistakes_are_answered_in_the_originals_words(
    tasks: ToolTaskSet, action: str, text: str
) -> None:
    seen = begin(tasks).step(action)
    assert shown(seen) == text
    assert (seen.reward, seen.terminated) == (0.0, False)


def test_a_format_error_is_shown_bare_and_keeps_the_reward(tasks: ToolTaskSet) -> None:
    episode = begin(tasks)
    episode.episode.reward = 1.0
    seen = episode.step("no call")
    assert seen.text.startswith("Format error, please")
    assert seen.reward == 1.0


def test_finish_ends_the_episode_with_the_answers_worth(tasks: ToolTaskSet) -> None:
    episode = begin(tasks)
    seen = episode.step(call("finish", repr({"answer": answer_of(episode)})))
    assert (seen.reward, seen.terminated) == (1.0, True)
    assert seen.stop_reason is StopReason.ANSWERED
    assert seen.info == {"progress": 1.0}
    seen = begin(tasks).step(call("finish", "{'answer': 'gold'}"))
    assert (seen.reward, seen.terminated) == (0.0, True)


def test_the_word_finish_anywhere_ends_the_episode_as_in_the_original(tasks: ToolTaskSet) -> None:
    assert begin(tasks).step(call("fly", "{'to': 'Finish'}")).terminated
    assert begin(tasks).step(call("get_things", "{'a': 'finish'}")).terminated
    assert not begin(tasks).step(call("get_price", "{'thing': 'finish'}")).terminated
    assert not begin(tasks, "fixed").step(call("get_things", "{}") + "finish").terminated


def test_lists_are_sorted_and_unsortable_ones_are_errors(tasks: ToolTaskSet) -> None:
    assert shown(begin(tasks).step(call("finish", "{'answer': [3, 1, 2]}"))) == "[1, 2, 3]"
    seen = begin(tasks).step(call("finish", "{'answer': ['a', 1]}"))
    assert (
        shown(seen) == "ERROR | TypeError('<' not supported between instances of 'int' and 'str')"
    )
    assert not seen.terminated
    fixed = begin(tasks, "fixed").step(call("finish", '{"answer": ["a",\n1]}'))
    assert fixed.terminated


def test_profile_fixed_scores_only_what_is_handed_in_and_by_value(tasks: ToolTaskSet) -> None:
    episode = begin(tasks, "fixed")
    answer = answer_of(episode)
    seen = episode.step(call("get_things"))
    assert seen.reward == 0.0
    seen = episode.step(call("finish", '{\n"answer": "' + answer.upper() + '"\n}'))
    assert (seen.reward, seen.terminated) == (1.0, True)


def test_profile_fixed_checks_types_against_the_declaration(tasks: ToolTaskSet) -> None:
    seen = begin(tasks, "fixed").step(call("get_price", '{"thing": 1}'))
    assert shown(seen) == "ERROR | ValueError(argument thing must be of type string)"


def test_rewards_can_be_asked_for_in_another_unit(tasks: ToolTaskSet) -> None:
    for kind, expected in (("original", 0.5), ("dense", 0.5), ("binary", 0.0)):
        episode = begin(tasks, reward=kind)
        episode.episode.reward = 0.5
        assert episode.step("").reward == expected
    with pytest.raises(InvalidOption, match="reward"):
        begin(tasks, reward="lots")


def test_progress_tells_how_far_the_experts_way_was_gone(tasks: ToolTaskSet) -> None:
    episode = begin(tasks)
    reached = []
    while True:
        seen = episode.step(episode.advise_expert(0).action)
        reached.append((seen.info or {}).get("progress"))
        if seen.terminated:
            break
    assert reached == [0.2, 0.4, 0.6, 0.8, 1.0]


def test_advice_follows_what_was_really_done(tasks: ToolTaskSet) -> None:
    episode = begin(tasks)
    first = episode.advise_expert(0).action
    episode.step(call("fly"))
    assert episode.advise_expert(0).action == first
    episode.step(first)
    assert episode.advise_expert(0).action != first
    assert len({episode.fork().advise_expert(seed).thought for seed in range(5)}) == 1


class _Broken(StallSession):
    down = True

    def get_things(self) -> list[str]:
        if self.down:
            raise ServiceUnavailable("the stall did not answer within 1 s")
        return super().get_things()


def test_a_service_that_is_down_is_a_fault_of_infrastructure_and_changes_nothing(
    tasks: ToolTaskSet,
) -> None:
    episode = begin(tasks)
    session = _Broken({"figs": 1.0})
    episode.episode.session = session
    with pytest.raises(ServiceUnavailable) as caught:
        episode.step(call("get_things"))
    error = CommandError.from_sdk(caught.value)
    assert "stall did not answer" in error.message
    assert REASONS[error.reason].fault == types_pb2.FAULT_INFRASTRUCTURE
    assert (episode.episode.steps, episode.episode.outputs) == (0, {})
    session.down = False
    assert shown(episode.step(call("get_things"))) == "['figs']"


def test_a_live_backend_makes_the_environment_run_in_threads() -> None:
    live = Stall.configured(EnvironmentConfig(settings={"stall.backend": "live"}))
    assert live.spec.execution is Execution.THREAD
    assert not live.spec.deterministic
    assert live is Stall.configured(EnvironmentConfig(settings={"stall.backend": "live"}))
    assert Stall.configured(CONFIG) is Stall
    with pytest.raises(InvalidOption, match="no backend live"):
        live.load_tasks(EnvironmentConfig(settings={"stall.backend": "live"}))


@pytest.mark.parametrize("settings", [{"stall.backend": "cloud"}, {"stall.colour": "red"}])
def test_settings_that_do_not_exist_are_refused(settings: Mapping[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        Stall.load_tasks(EnvironmentConfig(settings=settings))


def test_the_prompt_describes_every_tool_in_every_format() -> None:
    starts = TOOLS.conversation_starts()
    assert set(starts) == set(ActionFormat)
    for start in starts.values():
        for tool in TOOLS.tools:
            assert f"Name: {tool.name}(" in start.instruction
    names = [verb.name for verb in Stall.spec.grammar.verbs]
    assert names == TOOLS.names()


def test_a_reply_may_compare_something_else_than_it_shows() -> None:
    assert Reply({"a": 1}).compared == {"a": 1}
    assert Reply({"a": 1}, output=None).compared is None
