"""`extend`, `fail`, `limit` and `hold` through a server, by both clients; old peers."""

import asyncio
import inspect
import threading
from datetime import timedelta

import pytest

from purgatory import OperationExpired
from purgatory.service import (
    AsyncClient,
    Client,
    Malformed,
    OperationFailed,
    TimeoutTooLong,
    TooManyHeld,
    Worker,
    WrongVersion,
)
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.later_calls import described_by
from purgatory.service.protocol import Complete, Completion
from purgatory.service.server.network.reception import Reception
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG
from timingwheel import COMPILED


def test_durations_as_texts(server, connect):
    """As in the terminal and over HTTP: `timeout` and `hold`."""
    client = connect(server)
    future = client.defer("k", timeout="30m", op_id="a")
    client.flush()
    started = client.query("a")
    assert started.deadline_ms - started.submitted_ms == 1_800_000
    assert future.extend("1h")
    assert client.query("a").deadline_ms - started.deadline_ms >= 1_800_000
    client.complete("early", 5, hold="1m")
    assert client.defer("early").result(HANG) == 5
    assert client.submit("k", timeout="PT30M").state == "pending"
    with pytest.raises(ValueError, match="'soon' is not a valid duration"):
        client.defer("k", timeout="soon")


def test_extend(server, connect):
    """By its future, by its id, and by another client; False if it has ended."""
    one, two = connect(server), connect(server)
    future = one.defer("k", timeout=HANG, op_id="a")
    one.flush()
    deadline_ms = one.query("a").deadline_ms
    assert future.extend(timedelta(seconds=2 * HANG)) is True
    assert one.query("a").deadline_ms > deadline_ms + 500 * HANG
    assert two.extend("a", 0.01) is True
    with pytest.raises(OperationExpired):
        future.result(HANG)
    assert future.extend(1) is False
    assert two.extend("unknown", 1) is False


def test_the_handle_of_a_ready_job(server, connect):
    """Is extended and cancelled as a job, by its handle and by its status; at any time."""
    client = connect(server)
    job = client.schedule(0)
    eventually(lambda: job.status().state == "ready")
    assert client.extend(job, HANG) is True
    assert job.status().state == "scheduled"
    job.run()
    assert client.extend_later(job.status(), timedelta(seconds=HANG)).result(HANG) is True
    job.run()
    assert client.cancel(job) is True
    assert job.status().state == "cancelled"
    assert client.cancel(job) is client.extend(job, 1) is False
    other = client.schedule(0)
    assert client.cancel_later(other.status()).result(HANG) is True
    assert other.status().state == "cancelled"


def test_the_handle_of_a_retrying_job(server, connect):
    """Is cancelled as a job, too."""
    client = connect(server, name="jobs")
    worker = Worker(server.address, name="jobs", retry_delay=HANG)
    worker.on("k")(lambda job: 1 / 0)
    with worker:
        job = client.schedule(0, kind="k")
        eventually(lambda: job.status().state == "retrying")
    assert client.extend(job, 2 * HANG) is True
    assert client.cancel(job) is True
    assert job.status().state == "cancelled"


def test_the_handle_of_a_job_for_asyncio(server):
    """Is extended and cancelled as with a Client."""

    async def main():
        async with AsyncClient(server.address) as client:
            job = await client.schedule(0)
            assert await client.extend(job, HANG) is True
            assert (await job.status()).state == "scheduled"
            await job.run()
            assert await client.cancel(job) is True
            assert (await job.status()).state == "cancelled"

    asyncio.run(main())


def test_fail(server, connect):
    """The error's class and text arrive; what has counted goes on."""
    one, two = connect(server), connect(server)
    a, b = one.defer("k", "l", timeout=HANG), one.defer("k", "l", need=2, timeout=HANG)
    c = one.defer("l", timeout=HANG)
    one.flush()
    assert two.fail("k", ValueError("no such order: ä")) == 2
    for future in (a, b):
        with pytest.raises(OperationFailed, match="ValueError: no such order: ä"):
            future.result(HANG)
    assert one.fail("l", KeyError) == 1
    error = c.exception(HANG)
    assert (error.error_type, error.message) == ("KeyError", "")
    d = one.defer("m", timeout=HANG)
    one.flush()
    assert one.fail("m", error) == 1  # as it came
    assert str(d.exception(HANG)) == "KeyError"
    assert one.stats()["failed"] == 4


