"""A client through losses: every observation n answers action n, and nothing is applied twice."""

import asyncio
import contextlib
import gc
import logging
import signal
import textwrap
import weakref

import grpc
import pytest

import agent_runtime.connection as connection_module
import agent_runtime.episode as episode_module
from agent_runtime.channel import ConnectionOptions
from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agent_runtime.errors import (
    CommandTooLong,
    ConnectionLost,
    ContractMismatch,
    EnvironmentFailure,
)
from agent_runtime.pending import Pending
from agentgym.env.v1 import environment_pb2 as pb
from env_servers.server import Security, service
from tests.kit.proxy import FaultyProxy
from tests.kit.servers import serving

QUICK = ConnectionOptions(connect_deadline=5.0, keepalive=5.0)


def echo(length=0, **options):
    reset = pb.Reset(environment="echo", item_id="echo_1000000")
    reset.options.update({"length": length, **options})
    return reset


async def play(connection, name, steps, *, reset=None, pause=0.0, **options):
    """Play an echo episode and check each observation; returns the episode and its hashes."""
    options.setdefault("deterministic", True)
    episode = RemoteEpisode(connection, name, reset or echo(), **options)
    transition = await episode.reset()
    hashes = [transition.state_hash]
    for number in range(1, steps + 1):
        if pause:
            await asyncio.sleep(pause)
        transition = await episode.step(f"{name} {number}")
        assert transition.seq == number
        assert f"Step {number}, you said: '{name} {number}'" in transition.text
        hashes.append(transition.state_hash)
    return episode, hashes


@pytest.mark.parametrize(("how", "steps"), [("inline", 120), ("thread", 40)])
async def test_connections_cut_at_random_lose_and_repeat_nothing(how, steps):
    async with serving(how) as server, FaultyProxy(server.addresses[0]) as proxy:
        async with Connection(proxy.address, QUICK) as connection:
            cutting = asyncio.create_task(proxy.cut_at_random("random", longest=0.15))
            games = [play(connection, f"game-{n}", steps, pause=0.005) for n in range(12)]
            played = await asyncio.gather(*games)
            cutting.cancel()
            assert proxy.counts["cuts"] > 2
            assert connection.reconnects > 2
            assert len({hashes[0] for _, hashes in played}) == 1, "equal resets, equal states"
            assert [episode.rebuilds for episode, _ in played] == [0] * 12
            assert server.handler.hosts["echo"].steps == 12 * steps, "executed more than once"
            for episode, _ in played:
                episode.close()


async def test_a_step_in_flight_survives_the_loss_of_its_stream():
    async with serving("thread") as server, FaultyProxy(server.addresses[0]) as proxy:
        async with Connection(proxy.address, QUICK) as connection:
            episode, _ = await play(connection, "slow", 0, reset=echo(sleep_ms=300))
            step = asyncio.create_task(episode.step("once"))
            while not any(e.in_flight for e in server.table.episodes.values()):
                await asyncio.sleep(0.01)
            proxy.cut()
            assert "Step 1, " in (await step).text
            assert server.handler.hosts["echo"].steps == 1


async def test_idle_episodes_are_attached_again_after_a_loss():
    async with serving() as server, FaultyProxy(server.addresses[0]) as proxy:
        async with Connection(proxy.address, QUICK) as connection:
            idle, _ = await play(connection, "idle", 2)
            busy, _ = await play(connection, "busy", 1)
            (found,) = (e for e in server.table.episodes.values() if e.episode_id == "idle")
            proxy.cut()
            async with asyncio.timeout(10):
                while found.stream is not None:
                    await asyncio.sleep(0.005)
                while found.stream is None:
                    await asyncio.sleep(0.005)
            assert "Step 2, " in (await busy.step("on")).text
            assert idle.rebuilds == 0


