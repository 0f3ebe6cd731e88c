"""The queue in which clients take turns."""

import pytest

from purgatory.service.server.fair_queue import CREDIT, FairQueue


def taken(queue):
    return [queue.popleft() for _ in range(len(queue))]


def test_clients_take_turns():
    """What one client sends stays in order."""
    queue = FairQueue()
    for client, item in ("a", 1), ("a", 2), ("a", 3), ("b", 4), ("b", 5), ("c", 6):
        queue.append(client, item)
    assert (len(queue), queue.count("a"), queue.count("d")) == (6, 3, 0)
    assert taken(queue) == [1, 4, 6, 2, 5, 3]
    assert not queue


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
    assert queue.peek() == 3
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
    assert (len(queue), queue.count("a")) == (0, 0)
    with pytest.raises(IndexError):
        queue.popleft()
