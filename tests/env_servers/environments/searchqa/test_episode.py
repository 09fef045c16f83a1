"""What an episode shows and earns, as the original does and as the fixed profile does."""

from __future__ import annotations

from pathlib import Path

import pytest

from env_servers.environments.searchqa import SearchQA
from env_servers.environments.searchqa.protocol import INVALID
from env_servers.environments.searchqa.tasks import SearchQATasks
from env_servers.sdk import ActionFormat, EnvironmentConfig, Execution, Observation, StopReason
from tests.env_servers.environments.searchqa.conftest import start

ITEM = "bamboogle_51591"
RIGHT = "Congratulations! You have answered the question correctly."
WRONG = "Sorry, your answer is incorrect. Please try again."


@pytest.fixture
def tasks(official: Path) -> SearchQATasks:
    return SearchQA.load_tasks(EnvironmentConfig(official))


def test_a_right_answer_ends_the_episode_with_1(tasks: SearchQATasks) -> None:
    seen = start(tasks, ITEM).step("<think>I know.</think><answer> The writer 3. </answer>")
    assert seen == Observation(
        RIGHT, reward=1.0, terminated=True, stop_reason=StopReason.GOAL_REACHED
    )


def test_a_wrong_answer_may_be_tried_again_as_in_the_original(tasks: SearchQATasks) -> None:
    episode = start(tasks, ITEM)
    for _ in range(3):
        assert episode.step("<answer>wrong</answer>") == Observation(WRONG, reward=0.0)
    assert episode.step("<answer>Writer 3</answer>").reward == 1.0


def test_the_original_scores_the_last_answer_and_reads_tags_in_thoughts(
    tasks: SearchQATasks,
) -> None:
    both = "<answer>wrong</answer> or <answer>Writer 3</answer>"
    assert start(tasks, ITEM).step(both).reward == 1.0
    thought = "<think>I could <search>Book 3</search></think><answer>Writer 3</answer>"
    assert start(tasks, ITEM).step(thought).text.startswith("<information>Doc 1")


def test_the_fixed_profile_scores_what_was_answered_first_and_once(tasks: SearchQATasks) -> None:
    both = "<answer>wrong</answer> or <answer>Writer 3</answer>"
    seen = start(tasks, ITEM, "fixed").step(both)
    assert seen.text == "Sorry, your answer is incorrect."
    assert (seen.reward, seen.terminated, seen.stop_reason) == (0.0, True, StopReason.ANSWERED)
    thought = "<think>I could <search>Book 3</search></think><answer>Writer 3</answer>"
    assert start(tasks, ITEM, "fixed").step(thought).reward == 1.0


@pytest.mark.parametrize("profile", ["agentgym", "fixed"])
@pytest.mark.parametrize(
    "reply",
    ["", "Writer 3", "<answer>Writer 3", "<answer>Writer 3</search>", "<search >x</search>"],
)
def test_a_reply_without_a_closed_tag_is_told_so(
    tasks: SearchQATasks, profile: str, reply: str
) -> None:
    assert start(tasks, ITEM, profile).step(reply) == Observation(INVALID, reward=0.0)


def test_a_search_shows_three_passages_and_earns_nothing(tasks: SearchQATasks) -> None:
    seen = start(tasks, ITEM).step("<search> written by Writer 3 </search>")
    assert seen.text.startswith('<information>Doc 1(Title: "Book 3") Book 3 was written by')
    assert seen.text.endswith("</information>")
    assert seen.text.count("(Title: ") == 3
    assert (seen.reward, seen.terminated) == (0.0, False)


@pytest.mark.parametrize("query", ["", "\0", "zzqx", "(" * 100_000, "Book " * 200_000])
def test_any_query_is_answered(tasks: SearchQATasks, query: str) -> None:
    seen = start(tasks, ITEM).step(f"<search>{query}</search>")
    assert seen.text.startswith("<information>")


def test_the_same_question_in_every_action_format(tasks: SearchQATasks) -> None:
    grammar = SearchQA.spec.grammar
    call = '{"thought": "", "function_name": "search", "arguments": {"query": "Book 3"}}'
    code = '```python\nanswer("Writer 3")\n```'
    assert grammar.read(call, ActionFormat.FUNCTION_CALLING) == "<search> Book 3 </search>"
    assert grammar.read(code, ActionFormat.CODE_AS_ACTION) == "<answer> Writer 3 </answer>"


def test_thoughts_of_the_expert_are_worded_in_several_ways(embedded: SearchQATasks) -> None:
    episode = start(embedded, embedded.item_ids("train", 1, 2)[0])
    advices = [episode.advise_expert(seed) for seed in range(4)]
    assert len({advice.thought for advice in advices}) == 4
    assert len({advice.action for advice in advices}) == 1


def test_forks_go_their_own_ways(tasks: SearchQATasks) -> None:
    episode = start(tasks, ITEM)
    copy = episode.fork()
    first = episode.advise_expert(0)
    copy.step(first.action)
    assert episode.advise_expert(0) == first
    assert copy.advise_expert(0).action == "<answer> Writer 3 </answer>"


def test_steps_run_in_threads_so_that_waiting_searches_can_be_asked_together() -> None:
    assert SearchQA.spec.execution is Execution.THREAD
