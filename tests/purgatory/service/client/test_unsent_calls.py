"""The calls of a session that wait to be sent: in order, in batches."""

import itertools

import pytest

from purgatory.service import TooLarge
from purgatory.service.client.calls import CALLS_PER_MESSAGE
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.unsent_calls import UnsentCalls
from purgatory.service.encoding import decode_request
from purgatory.service.protocol import Cancel, Query, Stats


def calls(*items):
    return [(item, ReplyFuture()) for item in items]


def taken(unsent):
    """All batches, as their requests and items."""
    found = []
    while unsent.batches:
        batch = unsent.take()
        found.append((batch.request, [item for item, _ in batch.calls]))
    assert unsent.count == 0
    return found


def test_in_order():
    """Calls of one kind gather; another kind begins the next batch; some are alone."""
    unsent = UnsentCalls()
    unsent.add(Cancel, calls("a", "b"))
    unsent.add(Cancel, calls("c"))
    unsent.add(Query, calls("d"))
    unsent.add(Stats, calls((), ()))
    unsent.add(Cancel, calls("e"))
    assert unsent.count == 7
    assert taken(unsent) == [
        (Cancel, ["a", "b", "c"]),
        (Query, ["d"]),
        (Stats, [()]),
        (Stats, [()]),
        (Cancel, ["e"]),
    ]


def test_full_batches():
    """None is larger than a message may be."""
    unsent = UnsentCalls()
    ids = [f"{n}" for n in range(CALLS_PER_MESSAGE + 5)]
    unsent.add(Cancel, calls(*ids[:3]))
    unsent.add(Cancel, calls(*ids[3:]))
    batches = [items for _, items in taken(unsent)]
    assert [len(items) for items in batches] == [CALLS_PER_MESSAGE, 5]
    assert list(itertools.chain(*batches)) == ids


def test_what_fits():
    """A batch is split by items and by bytes; the rest stays first."""
    unsent = UnsentCalls()
    unsent.add(Query, calls(*[f"{n}" * 20 for n in range(8)]))
    unsent.add(Stats, calls(()))
    sizes = []
    while unsent.count > 1:
        batch, frame, error = unsent.fitting(unsent.take(), 1, 5, 70)
        assert error is None
        assert len(frame) <= 70
        assert decode_request(frame).op_ids == [item for item, _ in batch.calls]
        sizes.append(len(batch.calls))
    assert sum(sizes) == 8
    assert 1 < max(sizes) <= 3
    assert taken(unsent) == [(Stats, [()])]


@pytest.mark.parametrize(("item", "error"), [("x" * 100, TooLarge), (object(), TypeError)])
def test_what_does_not_fit(item, error):
    """The call alone is returned, with the error; the others stay."""
    unsent = UnsentCalls()
    unsent.add(Query, calls(item, "b", "c"))
    batch, _, found = unsent.fitting(unsent.take(), 1, 512, 50)
    assert [each for each, _ in batch.calls] == [item]
    assert isinstance(found, error)
    assert unsent.count == 2


def test_put_first_and_all():
    """What is put first is taken first; all are taken at once; the count is made anew."""
    unsent = UnsentCalls()
    unsent.add(Cancel, calls("b"))
    batch = unsent.split(unsent.take(), 1)
    unsent.add(Query, calls("c"))
    unsent.put_first(batch)
    assert [each.request for each in unsent.take_all()] == [Cancel, Query]
    assert (unsent.count, bool(unsent.batches)) == (0, False)
    unsent.add(Cancel, calls("d", "e"))
    unsent.count = 99
    unsent.recount()
    assert unsent.count == 2


@pytest.mark.parametrize(
    ("request_type", "count", "gathers"),
    [
        (Cancel, 0, False),
        (Cancel, 1, True),
        (Cancel, CALLS_PER_MESSAGE - 1, True),
        (Cancel, CALLS_PER_MESSAGE, False),
        (Cancel, CALLS_PER_MESSAGE + 1, False),
        (Stats, 1, False),
    ],
)
def test_which_messages_wait_for_further_calls(request_type, count, gathers):
    """A single one that has room, of a kind with several items."""
    unsent = UnsentCalls()
    if count:
        unsent.add(request_type, calls(*map(str, range(count))))
    assert unsent.may_gather is gathers
