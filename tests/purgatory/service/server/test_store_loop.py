"""The keeper and its room, stepped by hand: decide, commit, tell, or undo."""

import sqlite3

import pytest

from purgatory.service.protocol import Cancel, Complete, Completion, Raw, Submit, encode, unpack
from purgatory.service.server.commands import StopStoreLoop, StoreLoopStopped
from purgatory.service.store.store import JournalPosition, OperationRow, OutcomeRow
from tests.testing.step_server import ManualTime, StepServer, operation, result


@pytest.fixture
def server(tmp_path):
    opened = StepServer(tmp_path / "a.db")
    opened.hello()
    yield opened
    opened.store.close()


START = JournalPosition(0, 0)


class RecordingSink:
    """A sink that confirms when it is told to."""

    def __init__(self, position=START):
        self.position = position
        self.operations = []
        self.outcomes = []
        self.closed = False

    def start(self, source, confirm):
        assert source.isalnum()
        self.confirm = confirm
        return self.position

    def write(self, operations, outcomes):
        self.operations += map(OperationRow._make, operations)
        self.outcomes += map(OutcomeRow._make, outcomes)

    def close(self):
        self.closed = True


class Broken:
    """A desk that cannot take anything."""

    def handle(self, asked):
        raise ZeroDivisionError(asked)


def complete(server, key, value=None):
    """A completion: its count, and the outcomes told in the same turn."""
    server.post(Complete, [Completion(key, Raw(encode(value)))])
    [answer], outcomes = server.step()
    return answer.counts[0], outcomes


def test_an_operation_completes_with_the_value_of_its_key(server):
    """And its client is told, with the payload it gave."""
    server.submit(operation("a", "k", payload={"order": 7}, kind="pay"))
    server.time.ms += 10
    count, [outcome] = complete(server, "k", "v")
    assert count == 1
    assert (outcome.op_id, outcome.outcome, outcome.by_key) == ("a", "completed", "k")
    assert (result(outcome), unpack(outcome.payload), outcome.kind) == ("v", {"order": 7}, "pay")
    assert outcome.at_ms == outcome.submitted_ms + 10


def test_in_the_millisecond_of_its_deadline_it_still_completes(server):
    """One later it has expired, at its deadline."""
    for op_id in ("a", "b"):
        server.submit(operation(op_id, timeout_ms=50))
    server.time.ms += 50
    assert complete(server, "a's key")[0] == 1
    server.time.ms += 1
    count, [outcome] = complete(server, "b's key")
    assert (count, outcome.outcome) == (0, "expired")
    assert outcome.at_ms == outcome.deadline_ms == outcome.submitted_ms + 50


def test_who_is_late_does_not_complete_what_is_overdue(server):
    """However busy the server was: the disk failed it, so nothing expired for a while."""
    server.submit(operation("a", timeout_ms=50))
    server.faults.fail()
    server.pass_time(100)
    server.faults.clear()
    assert complete(server, "a's key")[0] == 0
    [outcome] = server.pass_time(1000)
    assert (outcome.outcome, outcome.at_ms) == ("expired", outcome.deadline_ms)


def test_need_several_keys(server):
    """The values of those that were completed; a key counts once."""
    server.submit(operation("a", "x", "y", "z", need=2))
    assert complete(server, "x", 1) == (0, [])
    assert complete(server, "x", 2) == (0, [])
    assert server.query("a").keys_done == ["x"]
    count, [outcome] = complete(server, "z", 3)
    assert (count, outcome.by_key, result(outcome)) == (1, "z", {"x": 1, "z": 3})


def test_progress_survives_a_crash(server):
    """A completed key need not be completed again."""
    server.submit(operation("a", "x", "y", need=2))
    complete(server, "x", 1)
    server.crash()
    server.hello()
    assert server.query("a").keys_done == ["x"]
    assert result(complete(server, "y", 2)[1][0]) == {"x": 1, "y": 2}


def test_a_repeated_submit_is_answered_with_its_state(server):
    """It waits once; when it has ended, its end is told again."""
    assert server.submit(operation("a")).known == []
    [known] = server.submit(operation("a")).known
    assert (known.index, known.state) == (0, "pending")
    complete(server, "a's key", 5)
    server.post(Submit, [operation("new"), operation("a")])
    [answer], [outcome] = server.step()
    assert [(known.index, known.state) for known in answer.known] == [(1, "completed")]
    assert (outcome.number, result(outcome)) == (1, 5)
    assert server.state.purgatory.delayed == 1


def test_an_id_of_another_client_is_taken(server):
    """And the operation there is as it was."""
    server.submit(operation("a"))
    [refusal] = server.submit(operation("a"), client="other").refused
    assert refusal.code == "taken"
    assert server.query("a").client == "c"


