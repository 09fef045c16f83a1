import gzip
import json
import sys
from pathlib import Path

import pytest

from agentgym.episode.v1 import episode_pb2
from orchestrator import import_run as command
from orchestrator.audit import main as audit
from orchestrator.config import RunConfig
from orchestrator.errors import EntryUnreadable, RunExists, UsageError
from orchestrator.export import ExportFilter, export_run
from orchestrator.import_run import import_run
from orchestrator.imports.base import Source
from orchestrator.imports.inspect_logs import InspectReader
from orchestrator.manifest import is_own, read_manifest
from orchestrator.run_list import describe_run
from orchestrator.show import main as show
from orchestrator.store import RunReader, RunStore
from tests.kit.data import require_data
from tests.orchestrator.records import (
    build_branch,
    build_episode,
    build_failed,
    build_manifest,
    build_session,
)

EVERYTHING = ExportFilter(include_failed=True)


def conversation(item_id: str = "maze_1", **fields) -> dict:
    turns = [
        ("human", None, "Find the goal."),
        ("gpt", False, "OK."),
        ("human", None, "You see a wall."),
        ("gpt", True, "Action: up"),
        ("human", None, "You moved."),
        ("gpt", True, "Action: left"),
    ]
    told = [{"from": who, "loss": loss, "value": text} for who, loss, text in turns]
    return {"conversations": told, "item_id": item_id, **fields}


def trajectory(**fields) -> dict:
    """One as another program writes it: tools, several calls at once, an image, a final answer."""
    calls = [
        {"tool_call_id": f"c{n}", "function_name": "ls", "arguments": {"n": n}} for n in (1, 2)
    ]
    parts = [{"type": "text", "text": "a.txt"}, {"type": "image", "source": {"path": "x.png"}}]
    return {
        "schema_version": "ATIF-v1.6",
        "session_id": "s-1",
        "agent": {"name": "terminus", "version": "2.0", "model_name": "m"},
        "steps": [
            {"step_id": 1, "source": "system", "message": "You are an agent."},
            {"step_id": 2, "source": "user", "message": "List the files."},
            {
                "step_id": 3,
                "timestamp": "2026-01-01T00:00:01Z",
                "source": "agent",
                "message": "I look.",
                "reasoning_content": "hm",
                "tool_calls": calls[:1],
                "observation": {"results": [{"source_call_id": "c1", "content": parts}]},
                "metrics": {"prompt_tokens": 7, "completion_tokens": 2, "prompt_token_ids": [1]},
            },
            {
                "step_id": 4,
                "source": "agent",
                "message": "Twice.",
                "tool_calls": calls,
                "observation": {"results": [{"content": "x"}, {"content": "y"}]},
            },
            {"step_id": 5, "source": "agent", "message": "Done."},
        ],
        "final_metrics": {"total_steps": 5},
        "notes": "a note",
        "extra": {"of": "theirs"},
        **fields,
    }


def write_lines(path: Path, *entries: object) -> Path:
    path.write_text("".join(json.dumps(it) + "\n" for it in entries))
    return path


def read_run(folder: Path) -> list[episode_pb2.Episode]:
    with RunReader.open(folder) as run:
        return list(run.episodes())


def test_conversations_become_a_run_that_commands_work_on(tmp_path, capsys):
    plain = write_lines(tmp_path / "a.jsonl", conversation(), conversation(reward=0.5))
    packed = tmp_path / "b.json.gz"
    packed.write_bytes(gzip.compress(json.dumps([conversation("webshop_2", notes=1)]).encode()))
    folder = tmp_path / "run"
    assert command.main([str(plain), str(packed), "--out", str(folder), "--policy", "gpt-4"]) == 0
    assert "3 episodes\nleft out: 1 x notes" in capsys.readouterr().err
    first, second, other = read_run(folder)
    assert [it.observation for it in first.steps] == ["You see a wall.", "You moved.", ""]
    assert [it.input.reply for it in first.steps[1:]] == ["Action: up", "Action: left"]
    assert not first.HasField("reward") and not first.HasField("success")
    assert (second.sample, second.reward) == (1, 0.5)
    assert (other.environment, other.item_id, other.policy) == ("webshop", "webshop_2", "gpt-4")
    manifest = read_manifest(folder)
    assert [it.name for it in manifest.environments] == ["maze", "webshop"]
    [a, b] = manifest.config["imported_from"]
    assert (a["file"], a["format"], a["episodes"], len(a["sha256"])) == (
        *("a.jsonl", "agenttraj", 2),
        64,
    )
    assert b["left_out"] == {"notes": 1}
    assert describe_run(folder).imported_from == ["a.jsonl", "b.json.gz"]
    assert audit([str(folder)]) == 0
    assert json.loads((folder / "audit.json").read_text())["checks"]["seeds"] is None
    assert show([str(folder), "--plain"]) == 0
    assert "imported from a.jsonl, b.json.gz" in capsys.readouterr().out