async def test_a_server_that_is_killed_and_restarted_gets_its_episodes_back(
    server_process,
):
    server = server_process()
    async with Connection(server.address, QUICK) as connection:
        games = [asyncio.create_task(play(connection, f"g{n}", 60, pause=0.01)) for n in range(4)]
        await asyncio.sleep(0.25)
        server.kill()
        server.start()
        played = await asyncio.gather(*games)
        _, undisturbed = await play(connection, "g0-twin", 0)
        for episode, hashes in played:
            assert episode.rebuilds >= 1
            assert hashes[0] == undisturbed[0]
        twin = RemoteEpisode(connection, "twin", echo())
        await twin.reset()
        for number in range(1, 61):
            last = await twin.step(f"g0 {number}")
        assert last.state_hash == played[0][1][-1], "a rebuilt episode is in another state"


async def test_a_rebuild_that_diverges_is_an_environment_failure(server_process):
    server = server_process()
    async with Connection(server.address, QUICK) as connection:
        await play_raw(connection, "warm up")
        episode = RemoteEpisode(connection, "x", echo(diverge=True), deterministic=True)
        await episode.reset()
        await episode.step("one")
        server.kill()
        server.start()
        with pytest.raises(EnvironmentFailure) as caught:
            await episode.step("two")
        assert caught.value.reason == "REPLAY_DIVERGED"


@pytest.mark.parametrize("at_once", [100_000, 2])
async def test_an_episode_is_opened_in_a_state_that_another_one_came_to(monkeypatch, at_once):
    monkeypatch.setattr(episode_module, "_MAX_JOURNAL_ENTRIES", at_once)
    async with serving() as server, Connection(server.addresses[0], QUICK) as connection:
        parent, hashes = await play(connection, "parent", 5)
        parent.close()
        branch = RemoteEpisode(connection, "branch", echo(), deterministic=True)
        reached = await branch.open_at(hashes[0], parent.journal[:4])
        assert (reached.seq, reached.state_hash) == (branch.seq, hashes[4]) == (4, hashes[4])
        assert "Step 4, you said: 'parent 4'" in reached.text
        assert branch.journal == parent.journal[:4]
        assert (await branch.step("parent 5")).state_hash == hashes[5]
        other = RemoteEpisode(connection, "other", echo(), deterministic=True)
        with pytest.raises(EnvironmentFailure) as caught:
            await other.open_at(hashes[0], [*parent.journal[:3], parent.journal[4]])
        assert caught.value.reason == "REPLAY_DIVERGED"


async def play_raw(connection, name):
    episode = RemoteEpisode(connection, name, echo(diverge=True))
    await episode.reset()
    await episode.step("one")
    episode.close()


async def test_an_episode_that_cannot_be_rebuilt_says_so(server_process):
    server = server_process()
    async with Connection(server.address, QUICK) as connection:
        episode, _ = await play(connection, "lost", 2, deterministic=False)
        server.kill()
        server.start()
        with pytest.raises(EnvironmentFailure) as caught:
            await episode.step("three")
        assert caught.value.reason == "EPISODE_NOT_FOUND"


async def test_a_server_that_stays_away_is_named_with_the_time_it_was_given(
    server_process,
):
    server = server_process()
    options = ConnectionOptions(connect_deadline=0.7)
    async with Connection(server.address, options) as connection:
        episode, _ = await play(connection, "lost", 2)
        address = server.address
        server.kill()
        with pytest.raises(ConnectionLost, match="is lost at seq 2") as caught:
            await episode.step("three")
        assert address in str(caught.value)
        assert connection.lost
        pending = Pending("e", 0, "close", pb.Close(), connection.future())
        with pytest.raises(ConnectionLost, match=r"waited 0.7 s") as caught:
            await connection.exchange(pending)
        assert address in str(caught.value)


async def test_nobody_at_an_address_is_said_within_the_deadline():
    connection = Connection("127.0.0.1:1", ConnectionOptions(connect_deadline=0.3))
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1 \(waited 0.3 s\)"):
        await connection.start()


