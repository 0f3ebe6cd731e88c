"""Clients against a server in this process."""

import asyncio
import concurrent.futures
import contextlib
import os
import threading
import time
from functools import partial
from types import SimpleNamespace

import pytest

import purgatory
from purgatory import OperationCancelled, OperationExpired
from purgatory.service import (
    AsyncClient,
    Client,
    Refused,
    RequestTimeout,
    TimeoutTooLong,
    TooLarge,
    TooManyKeys,
    TooManyPending,
    Unavailable,
)
from purgatory.service.client import client as client_module
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.encoding import decode_request, encode
from purgatory.service.platform import Platform
from purgatory.service.protocol import OLDEST_VERSION, VERSION, Failure, Hello
from tests.testing.odd_numbers import BAD_DELAYS, HALVES, TWOS
from tests.testing.purgatory_harness import HANG


def test_the_front_door():
    """The package exports the clients, and raises for a name that it does not have."""
    assert purgatory.Client is Client
    assert purgatory.AsyncClient is AsyncClient
    with pytest.raises(AttributeError, match="no attribute 'Clint'"):
        purgatory.Clint  # noqa: B018


def test_defer_and_complete(server, connect):
    """One client defers, another completes; the value comes as MessagePack holds it."""
    one, two = connect(server, name="one"), connect(server, name="two")
    future = one.defer("k", "l", timeout=HANG, kind="pay", payload={"a": [1, 2.5, None, b"x"]})
    one.flush()
    assert future.acknowledged
    assert two.complete("k", {"b": (1, "ä")}) == 1
    assert future.result(HANG) == {"b": [1, "ä"]}
    assert two.complete("k") == 0


def test_need(server, connect):
    """With need > 1 the result is a dict, as in a local purgatory."""
    client = connect(server)
    future = client.defer("a", "b", "c", need=2)
    client.flush()
    assert client.complete("a", 1) == 0
    assert client.query(future).keys_done == ["a"]
    assert client.complete("c") == 1
    assert future.result(HANG) == {"a": 1, "c": None}


def test_expiry_is_never_early(server, connect):
    """No operation expires early by the clock of this process."""
    client = connect(server)
    for timeout in (0, 0.001, 0.02, 0.05):
        start = time.monotonic()
        with pytest.raises(OperationExpired):
            client.defer("k", timeout=timeout).result(HANG)
        assert time.monotonic() - start >= timeout


def test_cancelling(server, connect):
    """An operation is cancelled by its future, by its id, and by another client."""
    client, other = connect(server), connect(server)
    one, two, three = (client.defer("k", op_id=op_id) for op_id in ("x", "y", "z"))
    client.flush()
    assert one.cancel()
    assert one.cancelled()
    assert one.cancel()
    assert client.cancel(two)
    with pytest.raises(OperationCancelled):
        two.result(HANG)
    assert other.cancel("z")
    assert not other.cancel("z")
    with pytest.raises(OperationCancelled):
        three.result(HANG)
    assert not client.cancel("unknown")
    done = client.defer("w")
    client.flush()
    client.complete("w", 1)
    assert not done.cancel() or done.result(0)


def test_what_is_known(server, connect):
    """`query` and `stats` return what the server knows."""
    client = connect(server, name="me")
    future = client.defer("k", timeout=60, kind="pay", op_id="my own")
    client.flush()
    state = client.query("my own")
    assert (state.state, state.client, state.kind, state.keys) == ("pending", "me", "pay", ["k"])
    assert state.deadline_ms - state.submitted_ms == 60_000
    assert client.query("other").state == "unknown"
    assert client.stats()["pending"] == 1
    client.complete("k")
    future.result(HANG)
    assert client.query(future).state == "completed"


