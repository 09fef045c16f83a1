"""`--trace`: one trace shows a run's client and its servers, collected from both by OTLP."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc")

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc


@dataclass
class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps every span that is exported to it, with the name of the service that made it."""

    spans: list[tuple[str, Any]] = field(default_factory=list)

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
        for resource in request.resource_spans:
            names = {it.key: it.value.string_value for it in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [(names["service.name"], span) for span in scope.spans]
        return pb.ExportTraceServiceResponse()


@pytest.fixture
def collector() -> Iterator[tuple[Collector, dict[str, str]]]:
    server, servicer = grpc.server(ThreadPoolExecutor(2)), Collector()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_EXPORTER_OTLP_INSECURE": "true",
    }
    yield servicer, environ
    server.stop(None)


def play(out: Path, *flags: str, environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "orchestrator.sample", "--env", "echo", "--policy", "expert"]
    command += ["--episodes", "2", "--spawn", "1", "--out", str(out), *flags]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environ})


def test_one_trace_shows_client_and_server(
    tmp_path: Path, collector: tuple[Collector, dict[str, str]]
) -> None:
    servicer, environ = collector
    play(tmp_path / "run", "--trace", environ=environ)
    assert len({span.trace_id for _, span in servicer.spans}) == 1
    by_id = {span.span_id: (service, span) for service, span in servicer.spans}
    services = {service for service, _ in servicer.spans}
    assert services == {"agentgym-client", "agentgym-env-server"}
    (run,) = [span for _, span in servicer.spans if span.name == "run"]
    assert not run.parent_span_id
    assert all(span.parent_span_id in by_id for _, span in servicer.spans if span is not run)
    names = {(service, span.name) for service, span in servicer.spans}
    assert {
        ("agentgym-client", "episode"),
        ("agentgym-client", "turn"),
        ("agentgym-env-server", "environment episode"),
        ("agentgym-env-server", "environment step"),
    } <= names


def test_nothing_is_exported_unless_asked_for(
    tmp_path: Path, collector: tuple[Collector, dict[str, str]]
) -> None:
    servicer, _ = collector
    play(tmp_path / "run", environ={})
    assert servicer.spans == []
