"""What an operator relies on: drain, limits, security, metrics, several environments."""

import asyncio
import signal
import subprocess
import urllib.error
import urllib.request

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance import CHECKS, Target, run_conformance
from env_servers.conformance.verdicts import expect_error, expect_observation
from env_servers.sdk import Execution
from env_servers.server import EnvironmentServer, Security, ServerConfig, metrics
from env_servers.server.security import InsecureAddress
from tests.env_servers.server.conftest import harness_for
from tests.kit.servers import serving

NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def test_a_draining_server_flips_its_health_refuses_resets_and_lets_steps_go_on(
    server_process,
):
    server = server_process(drain_seconds=20.0)
    async with harness_for(server.address) as harness:
        play = await harness.play(length=3)
        health = health_pb2_grpc.HealthStub(harness.channel)
        watch = health.Watch(health_pb2.HealthCheckRequest(service="echo"))
        await watch.read()
        server.signal(signal.SIGTERM)
        assert (await watch.read()).status == NOT_SERVING
        watch.cancel()
        refused = await play.stream.ask(harness.reset())
        expect_error(refused, "DRAINING", fault="INFRASTRUCTURE", retriable="true")
        assert len(refused.error.details) == 2, "no RetryInfo"
        fork = pb.Command(episode_id=harness.fresh_id(), seq=0)
        fork.fork.from_episode_id = play.episode_id
        expect_error(await play.stream.ask(fork), "DRAINING")
        expect_observation(await play.stream.ask(play.open_command), replayed=True)
        await play.steps(3)
        assert play.ended
        await play.stream.wait_end()
        assert server.wait() == 0


async def test_a_second_signal_ends_the_drain(server_process):
    server = server_process(drain_seconds=600.0)
    async with harness_for(server.address) as harness:
        play = await harness.play()
        server.signal(signal.SIGTERM)
        while not (await play.stream.ask(harness.reset())).HasField("error"):  # not draining yet
            pass
        server.signal(signal.SIGTERM)
        assert server.wait() == 0


async def test_an_opening_that_is_under_way_survives_the_drain():
    async with serving("thread", drain_seconds=10.0) as server:
        async with harness_for(server.addresses[0]) as harness:
            stream = await harness.open_stream()
            command = harness.reset(sleep_ms=300)
            command.seq = 1
            command.reset.journal.add().input.action = "slowly"
            await stream.send(command)
            while not server.table.pending_opens:
                await asyncio.sleep(0.01)
            draining = asyncio.create_task(server.drain())
            expect_observation(await stream.answer(command))
            assert not draining.done()
            await stream.ask(pb.Command(episode_id=command.episode_id, close=pb.Close()))
            await draining


async def test_only_resets_compete_for_capacity():
    limits = {"max_episodes": 2}
    async with serving(limits=limits) as server, harness_for(server.addresses[0]) as harness:
        plays = [await harness.play() for _ in range(2)]
        stream = await harness.open_stream()
        refused = await stream.ask(harness.reset())
        expect_error(refused, "CAPACITY_EXHAUSTED", fault="INFRASTRUCTURE", retriable="true")
        assert len(refused.error.details) == 2, "no RetryInfo"
        for play in plays:
            await play.steps(2)
            expect_observation(await play.stream.ask(play.open_command), replayed=True)
        await plays[0].ask(close=pb.Close())
        expect_observation(await stream.ask(harness.reset()))
        assert harness.described.limits.max_episodes == 2


async def test_one_client_cannot_take_more_than_its_share():
    limits = {"max_episodes_per_client": 1}
    async with (
        serving(limits=limits) as server,
        harness_for(server.addresses[0]) as greedy,
        harness_for(server.addresses[0]) as other,
    ):
        play = await greedy.play()
        refused = await play.stream.ask(greedy.reset())
        expect_error(refused, "CLIENT_LIMIT", fault="AGENT", retriable="true")
        await other.play()
        await play.ask(close=pb.Close())
        await greedy.play()


