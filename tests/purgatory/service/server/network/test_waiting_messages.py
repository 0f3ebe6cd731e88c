"""WaitingMessages: what is small goes ahead of what is large, and clients keep their order."""

import random

import pytest
import zmq

from purgatory.service.server.fair_queue import CREDIT
from purgatory.service.server.network.connections import Connection
from purgatory.service.server.network.router_socket import UnreadConnections
from purgatory.service.server.network.waiting_messages import (
    AHEAD_BYTES,
    MESSAGE_BYTES,
    WaitingMessages,
)

SMALL, LARGE = b"s" * 10, b"l" * AHEAD_BYTES


def connection(client, route=b"", user=""):
    """Return a connection of a client; its route is the client's name unless another is given."""
    return Connection(route or client.encode(), client, 0.0, user)


@pytest.fixture
def waiting():
    messages = WaitingMessages(UnreadConnections())
    messages.begin(is_shared=True)
    return messages


def offer(waiting, sender, message):
    """Tell whether a message has to wait, and if so add it."""
    waits = waiting.is_for(sender, len(message))
    if waits:
        waiting.append(sender, zmq.Frame(message, copy=True))
    return waits


def test_large_messages_wait(waiting):
    """Small ones of others do not."""
    bulk, other = connection("bulk"), connection("other")
    assert offer(waiting, bulk, LARGE)
    assert not offer(waiting, other, SMALL)
    assert waiting.popleft() == (bulk, LARGE)
    assert not waiting.bytes


def test_a_client_alone_does_not_wait(waiting):
    """However large its messages are, unless one before them waits."""
    bulk = connection("bulk")
    waiting.begin(is_shared=False)
    assert not offer(waiting, bulk, LARGE)
    waiting.begin(is_shared=True)
    assert offer(waiting, bulk, LARGE)
    waiting.begin(is_shared=False)
    assert offer(waiting, bulk, SMALL)


def test_many_small_messages_are_as_a_large_one(waiting):
    """Of each client some go ahead at a time; the next time again, once none waits."""
    many, other = connection("many"), connection("other")
    ahead = AHEAD_BYTES // (len(SMALL) + MESSAGE_BYTES)
    waits = [offer(waiting, many, SMALL) for _ in range(ahead + 2)]
    assert waits == [False] * ahead + [True] * 2
    assert not offer(waiting, other, SMALL)
    waiting.begin(is_shared=True)
    assert offer(waiting, many, SMALL)
    while waiting.bytes:
        waiting.popleft()
    assert not offer(waiting, many, SMALL)


def test_new_names_on_one_connection_are_as_one(waiting):
    """Its messages wait once some of them went ahead, and then have the turns of one client."""
    small = AHEAD_BYTES // (len(SMALL) + MESSAGE_BYTES)
    names = [connection(f"name {n}", b"hostile") for n in range(small + 20)]
    assert [offer(waiting, name, SMALL) for name in names] == [False] * small + [True] * 20
    other = connection("other")
    assert not offer(waiting, other, SMALL)
    assert [offer(waiting, other, LARGE) for _ in range(2)] == [True, True]
    assert [waiting.popleft()[0].client for _ in range(4)][1::2] == ["other", "other"]


def test_what_a_client_sends_stays_in_order(waiting):
    """What is small waits behind what is large, over all connections of the client."""
    one, again = connection("c", b"1"), connection("c", b"2")
    sent = [(one, LARGE), (one, SMALL), (again, SMALL), (again, LARGE), (one, SMALL)]
    assert all(offer(waiting, *each) for each in sent)
    assert [waiting.popleft() for _ in sent] == sent


def test_clients_take_turns(waiting):
    """One whose messages are larger gets fewer of them through."""
    huge, bulk = connection("huge"), connection("bulk")
    for _ in range(3):
        offer(waiting, huge, b"h" * 4 * CREDIT)
        offer(waiting, bulk, b"b" * (CREDIT // 2))
    order = [waiting.popleft()[0].client for _ in range(6)]
    assert order == ["bulk", "bulk", "bulk", "huge", "huge", "huge"]


@pytest.mark.parametrize("seed", range(5))
def test_bytes(waiting, seed):
    """They are those of what waits; at the end nothing is kept of any connection."""
    dice = random.Random(seed)
    connections = [connection(f"c{n % 3}", bytes([n])) for n in range(6)]
    kept = []
    for _ in range(200):
        sender, message = dice.choice(connections), dice.choice((SMALL, LARGE))
        if offer(waiting, sender, message):
            kept.append(len(message) + MESSAGE_BYTES)
        if waiting.bytes and dice.random() < 0.4:
            kept.remove(len(waiting.popleft()[1]) + MESSAGE_BYTES)
        if dice.random() < 0.1:
            waiting.begin(is_shared=dice.random() < 0.8)
        assert waiting.bytes == sum(kept)
    while waiting.bytes:
        waiting.popleft()
    assert (waiting.bytes, waiting._gates) == (0, {})
