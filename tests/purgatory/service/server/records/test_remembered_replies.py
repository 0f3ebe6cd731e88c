"""A request that is sent again is not done again: it is answered as before."""

import pytest

from purgatory.service.errors import TooManySessions
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
from purgatory.service.server.records.remembered_replies import (
    REPLIES_PER_SESSION,
    SESSION_MS,
    RememberedReplies,
    owner_of,
    session_key,
)
from purgatory.service.server.transactions.maintenance import FORGETTING_MS, MAINTENANCE_MS
from purgatory.service.store.changes import Changes
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


def test_a_failed_commit_forgets_none(step_server):
    """The oldest of a session are remembered in memory as on disk, in their order."""
    server = step_server
    for seq in range(REPLIES_PER_SESSION):
        server.submit(operation(f"o{seq}", "k"))
        server.ask(Complete, [Completion("k")], session="s", seq=seq)
    replies, key = server.state.replies, session_key("c", "s")
    before = list(replies._sessions[key].frames), replies.bytes
    server.faults.fail()
    for seq in range(100, 100 + 2 * REPLIES_PER_SESSION):  # some of them are forgotten, too
        server.post(Complete, [Completion("k")], session="s", seq=seq)
    server.step()
    server.faults.clear()
    assert (list(replies._sessions[key].frames), replies.bytes) == before
    server.pass_time(2000)
    assert server.ask(Complete, [Completion("k")], session="s", seq=0).counts == [1]
    server.crash()
    server.hello()
    assert server.ask(Complete, [Completion("k")], session="s", seq=0).counts == [1]


def test_a_failed_commit_forgets_no_session(step_server):
    """Those that were old enough come back, as the oldest, and are forgotten later."""
    server = step_server
    for name in ("old", "older"):
        server.ask(Complete, [Completion("k")], session=name, seq=1)
    replies = server.state.replies
    before = replies.bytes, list(replies._sessions)
    server.faults.fail()
    server.pass_time(SESSION_MS + MAINTENANCE_MS)
    assert (replies.bytes, list(replies._sessions)) == before
    server.faults.clear()
    for _ in range(2):
        server.pass_time(MAINTENANCE_MS)
    assert (replies_in_store(server), replies.bytes, replies._clients) == (0, 0, {})


def test_sessions_are_forgotten(step_server):
    """After a while; also those from before a crash."""
    server = step_server
    server.ask(Complete, [Completion("k")], session="old", seq=1)
    server.crash()
    server.pass_time(SESSION_MS - 1)
    assert replies_in_store(server) == 1
    server.pass_time(MAINTENANCE_MS)
    assert replies_in_store(server) == 0


def test_old_sessions_are_forgotten_in_portions(step_server, monkeypatch):
    """A transaction forgets some; the next ones come soon, and the memory is exact then."""
    server = step_server
    before = server.state.memory_bytes
    monkeypatch.setattr(remembered_replies, "FORGET_AT_ONCE", 2)
    for n in range(5):
        server.ask(Complete, [Completion("k")], session=f"s{n}", seq=1)
    server.pass_time(SESSION_MS + MAINTENANCE_MS)
    left = [replies_in_store(server)]
    for _ in range(2):
        server.pass_time(FORGETTING_MS)
        left.append(replies_in_store(server))
    assert left == [3, 1, 0]
    assert server.state.memory_bytes == before
    assert server.state.replies._clients == {}


def test_forgetting_waits_for_the_disk(step_server):
    """While commits fail nothing is forgotten: memory and disk stay the same."""
    server = step_server
    server.ask(Complete, [Completion("k")], session="s", seq=1)
    server.pass_time(SESSION_MS - 1)
    server.faults.fail()
    server.submit(operation("a"))
    server.pass_time(MAINTENANCE_MS)
    assert server.state.replies.find(session_key("c", "s"), 1)
    server.faults.clear()
    for _ in range(2):
        server.pass_time(MAINTENANCE_MS)
    assert (replies_in_store(server), server.state.replies.bytes) == (0, 0)


