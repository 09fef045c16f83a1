from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.records import summarise
from tests.orchestrator.records import build_episode
from training.rollouts.jobs import EvalRun
from training.rollouts.results import Metric, Row, as_markdown, as_table, draw, measure, pool


def figure(*values: float, environment: str = "maze", by_score: bool = False) -> Metric:
    return Metric(environment, by_score, tuple((f"i{n}", v) for n, v in enumerate(values)))


def test_a_figure_is_the_success_rate_where_the_metric_is_success():
    episodes = [summarise(build_episode(f"maze_{n}")) for n in range(4)]
    found = measure(
        EvalRun(Path("run"), "maze", by_score=False, perfect=1.0),
        [it._replace(success=n > 0, fault=None) for n, it in enumerate(episodes)],
    )
    assert found.mean == 0.75


def test_a_perfect_score_is_one_whatever_the_unit():
    episodes = [summarise(build_episode(f"sciworld_{n}")) for n in range(2)]
    found = measure(
        EvalRun(Path("run"), "sciworld", by_score=True, perfect=100.0),
        [it._replace(score=score) for it, score in zip(episodes, (50.0, 100.0), strict=True)],
    )
    assert found.mean == 0.75


def test_a_failed_episode_is_no_result():
    one = summarise(build_episode("maze_1"))
    lost = one._replace(fault="POLICY", success=None, score=None)
    found = measure(EvalRun(Path("run"), "maze", by_score=False, perfect=1.0), [lost])
    assert found.values == ()
    assert found.mean is None


def test_seeds_are_pooled_without_pretending_to_more_items():
    once, thrice = figure(1, 0, 1, 1), pool([figure(1, 0, 1, 1)] * 3)
    assert thrice.mean == once.mean
    assert once.interval is not None
    assert thrice.interval is not None
    assert thrice.interval.low == pytest.approx(once.interval.low, abs=0.05)


def test_figures_survive_json():
    it = figure(1, 0, by_score=True)
    assert Metric.from_plain(json.loads(json.dumps(it.to_plain()))) == it


def test_the_table_shows_what_is_missing_as_missing():
    rows = [Row("BC_base", {"maze": figure(1, 0)}, "2 episodes"), Row("none", {})]
    text = as_markdown(rows, ["maze", "wordle"])
    assert "| BC_base | 50.0 [" in text
    assert text.splitlines()[3] == "| none | - | - | - |  |"
    console = Console(record=True, width=120, file=None, quiet=True)
    console.print(as_table(rows, ["maze", "wordle"], title="t"))


def test_a_row_has_a_mean_only_where_every_environment_was_measured():
    assert Row("a", {"maze": figure(1, 0), "wordle": figure(1)}).mean == 0.75
    assert Row("a", {"maze": figure(1, 0), "wordle": figure()}).mean is None


def test_the_plot_has_a_panel_for_each_environment(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    steps = [{"maze": figure(0, 0, 1)}, {"maze": figure(1, 0, 1)}]
    draw(tmp_path / "plot.png", steps, {"maze": figure(1, 1, 1)}, ["maze"])
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