def test_the_same_id_again(server, connect):
    """The same id is the same operation: here, and for the next client of that name."""
    client = connect(server, name="me")
    future = client.defer("k", op_id="x")
    assert client.defer("k", op_id="x") is future
    client.flush()
    again = connect(server, name="me")
    twin = again.defer("k", op_id="x")
    again.flush()
    assert client.stats()["pending"] == 1
    client.complete("k", 5)
    assert (future.result(HANG), twin.result(HANG)) == (5, 5)
    late = connect(server, name="me").defer("k", op_id="x")
    assert late.result(HANG) == 5
    with pytest.raises(Refused, match="belongs to another client"):
        connect(server).defer("k", op_id="x").result(HANG)


@pytest.mark.parametrize(
    ("arguments", "settings", "error"),
    [
        ((), {}, ValueError),
        (([],), {}, TypeError),
        ((b"k",), {}, TypeError),
        (("k",), {"timeout": -1}, ValueError),
        (("k",), {"timeout": float("nan")}, ValueError),
        (("k",), {"timeout": b"1"}, TypeError),
        (("k",), {"need": 2}, ValueError),
        (("k",), {"need": 0}, ValueError),
        (("k",), {"payload": object()}, TypeError),
        (("k",), {"payload": 2**70}, TypeError),
        (("k",), {"op_id": 5}, TypeError),
        (("k",), {"kind": None}, TypeError),
        (("\udc80",), {}, ValueError),
    ],
)
def test_bad_arguments(server, connect, arguments, settings, error):
    """They raise at once and leave nothing behind."""
    client = connect(server)
    with pytest.raises(error):
        client.defer(*arguments, **settings)
    assert client._futures == {}


def test_more_bad_arguments(server, connect):
    """So do bad arguments of the other methods and of the client itself."""
    client = connect(server)
    for call in (
        lambda: client.complete(5),
        lambda: client.complete("k", object()),
        lambda: client.cancel(5),
        lambda: client.query(None),
        lambda: Client(5),
        lambda: Client(server.address, name=5),
        lambda: Client(server.address, tracer=5),
        lambda: Client(server.address, tracer=object),
        lambda: Client(server.address, platform=5),
    ):
        with pytest.raises(TypeError):
            call()
    for call in (
        lambda: Client("nowhere"),
        lambda: Client(server.address, name=""),
        lambda: Client(server.address, timeout=-1),
        lambda: Client(server.address, server_key="x" * 40),
        lambda: Client(server.address, server_key="x", public_key="y", secret_key="z"),
    ):
        with pytest.raises(ValueError, match=r"address|name|timeout|server_key"):
            call()


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (5, TypeError),
        (bytearray(32), TypeError),
        ("x" * 39, ValueError),
        ("\u00e4" * 40, ValueError),
        ("~" * 40, ValueError),
        (b"x" * 31, ValueError),
    ],
)
@pytest.mark.parametrize("name", ["server_key", "public_key", "secret_key"])
def test_a_bad_key(name, key, error):
    """The error names the argument, and does not show the key."""
    keys = dict.fromkeys(("server_key", "public_key", "secret_key"), b"x" * 32)
    with pytest.raises(error, match=f"^{name} .*; expected 40 characters of Z85") as caught:
        Client("tcp://127.0.0.1:9", **keys | {name: key})
    assert not isinstance(caught.value, UnicodeError)
    assert "xxxxx" not in str(caught.value)


def test_limits_have_types(serve, connect):
    """Each limit has its own error; the other operations of the message are accepted."""
    server = serve(
        memory=True, max_keys=2, max_timeout=10, max_payload_bytes=10, max_pending_per_client=2
    )
    client = connect(server)
    bad = {
        TooManyKeys: client.defer("a", "b", "c", timeout=5),
        TimeoutTooLong: client.defer("a", timeout=11),
        TooLarge: client.defer("a", timeout=5, payload="x" * 10),
    }
    good = [client.defer("good", timeout=10) for _ in range(2)]
    bad[TooManyPending] = client.defer("a", timeout=10)
    for error, future in bad.items():
        assert type(future.exception(HANG)) is error
    with pytest.raises(TooLarge):
        client.complete("good", "x" * 10)
    assert client.complete("good") == 2
    assert [future.result(HANG) for future in good] == [None, None]


