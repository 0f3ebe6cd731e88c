"""AsyncClient: the methods of a Client, to be awaited in an event loop."""

import asyncio
import gc
import inspect
from datetime import timedelta
from types import SimpleNamespace

import pytest

from purgatory import OperationCancelled, OperationExpired
from purgatory.service import (
    AsyncClient,
    Client,
    ClientBusy,
    JobCancelled,
    RequestTimeout,
    TooLarge,
    Unavailable,
)
from purgatory.service.client import async_client
from purgatory.service.client.calls import reject, resolve
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.pages import PAGE
from purgatory.service.job_messages import JobStatus
from tests.testing.purgatory_harness import HANG


def test_both_clients_have_the_same_methods():
    """With the same arguments and defaults: they are declared in both, for the documentation."""
    mine, other = (dict(inspect.getmembers(kind, callable)) for kind in (Client, AsyncClient))
    shared = {name for name in mine if name[0] != "_" and not name.endswith("_later")}
    assert shared == {name for name in other if name[0] != "_"} - {"result_of"}
    for name in shared | {"__init__"}:
        one, two = (inspect.signature(method[name]).parameters for method in (mine, other))
        # Of futures each has its own kind.
        assert [(p.name, p.default, p.kind) for p in one.values()] == [
            (p.name, p.default, p.kind) for p in two.values()
        ], name


def test_a_coroutine_function_is_no_callback_of_a_future(server):
    """It would never run; a function is called."""

    async def coroutine(_):
        """Do nothing."""

    async def main():
        async with AsyncClient(server.address, timeout=HANG) as client:
            future, ended = client.defer("k", timeout=HANG), asyncio.Event()
            with pytest.raises(TypeError, match="a coroutine function"):
                future.add_done_callback(coroutine)
            future.add_done_callback(lambda _: ended.set())
            await client.flush()
            await client.complete("k")
            await asyncio.wait_for(ended.wait(), HANG)

    asyncio.run(main())


def test_async(server):
    """AsyncClient has the same methods, to be awaited."""

    async def main():
        async with (
            AsyncClient(server.address, name="one", timeout=HANG) as one,
            AsyncClient(server.address, timeout=HANG) as two,
        ):
            future = one.defer("k", timeout=HANG, op_id="x")
            await one.flush()
            assert (await two.query("x")).state == "pending"
            assert await two.complete("k", 5) == 1
            assert await future == 5
            assert (await one.stats())["completed"] == 1
            assert await two.unread() == []
            assert await two.acknowledge(range(2000)) == 0  # in several messages
            counts = await asyncio.gather(*(two.complete(f"n{n}") for n in range(100)))
            assert counts == [0] * 100
            with pytest.raises(OperationExpired):
                await one.defer("k", timeout=0.01)
            cancelled = one.defer("k")
            await one.flush()
            assert await two.cancel(cancelled.op_id)
            with pytest.raises(OperationCancelled):
                await cancelled
            with pytest.raises(TypeError):
                await one.cancel(5)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(one.defer("k", op_id="slow"), 0.02)
            while (await one.query("slow")).state == "pending":
                await asyncio.sleep(0)

    asyncio.run(main())


def test_a_dropped_future(server):
    """Its operation's end is not logged, as by `AsyncPurgatory`; a refusal is, as it is lost."""
    logged = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, told: logged.append(told))
        async with AsyncClient(server.address, timeout=HANG) as client:
            ends = [client.defer(key, timeout=wait) for key, wait in (("a", 0.01), ("b", 60))]
            ends += [client.defer("c"), client.defer("d", payload="x" * 70_000)]
            await client.flush()
            await client.fail("b", ValueError("no"))
            await asyncio.wait([*ends[:2], ends[3]])
        await asyncio.wait(ends)
        ends.clear()
        gc.collect()

    asyncio.run(main())
    assert [type(told["exception"]) for told in logged] == [TooLarge]