async def test_unused_episodes_go_even_while_their_stream_lives():
    async with (
        serving(limits={"idle_limit": 0.2}) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        play = await harness.play()
        await asyncio.sleep(0.3)
        assert server.table.reap() == 1
        expect_error(await play.ask(1, action="late"), "EPISODE_NOT_FOUND")
        assert server.table.reaped == 1


async def test_several_environments_live_in_one_server_on_several_addresses(tmp_path):
    path = f"unix:{tmp_path / 'socket'}"
    async with serving(
        environments=("echo", "textcraft"),
        bind=("127.0.0.1:0", path),
        execution={"echo": Execution.THREAD},
    ) as server:
        assert server.addresses[1] == path
        async with (
            harness_for(path) as echo,
            harness_for(server.addresses[0], environment="textcraft") as textcraft,
        ):
            await (await echo.play()).steps(2)
            await (await textcraft.play()).steps(2)
            nameless = echo.reset()
            nameless.reset.environment = ""
            refused = await (await echo.open_stream()).ask(nameless)
            expect_error(refused, "UNKNOWN_ENVIRONMENT", valid="echo, textcraft")
            listed = await echo.stub.ListEnvironments(pb.ListEnvironmentsRequest())
            assert list(listed.environments) == ["echo", "textcraft"]


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "10.1.2.3:50051", "example.org:50051"])
async def test_plain_text_for_other_machines_is_refused(address):
    server = EnvironmentServer(ServerConfig(environments=("echo",), bind=(address,)))
    with pytest.raises(InsecureAddress, match="--insecure"):
        await server.start()
    await server.stop()


async def test_plain_text_for_other_machines_is_served_when_asked_for():
    async with serving(bind=("0.0.0.0:0",), insecure=True) as server:
        port = server.addresses[0].rpartition(":")[2]
        async with harness_for(f"127.0.0.1:{port}") as harness:
            await (await harness.play()).step()


