import base64
import contextlib
import json

import pytest

from agentgym.episode.v1 import episode_pb2
from orchestrator import errors, export
from orchestrator.export import ExportFilter, export_run
from orchestrator.formats import WRITERS
from orchestrator.store import RunStore
from tests.kit.data import read_conversations
from tests.orchestrator.records import (
    PROMPT_IDS,
    RED_SQUARE,
    REPLY_IDS,
    build_episode,
    build_failed,
    build_manifest,
    build_seeing,
    build_session,
)


@pytest.fixture
def run(tmp_path):
    with RunStore.create(tmp_path / "run", build_manifest(), build_session()) as store:
        store.append_all(
            [
                build_episode("maze_1"),
                build_episode("maze_2", reward=0.25, success=False),
                build_episode("wordle_1", environment="wordle", policy="other"),
                build_failed("maze_3"),
            ]
        )
        yield store


def export_lines(run, path, format_name, **options) -> list:
    export_run(run, path, format_name=format_name, **options)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_agenttraj_has_the_original_s_form(run, tmp_path):
    result = export_run(run, tmp_path / "out.json", format_name="agenttraj")
    assert (result.written, result.left_out) == (3, 1)
    exported = json.loads((tmp_path / "out.json").read_text())
    assert exported[0] == {
        "conversations": [
            {"from": "human", "loss": None, "value": "Find the goal."},
            {"from": "gpt", "loss": False, "value": "OK."},
            {"from": "human", "loss": None, "value": "You see a wall."},
            {"from": "gpt", "loss": True, "value": "Thought: up it is.\nAction: move up"},
            {"from": "human", "loss": None, "value": "You moved (1)."},
            {"from": "gpt", "loss": True, "value": "Action: move left"},
        ],
        "item_id": "maze_1",
    }


def test_agenttraj_agrees_with_recorded_files_in_every_key_and_flag(run, tmp_path):
    recorded = read_conversations("textcraft")
    export_run(run, tmp_path / "out.json", format_name="agenttraj")
    [ours, *_] = json.loads((tmp_path / "out.json").read_text())
    for entry in recorded:
        assert shape_of(entry) == shape_of(ours)


def shape_of(entry: dict) -> tuple:
    turns = [(tuple(it), it["from"], it["loss"]) for it in entry["conversations"]]
    # The opening, the last turn, and the pairs between, of which there may be any number.
    return tuple(entry), tuple(turns[:4]), frozenset(turns[4:]) - set(turns[:4]), turns[-1]


def test_a_system_message_goes_before_the_next_human_one(tmp_path):
    episode = build_episode()
    system = episode_pb2.Message(role=episode_pb2.ROLE_SYSTEM, text="Be brief.")
    messages = [system, *episode.messages]
    del episode.messages[:]
    episode.messages.extend(messages)
    writer = WRITERS["agenttraj"](tmp_path / "out.json")
    writer.write(episode)
    writer.close()
    [entry] = json.loads((tmp_path / "out.json").read_text())
    assert entry["conversations"][0]["value"] == "Be brief.\n\nFind the goal."


def test_an_export_without_episodes_is_an_empty_list(run, tmp_path):
    export_run(
        run, tmp_path / "out.json", format_name="agenttraj", accept=ExportFilter(min_reward=9)
    )
    assert json.loads((tmp_path / "out.json").read_text()) == []


