"""Whatever reads runs takes one of several shards, and says what it says of one with one store."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestrator import audit, compare, export, replay, rescore, show
from orchestrator import list as list_runs
from orchestrator.config import RunConfig, parse_policies
from orchestrator.fleet import FleetConfig
from orchestrator.formats import WRITERS
from orchestrator.run import run as play
from orchestrator.run_folder import SHARDS_FOLDER
from orchestrator.run_plan import SessionEnd
from orchestrator.store import RunReader, RunStore
from tests.kit.viewer import run_viewer

Told = Callable[..., Any]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run twice: in one store (`alone/run`), and in shards (`shared/run`)."""
    place = tmp_path_factory.mktemp("readers")
    config = RunConfig(
        environments=("maze",),
        policies=parse_policies("expert,random"),
        split="train",
        episodes=4,
        fleet=FleetConfig(spawn=1),
    )
    alone = place / "alone" / "run"
    asyncio.run(play(config, alone, resume=False, console=Console(quiet=True)))
    divide(alone, place / "shared" / "run")
    return place


def divide(alone: Path, shared: Path) -> None:
    """Write a run's records anew: one into its own store, the others into two shards."""
    with RunReader.open(alone) as reader:
        records, plan, manifest = [*reader.episodes()], reader.plan(), reader.manifest
    session = manifest.sessions[0]
    assert plan is not None
    with RunStore.create(shared, manifest, session) as store:
        store.begin_playing(plan)
        store.append_all(records[:1])
        for name, part in (("w0", records[1:4]), ("w1", records[4:])):
            with RunStore.open_shard(shared, name, session) as shard:
                shard.append_all(part)
        store.note_shards(["w0", "w1"])
        store.end_playing(SessionEnd(interrupted=False))
    assert {it.name for it in (shared / SHARDS_FOLDER).iterdir()} == {"w0", "w1"}


@pytest.fixture
def told(played: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    """What a command prints of each of the two."""

    def ask(main: Callable[[list[str]], int], *flags: str, of: str = "run") -> tuple[str, str]:
        said = []
        for name in ("alone", "shared"):
            assert main([str(played / name / of), *flags]) == 0
            said.append(capsys.readouterr().out.replace(str(played / name), ""))
        return said[0], said[1]

    return ask


def data(texts: tuple[str, str]) -> tuple[Any, Any]:
    one, union = map(json.loads, texts)
    return one, union


def test_show_sums_it_up_and_lists_it_alike(told: Told) -> None:
    one, union = told(show.main, "--list")
    assert union == one and one.count("maze_") >= 8
    one, union = data(told(show.main, "--json"))
    assert union == one and one["agentgym_complete"]


def test_show_finds_an_episode_of_a_shard(told: Told, played: Path) -> None:
    with RunReader.open(played / "shared" / "run" / SHARDS_FOLDER / "w1") as shard:
        last = [*shard.episodes()][-1]
    one, union = told(show.main, "--episode", last.episode_id)
    assert union == one and last.item_id in one


def test_a_list_of_runs_has_its_figures(told: Told) -> None:
    def figures(listed: Any) -> Any:
        (entry,) = listed["runs"] if isinstance(listed, dict) else listed
        return {name: entry[name] for name in ("state", "finished", "policies")}

    one, union = data(told(list_runs.main, "--json", of=""))
    assert figures(union) == figures(one)


@pytest.mark.parametrize("name", [*WRITERS])
def test_every_format_is_exported_alike(played: Path, tmp_path: Path, name: str) -> None:
    if name in ("parquet", "huggingface"):
        pytest.importorskip("pyarrow", reason="needs the extra parquet")
    written = []
    for of in ("alone", "shared"):
        out = tmp_path / f"{of}-{name}"
        assert export.main([str(played / of / "run"), "--format", name, "--out", str(out)]) == 0
        written.append(content(out).replace(of.encode(), b""))
    assert written[1] == written[0]


def content(out: Path) -> bytes:
    """The bytes of a file, or of all files of a folder."""
    files = [out] if out.is_file() else sorted(it for it in out.rglob("*") if it.is_file())
    return b"".join(it.read_bytes() for it in files)


def test_a_page_has_all_its_episodes(played: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert export.main([str(played / "shared" / "run"), "--format", "html", "--out", str(out)]) == 0
    with RunReader.open(played / "alone" / "run") as reader:
        assert all(it.item_id in out.read_text() for it in reader.summaries())


def test_an_audit_gives_the_same_digest(played: Path) -> None:
    digests = set()
    for of in ("alone", "shared"):
        assert audit.main([str(played / of / "run")]) == 0
        certificate = json.loads((played / of / "run" / "audit.json").read_text())
        digests.add((certificate["records_sha256"], certificate["episodes"]))
    assert len(digests) == 1


def test_its_actions_are_replayed(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay.main([str(played / "shared" / "run"), "--spawn", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["environments"]["maze"]["episodes"] == 8


def test_it_is_judged_anew_and_shown_by_that(told: Told, played: Path) -> None:
    one, union = data(told(rescore.main, "--threshold", "0.5", "--json"))
    assert union["results"] == one["results"]
    one, union = data(told(show.main, "--scores", "threshold-0.5", "--json"))
    assert union["results"] == one["results"]
    for of in ("alone", "shared"):
        shutil.rmtree(played / of / "run" / "scores")


def test_it_is_compared_with_its_like(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(played / of / "run") for of in ("alone", "shared")]
    assert compare.main([*runs, "--json"]) == 0
    assert capsys.readouterr().out


def test_the_viewer_has_its_figures_and_all_its_episodes(played: Path) -> None:
    answers = []
    for of in ("alone", "shared"):
        with run_viewer(played / of) as viewer:
            report = viewer.ask("run", run=f"{of}/run")["report"]
            listed = viewer.ask("episodes", run=f"{of}/run")
            found = [it["episode_id"] for it in listed["rows"]]
            turns = [viewer.ask("episode", run=f"{of}/run", id=it)["turns"] for it in found]
            answers.append((report, found, turns))
    assert answers[1] == answers[0]
