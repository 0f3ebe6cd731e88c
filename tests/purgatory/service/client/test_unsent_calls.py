"""The calls of a session that wait to be sent: in order, in batches."""

import itertools
import subprocess
import sys

import pytest

from purgatory.service import RequestAbandoned, TooLarge
from purgatory.service.client.calls import CALLS_PER_MESSAGE, CallBatch
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.unsent_calls import MAX_SENDINGS, Resending, UnsentCalls
from purgatory.service.encoding import decode_request
from purgatory.service.protocol import Cancel, Complete, Query, Stats
from tests.testing.purgatory_harness import HANG, free_port


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


# A server that a completion of "poison" ends, and that answers to all others and to Stats.
SERVER = """
import os, sys, zmq
from purgatory.service.encoding import decode_request, encode
from purgatory.service.protocol import *
socket = zmq.Context().socket(zmq.ROUTER)
socket.bind(sys.argv[1])
limits = Limits(1 << 20, 100, 1024, 1 << 20, 1000, 1000, 10**9, 100, 512)
while True:
    route, frame = socket.recv_multipart()
    request = decode_request(frame)
    if isinstance(request, Hello):
        answer = Welcome(request.seq, VERSION, "fake", limits)
    elif isinstance(request, Complete):
        if request.completions[0].key == "poison":
            os._exit(2)
        answer = Completed(request.seq, [1] * len(request.completions))
    elif isinstance(request, Stats):
        answer = StatsReply(request.seq, {"pending": 1})
    elif isinstance(request, Bye):
        os._exit(0)
    socket.send_multipart([route, encode(answer)])
"""


def messages(*numbers):
    """Return messages of these sequence numbers, as a session keeps them."""
    return {seq: (b"%d" % seq, CallBatch(Complete, [])) for seq in numbers}


def test_all_at_first():
    """After one loss they are sent together: a lost connection is mostly no fault of theirs."""
    resending = Resending(messages(1, 2, 3))
    assert resending.begin() == [b"1", b"2", b"3"]
    assert resending.take_abandoned() == []
    assert resending.begin() == [b"1", b"2", b"3"]
    assert not resending.is_under_way


def test_one_by_one():
    """From the second loss on each waits for the answer to the one before; then new ones may go."""
    unanswered = messages(1, 2)
    resending = Resending(unanswered)
    for _ in range(2):
        assert resending.take_abandoned() == []
    assert resending.begin() == [b"1"]
    assert resending.next() == []
    del unanswered[1]
    assert resending.is_under_way
    assert resending.next() == [b"2"]
    assert resending.is_under_way
    del unanswered[2]
    assert not resending.is_under_way
    assert resending.next() == []


def test_the_one_to_blame_is_given_up():
    """Those that were not sent on a connection are not counted."""
    unanswered = messages(1, 2, 3)
    resending = Resending(unanswered)
    bad = unanswered[2][1]
    abandoned = []
    for _ in range(MAX_SENDINGS):
        resending.begin()
        if resending.is_under_way:
            unanswered.pop(1, None)  # it was answered
            resending.next()
        abandoned += resending.take_abandoned()
    assert abandoned == [bad]
    assert list(unanswered) == [3]


def test_a_request_that_ends_each_server(connect):
    """It gets an error of its own after some servers; the calls beside it are answered."""
    address = f"tcp://127.0.0.1:{free_port()}"
    client = connect(address, lost_after=5.0)
    poison = client.complete_later("poison")
    others = [client.stats_later(), client.complete_later("k")]
    codes = []
    for _ in range(MAX_SENDINGS):
        with subprocess.Popen([sys.executable, "-c", SERVER, address]) as server:
            codes.append(server.wait(HANG))
    with subprocess.Popen([sys.executable, "-c", SERVER, address]) as server:
        with pytest.raises(RequestAbandoned, match=f"lost {MAX_SENDINGS} times"):
            poison.result(HANG)
        assert [reply.result(HANG) for reply in others] == [{"pending": 1}, 1]
        assert client.complete("l") == 1
        client.close()
        server.wait(HANG)
    assert codes == [2] * MAX_SENDINGS


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
