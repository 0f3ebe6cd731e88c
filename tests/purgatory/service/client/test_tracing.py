"""Traces go on across the wait of an operation, in whichever process hears of its end."""

import threading

import pytest

from purgatory.service import Client, Worker
from purgatory.service.client.trace_context import unwrap, wrap
from purgatory.service.encoding import pack, unpack
from purgatory.service.protocol import NOTHING, Raw
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

OTHER_DATA = [b"", b"no", b"\x92\xa3abc\x07", b"\x92\xa0\xc1", b"\x07" * 60]


class TestContext:
    @pytest.mark.parametrize("payload", [None, 7, "text", b"x" * 300, {"k": ["x" * 70_000]}])
    def test_round_trip(self, payload):
        """The payload comes back as it was, with the context."""
        carried = wrap(TRACEPARENT, Raw(pack(payload)))
        traceparent, inner = unwrap(carried)
        assert (traceparent, unpack(inner)) == (TRACEPARENT, payload)

    def test_without_a_context(self):
        """The payload stays as it is."""
        for payload in (Raw(NOTHING), Raw(pack({"a": 1}))):
            assert wrap("", payload) is payload
            assert unwrap(payload) == ("", payload)

    @pytest.mark.parametrize("data", OTHER_DATA)
    def test_other_extensions(self, data):
        """What is no context is the program's own."""
        for code in (83, 84):
            payload = Raw(b"\xc7" + bytes([len(data), code]) + data)
            assert unwrap(payload) == ("", payload)


class RecordingTracer:
    """A tracer that remembers what it was told."""

    def __init__(self):
        self.current = ""
        self.ends = []
        self.inside = False

    def traceparent(self):
        return self.current

    def ended(self, outcome, traceparent):
        self.ends.append((outcome.op_id, outcome.outcome, traceparent))
        return self

    def __enter__(self):
        self.inside = True

    def __exit__(self, *_):
        self.inside = False


class TestClient:
    def test_a_future(self, server, connect):
        """The end of an operation is told with the context of its submission."""
        tracer = RecordingTracer()
        client = connect(server, tracer=tracer)
        tracer.current = TRACEPARENT
        traced = client.defer("a", op_id="traced", payload={"order": 17})
        tracer.current = ""
        other = client.defer("a", op_id="other", payload={"order": 18})
        client.flush()
        assert client.query("traced").payload == {"order": 17}
        client.complete("a", 1)
        assert (traced.result(HANG), other.result(HANG)) == (1, 1)
        assert tracer.ends == [("traced", "completed", TRACEPARENT)]

    def test_another_process(self, server, connect):
        """`on_outcome` runs within the trace, and sees the payload alone."""
        submitter = RecordingTracer()
        submitter.current = TRACEPARENT
        with Client(server.address, name="shop", tracer=submitter) as client:
            client.defer("a", op_id="x", payload={"order": 17})
            client.flush()
        connect(server).complete("a")
        [unread] = connect(server, name="shop").unread()
        assert unread.payload == {"order": 17}
        tracer, seen, told = RecordingTracer(), [], threading.Event()

        def on_outcome(outcome):
            seen.append((outcome.payload, tracer.inside))
            told.set()

        connect(server, name="shop", tracer=tracer, on_outcome=on_outcome)
        assert told.wait(HANG)
        assert seen == [({"order": 17}, True)]
        assert tracer.ends == [("x", "completed", TRACEPARENT)]
        assert submitter.ends == []

    def test_a_client_that_does_not_trace(self, server, connect):
        """It sees the payload alone, too."""
        tracer = RecordingTracer()
        tracer.current = TRACEPARENT
        with Client(server.address, name="shop", tracer=tracer) as client:
            client.defer("a", payload=7)
            client.flush()
        connect(server).complete("a")
        seen, told = [], threading.Event()

        def on_outcome(outcome):
            seen.append(outcome.payload)
            told.set()

        connect(server, name="shop", on_outcome=on_outcome)
        assert told.wait(HANG)
        assert seen == [7]


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