def test_sessions_of_different_clients_are_apart(step_server):
    """Though they have the same name and number; after a crash, too."""
    server = step_server
    server.submit(*[operation(f"o{n}", "k") for n in range(3)])
    counts = []
    for client in ("a", "b", "a", "b"):
        reply = server.ask(Complete, [Completion("k", limit=1)], client=client, session="s", seq=1)
        counts.append(reply.counts)
        server.crash()
    assert counts == [[1]] * 4
    assert server.ask(Complete, [Completion("k")]).counts == [1]


@pytest.mark.parametrize(("one", "other"), [("1:a", "a"), ("a", "1:a")])
def test_keys_are_apart(one, other):
    """Whatever characters the names of clients and sessions have."""
    pairs = [(one, other), (other, one), (one + other, ""), ("", one + other)]
    keys = [session_key(*pair) for pair in pairs]
    assert len(set(keys)) == len(keys)
    assert [owner_of(key) for key in keys] == [client for client, _ in pairs]


def test_a_client_with_too_many_sessions(step_server, monkeypatch):
    """Its further ones are refused, with an error of their own; nothing is forgotten for them."""
    monkeypatch.setattr(remembered_replies, "SESSIONS_PER_CLIENT", 3)
    server = step_server
    server.submit(*[operation(f"o{n}", "k", timeout_ms=10**8) for n in range(9)])
    complete = Complete, [Completion("k", limit=1)]
    for crash in (False, True):
        answers = [server.ask(*complete, session=f"s{n}", seq=1) for n in range(4)]
        assert [answer.counts for answer in answers[:3]] == [[1]] * 3
        assert answers[3].code == TooManySessions.code
        assert "remembers 3 sessions of client 'c'" in answers[3].message
        if not crash:
            server.crash()
    assert server.ask(*complete, session="s0", seq=2).counts == [1]  # a known one goes on
    assert server.ask(*complete, session="s3", seq=1, client="d").counts == [1]  # and another one
    server.pass_time(SESSION_MS + MAINTENANCE_MS)
    assert server.ask(*complete, session="s3", seq=1).counts == [1]
    assert server.query("o6").state == "pending"


def test_bytes_of_replies_are_shared_fairly():
    """Who has more than an equal part is refused, as soon as others need theirs."""
    replies, changes = RememberedReplies(40_000), Changes()

    def fill(client, most):
        """Add sessions until one is refused; returns how many were not."""
        for n in range(most):
            key = replies.key(client, f"s{n}")
            try:
                replies.check_room(client, key)
            except TooManySessions:
                return n
            replies.add(key, 1, b"x" * 100, 1, changes)
        return most

    greedy = fill("greedy", 100)
    assert 10 <= greedy < 20
    assert fill("modest", 3) == 3
    assert 3 <= fill("second", 100) < greedy
    assert fill("greedy", greedy) == 0 or fill("greedy", 100) == 0
    assert replies.bytes <= 40_000
    replies.check_room("modest", replies.key("modest", "s0"))


def test_a_session_of_an_older_server(step_server):
    """Its replies have no client: the one that asks again gets them."""
    server = step_server
    server.submit(operation("a", "k"), operation("b", "k"))
    complete = Complete, [Completion("k", limit=1)]
    first = server.ask(*complete, session="s", seq=7)
    old = "UPDATE replies SET session = 's'"
    server.store._connection.execute(old)
    server.crash()
    assert server.ask(*complete, session="s", seq=7) == first
    assert server.ask(*complete, session="s", seq=8).counts == [1]
    assert server.ask(*complete, session=session_key("c", "s"), seq=7).counts == [0]


def test_a_reply_that_was_taken_back_takes_no_memory(step_server):
    """Neither does its session, if it was the first."""
    server = step_server
    before = server.state.replies.bytes
    server.submit(operation("a", "k"))
    server.faults.fail()
    assert server.ask(Complete, [Completion("k")], session="s", seq=7).code == "store"
    server.faults.clear()
    assert server.state.replies.bytes == before
    assert not server.state.replies._clients