def test_what_strangers_wrote_is_not_this_user_s_wish_and_does_not_go_on(tmp_path):
    import_run([write_lines(tmp_path / "a.jsonl", conversation())], tmp_path / "run")
    assert not is_own(tmp_path / "run")
    with pytest.raises(UsageError, match="others played this run"):
        RunConfig.from_manifest(read_manifest(tmp_path / "run"))


def test_conversations_go_out_as_they_came_in(tmp_path):
    entries = [conversation("maze_1"), conversation("maze_2")]
    import_run([write_lines(tmp_path / "a.jsonl", *entries)], tmp_path / "run")
    with RunReader.open(tmp_path / "run") as run:
        export_run(run, tmp_path / "out.json", format_name="agenttraj")
    assert json.loads((tmp_path / "out.json").read_text()) == entries


def log_entry(**fields) -> dict:
    """A sample of another's task, as Inspect's library tells it: tools, thoughts, an image."""

    def said(source: str, role: str, content: object, name: str, **more) -> dict:
        return {"source": source, "role": role, "content": content, "id": name, **more}

    calls = [{"id": f"c{n}", "function": "ls", "arguments": {"n": n}} for n in (1, 2)]
    thought = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "I look."}]
    seen = [{"type": "text", "text": "a.txt"}, {"type": "image", "image": "data:,"}]
    told = [
        said("input", "system", "You are an agent.", "m1"),
        said("input", "user", "For example:", "m2"),
        said("input", "assistant", "Done.", "m3"),
        said("input", "user", "List the files.", "m4"),
    ]
    played = [
        said("generate", "assistant", thought, "m5", tool_calls=calls[:1]),
        {"role": "tool", "content": seen, "id": "m6"},
        said("generate", "assistant", "Twice.", "m7", tool_calls=calls),
        {"role": "tool", "content": "x", "id": "m8"},
        {"role": "tool", "content": "y", "id": "m9"},
        said("generate", "assistant", "Done.", "m10"),
    ]
    answer = {"message": played[0], "stop_reason": "tool_calls"}
    usage = {"input_tokens": 7, "output_tokens": 3, "reasoning_tokens": 1, "total_tokens": 10}
    sample = {
        "id": 3,
        "epoch": 2,
        "input": told,
        "messages": told + played,
        "events": [
            {"event": "state"},
            {"event": "model", "output": {"choices": [answer], "usage": usage, "time": 0.5}},
        ],
        "scores": {"match": {"value": "C"}, "other": {"value": 3}},
        "uuid": "u-1",
        "started_at": "2026-01-01T00:00:01+00:00",
        "completed_at": "2026-01-01T00:00:03+00:00",
        "target": "a.txt",
        "choices": ["a"],
        **fields,
    }
    return {"task": "inspect_evals/files", "model": "m", "args": {}, "sample": sample}