def test_many_threads(server, connect):
    """Threads that share a client get each its own answers."""
    client = connect(server)

    def work(number):
        futures = {n: client.defer(f"{number}/{n}", timeout=HANG) for n in range(50)}
        assert all(client.complete_later(f"{number}/{n}", n).result(HANG) == 1 for n in futures)
        return [future.result(HANG) for future in futures.values()] == list(futures)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))
    assert client.stats()["messages"] < 16 * 50  # they were batched


def test_a_callback_cannot_wait_for_an_answer(server, connect):
    """A callback runs in the I/O thread: it may make calls, but not wait for them."""
    client = connect(server)
    got = concurrent.futures.Future()

    def call(_):
        try:
            client.complete("l")
        except RuntimeError as error:
            got.set_result((str(error), client.complete_later("l", 7)))

    client.defer("k").add_done_callback(call)
    other = client.defer("l")
    client.flush()
    client.complete("k")
    words, answer = got.result(HANG)
    assert "complete_later" in words
    assert answer.result(HANG) == 1
    assert other.result(HANG) == 7


def test_the_server_restarts(serve, connect):
    """Operations outlive a restart, and each future resolves once."""
    first = serve()
    bind = first.address
    client, other = connect(bind, name="me"), connect(bind)
    keep, short, done = (
        client.defer("k", timeout=HANG),
        client.defer("s", timeout=0.2),
        client.defer("d"),
    )
    client.flush()
    assert other.complete("d", 1) == 1
    first.close()
    unsent = client.defer("u")
    second = serve(bind=bind)
    assert other.complete("k", 2) == 1
    client.flush()
    assert other.complete("u", 3) == 1
    assert [f.result(HANG) for f in (keep, done, unsent)] == [2, 1, 3]
    with pytest.raises(OperationExpired):
        short.result(HANG)
    assert second.stats().pending == 0


def test_outcomes_of_an_earlier_process(server, connect):
    """`on_outcome` receives them."""
    first = Client(server.address, name="me")
    future = first.defer("k", op_id="x", payload="what it was for")
    first.flush()
    first.close()
    assert isinstance(future.exception(HANG), Unavailable)
    connect(server).complete("k", 5)
    got = []
    arrived = threading.Event()

    def take(outcome):
        got.append((outcome.op_id, outcome.outcome))
        arrived.set()

    connect(server, name="me", on_outcome=take)
    assert arrived.wait(HANG)
    assert got == [("x", "completed")]


def test_submit_and_forget(server, connect):
    """`submit` says how an operation is known; its outcome stays at the server."""
    client = connect(server, name="shop")
    assert client.submit("k", op_id="a", payload=1) == ("a", "pending")
    assert client.submit("k", op_id="a") == ("a", "pending")
    assert client.complete("k", 5) == 1
    assert client.submit("k", op_id="a") == ("a", "completed")
    op_id, state = client.submit("other")
    assert (client.query(op_id).state, state) == ("pending", "pending")
    assert [outcome.op_id for outcome in client.unread()] == ["a"]
    # A future of the same operation takes it.
    assert client.defer("k", op_id="a").result(HANG) == 5


def test_a_refused_submit_leaves_a_future_alone(serve, connect):
    """The future that waits for an operation of that id goes on."""
    client = connect(serve(max_payload_bytes=10))
    refused = client.submit_later("k", op_id="a", payload="x" * 20)
    future = client.defer("k", op_id="a")
    with pytest.raises(TooLarge):
        refused.result(HANG)
    assert client.complete("k", 5) == 1
    assert future.result(HANG) == 5


