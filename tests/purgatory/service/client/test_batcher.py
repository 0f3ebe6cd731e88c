"""The outbox: calls reach the link once each, in order, a batch at a time."""

import threading

import pytest

from purgatory.service.client.batcher import CALLS_PER_MESSAGE, CallBatcher
from purgatory.service.protocol import Cancel, Submit
from tests.testing.purgatory_harness import HANG


class Posted:
    """An outbox, and what it posted."""

    def __init__(self):
        self.batches = []
        self.over = False
        self.batcher = CallBatcher(self.post, lambda: self.over)

    def post(self, batch):
        """Take a batch, or refuse."""
        if self.over:
            raise ConnectionError("over")
        self.batches.append(batch)

    def taken(self):
        """Kind and items of each batch posted so far."""
        batches, self.batches = self.batches, []
        return [(b.request, [item for item, _ in b.take()]) for b in batches]


@pytest.fixture
def posted():
    return Posted()


def test_calls_join_the_batch_that_is_open(posted):
    """And only the first of them posts it."""
    for n in range(3):
        posted.batcher.add(Submit, n, None)
    assert len(posted.batches) == 1
    assert posted.taken() == [(Submit, [0, 1, 2])]


def test_none_joins_a_batch_that_was_taken(posted):
    """It would not be sent."""
    posted.batcher.add(Submit, 1, None)
    assert posted.taken() == [(Submit, [1])]
    posted.batcher.add(Submit, 2, None)
    assert posted.taken() == [(Submit, [2])]


def test_another_kind_opens_another_batch(posted):
    """So that what one thread asks stays in order."""
    for request, n in ((Submit, 1), (Cancel, 2), (Submit, 3)):
        posted.batcher.add(request, n, None)
    assert posted.taken() == [(Submit, [1]), (Cancel, [2]), (Submit, [3])]


def test_a_full_batch_takes_no_more(posted):
    """The next call opens another."""
    for n in range(CALLS_PER_MESSAGE + 1):
        posted.batcher.add(Submit, n, None)
    assert [len(items) for _, items in posted.taken()] == [CALLS_PER_MESSAGE, 1]
    assert posted.batcher.calls_added == CALLS_PER_MESSAGE + 1


def test_nothing_is_added_when_it_is_over(posted):
    """Not to a batch that is open, either: a forked child has a copy of it."""
    posted.batcher.add(Submit, 1, None)
    posted.over = True
    with pytest.raises(ConnectionError):
        posted.batcher.add(Submit, 2, None)
    assert posted.taken() == [(Submit, [1])]


def test_many_threads(posted):
    """Each call arrives once, each thread's in order, while another thread takes batches."""
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
        assert [n for who, n in calls if who == me] == list(range(5000))
