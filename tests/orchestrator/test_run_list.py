"""Which runs are below a folder, in which state they are, and what they come to."""

from __future__ import annotations

import errno
import io
import json
import shutil
from pathlib import Path

import pytest

from orchestrator import list as list_command
from orchestrator.manifest import MANIFEST_FILE
from orchestrator.run_folder import DATABASE_FILE
from orchestrator.run_list import RunEntry, describe_run, find_runs, list_runs
from orchestrator.run_plan import RunPlan, SessionEnd
from orchestrator.run_state import RunState
from orchestrator.statistics import Interval
from orchestrator.store import RunStore
from orchestrator.terminal import TerminalConsole
from tests.orchestrator.records import build_episode, build_failed, build_manifest, build_session

ENDED = SessionEnd(interrupted=False)


def write_run(
    folder: Path,
    episodes,
    *,
    planned: int = 2,
    end: SessionEnd | None = ENDED,
    policies: tuple[str, ...] = ("scripted",),
    created: str = "2026-01-01T00:00:00+00:00",
) -> Path:
    items = tuple(f"maze_{at}" for at in range(planned))
    with RunStore.create(folder, build_manifest(created=created), build_session()) as store:
        store.begin_playing(RunPlan(items={"maze": items}, samples=1, policies=policies))
        store.append_all(episodes)
        if end is not None:
            store.end_playing(end)
    return folder


def priced(item_id: str, usd: float, **changes):
    episode = build_episode(item_id, **changes)
    for call in episode.generations:
        call.cost_usd = usd / 2
    return episode


def both(**changes):
    return [build_episode(f"maze_{at}", **changes) for at in range(2)]


@pytest.mark.parametrize(
    ("episodes", "end", "state"),
    [
        (both(), ENDED, RunState.FINISHED),
        (both(), None, RunState.FINISHED),  # killed when everything was played
        ([build_episode("maze_0"), build_failed("maze_1")], ENDED, RunState.INCOMPLETE),
        ([build_episode("maze_0")], SessionEnd(interrupted=True), RunState.INTERRUPTED),
        ([build_episode("maze_0")], SessionEnd(interrupted=False, limit="x"), RunState.LIMITED),
        ([], None, RunState.KILLED),
    ],
)
def test_a_run_is_listed_with_the_state_that_it_is_in(tmp_path, episodes, end, state):
    entry = describe_run(write_run(tmp_path / "run", episodes, end=end))
    assert entry.state is state
    assert entry.problem == ""
    assert (entry.planned, entry.environments) == (2, ["maze"])


def test_a_run_that_is_being_played_is_live(tmp_path):
    with RunStore.create(tmp_path / "run", build_manifest(), build_session()) as store:
        store.begin_playing(RunPlan(items={"maze": ("maze_1",)}, samples=1, policies=("scripted",)))
        assert describe_run(tmp_path / "run").state is RunState.LIVE


def test_a_run_of_a_program_that_recorded_no_plan_says_nothing_of_its_state(tmp_path):
    with RunStore.create(tmp_path / "run", build_manifest(), build_session()) as store:
        store.append_all(both())
    entry = describe_run(tmp_path / "run")
    assert (entry.state, entry.planned, entry.finished) == (RunState.UNKNOWN, None, 2)


def test_missing_episodes_are_bounds_of_a_rate_and_unknown_prices_make_no_cost(tmp_path):
    episodes = [
        priced("maze_0", 0.5, policy="dear"),
        build_episode("maze_1", policy="dear", success=False, reward=0.0),
        priced("maze_0", 0.25, policy="cheap"),
    ]
    entry = describe_run(write_run(tmp_path / "run", episodes, policies=("cheap", "dear")))
    cheap, dear = entry.policies
    assert (cheap.policy, cheap.planned, cheap.judged, cheap.cost_usd) == ("cheap", 2, 1, 0.25)
    assert cheap.success.bounds == Interval(0.5, 1.0)
    assert (dear.success.value, dear.cost_usd) == (0.5, None)
    assert entry.cost_usd is None
    assert entry.tokens == sum(policy.tokens for policy in entry.policies) > 0


