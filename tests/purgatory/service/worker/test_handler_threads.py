"""HandlerThreads: coroutine functions run in an event loop; handlers that do not end are left."""

import asyncio
import queue
import threading

from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG


def test_coroutine_functions(worker, client):
    """They run in one event loop, beside each other; plain functions in threads."""
    meet, done = threading.Barrier(2), queue.SimpleQueue()
    one = worker(concurrency=2)
    loops = []

    @one.on("async")
    async def run(job):
        loops.append(asyncio.get_running_loop())
        while len(loops) < 2:
            await asyncio.sleep(0)
        done.put(job.payload)

    @one.on("plain")
    def run_plain(job):
        meet.wait(HANG)
        done.put(job.payload)

    with one:
        for n, kind in enumerate(["async", "plain", "async", "plain"]):
            client.schedule(0, kind=kind, payload=n)
        assert sorted(done.get(timeout=HANG) for _ in range(4)) == [0, 1, 2, 3]
        eventually(lambda: one.counts.done == 4)
    assert loops[0] is loops[1]


def test_a_handler_that_does_not_end(worker, client):
    """A worker stops without it, and gives the job back."""
    go_on, began = threading.Event(), threading.Event()
    one = worker()

    @one.on("")
    def run(job):
        began.set()
        assert go_on.wait(HANG)

    one.start()
    client.schedule(0)
    assert began.wait(HANG)
    one.stop(0)
    again = queue.SimpleQueue()
    other = worker()
    other.on("")(lambda job: again.put(job.attempt))
    other.start()
    assert again.get(timeout=HANG) == 1
    go_on.set()