def test_messages_carry_the_whole_conversation_with_metadata(run, tmp_path):
    lines = export_lines(run, tmp_path / "out.jsonl", "messages")
    assert [it["role"] for it in lines[0]["messages"]] == [
        "user", "assistant", "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
    assert lines[0]["sampled"] == [False, False, False, True, False, True, False]
    assert (lines[0]["item_id"], lines[0]["reward"], lines[0]["success"]) == ("maze_1", 1.0, True)


def test_openai_has_weights_and_no_key_that_the_service_refuses(run, tmp_path):
    [first, *_] = export_lines(run, tmp_path / "out.jsonl", "openai")
    assert set(first) == {"messages"}
    assert first["messages"][1] == {"role": "assistant", "content": "OK.", "weight": 0}
    assert first["messages"][-1] == {
        "role": "assistant",
        "content": "Action: move left",
        "weight": 1,
    }


def test_atif_has_a_step_for_each_reply_with_its_observation_and_tokens(run, tmp_path):
    [first, *_, failed] = export_lines(
        run, tmp_path / "out.jsonl", "atif", accept=ExportFilter(include_failed=True)
    )
    for trajectory in (first, failed):
        validated(trajectory)
    assert [step["source"] for step in first["steps"]] == [
        "user",
        "agent",
        "user",
        "agent",
        "agent",
    ]
    assert first["steps"][1] | {"message": "OK.", "llm_call_count": 0} == first["steps"][1]
    reply = first["steps"][3]
    assert reply["message"] == "Thought: up it is.\nAction: move up"
    assert reply["observation"]["results"] == [{"content": "You moved (1)."}]
    assert reply["extra"]["action"] == "move up"
    assert reply["metrics"]["completion_token_ids"] == list(REPLY_IDS)
    assert len(reply["metrics"]["logprobs"]) == len(REPLY_IDS)
    assert first["extra"]["score"] == 1.0
    assert failed["extra"]["score"] is None


def validated(trajectory) -> None:
    """What the format demands beyond its fields' types; Harbor's own models where they import."""
    assert trajectory["schema_version"] == "ATIF-v1.7"
    assert trajectory["agent"].keys() >= {"name", "version"}
    assert [step["step_id"] for step in trajectory["steps"]] == [
        number for number, _ in enumerate(trajectory["steps"], 1)
    ]
    for step in trajectory["steps"]:
        agents_only = {"reasoning_content", "tool_calls", "metrics"}
        allowed = agents_only if step["source"] == "agent" else set()
        assert step.keys() & agents_only <= allowed
        if step.get("llm_call_count") == 0:
            assert not step.keys() & {"metrics", "reasoning_content"}
    with contextlib.suppress(ImportError):  # needs Python 3.12
        from harbor.models.trajectories import Trajectory

        Trajectory.model_validate(trajectory)


def test_verifiers_has_prompt_completion_and_null_in_place_of_0(run, tmp_path):
    lines = export_lines(
        run, tmp_path / "out.jsonl", "verifiers", accept=ExportFilter(include_failed=True)
    )
    first, second, other, failed = lines
    assert [it["role"] for it in first["prompt"]] == ["user", "assistant", "user"]
    assert [it["role"] for it in first["completion"]] == ["assistant", "user"] * 2
    assert (first["task"], first["reward"], first["metrics"]) == (
        *("maze", 1.0),
        {"score": 1.0, "success": 1.0},
    )
    assert first["info"]["item_id"] == "maze_1" and first["stop_condition"] == "goal_reached"
    assert [it["example_id"] for it in lines] == [0, 1, 2, 3]
    assert second["success"] == 0.0 and other["task"] == "wordle"
    assert failed["reward"] is None and not failed["is_completed"] and "score" not in failed
    assert failed["error"]["error"] == "POLICY_UNAVAILABLE"
    with contextlib.suppress(ImportError):
        from verifiers.types import RolloutTiming

        assert RolloutTiming.model_validate(first["timing"]).generation.duration == 2.5


def test_huggingface_is_a_folder_whose_card_says_what_the_files_hold(run, tmp_path):
    yaml, parquet = pytest.importorskip("yaml"), pytest.importorskip("pyarrow.parquet")
    odd = build_episode("odd_1", environment="default", policy="p")
    odd.split = "a/b"
    run.append_all([odd])
    folder = tmp_path / "set"
    export_run(run, folder, format_name="huggingface")
    card = yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])
    files = {
        it["config_name"]: {split["split"]: split["path"] for split in it["data_files"]}
        for it in card["configs"]
    }
    everything = files.pop("default")
    assert files == {
        "maze": {"eval": ["data/maze/eval.parquet"]},
        "wordle": {"eval": ["data/wordle/eval.parquet"]},
        "default-environment": {"a_b": ["data/default-environment/a_b.parquet"]},
    }
    assert everything["eval"] == ["data/maze/eval.parquet", "data/wordle/eval.parquet"]
    rows = {str(it.relative_to(folder)): parquet.read_table(it) for it in folder.rglob("*.parquet")}
    assert rows.keys() == {it for paths in everything.values() for it in paths}.union(
        *(paths for it in files.values() for paths in it.values())
    )
    for info in card["dataset_info"]:
        columns = {it["name"]: it for it in info["features"]}
        for table in rows.values():
            assert list(columns) == table.schema.names
            assert columns["run_id"] == {"name": "run_id", "dtype": "string"}
    assert columns["messages"]["list"][2] == {"name": "sampled", "dtype": "bool"}
    assert rows["data/maze/eval.parquet"]["item_id"].to_pylist() == ["maze_1", "maze_2"]
    with contextlib.suppress(ImportError):
        import datasets

        loaded = datasets.load_dataset(str(folder), "maze", cache_dir=str(tmp_path / "cache"))
        assert loaded["eval"]["item_id"][:] == ["maze_1", "maze_2"]