async def test_a_network_that_accepts_and_hangs_up_for_ever_is_a_lost_server():
    async with serving() as server, FaultyProxy(server.addresses[0]) as proxy:
        options = ConnectionOptions(connect_deadline=1.0)
        async with Connection(proxy.address, options) as connection:
            episode, _ = await play(connection, "lost", 1)
            proxy.refusing = True
            proxy.cut()
            with pytest.raises(ConnectionLost):
                await episode.step("two")


async def test_an_episode_moves_to_another_server_when_its_own_is_gone(
    server_process,
    caplog,
):
    caplog.set_level(logging.INFO, logger="agent_runtime")
    gone, stays = server_process(), server_process()
    options = ConnectionOptions(connect_deadline=0.5)
    async with (
        Connection(gone.address, options) as first,
        Connection(stays.address, options) as second,
    ):
        asked = []

        async def reroute(lost):
            asked.append(lost)
            return second

        episode, hashes = await play(first, "mover", 3, reroute=reroute)
        gone.kill()
        transition = await episode.step("on")
        assert "Step 4, " in transition.text
        assert asked == [first]
        assert (episode.connection, episode.rebuilds) == (second, 1)
        assert "mover" not in first.open_episodes
        _, again = await play(second, "twin", 0)
        assert again[0] == hashes[0]
    story = [(record.event, record.fields["server"]) for record in caplog.records]
    assert story == [
        ("connection lost", gone.address),
        ("server lost", gone.address),
        ("episode rerouted", stays.address),
        ("episode rebuilt", stays.address),
    ]


async def test_an_episode_that_comes_back_to_a_server_with_an_old_state_goes_on():
    async with serving() as one, serving() as other:
        async with Connection(one.addresses[0]) as here, Connection(other.addresses[0]) as there:
            episode, _ = await play(here, "wanderer", 2)
            for connection in (there, here, there):
                episode.connection = connection
                transition = await episode.step("on")
                assert f"Step {transition.seq}, " in transition.text
            assert transition.seq == 5
            assert episode.rebuilds == 3


async def test_new_episodes_go_elsewhere_when_a_server_drains():
    async with serving() as draining, serving() as other:
        async with (
            Connection(draining.addresses[0], QUICK) as first,
            Connection(other.addresses[0], QUICK) as second,
        ):

            async def reroute(_):
                return second

            old, _ = await play(first, "old", 1, reroute=reroute)
            draining.table.admission.draining = True
            assert "Step 2, " in (await old.step("on")).text
            assert old.connection is first
            moved, _ = await play(first, "new", 2, reroute=reroute)
            assert moved.connection is second
            with pytest.raises(EnvironmentFailure) as caught:
                await play(first, "stranded", 0)
            assert caught.value.reason == "DRAINING"
            assert caught.value.retriable


@pytest.mark.slow
async def test_live_episodes_move_when_a_draining_server_ends(server_process):
    draining, other = server_process(drain_seconds=0.2), server_process()
    options = ConnectionOptions(connect_deadline=0.5)
    async with (
        Connection(draining.address, options) as first,
        Connection(other.address, options) as second,
    ):

        async def reroute(_):
            return second

        game = asyncio.create_task(play(first, "game", 80, pause=0.02, reroute=reroute))
        await asyncio.sleep(0.2)
        draining.signal(signal.SIGTERM)
        episode, _ = await game
        assert episode.connection is second


async def test_a_refused_client_is_told_at_once():
    async with serving(security=Security(token="sesame")) as server:
        connection = Connection(server.addresses[0], ConnectionOptions(connect_deadline=60.0))
        with pytest.raises(ConnectionLost, match="refused this client") as caught:
            await connection.start()
        assert not caught.value.retriable


async def test_another_contract_revision_is_a_mismatch(monkeypatch):
    monkeypatch.setattr(service, "CONTRACT_REVISION", 99)
    async with serving() as server:
        with pytest.raises(ContractMismatch, match="speaks contract revision 99"):
            await Connection(server.addresses[0]).start()