def test_a_server_that_takes_few_items(serve, connect):
    """All calls can be made: the client spreads numbers over several messages."""
    server = serve(memory=True, max_items=10)
    client = connect(server, name="me")
    assert client.repeat("r", every=5, kind="k").name == "r"
    assert list(client.jobs(kind="k", state="ready")) == []
    assert client.cancel_jobs(kind="k", tag="t") == 0
    assert client.acknowledge(range(1, 50)) == 0

    async def main():
        async with AsyncClient(server.address, timeout=HANG) as other:
            assert await other.unread() == []
            assert await other.acknowledge(range(1, 50)) == 0

    asyncio.run(main())


def test_unread_outcomes(server, connect):
    """They can be listed page by page without being taken, and acknowledged, once, by number."""
    with Client(server.address, name="me", timeout=HANG) as first:
        for n in range(300):
            first.defer("k", op_id=f"o{n}", payload=n)
        first.flush()
    other = connect(server, name="other")
    other.complete("k", 5)
    me = connect(server, name="me")
    for _ in range(2):
        page = me.unread()
        assert [outcome.op_id for outcome in page] == [f"o{n}" for n in range(len(page))]
        rest = me.unread(page[-1].number)
        assert [outcome.op_id for outcome in page + rest] == [f"o{n}" for n in range(300)]
        assert me.unread(rest[-1].number) == []
    assert (page[7].result, page[7].payload) == (5, 7)
    assert other.unread() == []
    numbers = [outcome.number for outcome in page]
    assert other.acknowledge(numbers) == 0
    assert me.acknowledge(numbers[:5]) == 5
    assert me.acknowledge([*numbers, *range(10**6, 10**6 + 2000)]) == len(numbers) - 5
    assert len(me.unread()) == len(rest)


def test_no_server_answers(connect):
    """A call times out, with the address in the message; `close` does not wait for ever."""
    client = connect("tcp://127.0.0.1:9", timeout=0.05)
    with pytest.raises(RequestTimeout, match=r"no answer from tcp://127\.0\.0\.1:9 within 0\.05 s"):
        client.complete("k")
    future = client.defer("k")
    client.close(0)
    assert isinstance(future.exception(HANG), Unavailable)
    with pytest.raises(Unavailable):
        client.defer("k")
    client.close()


def test_a_server_of_another_version(connect):
    """All calls are refused with the reason."""
    import zmq  # noqa: PLC0415

    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        port = router.bind_to_random_port("tcp://127.0.0.1")
        client = connect(f"tcp://127.0.0.1:{port}")
        answer = client.complete_later("k")
        for version in range(VERSION, OLDEST_VERSION - 1, -1):
            route, frame = router.recv_multipart()
            hello = decode_request(frame)
            assert isinstance(hello, Hello)
            assert hello.version == version
            words = f"version is {version}; expected 9"
            router.send_multipart([route, encode(Failure(hello.seq, "version", words))])
        with pytest.raises(Refused, match=words):
            answer.result(HANG)
        with pytest.raises(Refused, match=words):
            client.stats()


def test_a_forked_child_is_refused(server, connect):
    """The copy of the client has no I/O thread, and raises; so do futures that wait for one."""
    client = connect(server)
    client.stats()
    silent = connect("tcp://127.0.0.1:9")
    ended = client.complete_later("k")
    ended.result(HANG)
    waiting, reply = silent.defer("k"), silent.complete_later("k")
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            calls = [partial(client.defer, "k")]
            for future in (waiting, reply):
                calls += [partial(future.result, 0), partial(future.exception, 0)]
                calls += [future.result, future.exception]
            for call in calls:
                with pytest.raises(Unavailable, match=r"^the client was made before fork"):
                    call()
            assert ended.result() == 0
            os.write(write, b"refused")
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"refused"
    os.waitpid(child, 0)
    assert client.stats()["pending"] == 0


def test_more_calls_than_the_backlog_holds(server, no_sleep, connect, monkeypatch):
    """The caller blocks until the I/O thread has sent some; it does not poll."""
    client = connect(server)
    monkeypatch.setattr(client._batcher, "_backlog", 1000)
    answers = [client.complete_later("k") for _ in range(5000)]
    assert [answer.result(HANG) for answer in answers] == [0] * 5000


