"""The queue in which clients take turns, and what each transaction takes of their requests."""

import pytest

from purgatory.service.protocol import Submit
from purgatory.service.server.fair_queue import (
    CREDIT,
    MAX_FRAMES,
    SHARED_BYTES,
    SHARED_MS,
    FairQueue,
)
from tests.testing.step_server import operation


def taken(queue):
    return [queue.popleft() for _ in range(queue.length)]


def test_clients_take_turns():
    """What one client sends stays in order."""
    queue = FairQueue()
    for client, item in ("a", 1), ("a", 2), ("a", 3), ("b", 4), ("b", 5), ("c", 6):
        queue.append(client, item)
    assert (queue.length, queue.count("a"), queue.count("d")) == (6, 3, 0)
    assert taken(queue) == [1, 4, 6, 2, 5, 3]
    assert not queue.length


def test_a_client_comes_behind_those_that_wait():
    """Also if it was served just before."""
    queue = FairQueue()
    queue.append("a", 1)
    queue.append("b", 2)
    assert queue.popleft() == 1
    queue.append("a", 3)
    assert taken(queue) == [2, 3]


def test_what_costs_much_waits_for_more_turns():
    """Meanwhile others have theirs; alone, it does not wait."""
    queue = FairQueue()
    queue.append("a", 1, 3 * CREDIT)
    queue.append("a", 2)
    for n in range(3, 8):
        queue.append("b", n, CREDIT)
    assert taken(queue) == [3, 4, 1, 5, 2, 6, 7]
    queue.append("a", 8, 100 * CREDIT)
    assert taken(queue) == [8]


def test_credit_is_not_saved():
    """A client that was modest for long has its turns as others do."""
    queue = FairQueue()
    for n in range(50):
        queue.append("a", n)
    assert [queue.popleft() for _ in range(49)] == list(range(49))
    queue.append("a", 50, 2 * CREDIT)
    for n in range(51, 55):
        queue.append("b", n)
    assert taken(queue) == [49, 51, 52, 50, 53, 54]


def test_clear():
    """Nothing is left, of any client."""
    queue = FairQueue()
    queue.append("a", 1)
    queue.clear()
    assert (queue.length, queue.count("a")) == (0, 0)
    with pytest.raises(IndexError):
        queue.popleft()


@pytest.fixture
def server(step_server):
    return step_server


def transactions(server):
    """Return how many replies each transaction sends, until nothing waits."""
    steps = []
    while server.store_loop.backlog:
        steps.append(len(server.step(once=True)[0]))
    return steps


def submit_halves(server, client, *others):
    """Submit with requests of half of what a shared server takes at once, three of each client."""
    for n, name in enumerate([client, *others] * 3):
        server.post(Submit, [operation(f"{name} {n}")], client=name, size=SHARED_BYTES // 2)
    return transactions(server)


def test_a_shared_server_takes_little_at_once(server):
    """Each request of a transaction waits for all others; alone, a client waits for itself only."""
    requests = server.store_loop.requests
    assert submit_halves(server, "c") == [3]
    assert not requests.is_shared
    assert submit_halves(server, "a", "b", "c") == [2, 2, 2, 2, 1]
    assert submit_halves(server, "c") == [2, 1]
    assert requests.is_shared
    server.pass_time(SHARED_MS)
    assert submit_halves(server, "c") == [3]
    assert not requests.is_shared


def test_a_large_request_has_a_transaction_of_its_own(server):
    """Those that come before it do not wait for it."""
    server.submit(operation("a"), client="a")
    server.submit(operation("b"), client="b")
    server.post(Submit, [operation("large")], client="a", size=10 * SHARED_BYTES)
    server.post(Submit, [operation("small")], client="b")
    assert [reply.seq for reply in server.step(once=True)[0]] == [4]
    assert [reply.seq for reply in server.step(once=True)[0]] == [3]


def test_frames_have_a_bound(server):
    """However small they are."""
    for n in range(MAX_FRAMES + 1):
        server.post(Submit, [operation(f"{n}")])
    assert transactions(server) == [MAX_FRAMES, 1]