def test_runs_are_found_at_any_depth_and_nothing_else_is(tmp_path):
    write_run(tmp_path / "a", both())
    write_run(tmp_path / "training" / "explore-1", both())
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / MANIFEST_FILE).write_text('{"name": "a browser extension"}')
    (tmp_path / "comments").mkdir()
    (tmp_path / "comments" / MANIFEST_FILE).write_text("// another program's")
    shutil.copytree(tmp_path / "a", tmp_path / ".b.1234.creating")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = [tmp_path / "a", tmp_path / "training" / "explore-1"]
    assert find_runs([tmp_path]) == found
    assert find_runs([tmp_path / "a", tmp_path]) == found


def test_a_run_that_cannot_be_read_is_listed_with_the_reason(tmp_path, capsys):
    newer = write_run(tmp_path / "newer", both())
    document = json.loads((newer / MANIFEST_FILE).read_text())
    (newer / MANIFEST_FILE).write_text(json.dumps(document | {"schema_version": 99}))
    damaged = write_run(tmp_path / "damaged", both())
    (damaged / DATABASE_FILE).write_bytes(b"junk" * 100)
    entries = list(list_runs([tmp_path]))
    assert [entry.state for entry in entries] == [RunState.UNREADABLE] * 2
    assert "no SQLite database" in entries[0].problem
    assert "this program reads" in entries[1].problem
    assert list_command.main([str(tmp_path)]) == 1
    assert "no SQLite database" in capsys.readouterr().out


@pytest.mark.parametrize("name", [MANIFEST_FILE, DATABASE_FILE])
def test_a_file_that_the_system_does_not_give_fails_its_own_run_alone(tmp_path, name, monkeypatch):
    for folder in ("good", "bad"):
        write_run(tmp_path / folder, both())
    open_file = io.open

    def refuse(path, *args, **kwargs):
        if path == tmp_path / "bad" / name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return open_file(path, *args, **kwargs)

    monkeypatch.setattr(io, "open", refuse)  # what Path opens files with
    bad, good = list_runs([tmp_path])
    assert (bad.state, good.state) == (RunState.UNREADABLE, RunState.FINISHED)
    assert "Permission denied" in bad.problem


@pytest.fixture
def runs(tmp_path) -> Path:
    root = tmp_path / "runs"
    write_run(root / "old", both(), created="2026-01-01T00:00:00+00:00")
    write_run(
        root / "new",
        [priced("maze_0", 3.0, policy="b", success=False, reward=0.0)],
        created="2026-02-01T00:00:00+00:00",
        end=SessionEnd(interrupted=True),
        policies=("b",),
    )
    return root


def listed(capsys, *arguments: str) -> list[str]:
    assert list_command.main([*arguments, "--json"]) == 0
    return [Path(entry["folder"]).name for entry in json.loads(capsys.readouterr().out)]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ([], ["new", "old"]),
        (["--reverse"], ["old", "new"]),
        (["--sort", "name"], ["new", "old"]),
        (["--sort", "success"], ["old", "new"]),
        (["--sort", "cost"], ["new", "old"]),
        (["--sort", "episodes", "--limit", "1"], ["old"]),
        (["--state", "interrupted"], ["new"]),
        (["--state", "interrupted", "--state", "finished"], ["new", "old"]),
        (["--policy", "script"], ["old"]),
        (["--environment", "wordle"], []),
    ],
)
def test_the_list_can_be_sorted_and_filtered(runs, flags, names, capsys):
    assert listed(capsys, str(runs), *flags) == names


def test_the_table_fits_eighty_columns_whatever_runs_and_policies_are_called(
    runs, capsys, monkeypatch
):
    name = "a-run-with-quite-a-long-name-for-a-terminal"
    write_run(runs / name, [priced("maze_0", 12.5, policy=f"openai:{'x' * 60}")], policies=("y",))
    monkeypatch.setattr(list_command, "make_console", narrow_console)
    assert list_command.main([str(runs)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "12.50" in "".join(lines)
    assert "3 runs" in lines[-1]


def narrow_console():
    return TerminalConsole(width=80)


def test_a_folder_that_is_not_there_is_named(tmp_path, capsys):
    assert list_command.main([str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_an_entry_sums_up_its_policies(tmp_path):
    entry: RunEntry = describe_run(write_run(tmp_path / "run", both()))
    assert (entry.finished, entry.judged, entry.last_ended_unix_ms) == (2, 2, 1_700_000_002_500)