def test_a_cancellation_after_the_end_of_the_client():
    """It raises nothing, although the loop has not heard of the end: so a task can be cancelled."""

    async def main():
        client = AsyncClient("tcp://127.0.0.1:9", timeout=HANG)
        future = client.defer("k")
        client._client.close(0)
        assert future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await future

    asyncio.run(main())


def test_async_lists(server):
    """Page by page, all of them or up to a limit, from a cursor on."""
    names = [f"op-{number}" for number in range(2 * PAGE + 5)]

    async def main():
        async with AsyncClient(server.address, timeout=HANG) as client:
            calls = [client.submit(name, timeout=HANG, op_id=name) for name in names]
            await asyncio.gather(*calls)

            async def listed(**options):
                return [status.op_id async for status in client.list(**options)]

            assert await listed() == names
            assert await listed(limit=PAGE) == names[:PAGE]
            assert await listed(limit=PAGE + 1) == names[: PAGE + 1]
            first = await client.list_page(limit=3)
            assert await listed(cursor=first.after, limit=2) == names[3:5]
            assert await listed(key="none") == []
            with pytest.raises(ValueError, match="limit"):
                await listed(limit=0)

    asyncio.run(main())


def test_async_no_server_answers():
    """An awaited call times out."""

    async def main():
        client = AsyncClient("tcp://127.0.0.1:9", timeout=0.05)
        with pytest.raises(RequestTimeout, match="no answer"):
            await client.complete("k")
        await client.close(0)

    asyncio.run(main())


@pytest.mark.parametrize("timeout", [1e-3, timedelta(milliseconds=1), "1ms"])
def test_a_close_waits_for_outcomes(server, timeout):
    """For its timeout, which is any duration."""

    async def main():
        called, never = asyncio.Event(), asyncio.Event()

        async def on_outcome(outcome):
            called.set()
            await never.wait()

        async with AsyncClient(server.address, name="shop") as client:
            await client.submit("k", timeout=0, op_id="a")
        client = AsyncClient(server.address, name="shop", on_outcome=on_outcome)
        await called.wait()
        with pytest.raises(ValueError, match="timeout is -1"):
            await client.close(-1)
        await client.close(timeout)

    asyncio.run(main())


@pytest.fixture
def full_client():
    """A function that makes an AsyncClient of no server whose unsent calls are too many."""

    def make(timeout):
        client = AsyncClient("tcp://127.0.0.1:9", timeout=timeout)
        client._client._batcher._backlog = 1
        for _ in range(2):
            client.defer("k")
        return client

    return make