@pytest.mark.parametrize(
    ("submission", "code"),
    [
        (operation("a", *"abcdefghijk"), "too-many-keys"),
        (operation("a", timeout_ms=10**9 + 1), "too-long"),
        (operation("a", timeout_ms=2**64 - 1), "too-long"),
        (operation("a", timeout_ms=-1), "malformed"),
        (operation("a", need=2**64 - 1), "malformed"),
        (operation("a", need=2), "malformed"),
        (operation("a", "k", "k", need=2), "malformed"),
        (operation("a", "k", need=0), "malformed"),
        (operation("a", ""), "malformed"),
        (operation("", "k"), "malformed"),
        (operation("a", payload="x" * 1000), "too-large"),
        (operation("a", "k" * 1001), "too-large"),
        (operation("ä" * 501, "k"), "too-large"),
        (operation("a", kind="x" * 1001), "too-large"),
    ],
)
def test_what_is_refused_is_named_and_the_rest_taken(server, submission, code):
    """A bad operation harms no other of its message."""
    answer = server.submit(operation("before"), submission, operation("after"))
    assert [(refusal.index, refusal.code) for refusal in answer.refused] == [(1, code)]
    assert server.query("before").state == server.query("after").state == "pending"
    assert server.handler.refused == 1


def test_a_value_that_is_too_large(server):
    """Refuses the whole message: none of its keys was completed."""
    server.submit(operation("a"))
    pairs = [Completion("a's key"), Completion("k", Raw(encode("x" * 1000)))]
    answer = server.ask(Complete, pairs)
    assert (answer.code, server.query("a").state) == ("too-large", "pending")


def test_a_client_has_no_more_than_its_share(tmp_path):
    """Outcomes that it does not acknowledge count; others are served."""
    server = StepServer(tmp_path / "a.db", pending_per_client=2, pending=3)
    server.submit(operation("a"), operation("b"))
    assert [r.code for r in server.submit(operation("c")).refused] == ["too-many-pending"]
    server.complete("a's key")
    assert [r.code for r in server.submit(operation("c")).refused] == ["too-many-pending"]
    assert server.submit(operation("d"), client="other").refused == []
    assert len(server.submit(operation("e"), client="other").refused) == 1
    server.acknowledge(1)
    assert server.submit(operation("c")).refused == []
    server.store.close()


def test_cancelling(server):
    """Once; what has ended or is not known cannot be."""
    server.submit(operation("a"))
    server.post(Cancel, ["a", "a", "nobody"])
    [answer], [outcome] = server.step()
    assert (answer.done, outcome.outcome) == ([True, False, False], "cancelled")


def test_states(server):
    """Of what waits, what has ended, and what is not known."""
    server.submit(operation("a", "x", "y", need=2, kind="pay"), operation("b"))
    server.complete("b's key")
    a, b = server.query("a"), server.query("b")
    assert (a.state, a.keys, a.need, a.kind, a.client) == ("pending", ["x", "y"], 2, "pay", "c")
    assert (b.state, b.by_key, b.at_ms) == ("completed", "b's key", b.submitted_ms)
    assert server.query("nobody").state == "unknown"


def test_outcomes_are_told_again_until_acknowledged(server):
    """With the same numbers, after a crash too; then never again."""
    server.submit(operation("a"), operation("b"))
    complete(server, "a's key", 1)
    complete(server, "b's key", 2)
    for _ in range(2):
        server.crash()
        server.hello()
        assert [(o.number, result(o)) for o in server.fetch_outcomes()] == [(1, 1), (2, 2)]
    server.acknowledge(1)
    assert [o.number for o in server.fetch_outcomes()] == [2]
    assert server.fetch_outcomes(after=2) == []
    server.store_loop.mailbox.send(StopStoreLoop())
    server.step()
    server.store_loop.shut_down()
    server.open()
    server.hello()
    assert [o.number for o in server.fetch_outcomes()] == [2]


def test_nothing_is_left_of_a_client_that_has_nothing(server):
    """Once it has gone, whatever is still on its way for it."""
    server.submit(operation("a", timeout_ms=10))
    server.bye()
    assert set(server.state.clients) == {"c"}
    server.pass_time(20)
    server.hello()
    [outcome] = server.fetch_outcomes()
    server.acknowledge(outcome.number)
    server.bye()
    assert server.fetch_outcomes() == []
    assert server.state.clients == {}
    server.hello()
    server.faults.fail()
    server.submit(operation("b"))
    server.bye()
    server.faults.clear()
    server.pass_time(60_001)
    assert server.state.clients == {}


