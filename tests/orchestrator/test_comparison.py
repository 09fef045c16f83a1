"""Two runs side by side: what is paired, what differs, what turned, and what is not fair."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path

import pytest

from orchestrator import compare, comparison_tables, show
from orchestrator.comparison import RunComparison, compare_sides, pair_policies, read_side
from orchestrator.errors import UsageError
from orchestrator.run_folder import DATABASE_FILE
from orchestrator.run_plan import RunPlan
from orchestrator.statistics import Interval
from orchestrator.store import RunReader, RunStore
from orchestrator.terminal import TerminalConsole
from tests.orchestrator.records import build_episode, build_failed, build_manifest, build_session


def played(outcomes: str, *, policy: str = "scripted", environment: str = "maze", sample: int = 0):
    """Return an episode per sign: + solved, - not, x given up; a dot is not played."""
    names = {"environment": environment, "policy": policy, "sample": sample}
    episodes = []
    for at, outcome in enumerate(outcomes):
        item_id = f"{environment}_{at}"
        if outcome == "x":
            episodes.append(build_failed(item_id, **names))
        elif outcome in "+-":
            won = outcome == "+"
            episodes.append(build_episode(item_id, success=won, reward=float(won), **names))
    return episodes


def write_run(folder: Path, episodes, *, planned=4, policies=("scripted",), **changes) -> Path:
    samples = changes.pop("samples", 1)
    environments = changes.pop("plays", ("maze",))
    manifest, session = changes.pop("manifest", {}), changes.pop("session", {})
    plan = RunPlan(
        items={name: tuple(f"{name}_{at}" for at in range(planned)) for name in environments},
        samples=samples,
        policies=policies,
        **changes,
    )
    with RunStore.create(folder, build_manifest(**manifest), build_session(**session)) as store:
        store.begin_playing(plan)
        store.append_all(episodes)
    return folder


def compared(first: Path, second: Path, *, policies=("scripted", "scripted"), **options):
    with RunReader.open(first) as ours, RunReader.open(second) as theirs:
        sides = read_side(ours, policies[0]), read_side(theirs, policies[1])
        return compare_sides(*sides, **options)


def of_outcomes(tmp_path: Path, first: str, second: str, **options) -> RunComparison:
    planned = len(first)
    return compared(
        write_run(tmp_path / "a", played(first), planned=planned),
        write_run(tmp_path / "b", played(second), planned=planned),
        **options,
    )


def test_figures_differences_and_items_that_turned_are_of_the_same_episodes(tmp_path):
    comparison = of_outcomes(tmp_path, "++--+", "+-+++")
    [figure] = comparison.figures
    assert (figure.pairs, figure.complete) == (5, 5)
    assert (figure.first.value, figure.second.value) == (0.6, 0.8)
    assert figure.difference.value == pytest.approx(0.2)
    assert figure.difference.interval is not None
    assert figure.difference.interval.low <= 0.2 <= figure.difference.interval.high
    assert (figure.won, figure.lost, figure.p_value) == (2, 1, 1.0)
    turned = {item.item_id: (item.first_solved, item.second_solved) for item in comparison.turned}
    assert turned == {"maze_1": (1, 0), "maze_2": (0, 1), "maze_3": (0, 1)}
    assert comparison.complete
    assert comparison.differences == []


def test_what_a_side_did_not_finish_makes_bounds_and_is_listed(tmp_path):
    comparison = of_outcomes(tmp_path, "++-x", "+-.+")
    [figure] = comparison.figures
    assert (figure.pairs, figure.complete) == (4, 2)
    assert figure.first.bounds == Interval(0.5, 0.75)
    assert figure.second.bounds == Interval(0.5, 0.75)
    # The given up one may have been solved by the first, the one not played by either.
    assert figure.difference.bounds == Interval(-0.25, 0.25)
    assert {it.item_id: (it.first, it.second) for it in comparison.absent} == {
        "maze_2": ("", "not played"),
        "maze_3": ("given up: policy, POLICY_UNAVAILABLE", ""),
    }
    assert not comparison.complete


def test_the_rule_for_missing_episodes_holds_for_both_sides_and_their_difference(tmp_path):
    [figure] = of_outcomes(tmp_path / "drop", "++-x", "+-.+", missing="drop").figures
    assert (figure.pairs, figure.first.value, figure.second.value) == (2, 1.0, 0.5)
    assert figure.difference.value == -0.5
    [figure] = of_outcomes(tmp_path / "fail", "++-x", "+-.+", missing="fail").figures
    assert (figure.first.value, figure.second.value, figure.difference.value) == (0.5, 0.5, 0.0)
    [figure] = of_outcomes(tmp_path / "error", "++-x", "+-.+", missing="error").figures
    assert (figure.first.value, figure.difference.value) == (None, None)


def test_what_only_one_side_was_to_play_is_left_out_of_the_figures_and_listed(tmp_path):
    comparison = compared(
        write_run(tmp_path / "a", played("+-"), planned=2),
        write_run(tmp_path / "b", played("-++x"), planned=4),
    )
    assert [figure.pairs for figure in comparison.figures] == [2]
    assert [(it.item_id, it.first) for it in comparison.absent] == [
        ("maze_2", "not planned"),
        ("maze_3", "not planned"),
    ]


def test_samples_of_an_item_are_paired_and_the_item_counts_once_in_the_test(tmp_path):
    runs = [
        write_run(
            tmp_path / name,
            [*played(outcomes[0]), *played(outcomes[1], sample=1)],
            planned=3,
            samples=2,
        )
        for name, outcomes in (("a", ("---", "-+-")), ("b", ("+-+", "++-")))
    ]
    comparison = compared(*runs)
    [figure] = comparison.figures
    assert (figure.pairs, figure.won, figure.lost, figure.p_value) == (6, 2, 0, 0.5)
    [first, last] = comparison.turned
    assert (first.item_id, first.samples, first.first_solved, first.second_solved) == (
        *("maze_0", 2),
        *(0, 2),
    )
    assert last.item_id == "maze_2"


def test_scores_count_as_shares_of_a_perfect_one_where_they_say_more_than_success(tmp_path):
    def scored(scores):
        return [
            build_episode(f"maze_{at}", reward=score, success=score == 10)
            for at, score in enumerate(scores)
        ]

    comparison = compared(
        write_run(tmp_path / "a", scored([10, 5, 0]), planned=3, perfect_scores={"maze": 10.0}),
        write_run(tmp_path / "b", scored([10, 6, 3]), planned=3, perfect_scores={"maze": 10.0}),
    )
    success, score = comparison.figures
    assert (success.metric, success.won, success.p_value) == ("success rate", 0, 1.0)
    assert (score.metric, score.won, score.lost, score.p_value) == ("mean score", 2, 0, None)
    assert score.difference.value == pytest.approx(0.4 / 3)


def test_environments_are_compared_one_by_one_and_together(tmp_path):
    both = {"plays": ("maze", "wordle"), "planned": 2}
    comparison = compared(
        write_run(tmp_path / "a", [*played("+-"), *played("--", environment="wordle")], **both),
        write_run(tmp_path / "b", [*played("++"), *played("+-", environment="wordle")], **both),
    )
    assert [(it.environment, it.pairs, it.won) for it in comparison.figures] == [
        ("maze", 2, 1),
        ("wordle", 2, 1),
        ("", 4, 2),
    ]


def test_two_policies_of_one_run_are_compared(tmp_path, capsys):
    policies = ("expert", "random")
    episodes = [*played("+++", policy="expert"), *played("-+-", policy="random")]
    run = str(write_run(tmp_path / "runs@home", episodes, planned=3, policies=policies))
    assert compare.main([f"{run}@expert", f"{run}@random", "--json"]) == 0
    [data] = json.loads(capsys.readouterr().out)
    assert (data["first"]["policy"], data["second"]["policy"]) == policies
    assert data["figures"][0]["lost"] == 2
    assert compare.main([run, run]) == 2
    assert "compared with itself" in capsys.readouterr().err
    assert compare.main([f"{run}@expert", f"{run}@nobody"]) == 2
    assert "valid: expert, random" in capsys.readouterr().err


def test_policies_of_the_same_name_are_paired_else_the_only_ones(tmp_path):
    both = write_run(tmp_path / "ab", [], policies=("a", "b"))
    only_b = write_run(tmp_path / "b", [], policies=("b",))
    only_c = write_run(tmp_path / "c", [], policies=("c",))
    with RunReader.open(both) as ab, RunReader.open(only_b) as b, RunReader.open(only_c) as c:
        assert pair_policies(ab, ab) == [("a", "a"), ("b", "b")]
        assert pair_policies(ab, b) == [("b", "b")]
        assert pair_policies(b, c) == [("b", "c")]
        assert pair_policies(ab, c, ours="a") == [("a", "c")]
        with pytest.raises(UsageError, match=r"no policy in common.*ab@a.*c@c"):
            pair_policies(ab, c)


def test_runs_that_share_no_item_are_refused(tmp_path, capsys):
    first = write_run(tmp_path / "a", played("+"), planned=1)
    other = write_run(tmp_path / "b", played("+", environment="wordle"), plays=("wordle",))
    assert compare.main([str(first), str(other)]) == 2
    assert "no item in common" in capsys.readouterr().err
    assert compare.main([str(first)]) == 2
    assert "two runs at least" in capsys.readouterr().err


# ---------------------------------------------------------------- settings that are not fair


def changed(**changes):
    [episode] = played("+")
    for name, value in changes.items():
        setattr(episode, name, value)
    return episode


def options(episode):
    episode.options.update({"size": 9})
    return episode


def opening(episode):
    episode.messages[0].text = "Do find the goal, will you?"
    return episode


@pytest.mark.parametrize(
    ("episode", "setting"),
    [
        (changed(split="train"), "maze.split"),
        (changed(profile="fixed"), "maze.profile"),
        (changed(seed=99), "maze.seed"),
        (changed(environment_digest="other"), "maze.digest"),
        (changed(action_format=2), "maze.action_format"),
        (options(changed()), "maze.options.size"),
        (opening(changed()), "maze.conversation_start"),
    ],
)
def test_what_the_records_of_an_item_differ_in_is_warned_of(tmp_path, episode, setting):
    comparison = compared(
        write_run(tmp_path / "a", played("+"), planned=1),
        write_run(tmp_path / "b", [episode], planned=1),
    )
    assert [difference.field for difference in comparison.differences] == [setting]


def command_config(**changes):
    """Return a configuration as a command records it."""
    from agent_runtime.policies import PolicyConfig, PolicySpec, Sampling
    from orchestrator.config import RunConfig

    sampling = Sampling(temperature=changes.pop("temperature", 0.0))
    fields = {"environments": ("maze",), "policies": (PolicySpec("openai", "m"),)} | changes
    return RunConfig(agent=PolicyConfig(sampling=sampling), **fields).resume_key()


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        ({"max_rounds": 5}, ["maze.max_rounds"]),
        ({"samples": 2}, ["maze.samples"]),
        ({"temperature": 1.0}, ["agent.sampling.temperature"]),
        ({"episodes": 3, "seed": 5}, []),  # what they come to is seen in the items
    ],
)
def test_what_the_manifests_differ_in_is_warned_of(tmp_path, changes, settings):
    model = {"policy": "openai:m"}
    runs = [
        write_run(
            tmp_path / name,
            played("+", **model),
            planned=1,
            policies=("openai:m",),
            manifest={"config": command_config(**changes)},
        )
        for name, changes in (("a", {}), ("b", changes))
    ]
    comparison = compared(*runs, policies=("openai:m", "openai:m"))
    assert [difference.field for difference in comparison.differences] == settings


def test_settings_of_models_do_not_matter_beside_a_scripted_player(tmp_path):
    policies = ("expert", "random")
    runs = [
        write_run(
            tmp_path / name,
            played("+", policy=name),
            planned=1,
            policies=(name,),
            manifest={"config": command_config(temperature=temperature)},
        )
        for name, temperature in zip(policies, (0.0, 1.0), strict=True)
    ]
    assert compared(*runs, policies=policies).differences == []


def test_other_code_and_fields_of_other_programs_are_warned_of(tmp_path):
    comparison = compared(
        write_run(tmp_path / "a", played("+"), planned=1, session={"code_hash": "a" * 64}),
        write_run(
            tmp_path / "b",
            played("+"),
            planned=1,
            session={"code_hash": "b" * 64},
            manifest={"config": {"samples": 3}, "sampling": {"temperature": 0.5}},
        ),
    )
    names = [difference.field for difference in comparison.differences]
    assert names == ["code.code_hash", "config.samples", "sampling.stop", "sampling.temperature"]


# ---------------------------------------------------------------- what is printed


@pytest.fixture
def runs(tmp_path) -> tuple[str, str]:
    hostile = changed(split="train")
    hostile.environment_digest = "\x1b[31m<script>|"
    first = write_run(tmp_path / "a first", [*played("+--+x"), *played(".....+")], planned=6)
    second = write_run(tmp_path / "b", [hostile, *played(".++-+")], planned=6)
    return str(first), str(second)


def test_the_terminal_says_all_of_it_in_eighty_columns(runs, capsys, monkeypatch):
    monkeypatch.setattr(compare, "make_console", lambda: TerminalConsole(width=80))
    assert compare.main([*runs, "--items", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[2 : next(at for at, line in enumerate(lines) if line.startswith("SETTINGS"))]
    assert len(table) > 6
    assert max(map(len, table)) <= 80
    told = "\n".join(lines)
    assert "\x1b" not in told
    assert 'maze.split: "eval" -> "train"' in told
    assert (
        "1 episodes are missing in the first: given up: policy, POLICY_UNAVAILABLE (maze_4)" in told
    )
    assert "1 episodes are missing in the second: not played (maze_5)" in told
    assert "2 items won by the second:" in told
    assert "1 more: --items 0 lists them" in told


def test_the_command_that_shows_an_item_can_be_pasted(runs, capsys):
    assert compare.main([*runs, "--json"]) == 0
    [data] = json.loads(capsys.readouterr().out)
    [item] = [it for it in data["turned"] if it["item_id"] == "maze_3"]
    for command in (item["show_first"], item["show_second"]):
        _, _, _, *arguments = shlex.split(command)
        assert show.main([*arguments, "--plain"]) == 0
        assert "maze_3" in capsys.readouterr().out


def test_markdown_and_csv_have_a_line_per_figure(runs, capsys):
    assert compare.main([*runs, "--format", "markdown"]) == 0
    told = capsys.readouterr().out
    assert "| maze | success | 6 | " in told
    assert "<script>" not in told
    assert "\x1b" not in told
    assert compare.main([*runs, runs[1], "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["environment"], row["pairs"], row["won"]) for row in rows] == [
        ("maze", "6", "2")
    ] * 2
    assert float(rows[0]["difference_low_bound"]) <= float(rows[0]["difference_high_bound"])


@pytest.mark.parametrize("shape", [[], ["--format", "csv"], ["--format", "markdown"], ["--json"]])
def test_what_a_strangers_run_is_called_controls_no_terminal(tmp_path, shape, capsys):
    name = "maze\x1b[31m<b>|"
    runs = [
        write_run(tmp_path / side, played(won, environment=name), plays=(name,), planned=1)
        for side, won in (("a", "+"), ("b", "-"))
    ]
    assert compare.main([*map(str, runs), *shape]) == 0
    told = capsys.readouterr().out
    assert "\x1b" not in told
    assert "31m" in told


def test_incomplete_figures_can_be_refused_and_damage_is_said(runs, tmp_path, capsys):
    assert compare.main([*runs, "--missing", "error"]) == 1
    assert "not all of the episodes" in capsys.readouterr().err
    (Path(runs[0]) / DATABASE_FILE).write_bytes(b"junk" * 100)
    assert compare.main([*runs]) == 1
    assert "no SQLite database" in capsys.readouterr().err


def test_without_any_difference_between_pairs_there_is_no_interval_and_that_is_said(tmp_path):
    comparison = of_outcomes(tmp_path, "++-", "++-")
    assert comparison.figures[0].difference.interval is None
    assert any("no interval" in line for line in comparison_tables.warnings(comparison))
