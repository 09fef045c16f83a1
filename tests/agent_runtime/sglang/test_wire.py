"""Requests and replies as data: parts that continue each other, streams, scores, admission."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.errors import PolicyMisbehaved
from agent_runtime.ledger import VersionSpan
from agent_runtime.policies import FinishReason, Sampling
from agent_runtime.sampled_reply import join_spans
from agent_runtime.sglang.wire import (
    Streamed,
    generate_body,
    read_reply,
    read_scores,
)


def answer(ids: list[int], finish: str | None, *, version: str = "v1", prompt: int = 3) -> Any:
    spans = [{"version": version, "start": 0, "end": len(ids)}]
    meta = {
        "prompt_tokens": prompt,
        "completion_tokens": len(ids),
        "output_token_logprobs": [[-0.5 - token, token, None] for token in ids],
        "finish_reason": {"type": finish} if finish else None,
        "weight_version": version,
        "weight_versions": spans,
        "cached_tokens": 2,
    }
    return {"output_ids": list(ids), "meta_info": meta}


def test_a_part_that_continues_another_makes_one_reply() -> None:
    first = read_reply(answer([4, 5], "abort"), 3)
    second = read_reply(answer([6], "stop", version="v2", prompt=5), 5)
    whole = first.followed_by(second)
    assert whole.ids == [4, 5, 6]
    assert whole.logprobs == [-4.5, -5.5, -6.5]
    assert whole.versions == [VersionSpan(0, 2, "v1"), VersionSpan(2, 3, "v2")]
    assert (whole.finish, whole.cached) == (FinishReason.STOP, 2)


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 99), max_size=5), st.sampled_from(["v1", "v2"])),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 30),
)
def test_parts_and_cuts_keep_ids_logprobs_and_versions_together(
    parts: list[tuple[list[int], str]], count: int
) -> None:
    read = [read_reply(answer(ids, "abort", version=version), 3) for ids, version in parts]
    whole = read[0]
    for part in read[1:]:
        whole = whole.followed_by(part)
    labels = [version for ids, version in parts for _ in ids]
    for found, limit in ((whole, len(labels)), (whole.cut(count, FinishReason.STOP), count)):
        assert found.ids == [token for ids, _ in parts for token in ids][:limit]
        assert len(found.logprobs) == len(found.ids)
        spelled = [v for start, end, v in found.versions for _ in range(start, end)]
        assert spelled == labels[:limit]


@pytest.mark.parametrize("cumulative", [True, False])
def test_a_stream_adds_up_whether_its_events_repeat_or_not(cumulative: bool) -> None:
    ids = [7, 8, 9, 10]
    stream = Streamed()
    for end in range(1, 5):
        event = answer(ids[:end], "length" if end == 4 else None)
        if not cumulative:
            event["output_ids"] = event["output_ids"][-1:]
            rows = event["meta_info"]["output_token_logprobs"]
            event["meta_info"]["output_token_logprobs"] = rows[-1:]
        assert not stream.ended
        stream.add(event)
    assert stream.ended
    assert read_reply(stream.answer(), 3).ids == ids


def test_a_stream_notices_the_first_ids_that_are_enough() -> None:
    stream = Streamed(stop_at=lambda ids: sum(ids) > 10)
    stream.add(answer([4, 5, 6, 7], None))
    assert stream.enough == 3


def test_a_stream_without_an_event_is_no_reply() -> None:
    with pytest.raises(PolicyMisbehaved):
        Streamed().answer()


def test_spans_are_joined_and_holes_are_kept() -> None:
    spans = [
        VersionSpan(0, 2, "a"),
        VersionSpan(2, 2, "b"),
        VersionSpan(2, 3, "a"),
        VersionSpan(4, 5, "a"),
    ]
    assert join_spans(spans) == [VersionSpan(0, 3, "a"), VersionSpan(4, 5, "a")]


def test_scores_are_of_the_ids_that_were_sent() -> None:
    rows = [[None, 4, None], [-1.0, 0, None]]  # the last id of the vocabulary is reported as 0
    assert read_scores({"meta_info": {"input_token_logprobs": rows}}, [4, 511]) == [None, -1.0]
    for ids in ([4], [5, 511], [4, 511, 6]):
        with pytest.raises(PolicyMisbehaved):
            read_scores({"meta_info": {"input_token_logprobs": rows}}, ids)


def test_a_seed_fits_the_servers_integers() -> None:
    body = generate_body([1], Sampling(), budget=3, seed=2**64 - 1, stop_ids=[2])
    assert body["sampling_params"]["sampling_seed"] == 2**63 - 1