def test_limit_and_hold(server, connect):
    """A lease: each completion reaches one; an early event is not lost."""
    client = connect(server)
    waiting = [client.defer("slot", timeout=HANG) for _ in range(3)]
    client.flush()
    assert client.complete("slot", "first", limit=1) == 1
    assert waiting[0].result(HANG) == "first"
    assert client.complete("slot", "rest", limit=5, hold=HANG) == 2
    assert client.stats()["held"] == 1
    assert [client.defer("slot").result(HANG) for _ in range(3)] == ["rest"] * 3
    assert client.stats()["held"] == 0
    with pytest.raises(OperationExpired):
        client.defer("slot", timeout=0).result(HANG)


def test_an_event_is_not_held_for_what_comes_after_it(server, connect):
    """Without `hold` it never counts for a later operation, not in the same millisecond either."""
    client = connect(server)
    futures = []
    for n in range(200):
        futures.append(client.defer("k", timeout=HANG, op_id=str(n)))
        client.complete_later("k", n)
    last = client.defer("k", timeout=0.0)
    assert [future.result(HANG) for future in futures] == list(range(200))
    with pytest.raises(OperationExpired):
        last.result(HANG)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda client: client.complete("k", limit=0), ValueError),
        (lambda client: client.complete("k", limit=True), TypeError),
        (lambda client: client.complete("k", limit=1.0), TypeError),
        (lambda client: client.complete("k", hold=-1), ValueError),
        (lambda client: client.complete("k", hold="long"), ValueError),
        (lambda client: client.extend("a", -1), ValueError),
        (lambda client: client.extend("a", "long"), ValueError),
        (lambda client: client.extend(None, 1), TypeError),
        (lambda client: client.fail("k", "why"), TypeError),
        (lambda client: client.fail("k", KeyboardInterrupt), TypeError),
        (lambda client: client.fail(5, ValueError), TypeError),
        (lambda client: client.complete("k", hold=11), TimeoutTooLong),
        (lambda client: client.extend("a", 11), TimeoutTooLong),
        (lambda client: client.fail("", ValueError), Malformed),
    ],
)
def test_bad_arguments(serve, connect, call, error):
    """They raise at once, or what the server says."""
    with pytest.raises(error):
        call(connect(serve(memory=True, max_timeout=10)))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda client: client.defer("k", timeout=-1), "timeout"),
        (lambda client: client.submit("k", timeout=-1), "timeout"),
        (lambda client: client.complete("k", hold=-1), "hold"),
        (lambda client: client.extend("a", -1), "timeout"),
        (lambda client: client.flush(-1), "timeout"),
        (lambda client: client.close(-1), "timeout"),
        (lambda client: Client(client.address, timeout=-1), "timeout"),
    ],
)
def test_an_error_names_the_argument(server, connect, call, name):
    """By the name that the caller has given it."""
    with pytest.raises(ValueError, match=f"^{name} is -1; expected 0 or more seconds"):
        call(connect(server))


def test_too_many_held(serve, connect):
    """The limit is the server's `max_held`."""
    client = connect(serve(memory=True, max_held=2))
    for key in ("a", "b", "a"):
        client.complete(key, hold=HANG)
    with pytest.raises(TooManyHeld):
        client.complete("c", hold=HANG)


def test_async(server):
    """AsyncClient has the same, to be awaited."""

    async def main():
        async with AsyncClient(server.address, timeout=HANG) as client:
            future = client.defer("k", timeout=HANG)
            await client.flush()
            assert await future.extend(2 * HANG)
            assert await client.extend(future, HANG)
            assert await client.extend(future.op_id, HANG)
            assert await client.fail("k", ValueError("why")) == 1
            with pytest.raises(OperationFailed, match="why"):
                await future
            assert not await future.extend(1)
            assert await client.complete("l", 5, limit=1, hold=HANG) == 0
            assert await client.defer("l") == 5

    asyncio.run(main())


