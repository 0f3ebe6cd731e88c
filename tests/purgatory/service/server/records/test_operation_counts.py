"""OperationCounts: exact after each transaction, rollback and crash."""

import random
from collections import Counter

import pytest

from purgatory.service.protocol import SubmissionOptions
from purgatory.service.server.records import retention
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.operation_counts import OperationCounts
from tests.testing.step_server import job, operation, step_server

__all__ = ["step_server"]

CLIENTS = ("c", "d")


def recounted(state, client=None):
    """Count the operations that the server knows."""
    return Counter(
        entry.outcome if isinstance(entry, OutcomeRecord) else "pending"
        for entry in state.known.values()
        if entry.job is None and client in (None, entry.client.name)
    )


def test_one_by_one():
    """An operation is in one state; a client without operations takes no memory."""
    counts = OperationCounts()
    counts.add("a")
    counts.add("b")
    counts.end("a", "failed")
    assert counts.of(None) == {"pending": 1, "failed": 1}
    assert (counts.of("a"), counts.of("b"), counts.of("x")) == ({"failed": 1}, {"pending": 1}, {})
    counts.forget("a", "failed")
    assert counts.of("a") == {}
    assert list(counts._by_client) == ["b"]


def submit_some(server, dice, client):
    """Submit operations and jobs; ids come again, some are soon free."""
    for _ in range(dice.randrange(3)):
        make = dice.choice((operation, operation, job))
        name = f"{make.__name__} {dice.randrange(40)}"
        made = make(name, f"k{dice.randrange(7)}", timeout_ms=dice.choice((5, 50, 5000)))
        if dice.random() < 0.5:
            made.options = SubmissionOptions(unique_ms=1)
        server.submit(made, client=client)


def change_something(server, dice, client):
    """End or acknowledge some, fail a commit, or crash."""
    step = dice.randrange(8)
    if step == 0:
        server.complete(f"k{dice.randrange(7)}", limit=dice.choice((None, 1)))
    elif step == 1:
        server.fail(f"k{dice.randrange(7)}")
    elif step == 2:
        for number in range(0, 40, 2):
            server.cancel(f"operation {number}")
    elif step == 3:
        unread = server.fetch_outcomes(client)
        server.acknowledge(*[one.number for one in unread], client=client)
    elif step == 4:
        server.faults.fail()
        server.submit(operation("lost", "k1"))
        server.faults.clear()
    elif step == 5 and dice.random() < 0.3:
        server.crash()


@pytest.mark.parametrize("seed", range(4))
def test_they_are_those_of_a_recount(step_server, monkeypatch, seed):
    """Whatever ends, fails to be written, is deleted, comes again, or is read at a start."""
    monkeypatch.setattr(retention, "RETAINED_OUTCOMES", 5)
    monkeypatch.setattr(retention, "DELETED_TOGETHER", 3)
    dice, server = random.Random(seed), step_server
    seen = set()
    for _ in range(150):
        client = dice.choice(CLIENTS)
        server.hello(client)
        submit_some(server, dice, client)
        change_something(server, dice, client)
        server.pass_time(dice.choice((1, 20, 500)))
        counts = server.state.operation_counts
        assert counts.of(None) == recounted(server.state)
        for each in CLIENTS:
            assert counts.of(each) == recounted(server.state, each)
        seen |= counts.of(None).keys()
    assert seen == {"pending", "completed", "failed", "expired", "cancelled"}