def test_a_sample_of_inspect_becomes_an_episode():
    source = Source(path=Path("a.eval"), digest="d", policy="unknown")
    episode = InspectReader().to_episode(0, log_entry(), source)
    assert (episode.environment, episode.item_id, episode.sample) == ("files", "3", 1)
    assert (episode.policy, episode.episode_id) == ("m", "u-1")
    assert [it.text for it in episode.messages if it.sampled] == ["I look.", "Twice.", "Done."]
    assert [it.observation for it in episode.steps] == ["List the files.", "a.txt", "x\ny", ""]
    assert episode.steps[1].input.tool_call.arguments_json == '{"n": 1}'
    assert json.loads(episode.steps[2].parsed_action)[1] == {"name": "ls", "arguments": {"n": 2}}
    first, *others = episode.generations
    assert (first.reasoning, first.prompt_tokens, first.reasoning_tokens) == ("hm", 7, 1)
    assert first.seconds == 0.5 and [it.prompt_tokens for it in others] == [0, 0]
    assert (episode.score, episode.success) == (1.0, True)
    assert episode.ended_unix_ms - episode.started_unix_ms == 2000
    assert source.left_out == {"parts of type image": 1, "further scorers": 1, "choices": 1}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"scores": {"a": {"value": "P"}}}, (0.5, None, 0)),
        ({"scores": {"a": {"value": 7.0}}}, (7.0, None, 0)),
        ({"scores": {"a": {"value": {"x": 1}}}}, (None, None, 0)),
        ({"scores": {"a": {"value": float("nan")}}}, (None, None, 0)),
        ({"limit": {"type": "token", "limit": 9}, "scores": {}}, (None, None, 27)),
        ({"error": {"message": "it broke"}}, (None, None, 0)),
    ],
)
def test_what_a_sample_does_not_say_stays_absent(fields, expected):
    source = Source(path=Path("a.eval"), digest="d", policy="unknown", environment="mine")
    episode = InspectReader().to_episode(0, log_entry(**fields), source)
    found = [getattr(episode, it) if episode.HasField(it) else None for it in ("score", "success")]
    assert (*found, episode.stop_reason) == expected
    assert episode.environment == "mine"
    assert episode.error.message == fields.get("error", {}).get("message", "")


def test_logs_of_inspect_need_its_library(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    for name, content in (
        ("a.eval", "PK"),
        ("a.json", '{"version": 2, "eval": {}, "samples": []}'),
    ):
        path = tmp_path / name
        path.write_text(content)
        assert command.main([str(path), "--out", str(tmp_path / "run")]) == 2
        assert "pip install" in capsys.readouterr().err


def test_an_export_as_atif_comes_back_with_conversation_tokens_and_rewards(tmp_path):
    branch = build_branch("maze_4", turn=1)
    played = [build_episode(), build_failed("maze_2"), branch, build_episode("maze_3", sample=2)]
    with RunStore.create(tmp_path / "run", build_manifest(), build_session()) as store:
        store.append_all(played)
        export_run(store, tmp_path / "a.jsonl", format_name="atif", accept=EVERYTHING)
    result = import_run([tmp_path / "a.jsonl"], tmp_path / "again")
    assert not result.left_out
    for before, after in zip(played, read_run(tmp_path / "again"), strict=True):
        # Which environment it was is told, which version of it is not.
        for episode in (before, after):
            for field in ("run_id", "environment_version", "environment_digest"):
                episode.ClearField(field)
            episode.steps[0].ClearField("state_hash")  # the format has no step before the first
            for step in episode.steps:
                step.ClearField("stop_reason")
        assert after == before
    assert audit([str(tmp_path / "again")]) == 0


def test_trajectories_of_other_programs_are_read_and_what_is_lost_is_counted(tmp_path):
    file = write_lines(tmp_path / "t.json", trajectory(), trajectory(session_id="s-2"))
    result = import_run([file], tmp_path / "run", environment="terminal")
    first, second = read_run(tmp_path / "run")
    assert (first.environment, first.item_id, first.policy) == ("terminal", "s-1", "terminus")
    assert second.item_id == "s-2"
    assert [(it.sampled, it.text) for it in first.messages] == [
        (False, "You are an agent."),
        (False, "List the files."),
        (True, "I look."),
        (False, "a.txt"),
        (True, "Twice."),
        (False, "x\ny"),
        (True, "Done."),
    ]
    reset, looked, twice, done = first.steps
    assert (reset.observation, done.observation) == ("List the files.", "")
    assert looked.input.tool_call.name == "ls"
    assert [it["arguments"]["n"] for it in json.loads(twice.parsed_action)] == [1, 2]
    assert (first.generations[0].prompt_tokens, first.generations[0].reasoning) == (7, "hm")
    assert not first.HasField("reward") and not first.token_segments
    lost = {"notes", "extra", "agent.version", "agent.model_name", "parts of type image"}
    assert result.left_out == dict.fromkeys(lost | {"steps.metrics.prompt_token_ids"}, 2)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"item_id": "maze_2"}, "no list `conversations`"),
        ({"conversations": [{"from": "elf", "value": "x"}]}, "`from`"),
        (conversation("", reward=1), "--environment"),
        (conversation(reward=float("nan")), "reward is not finite"),
        (["no object"], "no object"),
        (conversation(reward=10**400), "too large"),
        (conversation("\ud800_1"), "surrogates"),
        (trajectory(), "no list `conversations`"),
    ],
)
def test_an_entry_that_is_none_is_named_and_nothing_is_left(entry, problem, tmp_path):
    file = write_lines(tmp_path / "a.jsonl", conversation(), entry)
    with pytest.raises(EntryUnreadable, match=problem) as caught:
        import_run([file], tmp_path / "runs" / "run")
    assert (caught.value.path, caught.value.number) == (file, 1)
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"schema_version": "ATIF-v2.0"}, "ATIF-v2.0 is not read"),
        ({"steps": [{"source": "agent", "message": 1}]}, r"steps\[0\]\.message"),
        ({"steps": [{"source": "user", "timestamp": "noon"}]}, "noon"),
        ({"agent": None}, r"agent"),
    ],
)
def test_a_trajectory_that_is_none_says_where(fields, problem, tmp_path):
    file = write_lines(tmp_path / "a.jsonl", trajectory(**fields))
    with pytest.raises(EntryUnreadable, match=problem):
        import_run([file], tmp_path / "run", environment="terminal")


