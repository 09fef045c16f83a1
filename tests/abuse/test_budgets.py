"""What clients make a server keep is bounded in bytes; one client leaves room for others."""

import asyncio
import contextlib
import urllib.request

import pytest

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.verdicts import expect_error, expect_observation
from tests.abuse.test_floods import MIB, resident
from tests.env_servers.server.conftest import harness_for

_BOUND_SECONDS = 60.0


@pytest.fixture
def served(server_process):
    """A factory of a server and a harness for one client of it."""

    @contextlib.asynccontextmanager
    async def start(environment="echo", *, clients=1, limits=None, **options):
        # TCP: connections to a Unix socket cannot be told apart.
        options["bind"] = ["127.0.0.1:0"]
        server = server_process(environments=[environment], limits=limits or {}, **options)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(asyncio.timeout(_BOUND_SECONDS))
            harnesses = [
                await stack.enter_async_context(
                    harness_for(server.address, environment=environment, timeout=30.0)
                )
                for _ in range(clients)
            ]
            yield server, *harnesses

    return start


def actions(play, count, text="a"):
    """The commands of the next steps, for one message."""
    return [
        pb.Command(episode_id=play.episode_id, seq=play.seq + number, action=text)
        for number in range(1, count + 1)
    ]


async def answered(stream, commands):
    """Send commands in one message and take the last answer."""
    await stream.send(*commands)
    return await stream.answer(commands[-1])


async def test_forks_of_a_long_episode_share_its_journal(served):
    """1,500 forks of 100,000 steps once took 2.2 GB; at this size it was 100 MB."""
    async with served() as (server, harness):
        play = await harness.play(length=0)
        await answered(play.stream, actions(play, 20_000))
        before = resident(server)
        fork = pb.Fork(from_episode_id=play.episode_id)
        forks = [
            pb.Command(episode_id=harness.fresh_id(), seq=20_000, fork=fork) for _ in range(300)
        ]
        expect_observation(await answered(play.stream, forks))
        assert resident(server) - before < 30 * MIB
        other = pb.Command(episode_id=forks[7].episode_id, seq=20_001, action="on")
        expect_observation(await play.stream.ask(other))


async def test_an_episode_whose_inputs_pass_its_limit_takes_no_more_steps(served):
    """Steps of 1 MB were kept whole, however many there were."""
    async with served(limits={"max_journal_bytes": 8 * MIB}) as (server, harness):
        play, neighbour = await harness.play(length=0), await harness.play(length=0)
        for command in actions(play, 9, "x" * MIB):
            last = await play.stream.ask(command)
        metadata = expect_error(last, "TEXT_TOO_LONG", fault="AGENT", retriable="false")
        assert metadata["limit"] == str(8 * MIB) == str(harness.described.limits.max_journal_bytes)
        await neighbour.steps(3)
        before = resident(server)
        for _ in range(10):
            full = await harness.play(length=0)
            for command in actions(full, 9, "x" * MIB):
                last = await full.stream.ask(command)
            expect_error(last, "TEXT_TOO_LONG")
            await full.ask(close=pb.Close())
        assert resident(server) - before < 40 * MIB, "their memory is not given back"
        too_long = harness.reset()
        too_long.seq = 9
        for _ in range(9):
            too_long.reset.journal.add().input.action = "x" * MIB
        expect_error(await play.stream.ask(too_long), "TEXT_TOO_LONG")


