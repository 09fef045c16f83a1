import json

from benchmark.load import Cell, Contender, Outcome, Report, Settings
from benchmark.manifest import Manifest
from benchmark.tables import render_markdown, summarise, write_report

MANIFEST = Manifest(
    date="2026-01-02T03:04:05+00:00",
    command="python -m benchmark.baselines",
    git_commit="abc+changes",
    cpu="A CPU",
    cores=2,
    memory_gib=4,
    system="Linux 6 x86_64",
    python="CPython 3.11.7",
    load_average=0.25,
    packages={"grpcio": "1.80"},
)
CELLS = (
    Cell(contender="fast", episodes=1, round=0, outcome=Outcome.OK, steps=100, steps_per_s=50.0,
         p50_ms=1.0, p99_ms=2.0, answered=1, client_cpu_s=0.5, server_cpu_s=0.25,
         others_cpu_s=2.5),
    Cell(contender="slow", episodes=1, round=0, outcome=Outcome.FAILED, detail="no luck"),
    Cell(contender="fast", episodes=1, round=1, outcome=Outcome.OK, steps=300, steps_per_s=150.0,
         p50_ms=3.0, p99_ms=4.0, answered=1),
    Cell(contender="slow", episodes=1, round=1, outcome=Outcome.SKIPPED, detail="at most 0"),
    Cell(contender="fast", episodes=1, round=2, outcome=Outcome.OK, steps=200, steps_per_s=100.0,
         p50_ms=2.0, p99_ms=9.0, answered=1),
    Cell(contender="fast", episodes=64, round=0, outcome=Outcome.STARVED, steps=6,
         steps_per_s=3.0, answered=6),
)  # fmt: skip
STARVED = "starved, window too short for a rate: 6 steps, 6 of 64 episodes were answered"
REPORT = Report(
    MANIFEST,
    Settings(episodes=(1, 64)),
    (Contender(name="fast", client="a:B", note="tuned"), Contender(name="slow", client="a:C")),
    CELLS,
)


def test_a_summary_is_the_median_of_the_rounds_with_its_extremes():
    row = summarise(CELLS)[0]
    assert (row.contender, row.episodes, row.rounds) == ("fast", 1, 3)
    assert (row.steps_per_s, row.lowest, row.highest) == (100.0, 50.0, 150.0)
    assert (row.p50_ms, row.p99_ms) == (2.0, 4.0)
    assert (row.client_us_per_step, row.server_us_per_step) == (5000.0, 2500.0)
    assert row.remarks == ()


def test_what_failed_or_starved_is_named():
    _, failed, starved = summarise(CELLS)
    assert failed.rounds == 0
    assert failed.remarks == ("failed: no luck", "skipped: at most 0")
    assert starved.remarks == (STARVED,)


def test_tables_show_every_contender_remark_and_the_machine():
    text = render_markdown(REPORT)
    assert "| fast | 100 (50 to 150) | 3\\* (3 to 3) |" in text
    assert "| slow | failed | - |" in text
    assert "| fast | 2.00 / 4.00 | - / - |" in text
    assert f"- fast, 64: {STARVED}" in text
    assert "- fast: tuned" in text
    assert "A CPU, 2 cores, 4 GiB" in text
    assert "other processes used 0.50 cores" in text
    assert "commit abc+changes" in text


def test_a_report_is_written_with_all_its_cells(tmp_path):
    data, table = write_report(REPORT, "now", tmp_path)
    read = json.loads(data.read_text())
    assert read["manifest"]["cpu"] == "A CPU"
    assert read["settings"]["episodes"] == [1, 64]
    assert [cell["outcome"] for cell in read["cells"]].count("ok") == 3
    assert table.read_text() == render_markdown(REPORT)