VERBS = {
    "complete": lambda client: client.complete("k"),
    "acknowledge": lambda client: client.acknowledge([1]),
    "schedule": lambda client: client.schedule(1),
    "repeat": lambda client: client.repeat("name", every="1h"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_client_blocks_no_event_loop(full_client, verb):
    """A verb waits for room in its task, for the client's timeout; `defer` is refused at once."""

    async def main():
        client = full_client(timeout=0.05)
        waiting = asyncio.create_task(VERBS[verb](client))
        await asyncio.sleep(0)
        assert not waiting.done()
        with pytest.raises(ClientBusy, match=r"^2 calls are unsent$"):
            client.defer("k")
        with pytest.raises(ClientBusy, match=r"^2 calls are unsent$"):
            await waiting
        assert not client._client._batcher._waiting
        await client.close(0)

    asyncio.run(main())


def test_a_task_that_waits_for_room_goes_on(full_client):
    """Once enough calls are sent; the other tasks wait on."""

    async def main():
        client = full_client(timeout=HANG)
        waiting = [asyncio.create_task(client.complete("k")) for _ in range(3)]
        await asyncio.sleep(0)
        batcher = client._client._batcher
        assert len(batcher._waiting) == 3
        io_thread = client._client._io_thread
        io_thread.turn.take()
        client._client._session.finished_calls += 1
        io_thread.turn.give_up()
        io_thread.wake()
        while batcher.calls_added < 3:
            await asyncio.sleep(0)
        assert batcher.calls_added == 3
        await client.close(0)
        for task in waiting:
            with pytest.raises(Unavailable):
                await task

    asyncio.run(main())


def test_a_cancellation_that_comes_with_the_answer(server):
    """The awaiting task is cancelled: no answer swallows that."""

    async def main():
        async with AsyncClient(server.address, timeout=HANG) as client:
            answer = ReplyFuture()
            waiting = asyncio.ensure_future(client.result_of(answer))
            await asyncio.sleep(0)
            resolve(answer, "answer")
            await asyncio.sleep(0)  # the loop has the answer, and the task has not gone on
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(main())


@pytest.mark.parametrize("answer", [JobStatus("a", "cancelled"), OperationExpired("late")])
def test_an_answer_as_the_time_ends(monkeypatch, answer):
    """It counts, also if it is a TimeoutError itself."""

    async def answered_late(future):
        try:
            await asyncio.sleep(HANG)
        finally:
            reject(future, answer) if isinstance(answer, Exception) else resolve(future, answer)

    async def main():
        async with AsyncClient("tcp://127.0.0.1:9", timeout=0.01) as client:
            monkeypatch.setattr(async_client, "_wrapped", answered_late)
            with pytest.raises((JobCancelled, OperationExpired)):
                await client.result("a", 0)
            if isinstance(answer, Exception):
                with pytest.raises(OperationExpired):
                    await client.result_of(ReplyFuture())
            else:
                assert await client.result_of(ReplyFuture()) is answer

    asyncio.run(main())


@pytest.mark.parametrize("limit", [0, 1, 2, None])
@pytest.mark.parametrize("method", ["list", "jobs"])
def test_limits_of_lists(server, connect, method, limit):
    """One at least, by both clients: no more come, and no fewer."""
    client = connect(server)
    for number in range(3):
        client.schedule(HANG, job_id=f"job {number}")
    client.flush()

    async def listed():
        async with AsyncClient(server.address, timeout=HANG) as one:
            return [found async for found in getattr(one, method)(limit=limit)]

    ways = [lambda: list(getattr(client, method)(limit=limit)), lambda: asyncio.run(listed())]
    for way in ways:
        if limit == 0:
            with pytest.raises(ValueError, match="limit is 0; expected"):
                way()
        else:
            assert len(way()) == (limit or 3)


@pytest.mark.parametrize(
    ("seconds", "goes_on", "error", "left"),
    [
        *((0.0, False, "", 2.0), (1.5, False, "", 0.5)),
        *((2.0, False, "", None), (3.0, False, "", None), (0, True, "", None)),
        *((0, True, "the connection was lost", 2.0), (2.0, True, "lost", None)),
    ],
)
def test_who_asks_for_the_last_status(monkeypatch, seconds, goes_on, error, left):
    """The client asks if its own timeout has not passed, for the rest of it.

    Not if the server has said that the job goes on, and is still connected.
    """
    asked, ended = [], JobStatus("a", "done")

    async def answer(call, seconds):
        asked.append(seconds)
        return ended

    async def main():
        async with AsyncClient("tcp://127.0.0.1:9", timeout=2.0) as client:
            monkeypatch.setattr(client, "result_of", answer)
            future = SimpleNamespace(job_id="a", goes_on=goes_on)
            with monkeypatch.context() as patch:
                patch.setattr(client._client, "_io_thread", SimpleNamespace(connection_error=error))
                return await client._last_status(future, seconds, TimeoutError())

    if left is None:
        with pytest.raises(TimeoutError, match=rf"job 'a' has not ended within {seconds} s"):
            asyncio.run(main())
    else:
        assert asyncio.run(main()) is ended
    assert asked == ([] if left is None else [left])