@pytest.mark.skipif(COMPILED, reason="a compiled method cannot be replaced")
def test_an_old_server(serve, connect, monkeypatch):
    """A new client works with a server of version 1, but for the new verbs."""
    check = Reception._check_hello

    def check_as_version_1(reception, hello, *others):
        if hello.version != 1:
            raise WrongVersion(f"version is {hello.version}; expected 1")
        check(reception, hello, *others)

    monkeypatch.setattr(Reception, "_check_hello", check_as_version_1)
    client = connect(serve(memory=True))
    future = client.defer("k", timeout=HANG, op_id="a")
    for call in (
        lambda: client.extend("a", 1),
        lambda: client.fail("k", ValueError),
        lambda: client.complete("k", limit=1),
        lambda: client.complete("k", hold=1),
    ):
        with pytest.raises(WrongVersion, match=r"the server speaks version 1 .* lacks"):
            call()
    assert client.complete("k", 5) == 1
    assert future.result(HANG) == 5


SURROGATE = "caf\udce9"
BAD_TEXTS = [
    lambda client: client.defer(SURROGATE),
    lambda client: client.defer("k", kind=SURROGATE),
    lambda client: client.defer("k", op_id=SURROGATE),
    lambda client: client.defer("k", payload={"name": SURROGATE}),
    lambda client: client.submit("k", kind=SURROGATE),
    lambda client: client.schedule(1, kind=SURROGATE),
    lambda client: client.schedule(1, job_id=SURROGATE),
    lambda client: client.schedule(1, unless=[SURROGATE]),
    lambda client: client.complete(SURROGATE),
    lambda client: client.complete("k", SURROGATE),
    lambda client: client.fail(SURROGATE, ValueError),
    lambda client: client.fail("k", OperationFailed(SURROGATE)),
    lambda client: client.fail("k", OperationFailed("type", SURROGATE)),
    lambda client: client.cancel(SURROGATE),
    lambda client: client.query(SURROGATE),
    lambda client: client.extend(SURROGATE, 1),
    lambda client: client.list_page(kind=SURROGATE),
    lambda client: client.list_page(key=SURROGATE),
    lambda client: client.list_page(client=SURROGATE),
    lambda client: client.list_page(state=SURROGATE),
    lambda client: client.list(kind=SURROGATE),
    lambda client: type(client)(client.address, name=SURROGATE),
]
BAD_NUMBERS = [
    call
    for number in (2**63, 2**64, 2**70, -1, -(2**70))
    for call in (
        lambda client, n=number: client.complete("k", limit=n),
        lambda client, n=number: client.acknowledge([1, n]),
        lambda client, n=number: client.unread(n),
        lambda client, n=number: client.list_page(cursor=n),
        lambda client, n=number: client.list_page(limit=n),
        lambda client, n=number: client.list(cursor=n),
        lambda client, n=number: client.defer("k", need=n),
        lambda client, n=number: client.defer("k", timeout=n),
        lambda client, n=number: client.extend("a", n),
        lambda client, n=number: client.schedule(n),
        lambda client, n=number: client.complete("k", hold=n),
    )
]
BAD_TYPES = [
    call
    for value in (object(), "5", 1.5, True, None, [1])
    for call in (
        lambda client, v=value: client.acknowledge([1, v]),
        lambda client, v=value: client.unread(v),
        lambda client, v=value: client.list_page(cursor=v),
        lambda client, v=value: client.list_page(limit=v),
    )
] + [
    lambda client: client.list_page(kind=5),
    lambda client: client.list_page(key=b"k"),
    lambda client: client.list_page(client=object()),
    lambda client: client.list_page(state=1.5),
    lambda client: client.list_page(with_jobs="no"),
    lambda client: client.complete("k", object()),
    lambda client: client.complete("k", 2**70),
    lambda client: client.defer("k", payload=[2**70]),
    lambda client: client.acknowledge(5),
]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("filters", "error", "words"),
    [
        ({"limit": 0}, ValueError, "limit is 0"),
        ({"kind": 5}, TypeError, "kind is 5"),
        ({"state": "done"}, ValueError, "state is 'done'; expected one of pending, completed"),
        ({"order": "due"}, ValueError, "order is 'due'; expected one of oldest, newest"),
        ({"with_jobs": "no"}, TypeError, "with_jobs is 'no'; expected a bool"),
        ({"with_jobs": 0}, TypeError, "with_jobs is 0; expected a bool"),
        ({"cursor": -1}, ValueError, "cursor is -1"),
        ({"bogus": 1}, TypeError, "bogus"),
    ],
)
def test_a_list_refuses_bad_arguments_at_the_call(kind, filters, error, words):
    """And not when a program takes the first operation."""
    client = kind("tcp://127.0.0.1:9", timeout=0)
    try:
        with pytest.raises(error, match=words):
            client.list(**filters)
    finally:
        getattr(client, "_client", client).close(0)


