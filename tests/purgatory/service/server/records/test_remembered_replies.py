"""A request that is sent again is not done again: it is answered as before."""

import pytest

from purgatory.service.protocol import (
    NOTHING,
    Cancel,
    Complete,
    Completion,
    Extend,
    Fail,
    KeyFailure,
    Raw,
    TimeoutExtension,
)
from purgatory.service.server.records import remembered_replies
from purgatory.service.server.records.remembered_replies import REPLIES_PER_SESSION, SESSION_MS
from tests.testing.step_server import operation

REQUESTS = {
    "complete": (Complete, Completion("k", Raw(NOTHING), 1, 500)),
    "fail": (Fail, KeyFailure("k", "Error")),
    "cancel": (Cancel, "a"),
    "extend": (Extend, TimeoutExtension("a", 5000)),
}


def replies_in_store(server):
    return server.store._connection.execute("SELECT count(*) FROM replies").fetchone()[0]


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("name", REQUESTS)
def test_a_repeated_request(step_server, name, crash):
    """Its reply is the same, and nothing changes, also after a crash."""
    server = step_server
    server.submit(operation("a", "k"), operation("b", "l"))
    kind, item = REQUESTS[name]
    first = server.ask(kind, [item], session="s", seq=7)
    state = server.query("a")
    if crash:
        server.crash()
        server.hello()
    server.submit(operation("c", "k"))
    later = server.query("c")
    server.pass_time(10)
    assert server.ask(kind, [item], session="s", seq=7) == first
    assert server.query("a") == state
    assert server.query("c") == later
    assert replies_in_store(server) == 1


def test_other_requests_are_done(step_server):
    """Of another session, of another number, and of no session."""
    server = step_server
    server.submit(*[operation(f"o{n}", "k") for n in range(4)])
    names = [("s", 7), ("t", 7), ("s", 8), ("", 7), ("", 7), ("s", 7)]
    counts = [
        server.ask(Complete, [Completion("k", limit=1)], session=session, seq=seq).counts
        for session, seq in names
    ]
    assert counts == [[1], [1], [1], [1], [0], [1]]


def test_twice_in_one_transaction(step_server):
    """As when the client has connected anew; if the commit fails, neither is done."""
    server = step_server
    server.submit(operation("a", "k"), operation("b", "k"))
    for fails in (True, False):
        if fails:
            server.faults.fail()
        for _ in range(2):
            server.post(Complete, [Completion("k", limit=1)], session="s", seq=7)
        replies, _ = server.step()
        server.faults.clear()
        if fails:
            assert [reply.code for reply in replies] == ["store", "store"]
        else:
            assert [reply.counts for reply in replies] == [[1], [1]]
    assert server.query("b").state == "pending"


def test_a_failing_disk_does_not_hide_what_was_done(step_server):
    """A repeated reply is given although the transaction around it fails."""
    server = step_server
    server.submit(operation("a", "k"))
    first = server.ask(Complete, [Completion("k")], session="s", seq=7)
    server.faults.fail()
    server.post(Complete, [Completion("k")], session="s", seq=7)
    server.post(Cancel, ["b"])
    assert first in server.step()[0]


def test_as_many_as_a_client_may_have_unanswered(step_server):
    """The oldest are forgotten, on disk too."""
    server = step_server
    for seq in range(REPLIES_PER_SESSION + 5):
        server.submit(operation(f"o{seq}", "k"))
        server.ask(Complete, [Completion("k")], session="s", seq=seq)
    assert replies_in_store(server) == REPLIES_PER_SESSION
    assert server.ask(Complete, [Completion("k")], session="s", seq=5).counts == [1]
    assert server.ask(Complete, [Completion("k")], session="s", seq=4).counts == [0]


def test_sessions_are_forgotten(step_server, monkeypatch):
    """After a while, or when there are too many; also those from before a crash."""
    server = step_server
    server.ask(Complete, [Completion("k")], session="old", seq=1)
    server.crash()
    server.pass_time(SESSION_MS - 1)
    assert replies_in_store(server) == 1
    server.pass_time(60_000)
    assert replies_in_store(server) == 0
    monkeypatch.setattr(remembered_replies, "MAX_SESSIONS", 2)
    for session in "abc":
        server.ask(Complete, [Completion("k")], session=session, seq=1)
    assert replies_in_store(server) == 2
    assert server.state.replies.find("a", 1) is None
    assert server.state.replies.find("c", 1)
