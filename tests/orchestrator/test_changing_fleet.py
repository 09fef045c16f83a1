"""Fleets whose servers join, leave, drain and differ while episodes are played on real servers."""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2_grpc
from rich.console import Console

from agent_runtime.channel import ClientSecurity, ConnectionOptions
from agent_runtime.episode import RemoteEpisode
from agent_runtime.errors import ConnectionLost
from agent_runtime.policies import PolicySpec
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from env_servers.server import Security
from orchestrator import discovery
from orchestrator.config import RunConfig
from orchestrator.errors import FleetError
from orchestrator.fleet import Fleet, Place
from orchestrator.run import run
from orchestrator.servers import FleetConfig
from tests.kit.proxy import FaultyProxy
from tests.kit.secure_server import write_certificates
from tests.kit.servers import serving
from tests.kit.waiting import until

OPTIONS = ConnectionOptions(connect_deadline=5.0)


async def placed(fleet: Fleet, count: int) -> Counter[str]:
    """Take places and give them back; how many each server got."""
    places = [await fleet.acquire("echo") for _ in range(count)]
    for place in places:
        place.release()
    return Counter(place.connection.address for place in places)


def episode(place: Place, name: str) -> RemoteEpisode:
    reset = pb.Reset(environment="echo", item_id="echo_1000000")
    reset.options.update({"length": 0})
    return RemoteEpisode(place.connection, name, reset, deterministic=True, reroute=place.reroute)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.discovery.FileSource.interval", 0.05)
    monkeypatch.setattr("orchestrator.discovery.DnsSource.interval", 0.05)
    monkeypatch.setattr("orchestrator.fleet._REVIVE_SECONDS", 0.05)


async def test_servers_of_a_file_join_and_leave_while_their_episodes_go_on(tmp_path: Path) -> None:
    path, said = tmp_path / "servers", list[str]()
    async with AsyncExitStack() as stack:
        one, two, other = [
            (await stack.enter_async_context(serving())).addresses[0] for _ in range(3)
        ]
        path.write_text(one)
        fleet = await stack.enter_async_context(
            Fleet(["echo"], FleetConfig(servers_file=path), OPTIONS)
        )
        fleet.on_event = said.append
        place = await fleet.acquire("echo")
        live = episode(place, "stays")
        await live.reset()
        before = fleet.capacities()["echo"]
        path.write_text(json.dumps([one, {"address": two, "capacity": 3}]))
        await until(lambda: f"{two} has joined" in said)
        assert fleet.capacities()["echo"] == before + 3
        assert (await placed(fleet, 40)).keys() >= {one}
        path.write_text("this is no list")
        await until(lambda: any("the servers stay as they were" in it for it in said))
        assert len(fleet) == 2
        path.write_text(f"{two}\n{other}\n")
        await until(lambda: f"{other} has joined" in said)
        assert f"{one} leaves; its 1 episodes may end there" in said
        assert one not in await placed(fleet, 40)
        assert (await live.step("still here")).seq == 1
        assert (live.rebuilds, live.connection.address) == (0, one)
        live.close()
        place.release()
        assert len(fleet) == 2


async def test_servers_of_the_own_node_are_preferred_until_they_are_full() -> None:
    async with serving() as near, serving() as far:
        here, there = near.addresses[0], far.addresses[0]
        members = [
            discovery.Member(there, node="b"),
            discovery.Member(here, capacity=3, node="a"),
        ]
        source = discovery.ToldSource(members)
        async with Fleet(["echo"], FleetConfig(), OPTIONS, source=source, node="a") as fleet:
            assert await placed(fleet, 5) == {here: 3, there: 2}
        async with Fleet(["echo"], FleetConfig(), OPTIONS, source=source) as fleet:
            assert await placed(fleet, 5) == {there: 5}


async def test_a_server_that_drains_gets_nothing_new_and_none_of_its_episodes_moves() -> None:
    async with serving() as draining, serving() as other:
        addresses = draining.addresses[0], other.addresses[0]
        async with Fleet(["echo"], FleetConfig(servers=addresses), OPTIONS) as fleet:
            said: list[str] = []
            changes: list[int] = []
            fleet.on_event = said.append
            both = fleet.capacities()["echo"]
            places = [await fleet.acquire("echo") for _ in range(4)]
            games = [episode(it, f"game-{number}") for number, it in enumerate(places)]
            for game in games:
                await game.reset()

            def note_capacity() -> None:
                changes.append(fleet.capacities()["echo"])

            with fleet.followed(note_capacity, lambda _failure: None):
                assert changes == [both]
                await draining._set_health(serving=False)
                await until(lambda: len(changes) == 2)
                assert said == [f"{addresses[0]} drains; its 2 episodes may end there"]
                assert changes[-1] < both
                assert await placed(fleet, 20) == {addresses[1]: 20}
                for game in games:
                    assert (await game.step("on")).seq == 1
                    assert game.rebuilds == 0
                await draining._set_health(serving=True)
                await until(lambda: len(changes) == 3)
            assert said[1:] == [f"{addresses[0]} takes new episodes again"]
            assert len(await placed(fleet, 20)) == 2


