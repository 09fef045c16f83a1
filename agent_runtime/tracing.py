"""OpenTelemetry spans of a run: run > episode > turn > generation, step.

Spans that are open when a connection starts, or when a question is asked, travel to the server in
gRPC metadata (W3C `traceparent`), so that one trace shows client and server. Off unless
`enable_tracing` was called: then `span` is one comparison and OpenTelemetry is not imported.
Needs the extra `otel`.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.extras import install_command

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

T = TypeVar("T")

__all__ = [
    "disable_tracing",
    "enable_tracing",
    "record_failure",
    "span",
    "trace_metadata",
    "tracing_enabled",
    "tracing_requested",
    "within_span",
]

_SERVICE_NAME: Final = "agentgym-client"
_EXPORT_VARIABLES: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
)
_OFF: Final[AbstractContextManager[None]] = nullcontext()

AttributeValue = str | bool | int | float

_tracer: Tracer | None = None
"""What makes the spans of this process; None = tracing is off."""


def tracing_requested(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether OpenTelemetry's own variables ask for traces."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(environ.get(variable) for variable in _EXPORT_VARIABLES)


def enable_tracing(provider: TracerProvider | None = None) -> None:
    """Make spans from now on.

    Args:
        provider: Where spans go; default: exported by OTLP to where the OTEL_* variables point,
            the last of them when the process ends.

    Raises:
        PolicyMisconfigured: OpenTelemetry is not installed.
    """
    global _tracer
    _tracer = (provider or _exporting_provider()).get_tracer("agent_runtime")


def disable_tracing() -> None:
    """Make no more spans."""
    global _tracer
    _tracer = None


def tracing_enabled() -> bool:
    """Return whether spans are made in this process."""
    return _tracer is not None


def span(name: str, **attributes: AttributeValue) -> AbstractContextManager[Span | None]:
    """Open a span within the current one; gives the span, or None while tracing is off.

    Args:
        name: run, episode, turn, generation or step.
        attributes: Recorded as `agentgym.NAME`.
    """
    return _OFF if _tracer is None else _open_span(_tracer, name, attributes)


def within_span(
    name: str, work: Coroutine[Any, Any, T], **attributes: AttributeValue
) -> Coroutine[Any, Any, T]:
    """Return what does the work of a coroutine within a span; itself while tracing is off.

    For what happens at every turn: unlike `span`, it costs nothing but this call then.
    """
    return work if _tracer is None else _work_within(_open_span(_tracer, name, attributes), work)


def record_failure(current: Span | None, error: BaseException) -> None:
    """Mark a span as failed; an exception that leaves a span does so by itself."""
    if current is None:
        return
    from opentelemetry.trace import Status, StatusCode

    current.record_exception(error)
    current.set_status(Status(StatusCode.ERROR, str(error)))


def trace_metadata() -> tuple[tuple[str, str], ...]:
    """Return the gRPC metadata that carries the current span to a server; empty while off."""
    if _tracer is None:
        return ()
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return tuple(carrier.items())


async def _work_within(opened: AbstractContextManager[Span], work: Coroutine[Any, Any, T]) -> T:
    with opened:
        return await work


@contextmanager
def _open_span(
    tracer: Tracer, name: str, attributes: Mapping[str, AttributeValue]
) -> Generator[Span]:
    named = {f"agentgym.{key}": value for key, value in attributes.items()}
    with tracer.start_as_current_span(name, attributes=named) as current:
        yield current


def _exporting_provider() -> TracerProvider:
    try:
        # Only where traces leave the machine: development installs have no exporter.
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # pyright: ignore[reportMissingImports]
            OTLPSpanExporter,  # pyright: ignore[reportUnknownVariableType]
        )
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise PolicyMisconfigured(
            f"traces need OpenTelemetry: {install_command('otel')}"
        ) from error
    service = os.environ.get("OTEL_SERVICE_NAME", _SERVICE_NAME)
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service}))
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter())  # pyright: ignore[reportUnknownArgumentType]
    )
    return provider
