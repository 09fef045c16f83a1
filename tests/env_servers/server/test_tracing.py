"""Spans of episodes and steps, in the trace of whoever called."""

import pytest

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.verdicts import expect_observation
from env_servers.server import tracing
from env_servers.server.app import _configured_tracing
from env_servers.server.config import ServerConfig
from env_servers.server.tracing import EpisodeTracing, tracing_requested
from tests.env_servers.server.conftest import harness_for
from tests.kit.servers import serving

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
    InMemorySpanExporter,
)
from opentelemetry.trace import StatusCode

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
OTHER_TRACE = "1af7651916cd43dd8448eb211c80319c"


def traceparent(trace=TRACE):
    return (("traceparent", f"00-{trace}-{CALLER}-01"),)


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def episode_tracing(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return EpisodeTracing(provider)


def spans_named(exporter, name):
    return [span for span in exporter.get_finished_spans() if span.name == name]


async def play(harness, steps, *, metadata, **options):
    """An episode over unary calls, closed at its end; every call carries the metadata."""
    reset = harness.reset(**options)
    call = {"timeout": 10, "metadata": metadata}
    await harness.stub.Reset(pb.ResetRequest(command=reset), **call)
    for seq in range(1, steps + 1):
        command = pb.Command(episode_id=reset.episode_id, seq=seq, action=f"say {seq}")
        await harness.stub.Step(pb.StepRequest(command=command), **call)
    close = pb.Command(episode_id=reset.episode_id)
    await harness.stub.Close(pb.CloseRequest(command=close), **call)
    return reset.episode_id


@pytest.mark.parametrize("how", ["inline", "thread"])
async def test_an_episode_and_its_steps_are_spans_of_the_callers_trace(
    how, exporter, episode_tracing
):
    async with (
        serving(how, tracing=episode_tracing) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        episode_id = await play(harness, 3, metadata=traceparent(), length=0)
        (episode,) = spans_named(exporter, "environment episode")
        steps = spans_named(exporter, "environment step")
        assert episode.parent.span_id == int(CALLER, 16)
        assert episode.attributes["agentgym.episode_id"] == episode_id
        assert episode.attributes["agentgym.environment"] == "echo"
        assert [step.attributes["agentgym.seq"] for step in steps] == [1, 2, 3]
        for span in (episode, *steps):
            assert span.context.trace_id == int(TRACE, 16)
        for step in steps:
            assert step.parent.span_id == episode.context.span_id
            assert step.attributes["agentgym.episode_id"] == episode_id


async def test_a_stream_carries_its_trace_in_its_metadata(exporter, episode_tracing):
    async with (
        serving(tracing=episode_tracing) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        call = harness.stub.Interact(metadata=traceparent())
        reset = harness.reset(length=0)
        step = pb.Command(episode_id=reset.episode_id, seq=1, action="say 1")
        await call.write(pb.InteractRequest(commands=[reset]))
        events = []
        async for response in call:
            events += response.events
            if len(events) == 2:  # the credits and the reset
                await call.write(pb.InteractRequest(commands=[step]))
                await call.done_writing()
        expect_observation(events[-1])
        (span,) = spans_named(exporter, "environment step")
        assert span.context.trace_id == int(TRACE, 16)


async def test_a_step_sent_from_another_trace_belongs_to_that_one(exporter, episode_tracing):
    async with (
        serving(tracing=episode_tracing) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        reset = harness.reset(length=0)
        call = {"timeout": 10}
        await harness.stub.Reset(pb.ResetRequest(command=reset), metadata=traceparent(), **call)
        step = pb.Command(episode_id=reset.episode_id, seq=1, action="say 1")
        await harness.stub.Step(
            pb.StepRequest(command=step), metadata=traceparent(OTHER_TRACE), **call
        )
        (span,) = spans_named(exporter, "environment step")
        assert span.context.trace_id == int(OTHER_TRACE, 16)
        assert span.parent.span_id == int(CALLER, 16)


async def test_calls_without_a_trace_begin_one_per_episode(exporter, episode_tracing):
    async with (
        serving(tracing=episode_tracing) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        await play(harness, 1, metadata=(), length=0)
        await play(harness, 1, metadata=(("traceparent", "nonsense"),), length=0)
        episodes = spans_named(exporter, "environment episode")
        assert [span.parent for span in episodes] == [None, None]
        assert len({span.context.trace_id for span in episodes}) == 2


async def test_a_crash_is_the_status_of_the_step_and_of_the_episode(exporter, episode_tracing):
    async with (
        serving(tracing=episode_tracing) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        stream = await harness.open_stream()
        played = await harness.play(stream, crash_at=1)
        await played.ask(1, action="crash")
        await played.ask(close=pb.Close())
        for name in ("environment step", "environment episode"):
            (span,) = spans_named(exporter, name)
            assert span.status.status_code is StatusCode.ERROR
            assert "raised" in span.status.description


async def test_an_episode_that_cannot_be_opened_has_a_span_that_says_why(exporter, episode_tracing):
    async with (
        serving(tracing=episode_tracing) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        command = harness.reset()
        command.reset.item_id = "nosuch"
        await (await harness.open_stream()).ask(command)
        (span,) = spans_named(exporter, "environment episode")
        assert span.status.status_code is StatusCode.ERROR
        assert "nosuch" in span.status.description


@pytest.mark.parametrize(
    ("environ", "requested"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
    ],
)
def test_variables_of_opentelemetry_turn_traces_on(environ, requested):
    assert tracing_requested(environ) is requested


def test_a_server_without_opentelemetry_serves_where_only_variables_ask_for_traces(monkeypatch):
    def missing():
        raise tracing.EnvironmentUnavailable("not installed")

    monkeypatch.setattr("env_servers.server.app.open_tracing", missing)
    monkeypatch.setattr("env_servers.server.app.tracing_requested", lambda: True)
    assert _configured_tracing(ServerConfig(environments=("echo",))) is None
    with pytest.raises(tracing.EnvironmentUnavailable):
        _configured_tracing(ServerConfig(environments=("echo",), trace=True))
