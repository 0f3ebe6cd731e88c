"""An event for which many operations wait: it ends them in portions, as if all at once."""

import random
import tempfile
from pathlib import Path

import pytest
from msgspec import Raw

from purgatory.service.encoding import encode, unpack
from purgatory.service.job_messages import Begin, ReadJobs
from purgatory.service.protocol import (
    Cancel,
    Complete,
    Completed,
    Completion,
    Extend,
    Fail,
    Failed,
    Failure,
    How,
    KeyFailure,
    Lease,
    Submit,
    Submitted,
    TimeoutExtension,
    Work,
)
from purgatory.service.server import store_loop
from purgatory.service.server.commits import RETRY_MS
from purgatory.service.server.memory import PROCESS_BYTES, spread_bytes
from purgatory.service.server.records import spreads
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.server.store_loop import PORTIONS
from tests.testing.step_server import RecordingSink, StepServer, job, operation, result
from timingwheel import COMPILED

PORTION = 3
COUNT = 10
IDS = [f"o{n}" for n in range(COUNT)]
LARGE = "x" * 900


def make_server(path=None, portion=PORTION, **others):
    """Return a server that ends few operations in a transaction."""
    server = StepServer(path, portion=portion, **others)
    server.hello()
    return server


@pytest.fixture
def server(tmp_path, monkeypatch):
    # No commit takes long here, or a slow machine would have more portions in a transaction.
    monkeypatch.setattr(store_loop, "LONG_COMMIT_S", 1000.0)
    server = make_server(tmp_path / "a.db", sink=RecordingSink())
    yield server
    server.store.close()


def post_complete(server, key="k", value=None, session="s", seq=1, **others):
    """Put a completion into the next transaction."""
    completion = Completion(key, Raw(encode(value)), **others)
    server.post(Complete, [completion], session=session, seq=seq)


def outcomes_in_store(server):
    """Return op_id -> outcome, key, value and time, of all outcomes on disk; each is there once."""
    rows = list(server.store.outcomes_without_results())
    found = server.store.outcomes_by_seqs([row.seq for row in rows])
    assert len({row.op_id for _, row in found}) == len(found)
    return {
        row.op_id: (one.outcome, one.by_key, unpack(one.result) if one.result else None, one.at_ms)
        for one, row in found
    }


def test_while_commits_take_long(server):
    """Several portions share one: the requests beside them wait for the disk."""
    server.submit(*(operation(op_id, "k") for op_id in IDS))
    post_complete(server)
    server.store_loop.activity.last_commit_s = store_loop.LONG_COMMIT_S
    _, outcomes = server.step(once=True)
    assert len(outcomes) == min(COUNT, PORTIONS * PORTION)


