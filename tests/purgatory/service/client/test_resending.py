"""Resending: messages after which the connection is lost again and again."""

import subprocess
import sys

import pytest

from purgatory.service import RequestAbandoned
from purgatory.service.client.calls import CallBatch
from purgatory.service.client.resending import MAX_SENDINGS, Resending
from purgatory.service.protocol import Complete
from tests.testing.purgatory_harness import HANG, free_port

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
