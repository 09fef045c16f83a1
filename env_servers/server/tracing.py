"""OpenTelemetry spans of a server: one per episode and one per step.

Spans join the trace of the client: a W3C `traceparent` in the metadata of an Interact stream or of
a unary call is the parent. Off unless asked for, and then the hot path pays one `is None`. Needs
the extra `otel`; this module imports without.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from env_servers.sdk import EnvironmentUnavailable
from env_servers.sdk.extras import install_command
from env_servers.server.errors import CommandError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

    from env_servers.server.episode import Episode
    from env_servers.server.instance import ResetSpec

__all__ = ["EpisodeTracing", "open_tracing", "tracing_requested"]

_SERVICE_NAME: Final = "agentgym-env-server"
_EXPORT_VARIABLES: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
)


def tracing_requested(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether OpenTelemetry's own variables ask for traces."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(environ.get(variable) for variable in _EXPORT_VARIABLES)


def open_tracing() -> EpisodeTracing:
    """Start exporting spans by OTLP to where the OTEL_* variables point.

    Raises:
        EnvironmentUnavailable: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # pyright: ignore[reportMissingImports] - not part of the test extra
            OTLPSpanExporter,  # pyright: ignore[reportUnknownVariableType]
        )
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise EnvironmentUnavailable(
            f"traces need OpenTelemetry: {install_command('otel')}"
        ) from error
    service = os.environ.get("OTEL_SERVICE_NAME", _SERVICE_NAME)
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return EpisodeTracing(provider)


class EpisodeTracing:
    """Makes the spans of the episodes of one server."""

    def __init__(self, provider: TracerProvider) -> None:
        """Make spans with a provider; OpenTelemetry has to be installed."""
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace = trace
        self._provider = provider
        self._tracer = provider.get_tracer("env_servers.server")
        self._propagator = TraceContextTextMapPropagator()

    def context(self, metadata: Iterable[tuple[str, str | bytes]] | None) -> Context:
        """Return the trace context of a call's metadata; an empty one where it has none."""
        carrier = {key: value for key, value in metadata or () if isinstance(value, str)}
        # Not the caller's context: gRPC handlers of different calls share the loop's.
        return self._propagator.extract(carrier, context=self._empty())

    def start_episode(self, episode_id: str, reset: ResetSpec, parent: Context | None) -> Span:
        """Start an episode's span, before its environment starts."""
        return self._tracer.start_span(
            "environment episode",
            context=parent if parent is not None else self._empty(),
            kind=self._trace.SpanKind.SERVER,
            attributes={
                "agentgym.episode_id": episode_id,
                "agentgym.environment": reset.environment,
                "agentgym.item_id": reset.item_id,
            },
        )

    @contextlib.contextmanager
    def step(self, episode: Episode, seq: int, parent: Context | None) -> Generator[None]:
        """Time one step; it says how the episode stands afterwards."""
        span = self._tracer.start_span(
            "environment step",
            context=self._step_parent(episode, parent),
            attributes={
                "agentgym.episode_id": episode.episode_id,
                "agentgym.environment": episode.reset.environment,
                "agentgym.seq": seq,
            },
        )
        try:
            yield
        finally:
            if episode.failure is not None:
                self._set_error(span, episode.failure)
            span.set_attribute("agentgym.ended", episode.ended)
            span.end()

    def end_episode(self, episode: Episode) -> None:
        """End the span of an episode that is discarded."""
        if episode.span is None:
            return
        if episode.failure is not None:
            self._set_error(episode.span, episode.failure)
        episode.span.set_attribute("agentgym.seq", episode.seq)
        episode.span.set_attribute("agentgym.ended", episode.ended)
        episode.span.end()

    def end_failed(self, span: Span, error: BaseException) -> None:
        """End the span of an episode that could not be opened."""
        self._set_error(span, error)
        span.end()

    def close(self) -> None:
        """Send what has not been exported yet."""
        shutdown = getattr(self._provider, "shutdown", None)
        if shutdown is not None:
            shutdown()

    def _step_parent(self, episode: Episode, call: Context | None) -> Context:
        """The episode's span; of a call that belongs to another trace: that call."""
        caller = self._trace.get_current_span(call).get_span_context() if call else None
        if episode.span is None:
            return call if call is not None else self._empty()
        own = episode.span.get_span_context()
        if call is not None and caller is not None and caller.trace_id not in (0, own.trace_id):
            return call
        return self._trace.set_span_in_context(episode.span, self._empty())

    def _set_error(self, span: Any, error: BaseException) -> None:
        message = error.message if isinstance(error, CommandError) else repr(error)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, message))

    @staticmethod
    def _empty() -> Context:
        from opentelemetry.context import Context

        return Context()
