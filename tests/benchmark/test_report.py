import json
from xml.etree import ElementTree

import pytest

from benchmark.report import page, plots
from benchmark.report.charts import Chart
from benchmark.report.tables import circumstances, tables

FILES = sorted(page.RESULTS.rglob("*.json"))


def test_every_committed_result_is_on_the_page():
    made = page.make_page()
    names = [path.relative_to(page.RESULTS).as_posix() for path in FILES]
    assert [name for name in names if f"`benchmark/results/{name}`" not in made] == []
    assert names


@pytest.mark.parametrize("name", plots.PLOTS)
def test_every_plot_has_bars_of_a_committed_result(name):
    for chart in plots.PLOTS[name](json.loads((page.RESULTS / name).read_text())):
        figure = ElementTree.fromstring(chart.svg())
        assert len(figure.findall("svg/rect")) == len(chart.values) > 0


@pytest.mark.parametrize(("logarithmic", "shares"), [(False, [0.01, 0.1, 1]), (True, [0, 0.5, 1])])
def test_bars_are_as_long_as_their_values(logarithmic, shares):
    chart = Chart("Steps", {"a & b": 1.0, "c": 10.0, "d": 100.0}, logarithmic=logarithmic)
    bars = ElementTree.fromstring(chart.svg()).findall("svg/rect")
    longest = float(bars[-1].get("width"))
    assert [float(bar.get("width")) / longest for bar in bars] == pytest.approx(shares, abs=0.01)


def test_members_of_one_kind_share_a_table_and_marks_of_markdown_are_text():
    result = {
        "rows": [{"what": "a|b", "cpu": {"p50": 1.25}}, {"what": "c", "cpu": {"p50": 2000.0}}]
    }
    heading, table = tables(result)
    assert heading == "**rows**"
    assert table.splitlines()[0] == "|  | cpu p50 |"
    assert table.splitlines()[2:] == ["| a\\|b | 1.25 |", "| c | 2,000 |"]


def test_long_lists_and_tables_say_how_much_they_leave_out():
    assert "| 9 values |" in "\n".join(tables({"rates": list(range(9))}))
    assert "1 more rows" in "\n".join(tables({"rows": {str(n): {"a": n} for n in range(61)}}))


def test_a_part_says_when_and_where_it_was_measured():
    manifest = {"date": "2026-11-21T06:21:57+00:00", "cpu": "X", "cores": 2, "load_average": 1.5}
    said = circumstances({"parts": {"alone": {"manifest": manifest}}})
    assert said == "2026-11-21, X, 2 cores, load average 1.5 before"