async def test_an_episode_that_finds_a_server_full_is_opened_on_another() -> None:
    async with (
        serving(limits={"max_episodes": 2}) as full,
        serving(limits={"max_episodes": 2}) as roomy,
    ):
        config = FleetConfig(servers=(full.addresses[0], roomy.addresses[0]))
        async with (
            Fleet(["echo"], FleetConfig(servers=(full.addresses[0],)), OPTIONS) as others,
            Fleet(["echo"], config, OPTIONS) as fleet,
        ):
            theirs = [episode(await others.acquire("echo"), f"theirs-{it}") for it in range(2)]
            for game in theirs:
                await game.reset()
            places = [await fleet.acquire("echo") for _ in range(2)]
            ours = [episode(it, f"ours-{number}") for number, it in enumerate(places)]
            assert {it.connection.address for it in ours} == set(config.servers)
            async with asyncio.timeout(30):
                await asyncio.gather(*(game.reset() for game in ours))
            assert [it.connection.address for it in places] == [roomy.addresses[0]] * 2
            assert [it.episodes for it in fleet._handles] == [0, 2]


async def test_a_name_with_more_addresses_than_before_has_more_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = ["127.0.0.2"]

    async def lookup(_host: str, _port: int) -> Sequence[str]:
        if not found:
            raise OSError("no name server")
        return found

    monkeypatch.setattr(discovery, "_look_up", lookup)
    async with serving(bind=("127.0.0.2:0",)) as first:
        port = first.addresses[0].rpartition(":")[2]
        config = FleetConfig(servers_dns=f"environments.test:{port}")
        async with Fleet(["echo"], config, OPTIONS) as fleet:
            said: list[str] = []
            fleet.on_event = said.append
            found.append("127.0.0.3")  # before anything listens there
            await until(lambda: len(fleet) == 2)
            assert await placed(fleet, 4) == {f"127.0.0.2:{port}": 4}
            async with serving(bind=(f"127.0.0.3:{port}",)):
                await until(lambda: said == [f"127.0.0.3:{port} has joined"])
                assert len(await placed(fleet, 4)) == 2
                found.clear()
                await until(lambda: len(said) == 2)
                assert said[1].endswith("no name server; the servers stay as they were")
                assert len(await placed(fleet, 4)) == 2


async def test_a_server_that_joins_with_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, said = tmp_path / "servers", list[str]()
    async with serving() as own, serving() as another:
        tasks = another.handler.hosts["echo"].loaded.tasks
        monkeypatch.setattr(tasks, "digest", lambda: b"other tasks", raising=False)
        path.write_text(own.addresses[0])
        async with Fleet(["echo"], FleetConfig(servers_file=path), OPTIONS) as fleet:
            fleet.on_event = said.append
            path.write_text(f"{own.addresses[0]}\n{another.addresses[0]}\n")
            await until(lambda: said)
            assert said[0].startswith(f"{another.addresses[0]} is refused: it serves echo ")
            assert await placed(fleet, 4) == {own.addresses[0]: 4}


async def test_servers_that_fail_or_are_slow_get_less() -> None:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving()) for _ in range(3)]
        addresses = tuple(server.addresses[0] for server in servers)
        fleet = await stack.enter_async_context(
            Fleet(["echo"], FleetConfig(servers=addresses), OPTIONS)
        )
        said: list[str] = []
        fleet.on_event = said.append
        by_address = {it.address: it for it in fleet._handles}
        fine = episode_pb2.Episode(environment="echo", environment_seconds=0.1)
        fine.steps.add()
        slow = episode_pb2.Episode(environment="echo", environment_seconds=1.0)
        slow.steps.add()
        failed = episode_pb2.Episode(environment="echo")
        failed.error.fault = types_pb2.FAULT_ENVIRONMENT
        for _ in range(5):
            for address, record in zip(addresses, (fine, fine, slow), strict=True):
                fleet.observe(by_address[address], record)
        counted = await placed(fleet, 110)
        assert counted[addresses[2]] < counted[addresses[0]] / 4
        failed.error.fault = types_pb2.FAULT_POLICY
        for _ in range(9):
            fleet.observe(by_address[addresses[0]], failed)
        assert said == []
        failed.error.fault = types_pb2.FAULT_ENVIRONMENT
        for _ in range(5):
            fleet.observe(by_address[addresses[0]], failed)
        reason = "gets no new episodes for 30 s: its episodes failed one after another"
        assert said == [f"{addresses[0]} {reason}"]
        assert addresses[0] not in await placed(fleet, 20)


async def test_a_lost_server_is_looked_for_although_none_of_its_episodes_misses_it() -> None:
    async with serving() as server:
        async with Fleet(["echo"], FleetConfig(servers=(server.addresses[0],)), OPTIONS) as fleet:
            lost = fleet._handles[0].connection
            lost._lost = ConnectionLost("gone")
            await until(lambda: fleet._handles[0].connection is not lost)
            assert fleet.lost == 0


