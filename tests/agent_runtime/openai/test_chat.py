"""Chat completions: what is sent of earlier turns, what is read of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import PolicyMisbehaved
from agent_runtime.openai.answer import ToolResult
from agent_runtime.openai.chat import ChatApi
from agent_runtime.openai.config import OpenAIOptions
from agent_runtime.sampling import Sampling

TOOLS = [{"type": "function", "function": {"name": "move"}}]


def api(*, tools: bool = False, **options: Any) -> ChatApi:
    return ChatApi("m", Sampling(), OpenAIOptions(**options), TOOLS if tools else [])


def answer(usage: dict[str, Any] | None = None, **message: Any) -> dict[str, Any]:
    fields = {"role": "assistant", "content": "go", **message}
    choice = {"index": 0, "message": fields, "finish_reason": "stop"}
    return {"model": "m", "choices": [choice], "usage": usage or {}}


def call(name: str, call_id: str | None) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_what_was_thought_goes_back_under_its_name_where_that_is_asked_for(field: str) -> None:
    thought: dict[str, Any] = {field: "hm"}
    body = answer(**thought)
    silent, talkative = api().read(body, 0), api(send_reasoning=True).read(body, 0)
    assert (silent.text, silent.reasoning) == ("go", "hm") == (talkative.text, talkative.reasoning)
    plain = {"role": "assistant", "content": "go"}
    assert api().request([silent], 1)["messages"] == [plain]
    assert api().request([talkative], 1)["messages"] == [{**plain, field: "hm"}]


def test_reasoning_that_is_no_text_is_misbehaviour() -> None:
    with pytest.raises(PolicyMisbehaved, match="reasoning is no text"):
        api().read(answer(reasoning=["hm"]), 0)


def test_calls_without_an_id_get_one_of_their_turn() -> None:
    reply = api(tools=True).read(answer(tool_calls=[call("a", None), call("b", "x")]), 7)
    assert [each.id for each in reply.calls] == ["call_7_0", "x"]
    results = [ToolResult(each, "done") for each in reply.calls]
    messages = api(tools=True).request([Message(Role.USER, "?"), reply, *results], 1)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    assert [message["tool_call_id"] for message in messages[2:]] == ["call_7_0", "x"]


def test_calls_are_read_only_where_functions_are_declared() -> None:
    assert api().read(answer(tool_calls=[call("a", "1")]), 0).calls == ()


def test_a_server_can_be_asked_for_one_call_at_a_time() -> None:
    one = api(tools=True, parallel_tool_calls=False).request([], 1)
    assert one["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in api(tools=True).request([], 1)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3}},
        {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 3},
        {"prompt_cache_hit_tokens": 4, "cache_creation_input_tokens": 3},
    ],
)
def test_counts_of_prompt_caches_are_read_under_each_of_their_names(usage: dict[str, Any]) -> None:
    usage |= {"prompt_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 2}}
    counts = api().read(answer(usage), 0).usage
    assert (counts.prompt, counts.cached, counts.written, counts.reasoning) == (9, 4, 3, 2)


def test_arguments_that_are_nested_too_deep_to_be_written_are_misbehaviour() -> None:
    deep: list[Any] = []
    for _ in range(1200):
        deep = [deep]
    function = {"name": "move", "arguments": deep}
    with pytest.raises(PolicyMisbehaved, match="nested too deep"):
        api(tools=True).read(answer(tool_calls=[{"id": "1", "function": function}]), 0)