def test_an_own_trajectory_may_set_nothing_but_what_exports_write(tmp_path):
    extra = {"begun": "2026-01-01T00:00:00Z", "environment": "maze", "item_id": "maze_1"}
    extra |= {"stop_reason": "GOAL_REACHED", "record": {"run_id": "x"}}
    file = write_lines(tmp_path / "a.jsonl", trajectory(extra=extra))
    with pytest.raises(EntryUnreadable, match="'run_id'"):
        import_run([file], tmp_path / "run")


def test_nothing_is_written_over_and_files_without_episodes_are_refused(tmp_path, capsys):
    file = write_lines(tmp_path / "a.jsonl", conversation())
    import_run([file], tmp_path / "run")
    with pytest.raises(RunExists):
        import_run([file], tmp_path / "run")
    with pytest.raises(EntryUnreadable, match="there twice"):
        import_run([file, file], tmp_path / "other")
    with pytest.raises(UsageError, match="nothing to import"):
        import_run([write_lines(tmp_path / "b.json")], tmp_path / "c", format_name="atif")
    for entry in ({"some": "thing"}, None):
        odd = write_lines(tmp_path / "odd.json", entry)
        assert command.main([str(odd), "--out", str(tmp_path / "odd")]) == 1
    told = capsys.readouterr().err
    assert "none of the formats agenttraj, atif" in told and "Traceback" not in told


def test_any_name_and_number_of_a_stranger_is_told_and_not_a_traceback(tmp_path, capsys):
    odd = {f"\ud800{number}": 1 for number in range(60)}
    file = write_lines(tmp_path / "a.jsonl", conversation(**odd))
    assert command.main([str(file), "--out", str(tmp_path / "run")]) == 0
    [origin] = read_manifest(tmp_path / "run").config["imported_from"]
    assert len(origin["left_out"]) == 50
    (tmp_path / "b.json").write_text('{"conversations": ' + "1" * 5000 + "}")
    assert command.main([str(tmp_path / "b.json"), "--out", str(tmp_path / "b")]) == 1
    told = capsys.readouterr().err
    assert "b.json: it is damaged" in told and "Traceback" not in told


def test_the_published_conversations_are_imported(tmp_path):
    files = [
        require_data("agenttraj_l") / "agenttraj_l" / f"{name}.jsonl.gz"
        for name in ("lmrlgym_maze", "todo")
    ]
    assert import_run(files, tmp_path / "run").episodes == 108 + 68
    assert audit([str(tmp_path / "run")]) == 0
