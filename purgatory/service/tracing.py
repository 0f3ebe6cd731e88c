"""OpenTelemetry for clients and workers: spans of operations, and of attempts at jobs.

Needs the extra `otel`:

    client = Client(tracer=OpenTelemetryTracer())

An operation's span lasts from submission to end, and belongs to the trace of the submission, in
whichever process; `on_outcome` runs within it. A `Worker` takes a tracer, too: each attempt at a
job is a span of the trace that scheduled the job, and the handler runs within it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from timingwheel.lowlevel import NS_PER_MS

if TYPE_CHECKING:
    from purgatory.service.protocol import LeasedJob, OutcomeMessage

__all__ = ["OpenTelemetryTracer"]

_SPAN: Final = "purgatory.operation"
_JOB_SPAN: Final = "purgatory.job"
_TRACEPARENT: Final = "traceparent"


class OpenTelemetryTracer:
    """Makes spans of a client's operations; `provider` defaults to the program's. Any thread."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("purgatory", tracer_provider=provider)
        self._propagator = TraceContextTextMapPropagator()

    def traceparent(self) -> str:
        """See `OperationTracer`; empty outside of spans."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get(_TRACEPARENT, "")

    @contextmanager
    def ended(self, outcome: OutcomeMessage, traceparent: str) -> Iterator[None]:
        """See `OperationTracer`."""
        span = self._tracer.start_span(
            _SPAN,
            context=self._propagator.extract({_TRACEPARENT: traceparent}),
            kind=trace.SpanKind.CONSUMER,
            start_time=outcome.submitted_ms * NS_PER_MS,
            attributes={
                "purgatory.op_id": outcome.op_id,
                "purgatory.kind": outcome.kind,
                "purgatory.outcome": outcome.outcome,
                "purgatory.by_key": outcome.by_key or "",
            },
        )
        if outcome.outcome in ("expired", "failed"):
            span.set_status(trace.StatusCode.ERROR, outcome.outcome)
        try:
            with trace.use_span(span, end_on_exit=False, record_exception=False):
                yield
        finally:
            span.end(max(outcome.submitted_ms, outcome.at_ms) * NS_PER_MS)

    @contextmanager
    def attempted(self, job: LeasedJob, traceparent: str) -> Iterator[None]:
        """See `OperationTracer`; records an error that the block raises."""
        with self._tracer.start_as_current_span(
            _JOB_SPAN,
            context=self._propagator.extract({_TRACEPARENT: traceparent}),
            kind=trace.SpanKind.CONSUMER,
            attributes={
                "purgatory.op_id": job.op_id,
                "purgatory.kind": job.kind,
                "purgatory.attempt": job.attempt,
            },
        ):
            yield