def test_many_outcomes_come_in_several_frames(server):
    """Each begins where the last one ended."""
    server.submit(*(operation(f"o{n}", "k") for n in range(700)))
    assert len(complete(server, "k")[1]) == 700
    after, got = 0, []
    while some := server.fetch_outcomes(after=after):
        got += [outcome.number for outcome in some]
        after = got[-1]
        assert len(some) <= 256
    assert got == list(range(1, 701))


def test_a_client_that_is_not_there_is_not_told(server):
    """It is when it comes back."""
    server.submit(operation("a"))
    server.bye()
    assert complete(server, "a's key")[1] == []
    server.hello()
    assert len(server.fetch_outcomes()) == 1


def test_what_was_acknowledged_is_kept_for_a_while(server):
    """For those who ask, or submit once more; then its rows are gone."""
    server.submit(operation("a"))
    server.complete("a's key")
    server.acknowledge(1)
    assert server.query("a").state == "completed"
    assert [k.state for k in server.submit(operation("a")).known] == ["completed"]
    server.pass_time(600_001)
    assert server.query("a").state == "unknown"
    assert list(server.store.operations()) == list(server.store.outcomes()) == []
    assert server.submit(operation("a")).known == []
    assert server.query("a").state == "pending"


def test_the_retention_ends(server):
    """Of outcomes that nobody acknowledges."""
    server.store_loop._retention_ms = 100_000
    server.submit(operation("a", timeout_ms=10))
    server.pass_time(11)
    server.pass_time(90_000)
    assert server.query("a").state == "expired"
    server.pass_time(70_000)
    assert server.state.unacknowledged == 0
    server.pass_time(700_000)
    assert list(server.store.operations()) == []


def test_overdue_operations_expire_in_order_of_deadline(server):
    """At once after a restart, and those that are not due are armed again."""
    for op_id, timeout_ms in (("c", 300), ("a", 100), ("later", 10_000), ("b", 200)):
        server.submit(operation(op_id, timeout_ms=timeout_ms))
    server.time.ms += 5000
    server.crash()
    server.hello()
    got = server.fetch_outcomes()
    assert [(o.op_id, o.outcome) for o in got] == [(x, "expired") for x in "abc"]
    assert server.query("later").state == "pending"
    assert server.pass_time(4999) == []
    assert server.pass_time(10) != []


def test_patience(server):
    """It sleeps until something is due, or a chore."""
    server.step()
    assert server.store_loop.max_sleep() == pytest.approx(60, abs=0.01)
    server.submit(operation("a", timeout_ms=10))
    assert server.store_loop.max_sleep() == pytest.approx(0.011)
    server.time.ms += 20
    assert server.store_loop.max_sleep() == 0


@pytest.mark.parametrize("wall_ms", [-3_600_000, 3_600_000])
@pytest.mark.parametrize("boot", ["boot 1", "boot 2"])
def test_jumps_of_the_wall_clock(tmp_path, wall_ms, boot):
    """Neither lose nor hasten: while it runs, and over a restart, of the machine too."""
    time = ManualTime()
    server = StepServer(tmp_path / "a.db", time=time)
    server.submit(operation("a", timeout_ms=500_000))
    time.wall_ms = wall_ms
    server.pass_time(100_000)
    assert server.query("a").state == "pending"
    server.store_loop.shut_down()
    time.boot = boot
    server.open()
    state = server.query("a")
    assert state.state == "pending"
    assert state.deadline_ms == pytest.approx(time.ms + wall_ms + 400_000, abs=1000)
    server.pass_time(400_000)
    assert server.query("a").state == "pending"
    server.pass_time(1)
    assert server.query("a").state == "expired"
    server.store.close()


def test_a_failed_commit_is_undone_and_told(server):
    """Nothing of the turn happened: submits, completions, cancels, progress, expirations."""
    server.submit(operation("a"), operation("b"), operation("c", "x", "y", need=2))
    server.submit(operation("d", timeout_ms=10))
    before = [server.query(op_id) for op_id in "abcd"]
    server.faults.fail()
    server.time.ms += 20
    server.post(Submit, [operation("new"), operation("short", timeout_ms=0)])
    server.post(Complete, [Completion("a's key"), Completion("x"), Completion("new's key")])
    server.post(Cancel, ["b"])
    answers, outcomes = server.step()
    assert [answer.code for answer in answers] == ["store"] * 3
    assert "disk is full" in answers[0].message
    assert outcomes == []
    server.faults.clear()
    assert [server.query(op_id) for op_id in "abcd"] == before
    assert server.query("new").state == "unknown"
    server.state.purgatory._check()
    assert server.submit(operation("new")).refused == []
    server.time.ms += 1
    count, outcomes = complete(server, "a's key", 1)
    assert count == 1
    assert [(o.op_id, o.outcome) for o in outcomes] == [("d", "expired"), ("a", "completed")]


