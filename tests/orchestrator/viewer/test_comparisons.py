"""Comparisons of runs, as the viewer answers them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra viewer")

from orchestrator.run_plan import RunPlan, SessionEnd
from orchestrator.store import RunStore
from orchestrator.viewer.background import Background
from tests.kit.viewer import RunningViewer, run_viewer
from tests.orchestrator.records import build_episode, build_manifest, build_session

ITEMS = tuple(f"maze_{number}" for number in range(8))


def record_policies(folder: Path, wins: dict[str, int], *, suite: str = "") -> Path:
    """Each policy plays all items, and wins the first so many."""
    manifest = build_manifest(run_id=folder.name, config={"suite": suite})
    with RunStore.create(folder, manifest, build_session()) as store:
        store.begin_playing(RunPlan(items={"maze": ITEMS}, samples=1, policies=tuple(wins)))
        for policy, count in wins.items():
            for number, item_id in enumerate(ITEMS):
                won = number < count
                store.append_all(
                    [
                        build_episode(
                            item_id,
                            policy=policy,
                            run_id=folder.name,
                            reward=float(won),
                            success=won,
                        )
                    ]
                )
        store.end_playing(SessionEnd(interrupted=False))
    return folder


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningViewer]:
    runs = tmp_path_factory.mktemp("comparisons") / "runs"
    record_policies(runs / "weak", {"agent": 2})
    record_policies(runs / "at@home", {"agent": 7, "other@2": 1})
    with run_viewer(runs) as running:
        yield running


def compare(viewer: RunningViewer, run: str, other: str) -> dict:
    while (data := viewer.ask("compare", run=run, other=other)).get("computing"):
        time.sleep(0.01)
    return data


def test_two_runs_are_paired_by_item_with_those_that_turned(viewer: RunningViewer) -> None:
    data = compare(viewer, "runs/weak", "runs/at@home@agent")
    assert (data["run"], data["other"]) == ("runs/weak", "runs/at@home")
    (it,) = data["comparisons"]
    (figure,) = it["figures"]
    assert figure["difference"]["value"] == pytest.approx(5 / 8)
    low, high = figure["difference"]["interval"]
    assert 0 < low < 5 / 8 < high <= 1
    assert (figure["won"], figure["lost"], figure["p_value"]) == (5, 0, 0.0625)
    assert [turned["item_id"] for turned in it["turned"]["won"]["items"]] == list(ITEMS[2:7])
    turned = it["turned"]["won"]["items"][0]
    for run, name in (("runs/weak", "first"), ("runs/at@home", "second")):
        episode = viewer.ask("episode", run=run, id=turned[f"{name}_episode"])
        assert episode["summary"]["item_id"] == turned["item_id"]
    assert it["warnings"] == []


def test_policies_of_one_run_are_compared(viewer: RunningViewer) -> None:
    data = compare(viewer, "runs/at@home@agent", "runs/at@home@other@2")
    (it,) = data["comparisons"]
    assert (it["first"]["policy"], it["second"]["policy"]) == ("agent", "other@2")
    assert it["turned"]["lost"]["count"] == 6


@pytest.mark.parametrize(
    ("run", "other", "said"),
    [
        ("runs/weak", "runs/weak", "compared with itself"),
        ("runs/weak", "../etc", "no such run"),
        ("runs/weak", "runs/weak@nobody", "no policy 'nobody'"),
        ("runs/weak", "", "no such run"),
    ],
)
def test_what_cannot_be_compared_is_said(
    viewer: RunningViewer, run: str, other: str, said: str
) -> None:
    assert said in compare(viewer, run, other)["error"]


def test_what_takes_long_is_computed_once_and_the_last_result_is_kept_meanwhile() -> None:
    go_on, computed = threading.Event(), []

    def compute(value: int) -> int:
        computed.append(value)
        assert go_on.wait(60)
        return value

    background: Background[int] = Background("test", kept=1)
    try:
        assert background.newest("a", 1, lambda: compute(1)) is None
        assert background.newest("a", 1, lambda: compute(1)) is None
        go_on.set()
        assert background.ask("a", 1, lambda: compute(1)).result(60) == 1
        go_on.clear()
        while background.newest("a", 2, lambda: compute(2)) == 1 and len(computed) < 2:
            time.sleep(0.001)  # it rests after each computation
        assert background.newest("a", 2, lambda: compute(2)) == 1
        go_on.set()
        assert background.newest("a", 2, lambda: compute(2), patience=60) == 2
        assert computed == [1, 2]
        background.ask("b", 1, lambda: 3).result(60)
        assert background.ask("a", 2, lambda: 4).result(60) == 4, "only one is kept"
    finally:
        go_on.set()
        background.close()
