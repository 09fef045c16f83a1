"""The Responses API: what is sent of earlier turns, what is read of an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import (
    PolicyError,
    PolicyMisbehaved,
    PolicyOverloaded,
    PolicyRejected,
    PolicyUnavailable,
    Trouble,
)
from agent_runtime.openai.answer import ToolResult
from agent_runtime.openai.config import OpenAIOptions
from agent_runtime.openai.responses import ResponsesApi
from agent_runtime.sampling import FinishReason, Sampling
from tests.kit.openai_answers import response

TOOLS = [{"type": "function", "function": {"name": "move", "parameters": {"type": "object"}}}]
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Left is a wall."}],
    "encrypted_content": "gAAA",
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "move",
    "arguments": '{"to": "up"}',
}
BODY = {"model": "m", "input": []}


def message(*texts: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text} for text in texts]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content, **fields}


def api(*, tools: bool = True, **options: Any) -> ResponsesApi:
    settings = OpenAIOptions(api="responses", **options)
    return ResponsesApi("m", Sampling(max_new_tokens=64), settings, TOOLS if tools else [])


def test_a_request_keeps_no_state_and_declares_functions_as_this_api_does() -> None:
    said = [Message(Role.SYSTEM, "Win."), Message(Role.USER, "Go."), Message(Role.ASSISTANT, "OK.")]
    assert api().request(said, 1) == {
        "model": "m",
        "input": [
            {"role": "system", "content": "Win."},
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": "OK."},
        ],
        "temperature": 1.0,
        "top_p": 1.0,
        "max_output_tokens": 64,
        "store": False,
        "tools": [
            {"type": "function", "strict": False, "name": "move", "parameters": {"type": "object"}}
        ],
        "tool_choice": "auto",
    }


def test_an_answer_is_text_reasoning_calls_counts_and_its_items_as_they_came() -> None:
    items = [REASONING, message("Up ", "then."), CALL]
    answer = api().read(response(BODY, items), 0)
    assert (answer.text, answer.reasoning) == ("Up then.", "Left is a wall.")
    assert [(call.id, call.name) for call in answer.calls] == [("call_1", "move")]
    assert (answer.usage.cached, answer.usage.reasoning) == (1, 2)
    assert [json.loads(item) for item in answer.items] == items
    assert answer.version == "m"


def test_without_reasoning_only_what_was_said_and_called_goes_back_without_ids() -> None:
    answer = api().read(response(BODY, [REASONING, message("Up.", phase="commentary"), CALL]), 0)
    sent = api().request([answer, ToolResult(answer.calls[0], "Moved.")], 1)
    assert "include" not in sent
    assert sent["input"] == [
        {"role": "assistant", "content": "Up.", "phase": "commentary"},
        {name: value for name, value in CALL.items() if name != "id"},
        {"type": "function_call_output", "call_id": "call_1", "output": "Moved."},
    ]


def test_with_reasoning_all_items_go_back_and_it_is_asked_for_encrypted() -> None:
    talkative = api(send_reasoning=True)
    answer = talkative.read(response(BODY, [REASONING, CALL]), 0)
    sent = talkative.request([answer], 1)
    assert sent["include"] == ["reasoning.encrypted_content"]
    assert sent["input"] == [REASONING, CALL]


def test_reasoning_that_is_shown_goes_before_its_summary() -> None:
    shown = {**REASONING, "content": [{"type": "reasoning_text", "text": "All of it."}]}
    assert api().read(response(BODY, [shown, CALL]), 0).reasoning == "All of it."


def test_a_summary_and_single_calls_can_be_asked_for() -> None:
    sent = api(reasoning_summary=True, parallel_tool_calls=False).request([], 1)
    assert (sent["reasoning"], sent["parallel_tool_calls"]) == ({"summary": "auto"}, False)


def test_an_answer_cut_at_its_length_is_one_and_may_be_reasoning_alone() -> None:
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    answer = api().read(response(BODY, {**cut, "output": [REASONING]}), 0)
    assert (answer.text, answer.finish) == ("", FinishReason.LENGTH)
    assert api().request([answer], 1)["input"] == [{"role": "assistant", "content": ""}]


def failed(code: str) -> dict[str, Any]:
    return {"status": "failed", "output": [], "error": {"code": code, "message": "oh no"}}


def incomplete(reason: str) -> dict[str, Any]:
    return {"status": "incomplete", "output": [], "incomplete_details": {"reason": reason}}


@pytest.mark.parametrize(
    ("fields", "kind", "trouble"),
    [
        (failed("server_error"), PolicyUnavailable, Trouble.ERROR),
        (failed("rate_limit_exceeded"), PolicyOverloaded, Trouble.REFUSED),
        (failed("invalid_prompt"), PolicyRejected, None),
        (incomplete("content_filter"), PolicyRejected, None),
        (incomplete("boredom"), PolicyMisbehaved, None),
        ({"status": "in_progress", "output": []}, PolicyMisbehaved, Trouble.INVALID),
        ({"output": []}, PolicyMisbehaved, Trouble.INVALID),
        ({"output": "text"}, PolicyMisbehaved, Trouble.INVALID),
        ({"output": [1]}, PolicyMisbehaved, Trouble.INVALID),
        ({"output": [{"type": "message", "content": "text"}]}, PolicyMisbehaved, None),
        ({"output": [{"type": "message", "content": [1]}]}, PolicyMisbehaved, None),
        ({"output": [{"type": "function_call"}]}, PolicyMisbehaved, None),
        ({"output": [{"type": "reasoning", "summary": [{"text": 1}]}]}, PolicyMisbehaved, None),
        ({"output": [{"deep": json.loads("[" * 400 + "]" * 400)}]}, PolicyMisbehaved, None),
    ],
)
def test_what_is_no_answer_is_typed(
    fields: dict[str, Any], kind: type[PolicyError], trouble: Trouble | None
) -> None:
    with pytest.raises(kind) as caught:
        api().read(response(BODY, fields), 0)
    assert type(caught.value) is kind
    assert caught.value.trouble is trouble