def test_a_folder_appears_whole_or_not_at_all_and_replaces_nothing(run, tmp_path, monkeypatch):
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(errors.UsageError, match="never replaces a folder"):
        export_run(run, folder, format_name="huggingface", overwrite=True)
    assert [it.name for it in folder.iterdir()] == ["mine.txt"]
    monkeypatch.setattr(WRITERS["huggingface"], "close", fail)
    with pytest.raises(OSError, match="disk full"):
        export_run(run, tmp_path / "other", format_name="huggingface")
    assert sorted(it.name for it in tmp_path.iterdir()) == ["run", "set"]


def fail(writer) -> None:
    raise OSError("disk full")


def test_sharegpt_pairs_human_and_gpt(run, tmp_path):
    lines = export_lines(run, tmp_path / "out.jsonl", "sharegpt")
    speakers = [it["from"] for it in lines[0]["conversations"]]
    assert speakers == ["human", "gpt"] * 3
    assert lines[0]["id"] == lines[0]["episode_id"]


def test_a_failed_episode_has_null_and_not_0(run, tmp_path):
    lines = export_lines(run, tmp_path / "o", "messages", accept=ExportFilter(include_failed=True))
    [failed] = [it for it in lines if it["fault"]]
    assert failed["reward"] is failed["score"] is failed["success"] is None


def test_odd_characters_survive_and_never_break_a_line(tmp_path):
    text = 'a\u2028b\u0085c\x00d\ne"\\ \U0001f600'
    episode = build_episode(replies=(text,))
    for name in ("messages", "sharegpt"):
        writer = WRITERS[name](tmp_path / name)
        writer.write(episode)
        writer.close()
        [line] = (tmp_path / name).read_text(encoding="utf-8").splitlines()
        assert text in {it.get("content", it.get("value")) for it in turns_of(json.loads(line))}


def turns_of(entry: dict) -> list[dict]:
    return entry.get("messages") or entry["conversations"]


