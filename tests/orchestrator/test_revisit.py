"""Going back to a turn of a recorded episode: one turn is shown, and drawn by its environment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import environment_pb2_grpc
from agentgym.episode.v1 import episode_pb2
from orchestrator import sample, show
from orchestrator.client import ClientConfig, connection_options
from orchestrator.errors import ReplayDiverged, UsageError
from orchestrator.fleet import Fleet, FleetConfig
from orchestrator.revisit import revisit
from orchestrator.store import RunReader
from tests.kit.server_process import ServerProcess


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A run of one maze, and the server that it was played on."""
    folder = tmp_path_factory.mktemp("played")
    with ServerProcess(folder, environments=["maze"]) as server:
        flags = ["--env", "maze", "--policy", "expert", "--episodes", "1"]
        run = folder / "run"
        assert sample.main([*flags, "--servers", server.address, "--out", str(run)]) == 0
        yield run, server.address


def record_of(run: Path) -> episode_pb2.Episode:
    with RunReader.open(run) as reader:
        return next(reader.episodes())


def state_after(record: episode_pb2.Episode, turn: int, address: str) -> tuple[int, bytes]:
    async def go() -> tuple[int, bytes]:
        fleet = Fleet(
            [record.environment],
            FleetConfig(servers=(address,)),
            connection_options(ClientConfig()),
        )
        async with fleet, revisit(record, turn, fleet) as live:
            pictures = await live.connection.render(live.episode_id)
            return live.seq, pictures.state_hash

    return asyncio.run(go())


def test_every_turn_is_found_again_in_its_state(played: tuple[Path, str]) -> None:
    run, address = played
    record = record_of(run)
    last = len(record.steps) - 1
    for turn in (0, 1, last):
        assert state_after(record, turn, address) == (turn, record.steps[turn].state_hash)
    with pytest.raises(UsageError, match=f"no turn {last + 1}: 0 to {last} were played"):
        state_after(record, last + 1, address)


def live_episodes(address: str) -> int:
    with grpc.insecure_channel(address) as channel:
        service = environment_pb2_grpc.EnvironmentServiceStub(channel)
        return service.ListEpisodes(pb.ListEpisodesRequest()).total_size


def test_the_scratch_episode_has_ended_on_the_server(played: tuple[Path, str]) -> None:
    run, address = played
    state_after(record_of(run), 1, address)
    assert live_episodes(address) == 0


def test_what_comes_out_otherwise_is_said_with_its_turn(played: tuple[Path, str]) -> None:
    run, address = played
    record = record_of(run)
    record.steps[2].observation = "You see a dragon."
    assert state_after(record, 1, address)[0] == 1
    with pytest.raises(ReplayDiverged, match=r"turn 2 of maze_\d+ .* observation was 'You see a"):
        state_after(record, 2, address)


def test_one_turn_is_shown_with_the_picture_of_its_state(
    played: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    run, address = played
    record = record_of(run)
    turn = [str(run), "--episode", record.episode_id, "--turn", "1", "--plain"]
    assert show.main([*turn, "--picture", "--servers", address]) == 0
    told = capsys.readouterr().out
    assert "assistant - turn 1" in told
    assert "turn 2" not in told
    assert record.steps[1].observation.split(".")[0] in told
    assert record.steps[0].observation not in told
    assert "#" * 5 in told  # the walls
    assert "@" in told
    assert "not for terminals: map (image/svg+xml)" in told


def test_the_opening_is_turn_0(
    played: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = played
    record = record_of(run)
    assert show.main([str(run), "--item", record.item_id, "--turn", "0", "--plain"]) == 0
    told = capsys.readouterr().out
    assert "assistant - turn" not in told
    assert record.steps[0].observation.split(".")[0] in told


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--turn", "1"], "--turn is of an episode"),
        (["--episode", "ID", "--turn", "99"], "has no turn 99"),
        (["--episode", "ID", "--turn", "-1"], "has no turn -1"),
        (["--episode", "ID", "--turn", "1", "--json"], "leave --turn out"),
        (["--episode", "ID", "--picture"], "give --episode and --turn"),
    ],
)
def test_what_cannot_be_shown_says_why(
    played: tuple[Path, str], flags: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = played
    named = [record_of(run).episode_id if flag == "ID" else flag for flag in flags]
    assert show.main([str(run), *named]) == 2
    assert problem in capsys.readouterr().err