async def test_a_closed_connection_refuses_and_never_hangs():
    async with serving("thread") as server:
        connection = Connection(server.addresses[0])
        await connection.start()
        episode, _ = await play(connection, "closing", 1, reset=echo(sleep_ms=500))
        waiting = asyncio.create_task(episode.step("two"))
        await asyncio.sleep(0.05)
        await connection.close()
        for late in (waiting, episode.step("three")):
            with pytest.raises(ConnectionLost):
                await asyncio.wait_for(late, 5)


async def test_commands_wait_for_credits_instead_of_being_refused():
    limits = {"max_in_flight": 2}
    async with serving("thread", limits=limits) as server:
        async with Connection(server.addresses[0]) as connection:
            await connection.list_tasks("echo", "train")
            resets = [play(connection, f"c{n}", 2, reset=echo(sleep_ms=20)) for n in range(10)]
            for episode, _ in await asyncio.gather(*resets):
                episode.close()


async def test_a_cancelled_step_can_be_sent_again():
    async with serving("thread") as server, Connection(server.addresses[0]) as connection:
        episode, _ = await play(connection, "again", 0, reset=echo(sleep_ms=200))
        step = asyncio.create_task(episode.step("one"))
        await asyncio.sleep(0.05)
        step.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await step
        assert connection.load == 0
        assert "Step 1, " in (await episode.step("one")).text
        assert server.handler.hosts["echo"].steps == 1


async def test_an_episode_closed_while_the_stream_is_lost_is_closed_afterwards():
    async with serving() as server, FaultyProxy(server.addresses[0]) as proxy:
        async with Connection(proxy.address, QUICK) as connection:
            done, _ = await play(connection, "done", 1)
            other, _ = await play(connection, "other", 1)
            proxy.refusing = True
            proxy.cut()
            while connection._call is not None:
                await asyncio.sleep(0.005)
            done.close()
            proxy.refusing = False
            await other.step("on")
            async with asyncio.timeout(10):
                while "done" in server.table.episodes:
                    await asyncio.sleep(0.005)


async def test_forks_go_their_own_way():
    async with serving() as server, Connection(server.addresses[0]) as connection:
        episode, _ = await play(connection, "source", 2)
        copy = await episode.fork("copy")
        one, other = await copy.step("left"), await episode.step("right")
        assert (one.seq, other.seq) == (3, 3)
        assert "left" in one.text
        assert "right" in other.text
        advice = await copy.consult(pb.ADVISOR_EXPERT, 0)
        assert advice.action == "message 4"


async def test_the_example_in_the_docstring_plays_an_episode(monkeypatch, capsys):
    source = textwrap.dedent(connection_module.__doc__.split("\n\n", 2)[2].rsplit("\n\n", 1)[0])
    async with serving() as server:
        example = source.replace("127.0.0.1:9000", server.addresses[0])
        example = example.replace("asyncio.run(main())", "")
        scope = {}
        exec(compile(example, "example", "exec"), scope)
        await scope["main"]()
    assert "reward " in capsys.readouterr().out


async def test_a_connection_that_broke_from_within_closes_its_channel(monkeypatch, caplog):
    async with serving() as server:
        connection = Connection(server.addresses[0], QUICK)

        def broken(_events):
            raise RuntimeError("cannot read events")

        monkeypatch.setattr(connection, "_receive", broken)
        await connection.start()
        async with asyncio.timeout(30):
            while not connection.lost:
                await asyncio.sleep(0.01)
        with pytest.raises(ConnectionLost, match="cannot read events"):
            await connection.submit(Pending("e", 0, "reset", echo(), connection.future()))
        channel = connection._channel
        await connection.close()
        assert channel.get_state() is grpc.ChannelConnectivity.SHUTDOWN
    assert "background task died" in caplog.text


async def test_a_connection_that_was_not_started_says_so():
    connection = Connection("127.0.0.1:1")
    assert connection.environments == ()
    with pytest.raises(RuntimeError, match="not started"):
        await connection.get_environment("echo")
    await connection.close()


