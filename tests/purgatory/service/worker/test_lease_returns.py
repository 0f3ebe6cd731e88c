"""The ends of leases on their way to the server."""

import pytest

from purgatory.service.errors import Malformed, NotAllowed, StoreFailed, Unavailable
from purgatory.service.protocol import How, LeasedJob, LeaseEnd
from purgatory.service.worker import lease_returns
from purgatory.service.worker.held_jobs import HeldJobs
from purgatory.service.worker.lease_returns import RETRY_MS, LeaseReturns, WorkerCounts


class Bench:
    """Some jobs, and their ends."""

    def __init__(self):
        self.ended, self.answered, self.again, self.counts = [], [], [], WorkerCounts()
        self.held = HeldJobs(60.0, float)
        self.ends = LeaseReturns(
            *("jobs", self, self.held, self.counts),
            lambda: self.answered.append(1),
            self.again.append,
        )

    def finish(self, end, reply):
        self.ended.append((end.number, end.token, How(end.how), reply))
        self.last = end

    def job(self, number, token=1):
        return self.held.add(LeasedJob(number, token, f"job {number}", "", 1, 0, 0))

    def send(self, held, how):
        self.ends.send(held, LeaseEnd(held.leased.number, held.token, how))
        return self.ended[-1][3]


@pytest.fixture
def bench():
    return Bench()


def test_what_is_counted(bench, caplog):
    """Done and failed ones; lost ones, with a warning, unless they were given back."""
    for number, (how, answer) in enumerate(
        [
            *((How.DONE, True), (How.FAILED, True), (How.RETURNED, True)),
            *((How.DONE, False), (How.FAILED, False), (How.RETURNED, False)),
        ]
    ):
        bench.send(bench.job(number), how).set_result(answer)
    counts = bench.counts
    assert (counts.done, counts.failed, counts.lost) == (1, 1, 2)
    assert caplog.text.count("had lost its lease") == 2
    assert len(bench.held) == bench.ends.left == 0


@pytest.mark.parametrize("how", [How.DONE, How.FAILED])
def test_an_end_that_is_refused(bench, how, caplog):
    """The attempt has failed: else the lease would lapse, and the worker would get no more jobs."""
    held = bench.job(1, token=2)
    bench.send(held, how).set_exception(Malformed("result is no value"))
    assert bench.ended[-1][:3] == (1, 2, How.FAILED)
    assert (bench.last.delay_ms, bench.last.error) == (
        RETRY_MS,
        "the server refused the end of the attempt: result is no value",
    )
    assert bench.answered == []
    bench.ended[-1][3].set_exception(NotAllowed("no"))  # and not for ever
    assert (len(bench.ended), len(bench.held), bench.answered) == (2, 0, [1])
    assert "no" in caplog.text


def test_a_log_handler_that_raises(bench, monkeypatch):
    """A refused attempt is told as failed all the same, and nothing is left at the end."""

    def fail(*_, **__):
        raise OSError("the disk of the log is full")

    monkeypatch.setattr(lease_returns.log, "warning", fail)
    bench.send(bench.job(1), How.DONE).set_exception(Malformed("result is no value"))
    assert bench.ended[-1][:3] == (1, 1, How.FAILED)
    bench.ended[-1][3].set_result(False)
    assert (bench.ends.left, bench.answered, len(bench.held)) == (0, [1], 0)


def test_what_could_not_be_written(bench):
    """It is sent again; until then there is something left."""
    bench.send(bench.job(1), How.DONE).set_exception(StoreFailed("full"))
    assert (bench.ends.left, bench.answered) == (1, [])
    bench.ends.send_again()
    bench.ended[-1][3].set_result(True)
    assert (bench.ends.left, bench.answered, bench.counts.done) == (0, [1], 1)


def test_what_could_not_be_written_meanwhile(bench):
    """The I/O thread adds an end while the worker's thread sends the others: it is kept."""
    held, add = bench.job(1), bench.ends._again.append
    bench.ends.send_again()
    add((held, LeaseEnd(1, 1, How.DONE)))
    bench.ends.send_again()
    assert len(bench.ended) == 1


def test_a_job_that_was_leased_to_this_worker_again(bench):
    """Its end is sent under the new lease."""
    held = bench.job(1, token=5)
    reply = bench.send(held, How.DONE)
    bench.job(1, token=9)
    reply.set_result(False)
    assert [token for _, token, _, _ in bench.ended] == [5, 9]


@pytest.mark.parametrize("answer", [True, Unavailable("the connection was lost")])
def test_a_next_attempt_that_came_before_the_answer(bench, answer):
    """The attempt is run: as after a connection that was lost with the first answer."""
    held = bench.job(1, token=5)
    assert bench.held.begin(held)
    assert bench.held.end(held)
    reply = bench.send(held, How.FAILED)
    assert bench.job(1, token=9) is None
    (reply.set_result if answer is True else reply.set_exception)(answer)
    [renewed] = bench.again
    assert (renewed.token, renewed.leased.token, len(bench.held)) == (9, 9, 1)
    assert bench.held.begin(renewed)
    assert bench.counts.failed == (answer is True)


def test_jobs_that_are_given_back(bench):
    """The last one first: each comes before those that wait at the server."""
    bench.ends.give_back([bench.job(n) for n in range(3)])
    assert [(number, how) for number, _, how, _ in bench.ended] == [
        (number, How.RETURNED) for number in (2, 1, 0)
    ]


def test_a_client_that_is_closed(bench, monkeypatch):
    """Nothing is raised: the lease ends by itself."""

    def closed(*_):
        raise Unavailable("closed")

    monkeypatch.setattr(bench, "finish", closed)
    bench.ends.give_back([bench.job(1)])
    assert bench.ends.left == 0
