"""Traces go on across the wait of an operation, in whichever process hears of its end."""

import contextlib
import threading
from datetime import UTC, datetime

import pytest

from purgatory.service import Client
from purgatory.service.client.trace_context import unwrap, wrap
from purgatory.service.encoding import pack, unpack
from purgatory.service.protocol import NOTHING, Raw
from tests.testing.purgatory_harness import HANG

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

OTHER_DATA = [
    b"",
    b"no",
    b"\x92\xa3abc\x07",
    b"\x92\xa0\xc1",
    b"\x92\xa2\xff\xfe\xc0",  # a text that is not UTF-8
    b"\xff" * 12,  # as -1, a time that Python cannot hold
    b"\x07" * 60,
]


class TestContext:
    @pytest.mark.parametrize("payload", [None, 7, "text", b"x" * 300, {"k": ["x" * 70_000]}])
    def test_round_trip(self, payload):
        """The payload comes back as it was, with the context."""
        carried = wrap(TRACEPARENT, Raw(pack(payload)))
        traceparent, inner = unwrap(carried)
        assert (traceparent, unpack(inner)) == (TRACEPARENT, payload)

    @pytest.mark.parametrize("length", [60, 65_400])
    def test_its_length(self, length):
        """It takes some 65 bytes."""
        payload = Raw(pack("x" * length))
        assert 60 < len(bytes(wrap(TRACEPARENT, payload))) - len(bytes(payload)) < 68

    @pytest.mark.parametrize("year", [1, 1969, 1970, 2026, 2600, 9999])
    def test_a_datetime(self, year):
        """A time before 1970 or far ahead, which is an extension, too, has no context."""
        born = datetime(year, 5, 17, tzinfo=UTC)
        payload = Raw(pack(born))
        assert unwrap(payload) == ("", payload)
        traceparent, inner = unwrap(wrap(TRACEPARENT, payload))
        assert (traceparent, unpack(inner)) == (TRACEPARENT, born)

    def test_without_a_context(self):
        """The payload stays as it is."""
        for payload in (Raw(NOTHING), Raw(pack({"a": 1}))):
            assert wrap("", payload) is payload
            assert unwrap(payload) == ("", payload)

    @pytest.mark.parametrize("data", OTHER_DATA)
    def test_other_extensions(self, data):
        """What is no context is the program's own."""
        for code in (83, 84, 255):
            payload = Raw(b"\xc7" + bytes([len(data), code]) + data)
            assert unwrap(payload) == ("", payload)

    @pytest.mark.parametrize("year", [1, 1969, 2515, 9999])
    def test_times_with_the_first_byte_of_a_context(self, year):
        """A time before 1970 or after 2514 is the program's own."""
        payload = Raw(pack(datetime(year, 1, 1, tzinfo=UTC)))
        assert bytes(payload)[:1] == b"\xc7"
        assert unwrap(payload) == ("", payload)

    def test_times_that_no_datetime_holds(self):
        """A time beyond the years of Python is the program's own."""
        payload = Raw(b"\xc7\x0c\xff" + b"\xff" * 12)
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
    def test_a_time_as_payload(self, server, connect):
        """A time before 1970 comes back, and the list with it is read."""
        born = datetime(1950, 5, 1, tzinfo=UTC)
        client = connect(server)
        client.defer("a", op_id="born", payload=born)
        client.defer("a", op_id="other", payload=7)
        client.flush()
        assert client.query("born").payload == born
        assert [each.payload for each in client.list()] == [born, 7]

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


class RaisingTracer(RecordingTracer):
    """A tracer that raises when it hears of an end: at first, or last."""

    def __init__(self, last):
        super().__init__()
        self.last = last

    @contextlib.contextmanager
    def ended(self, outcome, traceparent):
        if self.last:
            yield
        raise SystemExit


@pytest.mark.parametrize("last", [False, True])
def test_a_tracer_that_raises(server, connect, last):
    """The outcome comes all the same, once, and the client goes on."""
    tracer = RaisingTracer(last)
    client = connect(server, tracer=tracer)
    tracer.current = TRACEPARENT
    future = client.defer("k")
    client.flush()
    assert client.complete("k", 5) == 1
    assert future.result(HANG) == 5
    assert client.complete("k") == 0