def test_a_blocked_caller_learns_of_the_end(connect, monkeypatch):
    """A call that waits for room raises when the client is closed."""
    client = connect("tcp://127.0.0.1:9")
    monkeypatch.setattr(client._batcher, "_backlog", 10)

    def call_for_ever():
        while True:
            client.complete_later("k")

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        late = pool.submit(call_for_ever)
        while not client._batcher._waiting:
            assert not late.done()
        client.close(0)
        with pytest.raises(Unavailable):
            late.result(HANG)


@pytest.fixture
def by_default_close_hangs(monkeypatch):
    """Let `close` wait by default for so long that a test can tell, on a machine that stalls."""
    monkeypatch.setattr(client_module, "CLOSE_TIMEOUT_S", 2 * HANG)


@pytest.mark.usefixtures("by_default_close_hangs")
@pytest.mark.parametrize("fails", [True, False])
def test_with_a_dead_server(fails):
    """`with` does not wait for answers for longer than a call does, and not twice."""
    start = time.monotonic()
    with (
        contextlib.suppress(RequestTimeout),
        Client("tcp://127.0.0.1:9", timeout=0.1) as client,
    ):
        future = client.defer("k")
        if fails:
            client.complete("k")
    assert time.monotonic() - start < HANG
    with pytest.raises(Unavailable):
        future.result(HANG)


@pytest.mark.usefixtures("by_default_close_hangs")
@pytest.mark.parametrize("is_there", [False, True], ids=["none", "silent"])
@pytest.mark.parametrize("waits", [False, True])
def test_leaving_a_dead_server(is_there, waits):
    """`with` ends as soon as a call would, be it for one that waits or one that does not."""
    import zmq  # noqa: PLC0415

    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        address = f"tcp://127.0.0.1:{router.bind_to_random_port('tcp://127.0.0.1')}"
        if not is_there:
            router.unbind(address)
        start = time.monotonic()
        with contextlib.suppress(RequestTimeout), Client(address, timeout=1) as client:
            client.defer("k")
            if waits:
                client.complete("k")
        assert 0.9 < time.monotonic() - start < HANG


@pytest.mark.usefixtures("by_default_close_hangs")
def test_a_silent_server(connect):
    """A server that is connected but says nothing is given up after the timeout, too."""
    import zmq  # noqa: PLC0415

    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        port = router.bind_to_random_port("tcp://127.0.0.1")
        client = connect(f"tcp://127.0.0.1:{port}", timeout=0.1)
        client.complete_later("k")
        start = time.monotonic()
        client.close()
        assert time.monotonic() - start < HANG


