"""TransactionBudget, in a server: what each transaction takes of the requests that wait."""

import pytest

from purgatory.service.protocol import Submit
from purgatory.service.server.transactions.transaction_budget import (
    MAX_FRAMES,
    SHARED_BYTES,
    SHARED_MS,
)
from tests.testing.step_server import operation


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
    budget = server.store_loop.budget
    assert submit_halves(server, "c") == [3]
    assert not budget.is_shared
    assert submit_halves(server, "a", "b", "c") == [2, 2, 2, 2, 1]
    assert submit_halves(server, "c") == [2, 1]
    assert budget.is_shared
    server.pass_time(SHARED_MS)
    assert submit_halves(server, "c") == [3]
    assert not budget.is_shared


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
