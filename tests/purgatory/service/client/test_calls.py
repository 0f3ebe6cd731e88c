"""CallBatcher: calls reach the I/O thread once each, in order, a batch at a time."""

import threading

import pytest

from purgatory.service import ClientBusy
from purgatory.service.client.calls import (
    CALLS_PER_MESSAGE,
    CallBatch,
    CallBatcher,
    Keeping,
    fail_calls,
)
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.protocol import Cancel, Keep, Kept, Lease, Submit
from tests.testing.purgatory_harness import HANG

BACKLOG = 10


class Posted:
    """A batcher, and the batches that it posted."""

    def __init__(self):
        self.batches = []
        self.closed = False
        self.batcher = CallBatcher(
            self.post, lambda: self.closed, lambda *_: False, lambda: True, BACKLOG
        )

    def post(self, batch):
        """Accept a batch; raise once closed."""
        if self.closed:
            raise ConnectionError("closed")
        self.batches.append(batch)

    def taken(self):
        """Take the batches posted so far; returns the kind and items of each."""
        batches, self.batches = self.batches, []
        return [(b.request, [item for item, _ in self.batcher.take(b)]) for b in batches]


@pytest.fixture
def posted():
    return Posted()


def test_calls_that_fail_together():
    """Each that has no answer yet gets the error."""
    error, answered, waiting = ConnectionError("why"), ReplyFuture(), ReplyFuture()
    answered.set_result(1)
    fail_calls([("a", answered), ("b", waiting)], error)
    assert (answered.result(0), waiting.exception(0)) == (1, error)


class CancelledMeanwhile(ReplyFuture):
    """Is cancelled by another thread as soon as its state has been read."""

    def done(self):
        found = super().done()
        self.cancel()
        return found

    def set_running_or_notify_cancel(self):
        self.cancel()
        return super().set_running_or_notify_cancel()


def test_a_call_that_is_cancelled_as_it_fails():
    """It stays cancelled, and the other calls get the error."""
    error, cancelled, waiting = ConnectionError("why"), CancelledMeanwhile(), ReplyFuture()
    fail_calls([("a", cancelled), ("b", waiting)], error)
    assert cancelled.cancelled()
    assert waiting.exception(0) is error


def test_calls_join_the_batch_that_is_open(posted):
    """Only the first call of a batch posts it."""
    for n in range(3):
        posted.batcher.add(Submit, n, None)
    assert len(posted.batches) == 1
    assert posted.taken() == [(Submit, [0, 1, 2])]


def test_none_joins_a_batch_that_was_taken(posted):
    """A call added to a batch that was taken would not be sent."""
    posted.batcher.add(Submit, 1, None)
    assert posted.taken() == [(Submit, [1])]
    posted.batcher.add(Submit, 2, None)
    assert posted.taken() == [(Submit, [2])]


def test_another_kind_opens_another_batch(posted):
    """So the calls of one thread stay in order."""
    for request, n in ((Submit, 1), (Cancel, 2), (Submit, 3)):
        posted.batcher.add(request, n, None)
    assert posted.taken() == [(Submit, [1]), (Cancel, [2]), (Submit, [3])]


def test_a_full_batch_takes_no_more(posted):
    """The call after the last that fits opens another batch."""
    for n in range(CALLS_PER_MESSAGE + 1):
        posted.batcher.add(Submit, n, None)
    assert [len(items) for _, items in posted.taken()] == [CALLS_PER_MESSAGE, 1]
    assert posted.batcher.calls_added == CALLS_PER_MESSAGE + 1


def test_nothing_is_added_once_closed(posted):
    """An open batch takes no call either: a forked child has a copy of one."""
    posted.batcher.add(Submit, 1, None)
    posted.closed = True
    with pytest.raises(ConnectionError):
        posted.batcher.add(Submit, 2, None)
    assert posted.taken() == [(Submit, [1])]


def test_many_threads(posted):
    """Each call arrives once, and each thread's in order, while another thread takes batches."""
    threads = [
        threading.Thread(
            target=lambda me=me: [posted.batcher.add(Submit, (me, n), None) for n in range(5000)]
        )
        for me in range(4)
    ]
    for thread in threads:
        thread.start()
    found = []
    while any(thread.is_alive() for thread in threads):
        found += posted.taken()
    for thread in threads:
        thread.join(HANG)
    found += posted.taken()
    calls = [item for _, items in found for item in items]
    for me in range(4):
        assert [n for thread, n in calls if thread == me] == list(range(5000))


def test_there_is_room_until_the_backlog_is_full(posted):
    """The backlog is what was added and neither sent nor failed."""
    for n in range(BACKLOG):
        posted.batcher.add(Submit, n, None)
    assert posted.batcher.has_room()
    posted.batcher.add(Submit, BACKLOG, None)
    assert not posted.batcher.has_room()
    posted.batcher.set_finished_calls(1)
    assert posted.batcher.has_room()


@pytest.fixture
def blocked(posted, no_sleep):
    """A thread that waits for room, and may not sleep."""
    for n in range(BACKLOG + 2):
        posted.batcher.add(Submit, n, None)
    woken = []

    def wait():
        posted.batcher.wait_for_room(HANG)
        woken.append(posted.batcher.has_room())

    thread = threading.Thread(target=wait)
    thread.woken = woken
    thread.start()
    while not posted.batcher._waiting:
        assert thread.is_alive()
    yield thread
    posted.closed = True
    posted.batcher.set_finished_calls(0)
    thread.join(HANG)


def test_a_blocked_caller_is_woken_when_there_is_room(posted, blocked):
    """The I/O thread signals it; the caller neither polls nor sleeps."""
    posted.batcher.set_finished_calls(1)  # not enough
    assert posted.batcher._waiting
    posted.batcher.set_finished_calls(2)
    blocked.join(HANG)
    assert blocked.woken == [True]


def test_a_blocked_caller_is_woken_by_the_end(posted, blocked):
    """It then finds the client closed."""
    posted.closed = True
    posted.batcher.set_finished_calls(0)
    blocked.join(HANG)
    assert blocked.woken == [True]
    with pytest.raises(ConnectionError):
        posted.batcher.add(Submit, 0, None)


def test_a_caller_does_not_wait_for_ever(posted):
    """While no server takes calls."""
    for n in range(BACKLOG + 1):
        posted.batcher.add(Submit, n, None)
    with pytest.raises(ClientBusy, match=r"^11 calls are unsent$"):
        posted.batcher.wait_for_room(0)
    assert not posted.batcher._waiting


def test_what_a_worker_is_told_of_its_leases():
    """Each lease has ended, or lasts, or lasts and is the last one."""
    replies = [ReplyFuture() for _ in range(3)]
    batch = CallBatch(Keep, [(Lease(n, n), reply) for n, reply in enumerate(replies)])
    batch.resolve(Kept(1, [True, False, True], [2]))
    found = [reply.result() for reply in replies]
    assert found == [Keeping.KEPT, Keeping.LOST, Keeping.CANCELLED]
    assert [one.name for one in found] == ["KEPT", "LOST", "CANCELLED"]
    assert [bool(one) for one in found] == [True, False, True]