async def test_secure_options_carry_the_token_of_the_environment_variable(monkeypatch):
    monkeypatch.setenv("AGENTGYM_TOKEN", "sesame")
    async with serving(security=Security(token="sesame")) as server:
        async with Connection(server.addresses[0], ConnectionOptions.secure()) as connection:
            await play(connection, "allowed", 1)
    assert ConnectionOptions.secure(token="other").security.token == "other"


async def test_a_lost_connection_and_its_return_are_logged(caplog):
    caplog.set_level(logging.INFO, logger="agent_runtime")
    async with serving() as server, FaultyProxy(server.addresses[0]) as proxy:
        async with Connection(proxy.address, QUICK) as connection:
            episode, _ = await play(connection, "logged", 1)
            idle, _ = await play(connection, "idle", 1)
            proxy.cut()
            await episode.step("on")
            assert idle.seq == 1
    lost, back = (record for record in caplog.records if record.name.endswith("connection"))
    assert (lost.event, lost.levelname) == ("connection lost", "WARNING")
    assert lost.fields["server"] == proxy.address
    assert lost.fields["episodes"] == 2
    assert (back.event, back.fields["reconnects"]) == ("connection re-attached", 1)
    assert back.fields["resent"] + back.fields["attached"] == 2


async def test_a_server_that_stays_away_is_logged_as_lost(server_process, caplog):
    server = server_process()
    async with Connection(server.address, ConnectionOptions(connect_deadline=0.5)) as connection:
        episode, _ = await play(connection, "lost", 1)
        server.kill()
        with pytest.raises(ConnectionLost):
            await episode.step("two")
    # Another test's channel may have ended with its loop, which asyncio logs.
    ours = [record for record in caplog.records if record.name.startswith("agent_runtime")]
    assert [record.event for record in ours] == ["connection lost", "server lost"]


async def test_a_closed_connection_goes_with_its_last_user():
    async with serving() as server:
        gc.disable()  # no collection helps
        try:
            async with Connection(server.addresses[0], QUICK) as connection:
                await play(connection, "game", 3)
            gone = weakref.ref(connection)
            del connection
            await asyncio.sleep(0)
            assert gone() is None, gc.get_referrers(gone())
        finally:
            gc.enable()


async def test_a_client_sees_pictures_of_its_episodes():
    async with serving() as server, Connection(server.addresses[0], QUICK) as connection:
        episode, hashes = await play(connection, "seen", 2, reset=echo(length=9))
        picture = await connection.render("seen")
        assert (picture.seq, picture.state_hash) == (2, hashes[2])
        assert picture.views[0].media_type == "text/plain"
        assert b"step 2 of 9" in picture.views[0].content
        episode.close()
        with pytest.raises(EnvironmentFailure, match="no live episode"):
            await connection.render("never")
        assert server.table.admission.budget.outboxes == 0, "what was sent no longer counts"


async def test_messages_keep_the_order_of_commands_and_their_own_limits():
    connection = Connection("nowhere:1", ConnectionOptions(max_message_bytes=4 * 2**20))
    texts = [
        *"ab" * 65,
        "l" * 2**21,
        "c",
        "x" * 2**23,
        "d",
    ]  # one is refused: no message carries it
    sent = [
        Pending(f"e{number}", 1, "action", text, connection.future())
        for number, text in enumerate(texts)
    ]
    connection._outgoing.extend(sent)
    messages = [connection._next_message() for _ in range(5)]
    assert [len(message.commands) for message in messages] == [128, 2, 1, 1, 1]
    assert not connection._outgoing
    carried = [command.action for message in messages for command in message.commands]
    assert carried == [text for text in texts if len(text) != 2**23]
    refused = sent[-2].future
    with pytest.raises(CommandTooLong, match="of 8,388,608 bytes"):
        await refused


def test_an_episode_keeps_its_fields_in_slots():
    assert not hasattr(RemoteEpisode(Connection("127.0.0.1:1"), "e", echo()), "__dict__")
