"""Requests that only read: in portions, the clients in turn, and none may be too much."""

from itertools import count

import pytest

from purgatory import StoreError
from purgatory.service.encoding import decode_answer
from purgatory.service.job_messages import WatchJobs
from purgatory.service.protocol import (
    Failure,
    How,
    Query,
    ReadOperations,
    States,
    Stats,
    SubmissionOptions,
    Submit,
    Unread,
)
from purgatory.service.server.commands import (
    ClientConnected,
    ClientRequest,
    FetchOutcomes,
    OutcomeFrame,
    StopStoreLoop,
)
from purgatory.service.server.reads.outcome_frames import FRAME_BYTES
from purgatory.service.server.reads.pending_reads import READ_BYTES, READS_PER_CLIENT, PendingReads
from purgatory.service.server.records.retention import DELETION_PAUSE_MS
from purgatory.service.server.transactions.transaction import BATCH_BYTES
from tests.testing.purgatory_harness import HANG
from tests.testing.step_server import StepServer, frames_of, job, operation


@pytest.fixture
def server(step_server):
    return step_server


def end_many(server, count, **others):
    """Submit operations and complete them all; returns their ids."""
    ids = [f"o{n}" for n in range(count)]
    server.submit(*(operation(op_id, "k", **others) for op_id in ids))
    server.complete("k")
    return ids


def outcome_frames(server):
    """Return of each frame of outcomes sent the last number, and whether it is a repetition."""
    found = [command for command in server.sent if isinstance(command, OutcomeFrame)]
    return [(command.last, command.repeated) for command in found if command.frame]


def reads_of(server, monkeypatch):
    """Record the sequence numbers of the outcomes that are read from the store."""
    read = []
    find = server.store.outcomes_by_seqs

    def record(seqs):
        read.append(list(seqs))
        return find(seqs)

    monkeypatch.setattr(server.store, "outcomes_by_seqs", record)
    return read


def test_each_distinct_id_is_read_once(server, monkeypatch):
    """Ids that a query repeats are answered as often as they were asked."""
    end_many(server, 2)
    read = reads_of(server, monkeypatch)
    answer = server.ask(Query, ["o0", "o1", "?", *["o0"] * 1000])
    assert [state.op_id for state in answer.states] == ["o0", "o1", "?", *["o0"] * 1000]
    assert {state.state for state in answer.states} == {"completed", "unknown"}
    assert read == [[1, 2]]


def test_a_query_keeps_no_other_client_waiting(server):
    """It is answered in portions, and the transactions between them go on."""
    ids = end_many(server, 700)
    server.store_loop.read_seconds = 0
    server.post(Query, ids)
    answers = []
    for n in range(20):
        server.post(Submit, [operation(f"n{n}")], client="other")
        answers += [type(answer).__name__ for answer in server.step(once=True)[0]]
    assert answers == ["Submitted"] * 20
    while not answers[20:]:
        answers += [type(answer).__name__ for answer in server.step(once=True)[0]]
    assert answers[20:] == ["States"]


@pytest.mark.parametrize(
    "read", [FetchOutcomes(b"r", "c", 0), ClientRequest(b"r", "c", Unread(1, 0), 1, "")]
)
def test_a_frame_of_outcomes_keeps_no_other_client_waiting(server, read):
    """It is read in portions, and the transactions between them go on."""
    end_many(server, 256)
    server.store_loop.read_seconds = 0
    server.store_loop.mailbox.send(read)
    for n in range(7):
        server.post(Submit, [operation(f"n{n}")], client="other")
        replies, told = server.step(once=True)
        assert ([type(reply).__name__ for reply in replies], told) == (["Submitted"], [])
    replies, told = server.step(once=True)
    assert len(told or replies[0].outcomes) == 256


def test_requests_of_a_client_wait_for_their_turn(server):
    """A transaction ends when its time has; then other clients come first."""
    server.store_loop.requests.seconds = 0
    for n in range(10):
        server.post(Submit, [operation(f"o{n}")], seq=n)
    server.post(Submit, [operation("other")], client="other", seq=100)
    seqs = [reply.seq for _ in range(11) for reply in server.step(once=True)[0]]
    assert seqs == [0, 100, *range(1, 10)]


def test_figures_are_gathered_once_for_all_requests_of_a_run(server):
    """They cost far more than an answer, and nothing changes between two of a run."""
    gathered = count(1)
    reads = PendingReads(server.state, server.store, lambda: {"n": next(gathered)}, 1 << 20)
    found = []
    for _ in range(2):
        for seq in range(3):
            reads.add(ClientRequest(b"r", "c", Stats(seq), 1, "", False))
        replies = [reply for answer in reads.run(HANG) for _, reply in answer.replies]
        found.append([decode_answer(reply).stats for reply in replies])
    assert found == [[{"n": 1}] * 3, [{"n": 2}] * 3]