def test_an_event_for_many_ends_all_of_them(server):
    """In several transactions; the answer comes with the last, the outcomes as they end."""
    server.submit(*(operation(op_id, "k") for op_id in IDS))
    at_ms = server.time.ms
    post_complete(server, value=7)
    ended = []
    for _ in range(COUNT // PORTION):
        replies, outcomes = server.step(once=True)
        assert replies == []
        assert len(outcomes) == PORTION
        ended += outcomes
        server.time.ms += 5
    [reply], outcomes = server.step(once=True)
    ended += outcomes
    assert reply == Completed(1, [COUNT])
    assert {(one.op_id, result(one), one.by_key) for one in ended} == {(i, 7, "k") for i in IDS}
    assert len({one.at_ms for one in ended}) == 1
    assert not server.state.spreads.in_order
    assert server.state.purgatory.delayed == 0
    assert len(server.sink.events) == 1
    assert {row.at_ms for row in server.sink.outcomes} == {server.sink.events[0].at_ms}
    assert ended[0].at_ms - at_ms < 5


def test_a_failure_for_many_ends_all_of_them(server):
    """With the error."""
    server.submit(*(operation(op_id, "k", "l", need=2) for op_id in IDS))
    server.post(Fail, [KeyFailure("k", "E", "why")])
    [reply], outcomes = server.step()
    assert isinstance(reply, Failed)
    assert reply.counts == [COUNT]
    assert {(one.op_id, one.outcome) for one in outcomes} == {(i, "failed") for i in IDS}
    assert [result(one) for one in outcomes] == [["E", "why"]] * COUNT


def test_an_event_for_none_of_many_writes_nothing(server):
    """A key that has counted for all of them is answered even while the disk is full."""
    server.submit(*(operation(op_id, "k", "other", need=2) for op_id in IDS))
    assert server.complete("k").counts == [0]
    server.faults.fail()
    assert server.complete("k").counts == [0]
    assert server.state.spreads.in_order == []


def test_an_event_before_the_first_outcome(server):
    """It has ended on disk, though no operation has: no start goes on with it."""
    server.submit(*(operation(op_id, "k", "other", need=2) for op_id in IDS))
    assert server.complete("k").counts == [0]
    assert [row.last_seq > 0 for row in server.store.spreads()] == [True]


def test_others_do_not_wait(server):
    """A request of another client is answered in the next transaction."""
    server.submit(*(operation(op_id, "k") for op_id in IDS))
    post_complete(server)
    server.step(once=True)
    server.post(Submit, [operation("new", "k")], client="other")
    [reply], _ = server.step(once=True)
    assert isinstance(reply, Submitted)
    [reply], _ = server.step()
    assert reply == Completed(1, [COUNT])
    assert server.query("new").state == "pending"


def test_what_comes_later_finds_it_done(server):
    """Cancelling, extending and completing an operation that the event is for; and its deadline."""
    server.submit(*(operation(op_id, "k", op_id, timeout_ms=50) for op_id in IDS))
    post_complete(server, value=1)
    server.step(once=True)
    pending = [op_id for op_id in IDS if isinstance(server.state.known[op_id], PendingOperation)]
    server.post(Cancel, [pending[-1]])
    server.post(Extend, [TimeoutExtension(pending[-2], 1000)])
    server.post(Complete, [Completion(pending[-3], Raw(encode(2)))])
    server.post(Fail, [KeyFailure(pending[-4], "E")])
    replies, _ = server.step(once=True)
    assert [getattr(one, "done", getattr(one, "counts", None)) for one in replies][:4] == [
        [False],
        [False],
        [0],
        [0],
    ]
    server.pass_time(1000)
    found = outcomes_in_store(server)
    assert {(outcome, key, value) for outcome, key, value, _ in found.values()} == {
        ("completed", "k", 1)
    }
    assert len(found) == COUNT


def test_a_submit_that_is_sent_again_meanwhile(server):
    """Its operations have ended, whether on disk or not."""
    server.submit(*(operation(op_id, "k") for op_id in IDS))
    post_complete(server)
    server.step(once=True)
    server.post(Submit, [operation(op_id, "k") for op_id in IDS], seq=2)
    replies, _ = server.step()
    [answer] = [one for one in replies if isinstance(one, Submitted)]
    assert [one.state for one in answer.known] == ["completed"] * COUNT


def test_what_comes_later_changes_no_outcome(server):
    """The owner is told of the first event, also if another key's comes before it is on disk."""
    server.submit(*(operation(op_id, "k", op_id) for op_id in IDS))
    post_complete(server, value=1)
    _, outcomes = server.step(once=True)
    for op_id in IDS[PORTION:]:
        server.post(Complete, [Completion(op_id, Raw(encode(2)))])
    _, others = server.step()
    told = {(one.op_id, one.by_key, result(one)) for one in outcomes + others}
    assert told == {(op_id, "k", 1) for op_id in IDS}
    assert len(server.sink.events) == 1


def test_those_that_are_due_meanwhile_do_not_expire(server):
    """The event came first."""
    server.submit(*(operation(op_id, "k", timeout_ms=50) for op_id in IDS))
    post_complete(server)
    server.step(once=True)
    server.time.ms += 100
    server.step()
    found = outcomes_in_store(server)
    assert [outcome for outcome, *_ in found.values()] == ["completed"] * COUNT


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize("value", [None, LARGE])
def test_a_crash_between_two_portions(server, steps, value):
    """The next start ends the rest; the request, sent again, is answered as if nothing happened."""
    server.submit(*(operation(op_id, "k") for op_id in IDS))
    post_complete(server, value=value)
    for _ in range(steps):
        server.step(once=True)
        server.time.ms += 5
    server.crash()
    server.hello()
    if steps:
        assert len(outcomes_in_store(server)) == COUNT
        assert not server.state.spreads.in_order
        assert [row.ended for row in server.store.spreads() if row.last_seq] == [COUNT]
    server.submit(operation("later", "k"))
    before = len(server.sink.events)
    post_complete(server, value=value)
    [reply], _ = server.step()
    assert reply == Completed(1, [COUNT + (not steps)])
    found = outcomes_in_store(server)
    assert {found[op_id][2] for op_id in IDS} == {value}
    if steps:
        assert len({found[op_id][3] for op_id in IDS}) == 1
        assert len(server.sink.events) == before
        assert server.query("later").state == "pending"
    assert {row.op_id for row in server.sink.outcomes} == set(found)


@pytest.mark.parametrize("free", [0, 20_000])
def test_a_start_on_a_full_disk(server, free):
    """The server answers reads, refuses changes, and ends the rest when there is room."""
    server.submit(*(operation(op_id, "k", timeout_ms=10_000) for op_id in IDS))
    server.submit(operation("slow", "k", "l", need=2), operation("other", "l"))
    post_complete(server, value=LARGE)
    server.step(once=True)
    server.faults.fail_above(free)
    server.crash()
    server.hello()
    assert bool(server.state.spreads.in_order) is (not free)
    if not free:
        assert server.query("o9").state == "pending"
        assert isinstance(server.submit(operation("new")), Failure)
    post_complete(server, value=LARGE)
    answers = server.step()[0]
    server.faults.clear()
    server.time.ms += RETRY_MS
    answers += server.step()[0]
    assert answers == [Completed(1, [COUNT])]
    assert not server.state.spreads.in_order
    assert not server.state.spread_requests
    found = outcomes_in_store(server)
    assert {op_id: found[op_id][2] for op_id in IDS} == dict.fromkeys(IDS, LARGE)
    assert server.complete("l", 3).counts == [2]
    assert server.state.pending_bytes == 0
    assert {row.op_id for row in server.sink.outcomes} == {*IDS, "slow", "other"}


def test_several_events_at_a_start_on_a_full_disk(server):
    """They end their operations in order, as if at once."""
    server.submit(*(operation(op_id, "k", op_id, timeout_ms=10_000) for op_id in IDS))
    server.submit(*(operation(f"l{op_id}", "k", "l", timeout_ms=10_000) for op_id in IDS))
    server.submit(*(operation(f"m{op_id}", "l", timeout_ms=10_000) for op_id in IDS))
    post_complete(server, value=1)
    post_complete(server, "l", value=2, seq=2)
    server.step(once=True)
    assert len(server.state.spreads.in_order) == 2
    server.faults.fail()
    server.crash()
    server.hello()
    server.faults.clear()
    server.time.ms += RETRY_MS
    server.step()
    keys = {op_id: key for op_id, (_, key, _, _) in outcomes_in_store(server).items()}
    assert keys == {
        f"{name}o{n}": key
        for name, key in (("", "k"), ("l", "k"), ("m", "l"))
        for n in range(COUNT)
    }
    post_complete(server, value=1)
    post_complete(server, "l", value=2, seq=2)
    assert server.step()[0] == [Completed(1, [2 * COUNT]), Completed(2, [COUNT])]


def test_several_keys_in_a_request_and_a_crash(server):
    """Each key has its count in the answer."""
    server.submit(*(operation(op_id, "k") for op_id in IDS))
    server.submit(operation("one", "l"), *(operation(f"m{op_id}", "m") for op_id in IDS[:5]))
    keys = [Completion(key) for key in ("none", "k", "l", "m")]
    server.post(Complete, keys, session="s", seq=1)
    for _ in range(2):
        assert server.step(once=True)[0] == []
    server.crash()
    server.hello()
    server.post(Complete, keys, session="s", seq=1)
    assert server.step()[0] == [Completed(1, [0, COUNT, 1, 5])]


@pytest.mark.parametrize("limit", [None, COUNT + 1, COUNT + 9])
@pytest.mark.parametrize("crashes", [False, True])
def test_due_jobs_with_the_key(server, limit, crashes):
    """They are cancelled at once, and count in the answer, also after a crash."""
    server.submit(job("j1", "k", timeout_ms=10), job("j2", "k", timeout_ms=10))
    server.pass_time(11)
    server.submit(*(operation(op_id, "k") for op_id in IDS))
    post_complete(server, limit=limit)
    if crashes:
        assert server.step(once=True)[0] == []
        server.crash()
        server.hello()
        post_complete(server, limit=limit)
    assert server.step()[0] == [Completed(1, [min(limit or COUNT + 2, COUNT + 2)])]
    assert server.job_states("j1", "j2") == ["cancelled"] * 2


def make_due(server, *others):
    """Submit jobs with the key "k", and let them be due."""
    server.submit(*(job(op_id, "k", timeout_ms=10) for op_id in IDS), *others)
    server.pass_time(11)


@pytest.mark.parametrize("request_of", [Complete, Fail])
@pytest.mark.parametrize("waiting", [0, 2, COUNT])
@pytest.mark.parametrize("crash_after", [None, 1, 2, 3])
def test_many_due_jobs(server, request_of, waiting, crash_after):
    """They are cancelled in portions, with the operations of the key, also after a crash."""
    make_due(server, job("other", "l", timeout_ms=10))
    server.submit(*(operation(f"w{n}", "k", timeout_ms=10_000) for n in range(waiting)))
    event = Completion("k") if request_of is Complete else KeyFailure("k", "E")
    server.post(request_of, [event], session="s", seq=1)
    for step in range(crash_after or 0):
        assert server.step(once=True)[0] == []
        if not waiting:
            assert server.state.pending_bytes >= spread_bytes(COUNT, 0)
            assert server.state.leases.counts.waiting - 1 == COUNT - PORTION * (step + 1)
    if crash_after:
        server.crash()
        server.hello()
        assert server.state.leases.counts.waiting == 1
        server.post(request_of, [event], session="s", seq=1)
    [reply] = server.step()[0]
    assert reply.counts == [COUNT + waiting]
    assert set(server.job_states(*IDS)) == {"cancelled"}
    assert server.job("o1").error == "cancelled by key k"
    assert server.state.pending_bytes == 0
    assert server.job_states("other") == ["ready"]
    assert not server.state.spreads.in_order
    server.submit(operation("again", "k"))
    assert server.complete("k").counts == [1]


def complete_with_a_failing_commit(server, after):
    """Complete the key, and fail the commit after so many; return the replies to the failed one."""
    post_complete(server)
    for _ in range(after):
        server.step(once=True)
    server.faults.fail()
    replies, _ = server.step(once=True)
    server.faults.clear()
    server.time.ms += RETRY_MS
    return replies


@pytest.mark.parametrize("failing", range(4))
def test_many_due_jobs_and_a_commit_that_fails(server, failing):
    """Each counts once."""
    make_due(server)
    replies = complete_with_a_failing_commit(server, failing)
    if not failing:
        assert [reply.code for reply in replies] == ["store"]
        assert set(server.job_states(*IDS)) == {"ready"}
        post_complete(server)
        replies = []
    replies += server.step()[0]
    assert replies == [Completed(1, [COUNT])]


@pytest.mark.parametrize("begins", [False, True])
def test_a_due_job_that_a_worker_gets_before_its_portion(server, begins):
    """Once its handler has begun, it runs and does not count; else the worker gives it back."""
    make_due(server)
    post_complete(server)
    server.step(once=True)
    server.post(Work, {"": 3}, 1, 60_000, False, {}, True)
    server.step(once=True)
    [leased] = server.leased
    if begins:
        server.post(Begin, [Lease(leased.number, leased.token)])
    replies = server.step(once=True)[0] + server.step()[0]
    assert Completed(1, [COUNT - begins]) in replies
    assert server.job_states(leased.op_id) == ["running" if begins else "ready"]
    server.finish(leased, how=How.DONE if begins else How.RETURNED)
    assert server.job_states(leased.op_id) == ["done" if begins else "cancelled"]


def test_another_event_for_the_same_due_jobs(server):
    """Those left to the first event use no unit, and count once."""
    make_due(server)
    server.submit(job("scheduled", "k", timeout_ms=10_000))
    post_complete(server)
    server.step(once=True)
    server.post(Submit, [operation("latest", "k")])
    post_complete(server, seq=2, limit=1)
    post_complete(server, seq=3)
    replies = [one for one in server.step()[0] if isinstance(one, Completed)]
    assert sorted(replies, key=lambda reply: reply.seq) == [
        Completed(1, [COUNT + 1]),
        Completed(2, [1]),
        Completed(3, [0]),
    ]


@pytest.mark.parametrize("failing", [0, 1, 3])
def test_due_jobs_and_a_commit_that_fails(server, failing):
    """Their count is not added twice."""
    server.submit(job("j", "k", timeout_ms=10))
    server.pass_time(11)
    server.submit(*(operation(op_id, "k", timeout_ms=10_000) for op_id in IDS))
    replies = complete_with_a_failing_commit(server, failing)
    if not failing:
        post_complete(server)
        replies = []
    replies += server.step()[0]
    assert replies == [Completed(1, [COUNT + 1])]


def test_a_request_that_is_sent_again_meanwhile(server):
    """It is done once, and answered twice."""
    server.submit(*(operation(op_id, "k") for op_id in IDS))
    post_complete(server)
    server.step(once=True)
    post_complete(server)
    replies, _ = server.step()
    assert replies == [Completed(1, [COUNT])] * 2


def test_a_request_that_is_sent_again_into_a_failing_commit(server):
    """It is not refused, for its event is on disk: the end answers both."""
    server.submit(*(operation(op_id, "k") for op_id in IDS))
    post_complete(server)
    server.step(once=True)
    post_complete(server)
    server.faults.fail()
    assert server.step(once=True)[0] == []
    server.faults.clear()
    server.time.ms += 2000
    assert server.step()[0] == [Completed(1, [COUNT])] * 2


def test_a_limit(server):
    """The longest waiting are reached, and what is held has the rest."""
    server.submit(*(operation(op_id, "k") for op_id in IDS))
    server.submit(*(operation(f"l{op_id}", "l") for op_id in IDS))
    post_complete(server, limit=7)
    assert server.step()[0] == [Completed(1, [7])]
    assert set(outcomes_in_store(server)) == set(IDS[:7])
    assert server.sink.events == []
    post_complete(server, "l", seq=2, limit=12, hold_ms=1000)
    assert server.step()[0] == [Completed(2, [COUNT])]
    server.submit(*(operation(f"late{n}", "l") for n in range(4)))
    assert [server.query(f"late{n}").state for n in range(4)] == ["completed"] * 2 + ["pending"] * 2


@pytest.mark.parametrize("failing", range(5))
def test_a_portion_that_is_not_written(server, failing):
    """If it is the first, the request is refused; another one is tried again."""
    server.submit(*(operation(op_id, "k", timeout_ms=10_000) for op_id in IDS))
    post_complete(server, value=3)
    for _ in range(failing):
        server.step(once=True)
    server.faults.fail()
    replies, _ = server.step(once=True)
    server.faults.clear()
    server.time.ms += 2000
    replies += server.step()[0]
    if failing:
        assert [one for one in replies if isinstance(one, Completed)] == (
            [Completed(1, [COUNT])] if failing < 4 else []
        )
    else:
        assert isinstance(replies[0], Failure)
        assert server.query("o0").state == "pending"
        post_complete(server, value=3)
        assert server.step()[0] == [Completed(1, [COUNT])]
    found = outcomes_in_store(server)
    assert [value for _, _, value, _ in found.values()] == [3] * COUNT


def test_the_value_is_on_disk_once(tmp_path):
    """Until the last of its outcomes is deleted."""
    server = make_server(tmp_path / "a.db", portion=1000, payload_bytes=1 << 17)
    value = "x" * (1 << 16)
    server.submit(*(operation(op_id, "k") for op_id in IDS))
    server.post(Complete, [Completion("k", Raw(encode(value)))])
    [reply], outcomes = server.step()
    assert reply.counts == [COUNT]
    assert [result(one) for one in outcomes] == [value] * COUNT
    [(stored,)] = server.store._connection.execute("SELECT sum(length(result)) FROM outcomes")
    assert stored < 20 * COUNT
    assert unpack(server.query("o1").result) == value
    server.acknowledge(*[one.number for one in outcomes])
    server.pass_time(1_000_000)
    server.submit(operation("again", "k"))
    assert server.store.spreads() == []
    server.store.close()


def test_memory_is_charged_before_it_begins(tmp_path):
    """A completion for which there is no room changes nothing."""
    server = make_server(tmp_path / "a.db", max_memory=PROCESS_BYTES + 40_000)
    server.submit(*(operation(op_id, "k") for op_id in IDS))
    left = server.state.memory_left
    server.state.max_memory -= left - 300
    for request in (
        (Complete, [Completion("k", Raw(encode(LARGE[:200])))]),
        (Fail, [KeyFailure("k", "E", LARGE[:200])]),
    ):
        reply = server.ask(*request)
        assert isinstance(reply, Failure)
        assert reply.code == "too-much-memory"
    assert server.query("o0").state == "pending"
    server.state.max_memory += left
    before = server.state.pending_bytes
    post_complete(server)
    server.step(once=True)
    assert server.state.pending_bytes < before
    server.step()
    assert server.state.pending_bytes == 0
    server.store.close()


def play(seed, portion, *, with_jobs=False):
    """Play a random program, with kills; returns the outcomes, and how jobs have ended."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory:
        server = make_server(Path(directory) / "a.db", portion)
        ids, jobs = [], []
        for step in range(30):
            submissions = []
            for _ in range(dice.randrange(4)):
                keys = dice.sample("abc", dice.randint(1, 3))
                need, timeout_ms = dice.randint(1, len(keys)), dice.choice([9, 40, 10**6])
                if with_jobs and dice.random() < 0.6:
                    jobs.append(f"j{len(jobs)}")
                    submissions.append(job(jobs[-1], *keys, timeout_ms=dice.choice([0, 9, 10**6])))
                    continue
                ids.append(f"o{len(ids)}")
                new = operation(ids[-1], *keys, need=need, timeout_ms=timeout_ms)
                submissions.append(new)
            server.post(Submit, submissions)
            for _ in range(dice.randrange(3)):
                key, hold_ms = dice.choice("abc"), dice.choice([0, 0, 20])
                limit = dice.choice([None, None, 1, 2, 5])
                completion = Completion(key, Raw(encode(step)), limit, hold_ms)
                failure = KeyFailure(key, "E", str(step))
                server.post(*dice.choice([(Complete, [completion])] * 4 + [(Fail, [failure])]))
            chosen = dice.choices(ids or ["?"], k=3)
            server.post(Cancel, chosen[:1])
            server.post(Extend, [TimeoutExtension(op_id, 30) for op_id in chosen[1:]])
            server.step(once=True)
            if dice.random() < 0.1:
                server.crash()
                server.hello()
            server.time.ms += dice.choice([0, 1, 10])
        server.step()
        states = [(one.state, one.error) for one in server.ask(ReadJobs, jobs).jobs]
        server.pass_time(2 * 10**6)
        found = outcomes_in_store(server)
        server.store.close()
    assert found.keys() >= set(ids)
    return {op_id: found[op_id] for op_id in ids}, states


@pytest.mark.parametrize("seed", range(40))
def test_in_portions_as_at_once(seed):
    """Whatever comes between two portions, the outcomes are the same, and their times."""
    assert play(seed, 1) == play(seed, 10**6)
    assert play(seed, 1, with_jobs=True) == play(seed, 10**6, with_jobs=True)


def test_no_transaction_is_for_all_waiting_operations(server):
    """However often the key is completed meanwhile, also by a limit: each transaction ends few."""
    server.submit(*(operation(op_id, "k") for op_id in IDS))
    post_complete(server, value=1)
    server.post(Complete, [Completion("k", limit=1)], session="s", seq=2)
    post_complete(server, value=2, seq=3)
    server.step(once=True)
    assert len(outcomes_in_store(server)) == PORTION
    server.post(Submit, [operation("later", "k")])
    replies, _ = server.step()
    counts = {one.seq: one.counts for one in replies if isinstance(one, Completed)}
    assert counts == {1: [COUNT], 3: [0]}
    found = outcomes_in_store(server)
    assert {found[op_id][2] for op_id in IDS} == {1}
    assert len(found) == COUNT
    assert server.query("later").state == "pending"
    assert len(server.sink.events) == 1


@pytest.mark.skipif(COMPILED, reason="a compiled method cannot be replaced")
def test_an_event_looks_at_few_of_those_that_wait(server, monkeypatch):
    """Others do not wait until it has looked at all."""
    looked = []
    is_for = spreads.Spread.is_for

    def spy(spread, one):
        looked.append(one)
        return is_for(spread, one)

    monkeypatch.setattr(spreads.Spread, "is_for", spy)
    many = 100 * PORTION
    server.submit(*(operation(f"many {n}", "k") for n in range(many)))
    post_complete(server)
    server.step(once=True)
    assert PORTION <= len(set(looked)) < 3 * PORTION
    server.step()
    assert len(outcomes_in_store(server)) == many