def test_an_operation_that_came_and_went_in_a_failed_turn(server):
    """Leaves nothing."""
    server.faults.fail()
    server.post(Submit, [operation("a")])
    server.post(Complete, [Completion("a's key")])
    server.step()
    server.faults.clear()
    assert server.query("a").state == "unknown"
    assert server.state.total == 0
    assert server.state.client("c").count == 0
    assert server.fetch_outcomes() == []


def test_a_failing_disk_is_not_asked_without_end(server):
    """What is due is tried again after a second."""
    server.submit(operation("a", timeout_ms=10))
    server.faults.fail()
    server.pass_time(20)
    assert server.store_loop.commit_failures == 1
    assert 0.9 < server.store_loop.max_sleep() <= 1
    server.pass_time(10)
    assert server.store_loop.commit_failures == 1
    server.pass_time(1000)
    assert server.store_loop.commit_failures == 2


def test_a_disk_that_cannot_be_relied_on_ends_the_server(server):
    """Whoever asked is told, and nothing more is done."""
    server.faults.fail(code=sqlite3.SQLITE_IOERR, words="disk I/O error")
    answer = server.submit(operation("a"))
    assert answer.code == "store"
    assert server.store_loop.finished()
    server.store_loop.shut_down()
    [stopped] = [command for command in server.sent if isinstance(command, StoreLoopStopped)]
    assert "disk I/O error" in str(stopped.error)


def test_an_error_of_ours_ends_the_server(server, monkeypatch):
    """Memory and disk might not agree any more."""
    monkeypatch.setattr(server.store_loop, "_handler", Broken())
    server.post(Complete, [Completion("k")])
    server.step()
    assert server.store_loop.finished()
    assert isinstance(server.store_loop.failure, ZeroDivisionError)


def test_the_journal_gets_each_row(tmp_path):
    """Of what was committed only; after a crash what it had not confirmed."""
    ledger = RecordingSink()
    server = StepServer(tmp_path / "a.db", sink=ledger)
    server.submit(operation("a", "x", "y", need=2, kind="pay"), operation("b", timeout_ms=10))
    server.faults.fail()
    server.submit(operation("never"))
    server.faults.clear()
    server.pass_time(2000)
    assert [row.op_id for row in ledger.operations] == ["a", "b"]
    assert ledger.operations[0][4:] == (1000, ("x", "y"), 2)
    assert [(row.seq, row.op_id, row.outcome, row.waited_ms) for row in ledger.outcomes] == [
        (row.seq, *rest)
        for row, rest in zip(
            ledger.outcomes, (("b", "expired", 10), ("a", "expired", 1000)), strict=True
        )
    ]
    assert [row.lateness_ms for row in ledger.outcomes] == [1990, 1000]
    again = RecordingSink(JournalPosition(1, ledger.outcomes[0].seq))
    server.sink = again
    server.crash()
    assert again.operations == ledger.operations[1:]
    assert again.outcomes == ledger.outcomes[1:]
    server.store.close()


def test_rows_stay_until_they_are_in_the_journal(tmp_path):
    """However long they have been acknowledged."""
    ledger = RecordingSink()
    server = StepServer(tmp_path / "a.db", sink=ledger)
    server.submit(operation("a"))
    server.complete("a's key")
    server.acknowledge(1)
    server.pass_time(700_000)
    server.pass_time(700_000)
    assert len(list(server.store.outcomes())) == 1
    assert server.state.total == 0
    ledger.confirm(JournalPosition(1, 1))
    server.step()
    server.pass_time(1)
    assert list(server.store.outcomes()) == []
    server.store_loop.shut_down()
    assert ledger.closed


def test_an_earlier_deadline_after_the_sleep_was_planned(server):
    """What is due first is looked for anew."""
    server.submit(operation("late", timeout_ms=60_000))
    assert server.store_loop.max_sleep() > 50
    server.submit(operation("early", timeout_ms=1000))
    assert server.store_loop.max_sleep() <= 1.001
    server.submit(operation("earlier", timeout_ms=10))
    assert [outcome.op_id for outcome in server.pass_time(500)] == ["earlier"]
    assert [outcome.op_id for outcome in server.pass_time(600)] == ["early"]
    assert server.store_loop.max_sleep() > 50
    assert server.pass_time(10_000) == []
    assert [outcome.op_id for outcome in server.pass_time(60_000)] == ["late"]