class TestNumbers:
    """Any float, int or timedelta will do, whatever its comparisons return."""

    @pytest.mark.parametrize("half", HALVES)
    def test_durations(self, server, connect, half):
        """Each argument that is a duration counts as its value, compiled as interpreted."""
        client = connect(server, name="jobs", timeout=10)
        future = client.defer("a", timeout=half)
        assert client.extend(future, half)
        assert client.submit("b", timeout=half, op_id="submitted").op_id == "submitted"
        client.complete("held", 1, hold=half)
        client.schedule(half, kind="mail", job_id="mail-1")
        client.flush(half)
        assert client.defer("held").result(HANG) == 1
        with pytest.raises(OperationExpired):
            future.result(HANG)
        client.close(half)
        connect(server, timeout=half).flush()

    def test_texts(self, server, connect):
        """A duration may be a text, also the client's own times."""
        client = connect(server, timeout="1m", lost_after="5s")
        assert client.timeout == 60
        client.flush("30s")
        job = client.schedule("1h")
        with pytest.raises(TimeoutError, match=r"has not ended within 0.001 s"):
            job.result("1ms")
        client.close("30s")
        with pytest.raises(Unavailable, match=r"^the client is closed$"):
            client.complete("k")

    @pytest.mark.parametrize("half", [value for value in HALVES if isinstance(value, float)])
    def test_seconds(self, server, connect, half):
        """The seconds after which a connection is lost may be any float."""
        client = connect(server, lost_after=half)
        assert client.complete("k") == 0

    @pytest.mark.parametrize("two", TWOS)
    def test_counts(self, server, connect, two):
        """Counts and limits are ints of any class."""
        client = connect(server)
        futures = [client.defer("a", "b", need=two) for _ in range(3)]
        client.flush()
        assert client.complete("a", 1, limit=two) == client.complete("b", 2, limit=two) - 2 == 0
        assert [future.result(HANG) for future in futures[:two]] == [{"a": 1, "b": 2}] * 2
        assert not futures[2].done()
        assert len(list(client.list(limit=two))) == 2

    @pytest.mark.parametrize("value", BAD_DELAYS)
    def test_bad_values(self, server, connect, value):
        """A negative one is refused even if it says that it is not; the client goes on."""
        client = connect(server)
        for call in (
            lambda: client.defer("k", timeout=value),
            lambda: client.complete("k", hold=value),
            lambda: client.schedule(value, kind="mail"),
            lambda: client.flush(value),
        ):
            with pytest.raises(ValueError, match="is"):
                call()
        assert client.complete("k") == 0


def test_a_bad_call_of_one_thread_refuses_none_of_another(server, connect):
    """They share messages; also if the bad one is far from the only one."""
    client = connect(server)
    keys = [f"k{n}" for n in range(40)]
    waiting = [client.defer(key) for key in keys]
    client.flush()
    calls = [client.complete_later(key, 1) for key in keys]
    bad = [client.complete_later("x", b"x" * 70_000), client.extend_later("x", 10**9)]
    again = [client.complete_later(key, 1) for key in keys]
    both = zip(calls, again, strict=True)  # calls that are sent again may come after later ones
    assert [one.result(HANG) + two.result(HANG) for one, two in both] == [1] * len(keys)
    assert all(isinstance(call.exception(HANG), Refused) for call in bad)
    assert [future.result(HANG) for future in waiting] == [1] * len(keys)


def test_a_platform_lets_time_pass_during_a_wait(server):
    """Each wait is told to the platform, which moves the clock of a simulation meanwhile."""
    waits = []

    class WatchedPlatform(Platform):
        def wait(self, done, seconds):
            waits.append(seconds)
            return super().wait(done, seconds)

    with Client(server.address, timeout=HANG, platform=WatchedPlatform()) as client:
        client.stats()
        client.complete("k")
    assert waits == [HANG, HANG]


class LateReply(ReplyFuture):
    """Is resolved just after the wait for it has ended."""

    def result(self, timeout=None):
        if not self.done():
            self.set_result(7)
            raise TimeoutError
        return super().result(timeout)


def test_an_answer_that_comes_as_the_wait_ends(server, connect):
    """It counts: the caller gets the answer, and no error."""
    assert connect(server)._wait(LateReply()) == 7


def test_a_flush_takes_no_longer_than_its_timeout(server, connect, monkeypatch):
    """The time in which the caller waited for the only answer counts."""
    client, now, waits = connect(server), [100.0], []

    class Answered(ReplyFuture):
        def result(self, timeout=None):
            waits.append(timeout)
            raise TimeoutError

    class SlowThread:
        connection_error = "silent"
        turn = SimpleNamespace(holder=0)
        post = staticmethod(lambda command: None)

        def lead(self, reply, seconds):
            now[0] += 0 if reply else seconds
            return False

    with monkeypatch.context() as patch:
        patch.setattr(client_module, "ReplyFuture", Answered)
        patch.setattr(client, "_monotonic", lambda: now[0])
        patch.setattr(client, "_io_thread", SlowThread())
        with pytest.raises(RequestTimeout, match="within 5 s"):
            client.flush(5)
    assert waits == [0.0]