def test_parquet_holds_everything_of_an_episode(run, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    export_run(
        run,
        tmp_path / "out.parquet",
        format_name="parquet",
        accept=ExportFilter(include_failed=True),
    )
    rows = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    first, failed = rows[0], rows[3]
    assert first["messages"][3] == {
        "role": "assistant",
        "text": "Thought: up it is.\nAction: move up",
        "sampled": True,
        "images": [],
    }
    assert [it["observation"] for it in first["steps"]] == [
        "You see a wall.",
        "You moved (1).",
        "You moved (2).",
    ]
    assert (first["steps"][0]["input"], first["steps"][0]["reward"]) == (None, None)
    assert (first["steps"][1]["input_kind"], first["steps"][1]["parsed_action"]) == (
        "reply",
        "move up",
    )
    [segment] = first["token_segments"]
    assert tuple(segment["ids"][: len(PROMPT_IDS) + len(REPLY_IDS)]) == PROMPT_IDS + REPLY_IDS
    assert segment["mask"] == [it == -0.5 for it in segment["logprobs"]]
    assert len(segment["ids"]) == len(segment["generations"]) == len(segment["origins"])
    assert first["generations"][1]["sampling_seed"] > 2**31
    assert json.loads(first["options_json"]) == {"size": 3}
    assert (first["reward"], first["error"]) == (1.0, None)
    assert failed["reward"] is failed["success"] is None
    assert failed["error"]["fault"] == "POLICY"
    assert first["seed"] == build_episode("maze_1").seed


@pytest.fixture
def seeing(tmp_path):
    with RunStore.create(tmp_path / "seeing", build_manifest(), build_session()) as store:
        store.append_all([build_seeing()])
        yield store


def test_openai_has_the_images_of_what_the_policy_saw(seeing, tmp_path):
    [entry] = export_lines(seeing, tmp_path / "out.jsonl", "openai")
    first = entry["messages"][2]["content"]
    assert first[0] == {"type": "text", "text": "You see a wall."}
    url = first[1]["image_url"]["url"]
    assert base64.b64decode(url.removeprefix("data:image/png;base64,")) == RED_SQUARE
    assert entry["messages"][3]["content"] == "Thought: up it is.\nAction: move up"


def test_parquet_has_each_image_once(seeing, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    export_run(seeing, tmp_path / "out.parquet", format_name="parquet")
    [row] = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [it["media_type"] for it in row["images"]] == ["image/png"] * 2
    assert row["images"][0]["content"] == RED_SQUARE
    assert [it["images"] for it in row["steps"]] == [[0], [1], [0]]
    assert [it["images"] for it in row["messages"]] == [[], [], [0], [], [1], [], [0]]


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_formats_without_images_say_what_they_leave_out(seeing, tmp_path, name):
    if name in ("parquet", "huggingface"):
        pytest.importorskip("pyarrow")
    result = export_run(seeing, tmp_path / "out", format_name=name)
    keeps = name in ("openai", "parquet", "huggingface")
    assert result.images_left_out == (0 if keeps else 2)


def test_the_command_says_that_images_are_left_out(seeing, tmp_path, capsys):
    flags = [str(tmp_path / "seeing"), "--format", "messages", "--out", str(tmp_path / "out")]
    assert export.main(flags) == 0
    assert "2 images of observations are not in it" in capsys.readouterr().err


def test_parquet_without_pyarrow_names_the_extra(run, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(errors.ExtraMissing, match=r"pip install .*\[parquet\]"):
        export_run(run, tmp_path / "out.parquet", format_name="parquet")
    assert not list(tmp_path.glob("*out.parquet*"))


@pytest.mark.parametrize(
    ("accept", "items"),
    [
        (ExportFilter(), ["maze_1", "maze_2", "wordle_1"]),
        (ExportFilter(environments=("maze",)), ["maze_1", "maze_2"]),
        (ExportFilter(policies=("other",)), ["wordle_1"]),
        (ExportFilter(min_reward=0.5), ["maze_1", "wordle_1"]),
        (ExportFilter(min_score=0.25), ["maze_1", "maze_2", "wordle_1"]),
        (ExportFilter(only_success=True, environments=("maze",)), ["maze_1"]),
        (ExportFilter(include_failed=True), ["maze_1", "maze_2", "wordle_1", "maze_3"]),
        (ExportFilter(include_failed=True, min_reward=0.0), ["maze_1", "maze_2", "wordle_1"]),
    ],
)
def test_filters_choose_episodes(run, tmp_path, accept, items):
    lines = export_lines(run, tmp_path / "out.jsonl", "messages", accept=accept)
    assert [it["item_id"] for it in lines] == items


def test_an_existing_file_stays_unless_overwriting_is_asked_for(run, tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("precious")
    with pytest.raises(errors.OutputExists):
        export_run(run, path, format_name="messages")
    assert path.read_text() == "precious"
    export_run(run, path, format_name="messages", overwrite=True)
    assert path.read_text() != "precious"


def test_a_file_that_appears_meanwhile_is_not_replaced(run, tmp_path):
    path = tmp_path / "out.jsonl"
    with pytest.raises(errors.OutputExists):
        export_run(
            run, path, format_name="messages", on_progress=lambda *_: path.write_text("theirs")
        )
    assert path.read_text() == "theirs"


def test_an_interrupted_export_leaves_no_file(run, tmp_path):
    def interrupt(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_run(run, tmp_path / "out.jsonl", format_name="messages", on_progress=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_progress_counts_up_to_the_total(run, tmp_path):
    told: list[tuple[int, int]] = []
    export_run(run, tmp_path / "o", format_name="messages", on_progress=lambda *it: told.append(it))
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("options", "valid"),
    [
        ({"format_name": "csv"}, "agenttraj, atif, html, huggingface, messages, openai, parquet"),
        ({"format_name": "messages", "accept": ExportFilter(environments=("x",))}, "maze, wordle"),
        ({"format_name": "messages", "accept": ExportFilter(policies=("x",))}, "other, scripted"),
    ],
)
def test_unknown_names_are_answered_with_the_valid_ones(run, tmp_path, options, valid):
    with pytest.raises(errors.UsageError, match=valid):
        export_run(run, tmp_path / "out", **options)
