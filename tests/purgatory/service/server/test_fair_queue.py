"""The queue in which clients take turns, and what each transaction takes of their requests."""

import random

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


def test_a_connection_with_many_names():
    """It has the turns of one client, also if it says a new name with each request."""
    queue = FairQueue()
    for n in range(50):
        queue.append(f"name {n}", n, route=b"hostile")
    for n in range(3):
        queue.append("other", f"other {n}", route=b"r")
    assert taken(queue)[:7] == [0, "other 0", 1, "other 1", 2, "other 2", 3]


def test_a_key_with_many_names():
    """Its connections share the turns of one key; they take turns, too."""
    queue = FairQueue()
    for n in range(50):
        queue.append(f"name {n % 10}", n, route=b"%d" % (n % 10), key="hostile")
    for n in range(3):
        queue.append("other", f"other {n}", route=b"r", key="honest")
    assert taken(queue)[:7] == [0, "other 0", 1, "other 1", 2, "other 2", 3]


def test_what_the_names_of_a_key_cost_is_counted_together():
    """Each of its names has enough credit for its own; all together have not."""
    queue = FairQueue()
    for n in range(4):
        queue.append(f"name {n}", n, CREDIT, route=b"%d" % n, key="hostile")
    queue.append("large", "large", 3 * CREDIT, route=b"l", key="hostile")
    for n in range(8):
        queue.append("other", f"other {n}", 1, route=b"r", key="honest")
    order = taken(queue)
    assert order[:4] == [0, "other 0", 1, "other 1"]
    assert order.index("large") - order.index("other 5") > 0


@pytest.mark.parametrize("seed", range(20))
def test_any_names_connections_and_keys(seed):
    """What a client sends stays in order; nothing is lost; at the end nothing is kept."""
    dice = random.Random(seed)
    queue, sent, got = FairQueue(), {}, {}
    for n in range(300):
        client = f"c{dice.randrange(4)}"
        route, key = dice.choice((b"", b"1", b"2", b"3")), dice.choice(("", "k"))
        cost = dice.choice((0, CREDIT, 5 * CREDIT))
        queue.append(client, (client, n), cost, route=route, key=key)
        sent.setdefault(client, []).append(n)
        while queue.length and dice.random() < 0.45:
            client, number = queue.popleft()
            got.setdefault(client, []).append(number)
    for client, number in taken(queue):
        got.setdefault(client, []).append(number)
    assert got == sent
    assert not any((queue._by_client, queue._by_route, queue._keys, queue._turns, queue.length))


def test_the_store_loop_tells_connections_and_keys_apart(server):
    """Of requests under new names each transaction has no more than of another client's."""
    size = SHARED_BYTES // 2
    server.submit(operation("a"), client="a")
    server.submit(operation("b"), client="b")
    for n in range(6):
        name, route = f"name {n}", b"%d" % (n // 3)
        server.post(Submit, [operation(name)], client=name, size=size, route=route, key="hostile")
    for n in range(3):
        server.post(Submit, [operation(f"o{n}")], client="o", size=size, route=b"o", key="honest")
    honest = []
    while server.store_loop.backlog:
        server.step(once=True)
        honest.append(sum(f"o{n}" in server.state.known for n in range(3)))
    assert honest == [1, 2, 3, 3, 3]


def test_an_empty_queue():
    """Nothing can be taken."""
    with pytest.raises(IndexError):
        FairQueue().popleft()


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
        server.post(
            Submit,
            [operation(f"{name} {n}")],
            client=name,
            size=SHARED_BYTES // 2,
            route=name.encode(),
        )
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
    server.post(Submit, [operation("small")], client="b", route=b"s")
    assert [reply.seq for reply in server.step(once=True)[0]] == [4]
    assert [reply.seq for reply in server.step(once=True)[0]] == [3]


def test_frames_have_a_bound(server):
    """However small they are."""
    for n in range(MAX_FRAMES + 1):
        server.post(Submit, [operation(f"{n}")])
    assert transactions(server) == [MAX_FRAMES, 1]