def test_too_many_reads_of_a_client_are_refused(server):
    """The limit is each client's own."""
    server.store_loop.read_seconds = 0
    for _ in range(READS_PER_CLIENT + 3):
        server.post(Query, ["a"])
    server.post(Query, ["a"], client="other")
    answers = server.step()[0]
    refused = [answer for answer in answers if isinstance(answer, Failure)]
    assert {answer.code for answer in refused} == {"too-many-reads"}
    assert len(refused) == 3
    assert len(answers) == READS_PER_CLIENT + 4


def test_large_reads_of_a_client_are_refused(server):
    """Together they may have so many bytes; reads that are answered count no more."""
    server.store_loop.read_seconds = 0
    for _ in range(3):
        for _ in range(3):
            server.post(Query, ["a"], size=READ_BYTES // 2)
        server.post(Query, ["a"], size=READ_BYTES // 2, client="other")
        names = [type(answer).__name__ for answer in server.step()[0]]
        assert sorted(names) == ["Failure", "States", "States", "States"]


def test_reads_are_dropped_when_the_server_closes(server):
    """What changes something is still done and answered."""
    server.store_loop.read_seconds = 0
    ids = end_many(server, 100)
    for _ in range(100):
        server.post(Query, ids)
    server.post(Submit, [operation("last")])
    server.store_loop.mailbox.send(StopStoreLoop())
    replies = server.step(once=True)[0]
    assert [type(reply).__name__ for reply in replies] == ["Submitted"]
    assert server.store_loop.finished()
    assert not server.store_loop._reads.waiting


def test_a_server_that_closes_handles_all_requests(server):
    """Though that takes more than one transaction."""
    server.store_loop.requests.seconds = 0
    for n in range(5):
        server.post(Submit, [operation(f"o{n}")])
    server.store_loop.mailbox.send(StopStoreLoop())
    steps = 0
    while not server.store_loop.finished():
        server.step(once=True)
        steps += 1
    assert (steps, server.state.purgatory.delayed) == (5, 5)


def test_repeated_outcomes_come_one_frame_at_a_time(server):
    """The next one when the connection has taken the one before; see `Connections`."""
    ids = end_many(server, 600)
    answer, told = submit_again(server, ids)
    assert len(answer.known) == 600
    got = [outcome.op_id for outcome in told]
    assert len(got) == 256
    assert outcome_frames(server) == [(told[-1].number, True)]
    while told := fetch_repeated(server):
        got += [outcome.op_id for outcome in told]
        assert len(told) <= 256
    assert got == ids
    assert server.store_loop._reads.repeated.count == 0
    assert len(submit_again(server, ids)[1]) == 256  # these got lost, too


def test_repeated_outcomes_with_large_payloads(tmp_path):
    """No frame is larger than it may be, and no more than one is made at a time."""
    server = StepServer(tmp_path / "a.db", payload_bytes=1 << 16)
    server.hello()
    ids = end_many(server, 40, payload="x" * 60_000)
    told = submit_again(server, ids)[1]
    count = 0
    while told:
        sizes = [len(frame) for command in server.sent for _, frame in frames_of(command)]
        assert max(sizes) < FRAME_BYTES + 70_000
        count += len(told)
        told = fetch_repeated(server)
    assert count == 40
    server.store.close()


def test_an_outcome_is_repeated_once_though_asked_for_often(server):
    """As long as it waits; and not at all when the connection has gone."""
    ids = end_many(server, 600)
    for _ in range(10):
        submit_again(server, ids)
    assert server.store_loop._reads.repeated.count == 600
    server.bye()
    assert server.store_loop._reads.repeated.count == 0
    assert fetch_repeated(server) == []


def test_outcomes_of_a_connection_that_goes_with_its_request(server):
    """Both in one transaction: nothing is kept for the connection, which asks for no more."""
    ids = end_many(server, 600)
    server.post(Submit, [operation(op_id, "k") for op_id in ids])
    server.bye()
    assert server.store_loop._reads.repeated.count == 0
    assert server.store_loop._reads.repeated.by_route == {}


@pytest.mark.parametrize("reads", [1, 3])
def test_watches_of_a_connection_that_goes_before_its_reads(server, reads):
    """The reads come after the transaction, and leave no watch behind."""
    server.submit(job("a"), operation("b"))
    for _ in range(reads):
        server.post(Query, ["b"], client="d", route=b"d")
        server.post(WatchJobs, ["a"])
    server.bye()
    watches = server.state.jobs.watches
    assert (watches.count, watches.bytes) == (0, 0)
    server.hello()
    assert server.ask(WatchJobs, ["a"]).jobs[0].state == "scheduled"
    assert watches.count == 1


def test_an_outcome_that_was_deleted_meanwhile_is_not_repeated(server):
    """It is skipped."""
    ids = end_many(server, 600)
    submit_again(server, ids)
    server.acknowledge(*range(1, 601))
    server.pass_time(10**7)
    while server.state.known:  # one transaction deletes only some
        server.pass_time(DELETION_PAUSE_MS)
    assert fetch_repeated(server) == []
    assert server.store_loop._reads.repeated.count == 0


def test_operations_with_large_payloads_share_no_large_row(server):
    """To read one of them, its batch is read."""
    server.submit(*(operation(f"o{n}", payload="x" * 900) for n in range(120)))
    sizes = server.store._connection.execute("SELECT length(operations) FROM batches").fetchall()
    assert len(sizes) == 2
    assert max(size for (size,) in sizes) < 2 * BATCH_BYTES


def submit_again(server, ids):
    """Submit operations once more; returns the reply, and the outcomes that come with it."""
    server.post(Submit, [operation(op_id, "k") for op_id in ids])
    [answer], outcomes = server.step()
    return answer, outcomes


def fetch_repeated(server):
    """Ask for more repeated outcomes, as the network does."""
    return server.send(FetchOutcomes(b"r", "c", 0, repeated=True))


def test_figures_are_answered_between_transactions(server):
    """As queries are; a welcome comes at once."""
    server.store_loop.mailbox.send(ClientConnected(b"s", "d", 7))
    assert server.step(once=True)[0][0].seq == 7
    assert isinstance(server.ask(Query, []), States)


FAULTS = [OverflowError("too large"), RuntimeError("no"), MemoryError(), StoreError("busy")]
READS = [(Query, ["o0"]), (Unread, 0), (ReadOperations, 0), (Stats,)]


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
@pytest.mark.parametrize("read", READS, ids=lambda read: read[0].__name__)
def test_a_read_that_fails_is_refused(server, monkeypatch, read, fault):
    """It is logged; the server goes on, for the same client too."""

    def fail(*_, **__):
        raise fault

    end_many(server, 1)
    server.work("x", attempts=1)
    server.submit(job("j", kind="x"))
    server.pass_time(1001)
    server.finish(*server.leased, how=How.FAILED)
    with monkeypatch.context() as patch:
        for name in ("outcomes_by_seqs", "by_numbers", "some_operations"):
            patch.setattr(server.store, name, fail)
        patch.setattr(server.handler.reads, "_make_stats", fail)
        answer = server.ask(*read)
        assert isinstance(answer, Failure)
        assert answer.code == ("store" if isinstance(fault, StoreError) else "internal")
    assert server.store_loop.failure is None
    assert not isinstance(server.ask(*read), Failure)


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_outcomes_that_cannot_be_read_are_sent_later(server, monkeypatch, fault):
    """Neither the transaction nor the connection is lost by it."""

    def fail(*_):
        raise fault

    server.submit(operation("a", "k", payload=1))
    with monkeypatch.context() as patch:
        patch.setattr(server.store, "by_numbers", fail)
        patch.setattr(server.store, "outcomes_by_seqs", fail)
        assert server.complete("k").counts == [1]
        assert server.fetch_outcomes() == []
    assert [outcome.op_id for outcome in server.fetch_outcomes()] == ["a"]
    assert server.store_loop.failure is None


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_jobs_that_cannot_be_read_are_leased_later(server, monkeypatch, fault):
    """Their attempts do not count."""

    def fail(*_):
        raise fault

    server.work(attempts=1)
    with monkeypatch.context() as patch:
        patch.setattr(server.store, "by_numbers", fail)
        server.submit(job("a"))
        server.pass_time(1001)
        assert server.leased == []
    server.pass_time(1000)
    assert [(one.op_id, one.attempt) for one in server.leased] == [("a", 1)]


def test_remembered_outcomes_are_repeated_alike(server):
    """Those of which only the id, and what is asked by it, was left."""
    submissions = [operation(name, "k") for name in "ab"]
    for one in submissions:
        one.options = SubmissionOptions(10**9)
    server.submit(*submissions)
    _, outcomes = server.complete_and_push("k", 5)
    server.acknowledge(*[outcome.number for outcome in outcomes])
    while server.state.known:
        server.pass_time(10**7)
    server.post(Submit, submissions)
    told = server.step()[1]
    assert sorted(outcome.op_id for outcome in told) == ["a", "b"]
    assert outcome_frames(server) == [(told[-1].number, True)]


def test_a_remembered_outcome_behind_deleted_ones_is_repeated(server):
    """Only the deleted outcomes are skipped."""
    remembered = operation("b", "kb")
    remembered.options = SubmissionOptions(10**9)
    server.submit(remembered)
    _, outcomes = server.complete_and_push("kb")
    server.acknowledge(*[outcome.number for outcome in outcomes])
    while server.state.known:
        server.pass_time(10**7)
    ids = end_many(server, 257)
    server.post(Submit, [*(operation(op_id, "k") for op_id in ids), remembered])
    told = server.step()[1]
    assert len(told) == 256
    server.acknowledge(*range(told[0].number, told[-1].number + 2))
    while server.state.known:
        server.pass_time(10**7)
    assert [outcome.op_id for outcome in fetch_repeated(server)] == ["b"]
