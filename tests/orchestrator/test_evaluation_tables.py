"""The tables of an evaluation, from figures made by hand."""

from __future__ import annotations

import csv
import io

import pytest
from rich.console import Console

from orchestrator.evaluation import Evaluation, Figure, as_data
from orchestrator.evaluation_tables import TABLE3, TableFormat, print_tables
from orchestrator.statistics import Interval, Measured


def figure(environment: str, policy: str, measured: Measured, missing: int = 0) -> Figure:
    return Figure(
        environment=environment,
        policy=policy,
        category="",
        metric="success rate",
        measured=measured,
        planned=10,
        judged=10 - missing,
        given_up=missing,
        missing=missing,
        tokens_per_success=1234.0,
        usd_per_success=None,
    )


def evaluation(*, gap: str = "", missing: int = 0) -> Evaluation:
    """Every environment of the paper and one more; may lack one, or one's episodes."""
    names = [*TABLE3, "sheet"]
    figures = [
        figure(name, policy, Measured(0.5, None, Interval(0.4, 0.6)))
        for name in names
        for policy in ("a_b", "c")
        if name != gap
    ]
    if missing:
        bounds = Measured(None, Interval(0.2, 0.4), Interval(0.1, 0.5))
        figures[0] = figure("webshop", "a_b", bounds, missing)
    return Evaluation(
        title="Mine",
        complete=not (gap or missing),
        gaps={gap: "it is not there"} if gap else {},
        environments=names,
        policies=("a_b", "c"),
        figures=figures,
        categories=[],
        pass_rates=[],
    )


def printed(it: Evaluation, table_format: TableFormat) -> str:
    console = Console(file=io.StringIO(), width=80)
    print_tables(it, table_format, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_papers_table_has_its_columns_in_its_order_a_mean_and_the_counts() -> None:
    lines = printed(evaluation(), "table3").splitlines()
    heading = next(line for line in lines if "policy" in line)
    assert heading.split() == [
        "policy",
        "WS",
        "ALF",
        "TC",
        "Sci",
        "Baby",
        "MZ",
        "WD",
        "WT",
        "MV",
        "TL",
        "BD",
        "mean",
    ]
    row = next(line for line in lines if line.split()[:1] == ["a_b"])
    assert row.split() == ["a_b", *["50.0"] * 12]
    assert "a_b: 110 planned, 110 judged, 0 given up" in lines


def test_without_one_of_the_eleven_there_is_no_mean() -> None:
    (row,) = [it for it in printed(evaluation(gap="bird"), "table3-csv").splitlines() if "c," in it]
    assert row == "c," + "50.0," * 10 + ",,100,100,0"
    assert printed(evaluation(gap="bird"), "table3").split()[:2] == ["Mine,", "INCOMPLETE"]


def test_an_environment_that_is_not_in_the_paper_changes_no_mean_of_its_table() -> None:
    (row,) = [
        it for it in printed(evaluation(gap="sheet"), "table3-csv").splitlines() if "c," in it
    ]
    assert row == "c," + "50.0," * 12 + "110,110,0"


def test_missing_episodes_are_bounds_of_the_figure_and_of_the_mean() -> None:
    rows = list(csv.DictReader(io.StringIO(printed(evaluation(missing=2), "table3-csv"))))
    assert (rows[0]["WS"], rows[0]["mean"]) == ("20.0..40.0", "47.3..49.1")
    assert (rows[0]["planned"], rows[0]["judged"], rows[0]["given_up"]) == ("110", "108", "2")
    assert rows[1]["mean"] == "50.0"


@pytest.mark.parametrize(
    ("table_format", "line"),
    [
        ("table3-markdown", "| a_b | 20.0..40.0 | 50.0 |"),
        ("table3-latex", r"a\_b & 20.0--40.0 & 50.0 &"),
    ],
)
def test_papers_and_pages_have_their_own_spelling(table_format: TableFormat, line: str) -> None:
    assert line in printed(evaluation(missing=2), table_format)


def test_the_table_of_environments_names_what_was_not_played_and_what_a_solved_task_took() -> None:
    shown = printed(evaluation(gap="bird"), "table")
    assert next(it for it in shown.splitlines() if "bird" in it).split()[1:3] == ["not", "played"]
    assert "50.0 [40.0, 60.0]" in shown
    assert "1,234" in shown


def test_a_gap_leaves_no_mean_in_the_data_either() -> None:
    assert as_data(evaluation())["means"] == {"a_b": 0.5, "c": 0.5}
    assert as_data(evaluation(gap="sheet"))["means"] == {"a_b": None, "c": None}
