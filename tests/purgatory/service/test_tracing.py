"""OpenTelemetry: spans of operations, and of attempts at jobs."""

import pytest

from purgatory.service import Worker
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG


class TestOpenTelemetry:
    @pytest.fixture
    def telemetry(self):
        """A provider of tracers, and what it has exported."""
        sdk = pytest.importorskip("opentelemetry.sdk.trace")
        exporter = pytest.importorskip("opentelemetry.sdk.trace.export")
        memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
        finished = memory.InMemorySpanExporter()
        provider = sdk.TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(exporter.SimpleSpanProcessor(finished))
        yield provider, finished
        provider.shutdown()

    def test_spans(self, server, connect, telemetry):
        """An operation is a child of the span that submitted it, and lasts as long as it waited."""
        tracing = pytest.importorskip("purgatory.service.tracing")
        provider, finished = telemetry
        client = connect(server, tracer=tracing.OpenTelemetryTracer(provider))
        with provider.get_tracer("shop").start_as_current_span("order") as order:
            done = client.defer("a", timeout=HANG, op_id="done", kind="order")
            late = client.defer("b", timeout=0.001, op_id="late")
        outside = client.defer("a", timeout=HANG)
        client.flush()
        client.complete("a")
        for future in (done, outside):
            future.result(HANG)
        assert late.exception(HANG)
        client.close()
        spans = {span.attributes["purgatory.op_id"]: span for span in finished.get_finished_spans()
                 if span.name == "purgatory.operation"}  # fmt: skip
        assert set(spans) == {"done", "late"}
        for span in spans.values():
            assert span.parent.span_id == order.get_span_context().span_id
            assert span.context.trace_id == order.get_span_context().trace_id
            assert span.start_time <= span.end_time
        assert spans["done"].attributes["purgatory.kind"] == "order"
        assert spans["done"].attributes["purgatory.by_key"] == "a"
        assert spans["done"].status.is_unset
        assert spans["late"].status.description == "expired"
        assert spans["late"].end_time - spans["late"].start_time == 1_000_000

    @pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine function"])
    def test_jobs(self, server, connect, telemetry, is_async):
        """Each attempt is a span of the trace that scheduled the job, with the handler's error."""
        tracing = pytest.importorskip("purgatory.service.tracing")
        provider, finished = telemetry
        tracer = tracing.OpenTelemetryTracer(provider)
        client = connect(server, name="shop", tracer=tracer)
        worker = Worker(server.address, name="shop", tracer=tracer, retry_delay=0)
        inside = []

        def handle(job):
            with provider.get_tracer("shop").start_as_current_span("mail") as span:
                inside.append((job.payload, span.parent and span.parent.span_id))
            if job.attempt == 1:
                raise ValueError("no")

        async def handle_async(job):
            handle(job)

        worker.on("mail")(handle_async if is_async else handle)
        with worker:
            with provider.get_tracer("shop").start_as_current_span("order") as order:
                client.schedule(0, kind="mail", payload=7)
            eventually(lambda: worker.counts.done == 1)
            client.schedule(0, kind="mail", payload=8)
            eventually(lambda: worker.counts.done == 2)
        spans = [span for span in finished.get_finished_spans() if span.name == "purgatory.job"]
        assert [span.attributes["purgatory.attempt"] for span in spans] == [1, 2]
        assert all(span.parent.span_id == order.get_span_context().span_id for span in spans)
        assert spans[0].status.description == "ValueError: no"
        assert [event.name for event in spans[0].events] == ["exception"]
        assert spans[1].status.is_unset
        assert inside[:2] == [(7, span.context.span_id) for span in spans]
        assert inside[2:] == [(8, None), (8, None)]  # not scheduled within a trace