async def test_metrics_tell_what_happened():
    async with (
        serving(metrics_port=free_port(), limits={"max_episodes": 7}) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        play = await harness.play()
        await play.steps(3)
        expect_observation(await play.ask(3, action=play.actions[-1]), replayed=True)
        text = await asyncio.to_thread(scrape, server.config.metrics_port)
        for line in (
            'agentgym_episodes_live{environment="echo"} 1.0',
            'agentgym_steps_total{environment="echo"} 3.0',
            "agentgym_cache_hits_total 1.0",
            "agentgym_episodes_reaped_total 0.0",
            "agentgym_worker_restarts_total 0.0",
            "agentgym_threads_abandoned_total 0.0",
            'agentgym_step_seconds_count{environment="echo"} 3.0',
            'agentgym_episodes_capacity{environment="echo"} 7.0',
            "agentgym_episodes_limit 7.0",
            'agentgym_resets_refused_total{reason="DRAINING"} 0.0',
            "agentgym_draining 0.0",
        ):
            assert line in text.splitlines()
        assert "agentgym_loop_lag_seconds" in text


async def test_probes_follow_the_health_and_the_event_loop():
    async with (
        serving(metrics_port=free_port(), drain_seconds=20.0) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        assert await probes(server) == (200, 200)
        play = await harness.play(length=1)
        draining = asyncio.create_task(server.drain())
        while await probes(server) != (503, 200):
            await asyncio.sleep(0.01)
        expect_error(await play.stream.ask(harness.reset()), "DRAINING")
        text = await asyncio.to_thread(scrape, server.config.metrics_port)
        assert "agentgym_draining 1.0" in text.splitlines()
        assert 'agentgym_resets_refused_total{reason="DRAINING"} 1.0' in text.splitlines()
        await play.step()
        await draining
        server.metrics._turned -= 3600.0
        # Asked from the loop itself, which cannot turn meanwhile.
        assert probe(server, "live") == probe(server, "ready") == 503


async def test_the_port_of_metrics_has_few_connections_and_gets_rid_of_them(monkeypatch):
    monkeypatch.setattr(metrics, "_MOST_CONNECTIONS", 3)
    monkeypatch.setattr(metrics._Handler, "timeout", 1.0)
    async with serving(metrics_port=free_port()) as server:
        silent = [
            await asyncio.open_connection("127.0.0.1", server.config.metrics_port) for _ in range(4)
        ]
        assert await silent[-1][0].read() == b""
        for reader, _ in silent[:-1]:
            assert await reader.read() == b""
        assert await probes(server) == (200, 200)
        for _, writer in silent:
            writer.close()


async def probes(server):
    """What /ready and /live answer."""
    return tuple([await asyncio.to_thread(probe, server, name) for name in ("ready", "live")])


def probe(server, name):
    address = f"http://127.0.0.1:{server.config.metrics_port}/{name}"
    try:
        with urllib.request.urlopen(address, timeout=10) as page:
            return page.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def scrape(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        return page.read().decode()


def openssl(*arguments, cwd):
    subprocess.run(["openssl", *arguments], cwd=cwd, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """ca.pem, and server and client key pairs signed by it; stranger is signed by nobody."""
    folder = tmp_path_factory.mktemp("certificates")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test ca",
            cwd=folder)  # fmt: skip
    for name in ("server", "client"):
        openssl("req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.pem",
                "-subj", f"/CN={name}", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                "-addext", "basicConstraints=critical,CA:FALSE", cwd=folder)  # fmt: skip
    openssl("req", "-x509", *key, "-keyout", "stranger.key", "-out", "stranger.pem",
            "-subj", "/CN=stranger", cwd=folder)  # fmt: skip
    return folder


def client(folder, name, **options):
    """Options of a target that shows a certificate."""
    shown = {"cert": folder / f"{name}.pem", "key": folder / f"{name}.key"} if name else {}
    return {"ca": folder / "ca.pem", "timeout": 5.0, **shown, **options}


async def test_tls_and_client_certificates_let_in_only_those_who_are_signed(certificates):
    security = Security(
        tls_cert=certificates / "server.pem",
        tls_key=certificates / "server.key",
        client_ca=certificates / "ca.pem",
    )
    async with serving(security=security) as server:
        port = server.addresses[0].rpartition(":")[2]
        address = f"localhost:{port}"
        async with harness_for(address, **client(certificates, "client")) as harness:
            await (await harness.play()).steps(2)
        for name in ("stranger", ""):
            target = Target(address=address, **client(certificates, name))
            channel = target.channel()
            with pytest.raises(grpc.aio.AioRpcError):
                await channel.unary_unary("/agentgym.env.v1.EnvironmentService/ListEnvironments")(
                    b"", timeout=5
                )
            await channel.close()


async def test_tls_may_listen_to_other_machines(certificates):
    security = Security(
        tls_cert=certificates / "server.pem", tls_key=certificates / "server.key", token="sesame"
    )
    async with serving(bind=("0.0.0.0:0",), security=security) as server:
        address = f"localhost:{server.addresses[0].rpartition(':')[2]}"
        options = client(certificates, "", token="sesame")
        async with harness_for(address, **options) as harness:
            await (await harness.play()).step()


async def test_a_token_is_asked_of_every_call():
    security = Security(token="sesame")
    async with serving(security=security) as server:
        wanted = ("strangers_are_refused", "reset_step_close", "health_is_told")
        checks = [(rule, check) for rule, check in CHECKS if check.__name__ in wanted]
        target = Target(address=server.addresses[0], token="sesame")
        report = await run_conformance(target, checks=checks)
        assert [result.passed for result in report.results] == [True] * 3
        target = Target(address=server.addresses[0], token="wrong")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await run_conformance(target, checks=checks)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        async with grpc.aio.insecure_channel(server.addresses[0]) as channel:
            stream = channel.stream_stream("/agentgym.env.v1.EnvironmentService/Interact")()
            assert await stream.code() is grpc.StatusCode.UNAUTHENTICATED
            unknown = channel.unary_unary("/agentgym.env.v1.EnvironmentService/Nonsense")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await unknown(b"")
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