async def test_a_server_that_comes_and_goes_gets_nothing_for_a_while() -> None:
    async with serving() as flaky, serving() as steady, FaultyProxy(flaky.addresses[0]) as proxy:
        config = FleetConfig(servers=(proxy.address, steady.addresses[0]))
        async with Fleet(["echo"], config, OPTIONS) as fleet:
            said: list[str] = []
            fleet.on_event = said.append
            connection = fleet._handles[0].connection
            for times in range(1, 4):
                await until(lambda: connection._call is not None)
                proxy.cut()
                await until(lambda count=times: connection.reconnects >= count)
            await until(lambda: said)
            assert said == [f"{proxy.address} gets no new episodes for 30 s: it comes and goes"]
            assert await placed(fleet, 10) == {steady.addresses[0]: 10}


async def test_a_server_without_health_plays_and_one_that_says_it_drains_gets_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_health(_servicer: object, _server: object) -> None: ...

    monkeypatch.setattr(health_pb2_grpc, "add_HealthServicer_to_server", no_health)
    async with serving() as draining, serving() as other:
        addresses = draining.addresses[0], other.addresses[0]
        async with Fleet(["echo"], FleetConfig(servers=addresses), OPTIONS) as fleet:
            async with asyncio.timeout(30):
                assert [it async for it in fleet._handles[0].connection.watch_health()] == []
            assert len(await placed(fleet, 4)) == 2
            draining.table.admission.draining = True
            places = [await fleet.acquire("echo") for _ in range(2)]
            for number, place in enumerate(places):
                await episode(place, f"refused-{number}").reset()
            assert [it.connection.address for it in places] == [addresses[1]] * 2
            assert await placed(fleet, 4) == {addresses[1]: 4}


async def test_servers_of_a_name_have_its_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lookup(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.2"]  # not in the certificate, which is localhost's

    monkeypatch.setattr(discovery, "_look_up", lookup)
    folder = write_certificates(tmp_path)
    security = Security(tls_cert=folder / "server.pem", tls_key=folder / "server.key")
    client = ClientSecurity(ca=folder / "ca.pem")
    options = ConnectionOptions(connect_deadline=5.0, security=client)
    async with serving(bind=("127.0.0.2:0",), security=security) as server:
        port = server.addresses[0].rpartition(":")[2]
        config = FleetConfig(servers_dns=f"localhost:{port}")
        async with Fleet(["echo"], config, options) as fleet:
            assert await placed(fleet, 1) == {f"127.0.0.2:{port}": 1}


async def test_a_run_goes_on_without_a_rebuilt_episode_when_one_of_its_servers_drains(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    gate.mkdir()
    (gate / "words").touch()
    async with serving(drain_seconds=60.0) as leaving, serving() as staying:
        config = RunConfig(
            environments=("echo",),
            policies=(PolicySpec("tests.orchestrator.gated_policy", f"Gated:{gate}"),),
            episodes=12,
            concurrency=6,
            fleet=FleetConfig(servers=(leaving.addresses[0], staying.addresses[0])),
        )
        console = Console(file=io.StringIO())
        playing = asyncio.create_task(run(config, tmp_path / "run", resume=False, console=console))
        await until(lambda: len(leaving.table.episodes) == 3 == len(staying.table.episodes))
        draining = asyncio.create_task(leaving.drain())
        await until(lambda: leaving.table.admission.draining)
        (gate / "open").touch()
        outcome = await playing
        await draining
    assert (outcome.finished, outcome.failed) == (12, 0)
    log = (tmp_path / "run" / "logs" / "run.jsonl").read_text()
    told = Counter(json.loads(line)["event"] for line in log.splitlines())
    assert told["server drains"] == 1
    assert told["episode rebuilt"] == told["connection lost"] == 0


async def test_a_list_without_servers_is_waited_for_and_then_said(tmp_path: Path) -> None:
    path = tmp_path / "servers"
    path.write_text("# none yet\n")
    options = ConnectionOptions(connect_deadline=0.2)
    with pytest.raises(FleetError, match="servers lists no server"):
        await Fleet(["echo"], FleetConfig(servers_file=path), options).start()


async def test_a_run_has_as_many_live_episodes_as_the_servers_of_the_moment_take(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    gate.mkdir()
    (gate / "words").touch()
    servers = tmp_path / "servers"
    async with serving(limits={"max_episodes": 2}) as first, serving() as second:
        servers.write_text(first.addresses[0])
        config = RunConfig(
            environments=("echo",),
            policies=(PolicySpec("tests.orchestrator.gated_policy", f"Gated:{gate}"),),
            episodes=9,
            concurrency=7,
            fleet=FleetConfig(servers_file=servers),
        )
        console = Console(file=io.StringIO())
        playing = asyncio.create_task(run(config, tmp_path / "run", resume=False, console=console))
        await until(lambda: len(first.table.episodes) == 2)
        servers.write_text(f"{first.addresses[0]}\n{second.addresses[0]}\n")
        await until(lambda: len(second.table.episodes) == 5)
        assert len(first.table.episodes) == 2
        servers.write_text(second.addresses[0])
        (gate / "open").touch()
        outcome = await playing
        assert (outcome.finished, outcome.failed) == (9, 0)
