"""Published files play under AgentGym's ids, and damage is told by file, line and field."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from env_servers.environments.searchqa import SearchQA
from env_servers.environments.searchqa.official import PUBLISHED, DamagedData, read_corpus
from env_servers.environments.searchqa.tasks import SearchQATasks
from env_servers.sdk import (
    EnvironmentConfig,
    EnvironmentUnavailable,
    InvalidOption,
    ResetOptions,
    UnknownItem,
)
from tests.env_servers.environments.searchqa.conftest import BAMBOOGLE, CORPUS, start, write_lines


def load(folder: Path, **settings: object) -> SearchQATasks:
    named = {f"searchqa.{name}": value for name, value in settings.items()}
    return SearchQA.load_tasks(EnvironmentConfig(folder, named))


def play(tasks: SearchQATasks, item: str) -> tuple[float | None, list[str]]:
    """Reward and thoughts of the expert."""
    episode, thoughts = start(tasks, item), list[str]()
    for wording in range(SearchQA.spec.max_rounds):
        advice = episode.advise_expert(wording)
        thoughts.append(advice.thought)
        seen = episode.step(advice.action)
        if seen.terminated:
            return seen.reward, thoughts
    return None, thoughts


def test_agentgyms_ranges_follow_each_other() -> None:
    ends = [published.start + published.size for published in PUBLISHED]
    assert [published.start for published in PUBLISHED] == [0, *ends[:-1]]
    assert ends[-1] == 221_328
    assert sum(published.size for published in PUBLISHED if not published.train) == 51_713


def test_flashrag_files_play_under_agentgyms_ids(official: Path) -> None:
    tasks = load(official)
    assert tasks.splits()["official_eval"] == 125
    assert tasks.item_ids("official_eval", 3, 5) == ["bamboogle_51591", "bamboogle_51592"]
    assert tasks.get("searchqa_51591") == tasks.get("bamboogle_51591")
    episode = SearchQA(tasks)
    first = episode.reset(tasks.get("bamboogle_51591"), ResetOptions())
    assert first.text.endswith("\n\n Question: Who wrote book 3?")
    shown = episode.step("<search>Who wrote book 3?</search>").text
    assert shown.startswith('<information>Doc 1(Title: "Book 3") Book 3 was written by Writer 3.\n')
    reward, thoughts = play(tasks, "bamboogle_51591")
    assert reward == 1.0
    assert "names what is asked for" in thoughts[-1]


def test_an_expert_that_finds_nothing_says_so(official: Path) -> None:
    write_lines(official / "searchqa" / "corpus.jsonl", [{"id": 1, "contents": "X\nnothing"}])
    reward, thoughts = play(load(official), "bamboogle_51591")
    assert reward == 1.0
    assert "names what is asked for" not in thoughts[-1]


@pytest.mark.parametrize("item", ["bamboogle_51587", "nq_51590", "searchqa_0", "bamboogle_51713"])
def test_ids_of_absent_or_other_sets_are_unknown(official: Path, item: str) -> None:
    with pytest.raises(UnknownItem):
        load(official).get(item)


def test_agentevals_list_is_held_out_where_it_is_there(official: Path) -> None:
    (official / "agenteval").mkdir()
    ids = [{"item_id": "bamboogle_51600"}, {"item_id": "nq_394"}]
    (official / "agenteval" / "searchqa_test.json").write_text(json.dumps(ids))
    tasks = load(official)
    assert tasks.item_ids("official_eval", 0, 9) == ["bamboogle_51600"]
    assert tasks.splits()["official_test"] == 124


def test_gzipped_files_play_the_same(official: Path) -> None:
    plain = load(official)
    folder = official / "searchqa"
    write_lines(folder / "bamboogle" / "test.jsonl.gz", BAMBOOGLE)
    write_lines(folder / "wiki-18.jsonl.gz", CORPUS)
    (folder / "bamboogle" / "test.jsonl").unlink()
    (folder / "corpus.jsonl").unlink()
    packed = load(official)
    query = "<search>Writer 77</search>"
    found = [start(tasks, "bamboogle_51600").step(query).text for tasks in (plain, packed)]
    assert found[0] == found[1]
    assert plain.digest() != packed.digest()


def broken_line(path: Path) -> None:
    lines = path.read_text().splitlines()
    lines[40] = '{"id": "x", "question": '
    path.write_text("\n".join(lines) + "\n")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def without_last_lines(path: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-3]))


def changed(field: str, value: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows[6][field] = value
        write_lines(path, rows)

    return change


QUESTIONS, PASSAGES = "bamboogle/test.jsonl", "corpus.jsonl"


@pytest.mark.parametrize(
    ("file", "damage", "line", "field", "said"),
    [
        (QUESTIONS, broken_line, 41, "", "no JSON"),
        (QUESTIONS, cut, 125, "", "cut off"),
        (QUESTIONS, without_last_lines, 0, "", "122 of the 125"),
        (QUESTIONS, changed("question", None), 7, "question", "no text"),
        (QUESTIONS, changed("question", " "), 7, "question", "no text"),
        (QUESTIONS, changed("golden_answers", []), 7, "golden_answers", "no list"),
        (QUESTIONS, changed("golden_answers", [3]), 7, "golden_answers", "no text"),
        (PASSAGES, broken_line, 41, "", "no JSON"),
        (PASSAGES, cut, 125, "", "cut off"),
        (PASSAGES, changed("contents", 5), 7, "contents", "no text"),
        (PASSAGES, changed("id", None), 7, "id", "no id"),
        (PASSAGES, changed("id", "0"), 0, "id", "id of an earlier one"),
    ],
)
def test_damage_is_told_by_file_line_and_field(
    official: Path, file: str, damage: Callable[[Path], None], line: int, field: str, said: str
) -> None:
    path = official / "searchqa" / file
    damage(path)
    with pytest.raises(DamagedData, match=said) as raised:
        load(official)
    assert (raised.value.path, raised.value.line, raised.value.field) == (path, line, field)
    assert str(path) in str(raised.value)
    assert "embedded" in str(raised.value)


def test_a_gzip_file_that_is_cut_off_is_told(official: Path) -> None:
    path = write_lines(official / "searchqa" / "wiki-18.jsonl.gz", CORPUS)
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(DamagedData, match="cut off"):
        load(official)
    path.write_bytes(b"no gzip")
    with pytest.raises(DamagedData, match="no gzip"):
        load(official)


def test_an_empty_corpus_is_told(official: Path) -> None:
    (official / "searchqa" / "corpus.jsonl").write_bytes(b"")
    with pytest.raises(DamagedData, match="empty"):
        load(official)
    write_lines(official / "searchqa" / "corpus.jsonl", [])
    (official / "searchqa" / "corpus.jsonl").write_bytes(b"\n\n")
    with pytest.raises(DamagedData, match="no passages"):
        load(official)


def test_questions_without_passages_say_what_is_missing(official: Path) -> None:
    (official / "searchqa" / "corpus.jsonl").unlink()
    with pytest.raises(EnvironmentUnavailable, match=re.escape("searchqa.retriever=URL")):
        load(official)


def test_a_folder_without_questions_says_what_is_expected(tmp_path: Path) -> None:
    (tmp_path / "searchqa").mkdir()
    with pytest.raises(EnvironmentUnavailable, match=r"nq/test\.jsonl"):
        load(tmp_path)


def test_without_a_folder_the_embedded_world_is_played(tmp_path: Path) -> None:
    assert list(load(tmp_path).splits()) == ["train", "eval"]


def test_a_corpus_beyond_the_built_in_index_asks_for_a_server(
    official: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("env_servers.environments.searchqa.official.MAX_CORPUS_BYTES", 100)
    with pytest.raises(EnvironmentUnavailable, match="retrieval server"):
        load(official)


def test_passages_stay_in_a_plain_file(official: Path) -> None:
    path = official / "searchqa" / "corpus.jsonl"
    path.write_text("\n" + path.read_text().rstrip("\n"))
    passages = read_corpus(path)
    assert len(passages) == 125
    assert [passage.id for passage in passages] == [row["id"] for row in CORPUS]
    assert passages[-1].text == "Book 124 was written by Writer 124."
    assert passages[1:3] == [passages[1], passages[2]]


@pytest.mark.parametrize(
    ("name", "value"),
    [("top_k", 0), ("top_k", "many"), ("timeout", -1), ("retriever", "x"), ("topk", 3)],
)
def test_settings_are_checked(official: Path, name: str, value: object) -> None:
    with pytest.raises(InvalidOption):
        load(official, **{name: value})


def test_top_k_is_a_setting(official: Path) -> None:
    tasks = load(official, top_k="5")
    shown = start(tasks, "bamboogle_51600").step("<search>Book</search>").text
    assert shown.count("(Title: ") == 5


# ---------------------------------------------------------------------- HotpotQA's own format


def hotpot(folder: Path, *, corpus: bool) -> Path:
    """Two questions in HotpotQA's format, with or without a passage file."""
    texts = {"Ann": ["Ann wrote Rain.", " She lived in Kell."], "Kell": ["Kell lies on the Oo."]}
    questions = [
        {
            "question": "On which river does the home of the author of Rain lie?",
            "answer": "the Oo",
            "type": "bridge",
            "supporting_facts": [["Ann", 0], ["Ann", 1], ["Kell", 0]],
            "context": list(texts.items()),
        },
        {"question": "Did Ann write Rain?", "answer": "yes", "context": list(texts.items())},
    ]
    (folder / "searchqa").mkdir()
    path = folder / "searchqa" / "hotpotqa_dev.json"
    path.write_text(json.dumps(questions))
    if corpus:
        path.with_name("hotpotqa_dev_corpus.json").write_text(json.dumps(texts))
    return path


