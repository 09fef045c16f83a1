"""Runs against an OpenAI-compatible server: what is sent, what the record keeps, what is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.huggingface import HuggingFaceRenderer
from agentgym.episode.v1 import episode_pb2
from orchestrator import audit, sample, show
from orchestrator.store import RunReader
from tests.agent_runtime import tiny_tokenizers
from tests.kit.fake_openai import Behaviour, FakeOpenAI, serving_in_thread
from training.data.sources import episode_sequences
from training.data.trajectories import WeightVersions, read_trajectories

QUICK = Behaviour(quickest=0, slowest=0)


def play(out: Path, server: FakeOpenAI, *flags: str, length: int = 3) -> int:
    with serving_in_thread(server) as url:
        return sample.main(
            [
                *("--env", "echo", "--policy", "openai:fake", "--openai.base-url", url),
                *("--out", str(out), "--episodes", "1"),
                *("--options", json.dumps({"length": length}), *flags),
            ]
        )


def records(out: Path) -> list[episode_pb2.Episode]:
    assert audit.main([str(out)]) == 0
    with RunReader.open(out) as reader:
        return list(reader.episodes())


def test_a_prompt_of_ones_own_opens_the_conversation_and_is_what_the_record_holds(
    tmp_path: Path,
) -> None:
    (tmp_path / "template.txt").write_text("Play $environment.\n$instruction\nIt costs $$1.")
    server = FakeOpenAI(QUICK)
    flags = (
        *("--openai.system-prompt", "Be brief."),
        *("--openai.prompt-template", f"@{tmp_path / 'template.txt'}"),
    )
    assert play(tmp_path / "run", server, *flags) == 0
    (record,) = records(tmp_path / "run")
    asked = server.bodies[-1]["messages"]
    assert [m["content"] for m in asked] == [m.text for m in record.messages[: len(asked)]]
    assert asked[0] == {"role": "system", "content": "Be brief."}
    assert asked[1]["content"].startswith("Play echo.\nYou talk to an echo.")
    assert asked[1]["content"].endswith("\nIt costs $1.")
    # The text binds a resume, not the file: that may be gone.
    (tmp_path / "template.txt").unlink()
    assert sample.main(["--resume", str(tmp_path / "run")]) == 0
    other = ("--resume", str(tmp_path / "run"), "--openai.system-prompt", "Be verbose.")
    assert sample.main(other) == 2


def test_a_prompt_that_cannot_be_read_is_named_before_anything_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(tmp_path / "run", FakeOpenAI(), "--openai.system-prompt", "@missing.txt") == 2
    assert "--openai.system-prompt: cannot read missing.txt" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def call(number: int, text: str) -> dict[str, Any]:
    function = {"name": "say", "arguments": json.dumps({"text": text})}
    return {"id": f"call-{number}", "type": "function", "function": function}


def test_several_calls_of_a_reply_are_played_in_turn_and_what_was_thought_is_kept_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def reply(body: dict[str, Any]) -> dict[str, Any]:
        asked = len(body["messages"])
        calls = [call(asked + number, f"{asked}{number}") for number in range(3)]
        return {"content": "go", "reasoning_content": f"Hm {asked}.", "tool_calls": calls}

    server = FakeOpenAI(QUICK, reply)
    assert play(tmp_path / "run", server, "--action-format", "function_calling", length=5) == 0
    (record,) = records(tmp_path / "run")
    assert [step.parsed_action for step in record.steps[1:]] == ["30", "31", "32", "70", "71"]
    assert len(server.bodies) == 2, "the third call of the second reply came after the end"
    results = [message for message in server.bodies[1]["messages"] if message["role"] == "tool"]
    assert [message["content"] for message in results] == [
        step.observation for step in record.steps[1:4]
    ]
    calls = record.generations
    assert [each.same_completion for each in calls] == [False, True, True, False, True]
    assert [each.completion_tokens > 0 for each in calls] == [True, False, False, True, False]
    assert [each.reasoning for each in calls] == ["Hm 3.", "", "", "Hm 7.", ""]
    assert not any("Hm" in message.text for message in record.messages)
    capsys.readouterr()
    assert show.main([str(tmp_path / "run"), "--item", record.item_id]) == 0
    shown = capsys.readouterr().out
    places = [
        shown.index(text) for text in ("reasoning - turn 4", "Hm 7.", "assistant - turn 4", '"70"')
    ]
    assert places == sorted(places)
    assert "called in the same completion" in shown


def test_a_run_in_vllms_token_ids_can_be_audited_and_trained_on_and_repeated_from_its_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tiny_tokenizers.chatml(tmp_path / "model")
    cache = ("--cache", str(tmp_path / "cache"))
    prices = ("--openai.usd-per-million-input", "1", "--openai.usd-per-million-output", "1")
    flags = ("--openai.api", "token_ids", "--openai.system-prompt", "Talk.", *cache, *prices)
    replies = {"first": "Action:\nhello", "again": "Action:\nsomething else"}
    servers = {
        name: FakeOpenAI(QUICK, lambda _, r=r: r, model=model) for name, r in replies.items()
    }
    first, again = (
        played(tmp_path / name, server, *flags, tokenizer=model) for name, server in servers.items()
    )
    assert len(servers["first"].bodies) == 3
    assert not servers["again"].bodies, "another address of the same model: the cache knows it all"
    assert first.token_segments == again.token_segments
    assert [call.from_cache for call in again.generations] == [True] * 3
    assert sum(call.cost_usd for call in first.generations) > 0
    assert {call.cost_usd for call in again.generations} == {0.0}
    printed = capsys.readouterr().out
    assert "0 requests answered and 3 from the response cache" in printed
    assert "3 from the cache" in printed, "the progress counts them, too"
    (trajectory,) = read_trajectories(first, versions=WeightVersions(others={"fake": 0}))
    targets = sum(call.completion_tokens for call in first.generations)
    assert trajectory.sequence.targets == targets > 0
    (sequence,) = episode_sequences(first, HuggingFaceRenderer(model))
    assert sequence.ids.tolist() == trajectory.sequence.ids.tolist()


def played(out: Path, server: FakeOpenAI, *flags: str, tokenizer: Path) -> episode_pb2.Episode:
    assert play(out, server, *flags) == 0
    assert audit.main([str(out), "--tokenizer", str(tokenizer)]) == 0
    certificate = json.loads(Path(out, "audit.json").read_text())
    assert certificate["rendering"] == {"episodes": 1, "findings": 0}
    return records(out)[0]