@pytest.mark.parametrize(
    ("calls", "error"), [(BAD_TEXTS, ValueError), (BAD_NUMBERS, ValueError), (BAD_TYPES, TypeError)]
)
def test_a_bad_argument_is_its_callers_alone(server, connect, calls, error):
    """It raises at once, without a word to the I/O thread: other threads' calls are answered."""
    client = connect(server)
    for call in calls:
        with pytest.raises(error, match=r"expected|too|surrogates|serial|iter|sent|Encoding"):
            call(client)
        assert client.complete("k") == 0
    assert client._io_thread.thread.is_alive()


@pytest.mark.parametrize("size", [1, 3, 600])
def test_a_value_that_has_no_form(server, connect, size):
    """If the caller's checks let one through, its call fails, and those of its message do not."""
    client = connect(server)
    future = client.defer("k")
    client.flush()
    bad = [Completion("k", limit=2**70), Completion("\udce9"), Completion(object())]
    replies = [
        client._call(Complete, bad[n % 3] if n % 200 == 0 else Completion(f"n{n}"))
        for n in range(size)
    ]
    client.flush()
    for n, reply in enumerate(replies):
        if n % 200 == 0:
            assert isinstance(reply.exception(HANG), TypeError | ValueError | OverflowError)
        else:
            assert reply.result(HANG) == 0
    assert client.complete("k", 5) == 1
    assert future.result(HANG) == 5


def test_an_error_without_a_text(server, connect):
    """Its future's error says so, wherever the text comes from."""

    class NoText(Exception):
        def __str__(self):
            return self.args[5]

    client = connect(server)
    for error, found in ((NoText(), "cannot be made"), (ValueError("caf\udce9"), r"caf\\udce9")):
        future = client.defer("k")
        client.flush()
        assert client.fail("k", error) == 1
        with pytest.raises(OperationFailed, match=found):
            future.result(HANG)


@pytest.mark.parametrize(
    "error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, ValueError]
)
def test_a_callback_of_a_future(server, connect, error):
    """Whatever it raises, the next callback is called and the client goes on."""
    client, called = connect(server), threading.Event()

    def leave(_):
        raise error

    for _ in range(3):
        future = client.defer("l")
        future.add_done_callback(leave)
        future.add_done_callback(lambda _: called.set())
        assert client.complete("l") == 1
        assert called.wait(HANG)
        called.clear()


@pytest.mark.parametrize(("returns", "annotation"), [(None, int), (str, str)])
def test_what_is_made_of_a_call_is_described(returns, annotation):
    """It has the name, docstring and parameters of the call, and returns the answer itself."""

    def count_later(self: object, key: str = "k") -> ReplyFuture[int]:
        """Count."""

    made = described_by(count_later, lambda *_: 5, returns)
    signature = inspect.signature(made)
    assert (made.__name__, made.__qualname__, made.__doc__) == ("count", "count", "Count.")
    assert (list(signature.parameters), signature.return_annotation) == (
        ["self", "key"],
        annotation,
    )


@pytest.mark.parametrize("value", [0, False, [], ()], ids=repr)
@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("list_page", "kind"),
        ("list_page", "key"),
        ("jobs_page", "tag"),
        ("cancel_jobs", "kind"),
        ("job_counts", "client"),
        ("repeats_page", "name"),
    ],
)
def test_filters_that_are_false_but_no_text(connect, method, name, value):
    """The error names them; only None is no filter."""
    with pytest.raises(TypeError, match=f"^{name} is "):
        getattr(connect("tcp://127.0.0.1:9"), method)(**{name: value})


@pytest.mark.parametrize("hold", [None, b"", []], ids=repr)
def test_a_hold_that_is_none(connect, hold):
    """It is no 0."""
    with pytest.raises(TypeError, match="hold is "):
        connect("tcp://127.0.0.1:9").complete("k", hold=hold)
