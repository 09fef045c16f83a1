"""One trace of an episode: what the client did, and what the server did for it."""

import subprocess
import sys

import pytest

from agent_runtime import tracing
from agent_runtime.agent import EpisodePlan, play
from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agent_runtime.policies import PolicyConfig, make_policy
from agentgym.env.v1 import types_pb2
from env_servers.server import EnvironmentServer, ServerConfig
from env_servers.server.tracing import EpisodeTracing

pytest.importorskip("opentelemetry.sdk.trace", reason="needs the extra otel")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
    InMemorySpanExporter,
)
from opentelemetry.trace import StatusCode


def recording():
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


@pytest.fixture
def client_spans():
    provider, exporter = recording()
    tracing.enable_tracing(provider)
    yield exporter
    tracing.disable_tracing()


async def play_one(connection, *, rounds=2, item="echo_1000000"):
    environment = await connection.get_environment("echo")
    plan = EpisodePlan(
        run_id="r",
        episode_id="e1",
        environment=environment,
        item_id=item,
        max_rounds=rounds,
        action_format=types_pb2.ACTION_FORMAT_REACT,
    )
    episode = RemoteEpisode(connection, plan.episode_id, plan.reset())
    return await play(plan, episode, make_policy("expert", PolicyConfig()))


async def test_client_and_server_spans_share_one_trace(client_spans):
    provider, server_exporter = recording()
    config = ServerConfig(environments=("echo",), bind=("127.0.0.1:0",))
    server = EnvironmentServer(config, tracing=EpisodeTracing(provider))
    await server.start()
    try:
        with tracing.span("run", run_id="r"):
            async with Connection(server.addresses[0]) as connection:
                record = await play_one(connection)
    finally:
        await server.stop()
    assert not record.HasField("error")
    client = {span.name: span for span in client_spans.get_finished_spans()}
    served = server_exporter.get_finished_spans()
    run = client["run"].context
    assert {"environment episode", "environment step"} <= {span.name for span in served}
    assert {span.context.trace_id for span in served} == {run.trace_id}
    assert {span.context.trace_id for span in client.values()} == {run.trace_id}
    [episode] = [span for span in served if span.name == "environment episode"]
    assert episode.parent.span_id == run.span_id
    assert episode.attributes["agentgym.episode_id"] == "e1"
    assert client["episode"].attributes["agentgym.episode_id"] == "e1"


async def test_spans_lie_within_each_other_run_episode_turn_generation_and_step(client_spans):
    config = ServerConfig(environments=("echo",), bind=("127.0.0.1:0",))
    server = EnvironmentServer(config)
    await server.start()
    try:
        with tracing.span("run", run_id="r"):
            async with Connection(server.addresses[0]) as connection:
                await play_one(connection)
    finally:
        await server.stop()
    spans = client_spans.get_finished_spans()
    by_id = {span.context.span_id: span for span in spans}

    def path(span):
        names = [span.name]
        while span.parent is not None:
            span = by_id[span.parent.span_id]
            names.append(span.name)
        return " < ".join(names)

    assert sorted(map(path, spans)) == sorted(
        [
            "run",
            "episode < run",
            "step < episode < run",
            *["turn < episode < run"] * 2,
            *["generation < turn < episode < run"] * 2,
            *["step < turn < episode < run"] * 2,
        ]
    )
    steps = [span.attributes["agentgym.seq"] for span in spans if span.name == "step"]
    assert sorted(steps) == [0, 1, 2]


async def test_a_failed_episode_is_a_failed_span(client_spans):
    server = EnvironmentServer(ServerConfig(environments=("echo",), bind=("127.0.0.1:0",)))
    await server.start()
    try:
        async with Connection(server.addresses[0]) as connection:
            record = await play_one(connection, item="echo_7")
    finally:
        await server.stop()
    assert record.HasField("error")
    [episode] = [span for span in client_spans.get_finished_spans() if span.name == "episode"]
    assert episode.status.status_code is StatusCode.ERROR


def test_without_being_asked_for_nothing_is_traced_or_imported():
    program = (
        "import sys\n"
        "from agent_runtime import agent, connection, tracing\n"
        "with tracing.span('run', run_id='r') as span: assert span is None\n"
        "assert tracing.trace_metadata() == ()\n"
        "print('opentelemetry' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "False\n", ran.stderr


@pytest.mark.parametrize(
    ("variables", "requested"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_opentelemetrys_own_variables_ask_for_traces(variables, requested):
    assert tracing.tracing_requested(variables) is requested