@pytest.mark.parametrize("corpus", [True, False])
def test_hotpotqa_files_play_with_a_corpus_or_their_own_context(
    tmp_path: Path, corpus: bool
) -> None:
    hotpot(tmp_path, corpus=corpus)
    tasks = load(tmp_path)
    assert tasks.item_ids("official_eval", 0, 9) == ["searchqa_300000", "searchqa_300001"]
    assert play(tasks, "searchqa_300000")[0] == 1.0
    shown = start(tasks, "searchqa_300000").step("<search>Ann</search>").text
    assert shown == (
        '<information>Doc 1(Title: "Ann") Ann wrote Rain. She lived in Kell.</information>'
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'[{"question": "x"', "cut off or no JSON"),
        (b"{}", "no JSON list"),
        (b"[3]", "question 1 is no JSON object"),
        (b'[{"question": "x", "answer": 3}]', "question 1, field 'answer'"),
        (b'[{"question": "x", "answer": "y", "supporting_facts": 3}]', "'supporting_facts'"),
        (b'[{"question": "x", "answer": "y"}]', "field 'context'"),
        (b'[{"question": "x", "answer": "y", "context": [["t", 3]]}]', "no list of sentences"),
    ],
)
def test_damaged_hotpotqa_files_are_told(tmp_path: Path, content: bytes, said: str) -> None:
    hotpot(tmp_path, corpus=False).write_bytes(content)
    with pytest.raises(DamagedData, match=said):
        load(tmp_path)


def test_the_hotpotqa_sample_plays(data_dir: Path) -> None:
    tasks = load(data_dir)
    assert tasks.splits()["official_train"] == 100
    items = tasks.item_ids("official_train", 0, 100)
    played = [play(tasks, item) for item in items]
    assert [reward for reward, _ in played] == [1.0] * 100
    found = sum("has the sentence" in thoughts[-1] for _, thoughts in played)
    assert found >= 95
    assert tasks.queue("official").retriever.search(["Demon Dice"])[0][0].title == '"Demon Dice"'


def test_gzip_questions_that_are_no_gzip_are_told(official: Path) -> None:
    path = official / "searchqa" / "bamboogle" / "test.jsonl"
    path.with_name("test.jsonl.gz").write_bytes(gzip.compress(path.read_bytes())[:-8])
    path.unlink()
    with pytest.raises(DamagedData, match="cut off"):
        load(official)
