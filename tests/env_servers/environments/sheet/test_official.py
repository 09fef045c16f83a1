"""The official tasks and their workbook: answers, untouched sheets, damaged files."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openpyxl", reason="the extra `sheet` is not installed")

from env_servers.environments.sheet import SheetWork
from env_servers.environments.sheet.official import TASKS, WORKBOOK
from env_servers.environments.sheet.scoring import overlap_share, strict_share
from env_servers.environments.sheet.sessions import get_assignment
from env_servers.sdk import EnvironmentConfig, EnvironmentUnavailable, ResetOptions
from env_servers.toolkit.tool_calls import MalformedFile, ToolTaskSet
from tests.kit.data import read_eval_ids


def items(official: ToolTaskSet) -> list[str]:
    return list(official.item_ids("official_eval", 0, 20))


def test_ids_are_agentevals(official: ToolTaskSet) -> None:
    assert items(official) == read_eval_ids("tool_sheet")
    for known in ("tool_sheet_7", "sheet_7", "7"):
        assert official.get(known).item_id == "tool_sheet_7"


def test_the_workbooks_answer_sheets_show_the_answers_of_the_task_file(data_dir: Path) -> None:
    from env_servers.environments.sheet.reader import read_workbook

    book = read_workbook(data_dir / WORKBOOK)
    for line in (data_dir / TASKS).read_text().splitlines():
        row = json.loads(line)
        wanted = json.loads(row["additional_info"]["answer"])
        assert book[f"Answer{row['id'] + 1}"].values() == wanted


def test_untouched_sheets_score_what_was_measured_on_the_original(official: ToolTaskSet) -> None:
    shares: list[float] = []
    for item in items(official):
        assignment = get_assignment(official.get(item).payload)
        shares.append(overlap_share(assignment.book[assignment.sheet].values(), assignment.target))
    assert (round(min(shares), 3), round(max(shares), 2)) == (0.125, 0.57)
    assert round(sum(shares) / 20, 2) == 0.26


@pytest.mark.parametrize("profile", ["agentgym", "fixed"])
def test_every_answer_is_written_by_the_expert_and_scored_1(
    official: ToolTaskSet, profile: str
) -> None:
    for item in items(official):
        episode = SheetWork(official)
        episode.reset(official.get(item), ResetOptions(profile=profile))
        for step in range(episode.spec.max_rounds):
            seen = episode.step(episode.advise_expert(step).action)
            if seen.terminated:
                break
        assert (seen.reward, seen.terminated) == (1.0, True), item
        grid = episode.episode.session.grid(get_assignment(official.get(item).payload).sheet)
        assert strict_share(grid, get_assignment(official.get(item).payload).target) == 1.0


def test_most_of_the_files_own_reference_actions_lead_to_the_answer(
    official: ToolTaskSet,
) -> None:
    written = [
        item
        for item in items(official)
        if any(
            call.tool == "insert_cols" for call in get_assignment(official.get(item).payload).calls
        )
    ]
    assert written == ["tool_sheet_5", "tool_sheet_6"]


def test_agents_cannot_open_the_answers(official: ToolTaskSet) -> None:
    episode = SheetWork(official)
    episode.reset(official.get("tool_sheet_0"), ResetOptions())
    seen = episode.step('Action: open_sheet with Action Input: {"name": "Answer1"}')
    assert "WorksheetNotFound('Answer1')" in seen.text


def test_without_the_workbook_there_are_no_official_tasks(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / TASKS).write_text((data_dir / TASKS).read_text())
    tasks = SheetWork.load_tasks(EnvironmentConfig(data_dir=tmp_path))
    assert set(tasks.splits()) == {"train", "eval"}
    settings = {"sheet.workbook": str(data_dir / WORKBOOK)}
    tasks = SheetWork.load_tasks(EnvironmentConfig(data_dir=tmp_path, settings=settings))
    assert tasks.splits()["official_eval"] == 20
    settings = {"sheet.workbook": str(tmp_path / "none.xlsx")}
    with pytest.raises(EnvironmentUnavailable, match=r"sheet\.workbook"):
        SheetWork.load_tasks(EnvironmentConfig(data_dir=tmp_path, settings=settings))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", 77),
        ("id", "0"),
        ("goal", None),
        ("subgoals", 3),
        ("additional_info.answer", "[["),
        ("additional_info.answer", "[[1]]"),
        ("additional_info.answer", "{}"),
    ],
)
def test_a_malformed_file_is_reported_with_file_line_and_field(
    data_dir: Path, tmp_path: Path, field: str, value: Any
) -> None:
    lines = (data_dir / TASKS).read_text().splitlines()[:3]
    row = json.loads(lines[2])
    inside = row if "." not in field else row["additional_info"]
    inside[field.rpartition(".")[2]] = value
    lines[2] = json.dumps(row)
    (tmp_path / "tools").mkdir()
    (tmp_path / TASKS).write_text("\n".join(lines))
    settings = {"sheet.workbook": str(data_dir / WORKBOOK)}
    with pytest.raises(MalformedFile) as caught:
        SheetWork.load_tasks(EnvironmentConfig(data_dir=tmp_path, settings=settings))
    assert f"sheet.jsonl, line 3, field {field}:" in str(caught.value)


def test_files_that_are_no_workbooks_or_too_large_are_refused(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    from env_servers.environments.sheet.reader import read_workbook

    text = tmp_path / "text.xlsx"
    text.write_text("no zip")
    with pytest.raises(ValueError, match=r"text\.xlsx: not an \.xlsx file"):
        read_workbook(text)
    empty = tmp_path / "empty.xlsx"
    with zipfile.ZipFile(empty, "w") as parts:
        parts.writestr("a.txt", "a")
    with pytest.raises(ValueError, match=r"empty\.xlsx: not a workbook"):
        read_workbook(empty)
    bomb = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("xl/workbook.xml", b"\0" * (129 * 2**20))
    with pytest.raises(ValueError, match="unpacks to more"):
        read_workbook(bomb)
    large = openpyxl.Workbook()
    large.active["ZZ5000"] = 1
    large.save(tmp_path / "large.xlsx")
    with pytest.raises(ValueError, match="5000 x 702 cells"):
        read_workbook(tmp_path / "large.xlsx")


def test_a_workbook_is_read_with_formats_notes_and_merged_cells(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    from env_servers.environments.sheet.reader import read_workbook

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "First"
    sheet["A1"], sheet["A2"], sheet["B2"], sheet["C2"] = "title", 2.5, True, "=A2*2"
    sheet["A2"].number_format = "0.00"
    sheet["A2"].comment = openpyxl.comments.Comment("check", "me")
    sheet.merge_cells("A1:B1")
    book.save(tmp_path / "book.xlsx")
    read = read_workbook(tmp_path / "book.xlsx")["First"]
    # A formula that no program has calculated has no value, and is never evaluated here.
    assert read.values() == [["title", "title"], ["2.50", "TRUE"]]
    assert read.rows[1][0].note == "check"