async def test_all_journals_together_stay_within_the_budget(served):
    """The longest unused episodes of whoever holds most go first, and can be rebuilt."""
    limits = {"memory_budget": 32 * MIB}
    async with served(clients=2, limits=limits) as (server, greedy, modest):
        small = await modest.play(length=0)
        before = resident(server)
        hoard = [await greedy.play(length=0) for _ in range(40)]
        for play in hoard:
            expect_observation(await answered(play.stream, actions(play, 4, "x" * MIB)))
        # 215 with the streams' own buffers; all journals together would be 380.
        assert resident(server) - before < 280 * MIB
        gone = await hoard[0].ask(5, action="more")
        expect_error(gone, "EPISODE_NOT_FOUND", cause="MEMORY")
        await small.steps(3)
        expect_observation(await hoard[-1].ask(5, action="more"))
        rebuild = hoard[0].open_command
        rebuild.seq = 4
        for _ in range(4):
            rebuild.reset.journal.add().input.action = "x" * MIB
        refused = await hoard[0].stream.ask(rebuild)
        expect_error(refused, "CAPACITY_EXHAUSTED", "share", retriable="true")
        for play in hoard[1:]:
            await play.ask(close=pb.Close())
        expect_observation(await hoard[0].stream.ask(rebuild))


async def test_clients_that_never_read_are_bounded_together(served):
    """Each stream was bounded by itself, however many there were."""
    limits = {"memory_budget": 128 * MIB, "max_outbox_bytes": 2 * MIB}
    async with served("textcraft", clients=2, limits=limits) as (server, silent, honest):
        before = resident(server)
        calls = []
        for play in [await silent.play() for _ in range(40)]:
            # TextCraft repeats what it cannot execute.
            commands = actions(play, 12, "x" * MIB)

            async def requests(commands=commands):
                for command in commands:
                    yield pb.InteractRequest(commands=[command])
                await asyncio.Event().wait()

            calls.append(silent.stub.Interact(requests()))
        await asyncio.sleep(2)
        grown = resident(server) - before
        play = await honest.play()
        await play.ask(heartbeat=pb.Heartbeat())
        for call in calls:
            call.cancel()
        # 430 to 710 MiB with both bounds, by how fast gRPC reads; 820 to 1,100 without.
        assert grown < 800 * MIB


async def test_a_client_that_holds_all_seats_gives_another_its_share(served):
    """One client could take all 102,400 seats, for as long as its leases ran."""
    limits = {"max_episodes": 10, "pressure_idle": 0.5}
    async with served(clients=2, limits=limits) as (_, greedy, modest):
        hoard = [await greedy.play(length=0) for _ in range(10)]
        stream = await modest.open_stream()
        expect_error(await stream.ask(modest.reset()), "CAPACITY_EXHAUSTED", retriable="true")
        await asyncio.sleep(0.7)
        for play in hoard[5:]:
            await play.ask(heartbeat=pb.Heartbeat())
        for _ in range(5):
            expect_observation(await stream.ask(modest.reset()))
        refused = await stream.ask(modest.reset())
        expect_error(refused, "CAPACITY_EXHAUSTED", share="5")
        expect_error(await hoard[0].ask(1, action="a"), "EPISODE_NOT_FOUND", cause="SEATS")
        for play in hoard[5:]:
            await play.step()


async def test_an_episode_that_nobody_names_ends_and_says_so(served):
    """It lived for half an hour."""
    async with served(limits={"idle_limit": 1.0}) as (_, harness):
        stream = await harness.open_stream()
        idle, used = await harness.play(stream), await harness.play(stream)
        for _ in range(30):
            await asyncio.sleep(0.1)
            await used.ask(heartbeat=pb.Heartbeat())
        expect_error(await idle.ask(1, action="late"), "EPISODE_NOT_FOUND", cause="IDLE")
        await used.step()
        assert harness.described.limits.idle_limit_ms == 1000


async def test_metrics_tell_the_bytes(served, unused_tcp_port):
    async with served(metrics_port=unused_tcp_port) as (_, harness):
        play = await harness.play(length=0)
        await play.ask(1, action="x" * MIB)
        url = f"http://127.0.0.1:{unused_tcp_port}/metrics"
        page = await asyncio.to_thread(lambda: urllib.request.urlopen(url).read().decode())
        figures = dict(
            line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#")
        )
        assert MIB < float(figures["agentgym_journal_bytes"]) < MIB + 10_000
        assert float(figures["agentgym_result_bytes"]) > 0
        assert float(figures["agentgym_budget_bytes"]) > 64 * MIB
        assert float(figures["agentgym_clients"]) == 1
