"""WorkerLoop: stepped without threads, with a clock that the test moves."""

import asyncio
import logging

import pytest

from purgatory.service.client.calls import Keeping
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.encoding import unpack
from purgatory.service.errors import NotAllowed, StoreFailed, Unavailable, WorkerStuck
from purgatory.service.job_messages import CancelLeases
from purgatory.service.platform import Platform
from purgatory.service.protocol import How, Lease, LeasedJob
from purgatory.service.worker import held_jobs
from purgatory.service.worker.demand import WorkerSettings
from purgatory.service.worker.handlers import Retry, check_limits, make_handler
from purgatory.service.worker.lease_returns import WorkerCounts
from purgatory.service.worker.worker_loop import JOIN_S, WorkerLoop


class Calls:
    """What the loop says to the server; the test answers."""

    def __init__(self):
        self.links, self.kept, self.ended, self.begun = [], [], [], []
        self.max_result_bytes = 100
        self.failure = None

    def begin(self, leases):
        self.begun += [lease.number for lease in leases]

    def ask(self, link):
        self.links.append(link)
        reply = ReplyFuture()
        reply.set_result(None)
        return reply

    def keep(self, lease, reply):
        self.kept.append((lease.number, lease.token, reply))

    def finish(self, end, reply):
        self.ended.append((end, reply))


class Runner:
    """Has what it was given, and runs nothing by itself."""

    def __init__(self):
        self.jobs, self.stopped = [], []
        self.cancelled, self.lost = [], []

    def cancel(self, held):
        self.cancelled.append(held)

    def lose(self, held):
        self.lost.append(held)

    def add(self, held):
        self.jobs.append(held)

    def stop(self, seconds):
        self.stopped.append(seconds)


class Clock(Platform):
    """A machine whose time stands still."""

    now = 100.0
    suspended = 0.0

    def monotonic(self):
        return self.now

    def boot_ns(self):
        return int((self.now + self.suspended) * 1e9)


class Bench:
    """A loop that was started, of two handlers at a time, with leases of 60 s."""

    def __init__(self, functions=None, **limits):
        self.calls, self.runner, self.clock = Calls(), Runner(), Clock()
        self.counts, self.wakes = WorkerCounts(), []
        retry = Retry(3, 1.0, 10.0)
        functions = functions or {"": print}
        own = check_limits(limits.get("timeout"), limits.get("concurrency"))
        handlers = {kind: make_handler(one, retry, own) for kind, one in functions.items()}
        lease_ms = limits.get("lease_ms", 60_000)
        settings = WorkerSettings("jobs", "tcp://server", 2, lease_ms, 10.0)
        self.loop = WorkerLoop(settings, handlers, self.calls, self.runner, self.counts, self.clock)
        self.loop.wake = lambda: self.wakes.append(self.clock.now)
        self.loop.start()

    def give(self, number, token=1, kind="", attempt=1):
        job = LeasedJob(number, token, f"job {number}", kind, attempt, 0, 0)
        self.calls.links[-1].on_jobs([job])
        return self.runner.jobs[-1]

    def pass_time(self, seconds):
        self.clock.now += seconds
        self.loop.step()


@pytest.fixture
def bench():
    return Bench()


def test_a_client_that_is_refused_later(bench):
    """On a new connection, say: a worker without jobs, too, ends with the error."""
    bench.pass_time(1)
    bench.calls.failure = NotAllowed("no")
    with pytest.raises(NotAllowed):
        bench.pass_time(1)


def test_a_client_that_has_failed(bench, monkeypatch):
    """A handler may extend its time all the same, and the worker can wait for its end."""

    def fail(lease, reply):
        raise Unavailable("the client has failed")

    held = bench.give(1)
    assert bench.loop.begin(held)
    monkeypatch.setattr(bench.calls, "keep", fail)
    assert held.extend(5)
    bench.loop.stop(1000)
    bench.pass_time(0)
    for _ in range(2):
        bench.pass_time(30)
    bench.loop.end(held, None)
    bench.pass_time(0)
    assert bench.runner.stopped == [JOIN_S]


def test_a_lease_is_kept_at_a_third_of_it(bench):
    """Of jobs that wait, and of those that run."""
    one, two = bench.give(1), bench.give(2)
    assert bench.loop.begin(one)
    bench.pass_time(19)
    assert bench.calls.kept == []
    bench.pass_time(2)
    assert [number for number, _, _ in bench.calls.kept] == [1, 2]
    bench.calls.kept[1][2].set_result(False)
    assert not bench.loop.begin(two)


def test_a_machine_that_was_suspended(bench):
    """A job is not begun whose lease has ended meanwhile; the others are kept at once."""
    bench.give(1)
    bench.pass_time(30)
    bench.calls.kept[0][2].set_result(True)
    two = bench.give(2)
    bench.clock.suspended = 59
    assert bench.loop.begin(two)
    assert bench.loop.begin(bench.give(3))
    bench.clock.suspended = 61
    assert not bench.loop.begin(bench.runner.jobs[0])
    bench.loop.step()
    assert [number for number, _, _ in bench.calls.kept] == [1, 2]


def test_a_worker_that_is_cut_off(bench):
    """That it asks to keep a lease, and hears nothing, does not make the lease last."""
    one, two = bench.give(1), bench.give(2)
    for _ in range(3):
        bench.pass_time(21)
    assert [number for number, _, _ in bench.calls.kept] == [1, 2] * 3
    bench.calls.kept[3][2].set_result(True)  # the second one
    assert not bench.loop.begin(one)
    assert bench.loop.begin(two)


def test_a_new_connection(bench):
    """Leases of jobs that have not begun ended with the last one; handlers run on."""
    running, waiting = bench.give(1), bench.give(2)
    assert bench.loop.begin(running)
    bench.calls.links[-1].on_connected()
    assert not bench.loop.begin(waiting)
    assert bench.calls.ended == []
    bench.loop.end(running, None)
    assert [end.number for end, _ in bench.calls.ended] == [1]
    assert bench.loop.begin(bench.give(2, token=2))


def test_a_lease_that_is_lost_while_its_handler_runs(bench, caplog):
    """The worker warns once, and asks for no more time until it has the job again."""
    one = bench.give(1, token=5)
    assert bench.loop.begin(one)
    bench.pass_time(21)
    bench.calls.kept[0][2].set_result(False)
    for _ in range(3):
        bench.pass_time(21)
    assert caplog.text.count("has lost its lease of job 'job 1'") == 1
    bench.give(1, token=9)
    bench.pass_time(21)
    assert [token for _, token, _ in bench.calls.kept] == [5, 9]


def test_a_lease_that_is_lost_and_given_again(bench):
    """The answer that the old one was lost does not take the new one away."""
    one = bench.give(1, token=5)
    bench.pass_time(21)
    bench.give(1, token=9)
    bench.calls.kept[0][2].set_result(False)
    assert bench.loop.begin(one)


def test_a_next_attempt_that_comes_before_the_answer_to_the_last(bench):
    """The worker runs it, and does not drop it with the attempt that has ended."""
    one = bench.give(1, token=5)
    assert bench.loop.begin(one)
    bench.loop.end(one, ValueError("bad"))
    bench.give(1, token=9)
    assert bench.runner.jobs == [one]
    bench.calls.ended[0][1].set_result(True)
    again = bench.runner.jobs[-1]
    assert again is not one
    assert bench.loop.begin(again)
    bench.loop.end(again, None)
    assert [end.token for end, _ in bench.calls.ended] == [5, 9]


def test_to_stop(bench):
    """It asks for no more, gives back what waits, lets handlers return, and awaits the answers."""
    one, two = bench.give(1), bench.give(2)
    assert bench.loop.begin(one)
    bench.loop.stop(30)
    assert bench.loop.sleep_seconds() == 0
    bench.loop.step()
    assert bench.calls.links[-1].asks[1] == 0
    assert not bench.loop.begin(two)
    assert returned(bench) == [2]
    bench.give(3)  # on its way at the stop
    assert returned(bench) == [2, 3]
    bench.pass_time(1)
    assert not bench.runner.stopped
    bench.loop.end(one, None)
    bench.pass_time(1)
    assert bench.runner.stopped
    assert not bench.loop.finished()
    for _, reply in bench.calls.ended:
        reply.set_result(True)
    bench.loop.step()
    assert bench.loop.finished()
    assert bench.counts.done == 1


def test_what_wakes_a_loop_that_stops(bench):
    """The end of a handler, and the last answer: they end its phase. Else it need not wake."""
    one, two = bench.give(1), bench.give(2)
    for held in (one, two):
        assert bench.loop.begin(held)
    bench.loop.end(one, None)
    assert bench.wakes == []
    bench.loop.stop(30)
    bench.wakes.clear()
    bench.loop.end(two, None)
    assert bench.wakes
    bench.loop.step()
    bench.wakes.clear()
    for _, reply in bench.calls.ended:
        reply.set_result(True)
    assert bench.wakes


def test_to_stop_without_a_server(bench, caplog):
    """What runs is given back after a while, and no answer is awaited for ever."""
    assert bench.loop.begin(bench.give(1))
    bench.loop.stop(30)
    bench.loop.step()
    bench.pass_time(29)
    assert bench.calls.ended == []
    bench.pass_time(1)
    assert [end.how for end, _ in bench.calls.ended] == [How.RETURNED]
    bench.pass_time(9)
    assert not bench.loop.finished()
    bench.pass_time(1)
    assert bench.loop.finished()
    assert "did not confirm the ends of 1 leases" in caplog.text


def test_an_end_that_was_not_written_is_sent_again(bench):
    """Also while the worker stops."""
    one = bench.give(1)
    bench.loop.begin(one)
    bench.loop.end(one, None)
    bench.loop.stop(30)
    bench.loop.step()
    bench.calls.ended[0][1].set_exception(StoreFailed("full"))
    bench.pass_time(1)
    assert not bench.loop.finished()
    assert [end.how for end, _ in bench.calls.ended] == [How.DONE, How.DONE]
    bench.calls.ended[1][1].set_result(True)
    bench.loop.step()
    assert bench.loop.finished()


def returned(bench):
    """Return the numbers of the jobs that were given back."""
    return [end.number for end, _ in bench.calls.ended if end.how == How.RETURNED]


def test_jobs_that_cannot_begin(bench):
    """They are another worker's after a tenth of a second in which no handler was free."""
    for number in (1, 2, 3, 4):
        bench.give(number)
    assert bench.loop.sleep_seconds() <= held_jobs.LOOK_AHEAD_S
    assert bench.loop.begin(bench.runner.jobs[0])
    bench.pass_time(10)
    assert returned(bench) == []  # a handler is free: it is about to begin
    assert bench.loop.begin(bench.runner.jobs[1])
    bench.loop.step()
    assert returned(bench) == [4, 3]
    assert not bench.loop.begin(bench.runner.jobs[2])
    bench.give(5)
    bench.pass_time(held_jobs.LOOK_AHEAD_S / 2)
    assert returned(bench) == [4, 3]
    bench.loop.end(bench.runner.jobs[0], None)
    bench.pass_time(held_jobs.LOOK_AHEAD_S)
    assert returned(bench) == [4, 3]
    assert bench.loop.begin(bench.runner.jobs[4])


def test_jobs_that_come_while_it_sleeps(bench):
    """They wake the loop, once, so that it looks whether they begin."""
    assert bench.loop.sleep_seconds() > held_jobs.LOOK_AHEAD_S
    bench.give(1)
    bench.give(2)
    assert len(bench.wakes) == 1
    bench.loop.sleep_seconds()
    bench.give(3)
    assert len(bench.wakes) == 1


@pytest.mark.parametrize(("lease_ms", "usual"), [(60_000, 1.0), (1_500, 0.5)])
def test_how_long_it_sleeps(lease_ms, usual):
    """Until the next look; less before a job begins, while it stops, and until it gives up."""
    bench = Bench(lease_ms=lease_ms)
    assert bench.loop.sleep_seconds() == usual
    held = bench.give(1)
    assert bench.loop.sleep_seconds() == 0.01
    assert bench.loop.begin(held)
    assert bench.loop.sleep_seconds() == 0.01  # the server is to be told
    bench.pass_time(0.01)
    assert bench.loop.sleep_seconds() == usual
    bench.loop.stop(0.3)
    assert bench.loop.sleep_seconds() == 0
    bench.loop.step()
    assert bench.loop.sleep_seconds() == pytest.approx(0.3)
    bench.clock.now += 0.2
    assert bench.loop.sleep_seconds() == pytest.approx(0.1)
    bench.clock.now += 0.2
    assert bench.loop.sleep_seconds() == 0
    bench.loop.step()
    assert bench.loop.sleep_seconds() == usual
    bench.clock.now += 9.8
    assert bench.loop.sleep_seconds() == pytest.approx(0.2)
    assert not bench.loop.finished()
    bench.pass_time(0.3)
    assert bench.loop.finished()


@pytest.mark.parametrize("seconds", [(30, 5), (5, 30)])
def test_to_stop_twice(bench, seconds):
    """The shorter time counts; the runner is told how long its threads may take."""
    assert bench.loop.begin(bench.give(1))
    for each in seconds:
        bench.loop.stop(each)
        bench.loop.step()
    bench.pass_time(4.9)
    assert bench.calls.ended == []
    bench.pass_time(0.2)
    assert [end.how for end, _ in bench.calls.ended] == [How.RETURNED]
    assert bench.runner.stopped == [JOIN_S]


def test_a_loop_that_works_sends_nothing_by_itself(bench):
    """It neither drains nor ends; `failure` is None."""
    bench.give(1)
    for _ in range(3):
        bench.pass_time(0.01)
    assert (bench.calls.ended, bench.runner.stopped, bench.loop.finished()) == ([], [], False)
    assert bench.loop.failure is None


async def run_async(_):
    """Do nothing."""


def test_busy_threads_beside_free_coroutines():
    """Jobs of the sort whose handlers are all busy are not asked for until one of them ends."""
    bench = Bench({"plain": print, "async": run_async})
    kinds = ["plain"] * 4 + ["async"]
    for number, kind in enumerate(kinds):
        bench.give(number, kind=kind)
    jobs = bench.runner.jobs
    assert all(bench.loop.begin(job) for job in (jobs[0], jobs[1], jobs[4]))
    bench.pass_time(1)
    assert returned(bench) == [3, 2]
    assert set(bench.calls.links[-1].asks[0]) == {"async"}
    bench.pass_time(1)
    bench.loop.end(jobs[1], None)
    assert set(bench.calls.links[-1].asks[0]) == {"plain", "async"}
    bench.pass_time(1)
    assert returned(bench) == [3, 2]


def test_handlers_that_have_begun_are_told():
    """Once each, within a hundredth of a second, unless they have ended before."""
    bench = Bench()
    one, two, _ = bench.give(1), bench.give(2), bench.give(3)
    assert bench.loop.begin(one)
    assert bench.loop.begin(two)
    bench.loop.end(one, None)
    assert bench.loop.sleep_seconds() <= 0.01
    bench.pass_time(0.01)
    assert bench.calls.begun == [2]
    bench.pass_time(1)
    assert bench.calls.begun == [2]


def test_handlers_that_began_before_a_stop_are_told(bench):
    """The server cancels or counts them as others while the worker waits for them."""
    assert bench.loop.begin(bench.give(1))
    bench.loop.stop(30)
    bench.loop.step()
    assert bench.calls.begun == [1]


@pytest.mark.parametrize(("attempt", "delay_ms"), [(1, 1000), (2, 2000), (3, 4000), (9, 10_000)])
def test_an_attempt_that_failed(bench, attempt, delay_ms):
    """The delay doubles up to the longest; the server is told the beginning of the error."""
    bench.clock.uniform = lambda least, most: most
    held = bench.give(7, token=3, attempt=attempt)
    assert bench.loop.begin(held)
    bench.loop.end(held, ValueError("x" * 1000))
    [(end, _)] = bench.calls.ended
    assert (end.number, end.token, end.how, end.delay_ms) == (7, 3, How.FAILED, delay_ms)
    assert end.error == "ValueError: " + "x" * 488


def test_a_lease_that_is_new_for_a_handler_that_runs(bench):
    """The server is told again: it does not know of the beginning under this lease."""
    assert bench.loop.begin(bench.give(1, token=5))
    bench.pass_time(1)
    bench.give(1, token=9)
    bench.pass_time(1)
    assert bench.calls.begun == [1, 1]


def test_a_job_that_is_not_begun_in_time(bench):
    """It is given back: a server gives no other job to a worker that let a lease lapse."""
    one = bench.give(1)
    bench.clock.suspended = 61
    assert not bench.loop.begin(one)
    assert returned(bench) == [1]


class TestCancel:
    def cancel(self, bench, *jobs, recall=False):
        leases = [Lease(held.leased.number, held.token) for held in jobs]
        bench.calls.links[-1].on_cancelled(CancelLeases(leases, recall))

    def test_a_running_handler(self, bench):
        """Its event is set, and a coroutine is cancelled, once; the others go on."""
        one, two = bench.give(1), bench.give(2)
        assert bench.loop.begin(one)
        assert bench.loop.begin(two)
        self.cancel(bench, one)
        self.cancel(bench, one)
        assert one.cancelled.is_set()
        assert not two.cancelled.is_set()
        assert bench.runner.cancelled == [one]
        bench.loop.end(one, None)
        assert [end.how for end, _ in bench.calls.ended] == [How.DONE]

    @pytest.mark.parametrize(
        ("is_cancelled", "error", "warnings"),
        [
            (True, asyncio.CancelledError(), 0),
            (True, RuntimeError(), 1),
            (False, asyncio.CancelledError(), 1),
        ],
    )
    def test_a_cancelled_coroutine(self, bench, caplog, is_cancelled, error, warnings):
        """The log tells of no failed attempt if the job's cancellation ended it."""
        one = bench.give(1)
        assert bench.loop.begin(one)
        if is_cancelled:
            self.cancel(bench, one)
        with caplog.at_level(logging.WARNING, "purgatory"):
            bench.loop.end(one, error)
        assert len(caplog.records) == warnings
        assert [end.how for end, _ in bench.calls.ended] == [How.FAILED]

    @pytest.mark.parametrize("recall", [False, True])
    def test_a_job_that_was_not_begun(self, bench, recall):
        """It is given back, and never begins."""
        one = bench.give(1)
        self.cancel(bench, one, recall=recall)
        assert returned(bench) == [1]
        assert not bench.loop.begin(one)

    def test_a_running_handler_is_not_recalled(self, bench):
        """It had begun before the server knew."""
        one = bench.give(1)
        assert bench.loop.begin(one)
        self.cancel(bench, one, recall=True)
        assert not one.cancelled.is_set()
        assert (bench.runner.cancelled, bench.calls.ended) == ([], [])

    def test_an_old_lease(self, bench):
        """It says nothing of the job's new lease."""
        one = bench.give(1, token=5)
        old = Lease(1, 5)
        bench.give(1, token=9)
        bench.calls.links[-1].on_cancelled(CancelLeases([old, Lease(7, 7)]))
        assert bench.loop.begin(one)

    def test_a_server_that_says_so_when_it_keeps_the_lease(self, bench):
        """As after another connection."""
        one = bench.give(1)
        assert bench.loop.begin(one)
        bench.pass_time(21)
        bench.calls.kept[0][2].set_result(Keeping.CANCELLED)
        assert one.cancelled.is_set()
        assert bench.runner.cancelled == [one]


class TestTimeLimit:
    def test_a_handler_that_takes_too_long(self):
        """The attempt has failed at the limit, not before; the late end is not told."""
        bench = Bench(timeout=5)
        one, two = bench.give(1, token=8), bench.give(2)
        assert bench.loop.begin(one)
        bench.pass_time(1)
        assert bench.loop.begin(two)
        assert bench.loop.sleep_seconds() <= 4
        bench.pass_time(3.7)
        assert bench.loop.sleep_seconds() == pytest.approx(0.3)
        bench.pass_time(0.29)
        assert bench.calls.ended == []
        bench.pass_time(0.02)
        [(end, _)] = bench.calls.ended
        assert (end.number, end.token, end.how) == (1, 8, How.FAILED)
        assert end.error == "TimeLimit: the handler runs longer than its time limit of 5 s"
        assert end.delay_ms > 0
        assert bench.runner.lost == [one]
        assert bench.loop.running == 1
        bench.loop.end(one, None)
        assert len(bench.calls.ended) == 1

    def test_no_thread_is_left_for_the_next_job(self, monkeypatch):
        """The worker ends by the error, but the server learns of the failed attempt."""
        bench = Bench(timeout=5)
        assert bench.loop.begin(bench.give(1))

        def fail(held):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(bench.runner, "lose", fail)
        with pytest.raises(RuntimeError, match="new thread"):
            bench.pass_time(6)
        assert [end.how for end, _ in bench.calls.ended] == [How.FAILED]

    def test_too_many_threads_are_lost(self, monkeypatch):
        """The thread that takes the last one's place begins no job: the job is given back."""
        bench = Bench(timeout=5, concurrency=1)
        began = []
        monkeypatch.setattr(
            bench.runner, "lose", lambda _: began.append(bench.loop.begin(bench.runner.jobs[-1]))
        )
        assert bench.loop.begin(bench.give(1))
        for number in (2, 3):
            bench.clock.now += 6
            bench.give(number)
            bench.loop.step()
        assert isinstance(bench.loop.failure, WorkerStuck)
        assert began == [True, False]
        bench.pass_time(0)
        assert returned(bench) == [3]

    def test_more_time(self):
        """The limit counts anew from then, and the lease is kept at once."""
        bench = Bench(timeout=5)
        one = bench.give(1)
        assert bench.loop.begin(one)
        bench.pass_time(4)
        assert one.extend(10.0)
        assert [number for number, _, _ in bench.calls.kept] == [1]
        bench.pass_time(9.9)
        assert bench.calls.ended == []
        bench.pass_time(0.2)
        assert [end.how for end, _ in bench.calls.ended] == [How.FAILED]
        assert not one.extend(10.0)

    def test_no_limit(self, bench):
        """A handler without one runs on, also after it has asked for more time."""
        one = bench.give(1)
        assert bench.loop.begin(one)
        assert one.extend(1.0)
        bench.pass_time(50)
        assert bench.calls.ended == []

    @pytest.mark.parametrize("concurrency", [None, 1])
    def test_too_many_that_cannot_be_stopped(self, concurrency):
        """With one more than may run at a time, the worker gives back its jobs and ends."""
        bench = Bench(timeout=5, concurrency=concurrency)
        most = concurrency or 2
        for number in range(most):
            assert bench.loop.begin(bench.give(number))
        bench.pass_time(5)
        assert bench.loop.failure is None
        bench.loop.end(bench.runner.jobs[0], None)  # one returns, late
        assert bench.loop.begin(bench.give(10))
        bench.pass_time(5)
        assert bench.loop.failure is None
        assert bench.loop.begin(bench.give(11))
        waiting = bench.give(12)
        bench.pass_time(5)
        assert isinstance(bench.loop.failure, WorkerStuck)
        bench.loop.step()
        assert returned(bench) == [12]
        assert not bench.loop.begin(waiting)
        for _, reply in bench.calls.ended:
            reply.set_result(True)
        bench.loop.step()
        assert bench.loop.finished()

    def test_too_many_of_one_sort(self):
        """Of all kinds of plain handlers together; coroutines have places of their own."""
        kinds = {"a": print, "b": print, "async": run_async}
        bench = Bench(kinds, timeout=5)
        for number, kind in enumerate(("a", "a", "async", "async", "b")):
            assert bench.loop.failure is None
            assert bench.loop.begin(bench.give(number, kind=kind))
            bench.pass_time(5)
        assert isinstance(bench.loop.failure, WorkerStuck)

    def test_a_worker_that_stops(self):
        """A handler that it waits for has its time limit."""
        bench = Bench(timeout=5)
        assert bench.loop.begin(bench.give(1))
        bench.loop.stop(30)
        bench.pass_time(1)
        bench.pass_time(4)
        assert [end.how for end, _ in bench.calls.ended] == [How.FAILED]


class TestResult:
    def end(self, bench, result):
        held = bench.give(1)
        assert bench.loop.begin(held)
        held.result = result
        bench.loop.end(held, None)
        return bench.calls.ended[-1][0]

    def test_what_the_handler_returned(self, bench):
        """It goes to the server with the end."""
        end = self.end(bench, {"sum": [1, 2]})
        assert (end.how, unpack(end.result)) == (How.DONE, {"sum": [1, 2]})

    def test_nothing(self, bench):
        """None is no result."""
        assert unpack(self.end(bench, None).result) is None

    @pytest.mark.parametrize("result", [object(), 1 << 70, "\ud800", b"x" * 101])
    def test_what_cannot_be_kept(self, bench, result):
        """The attempt has failed; the error says why."""
        end = self.end(bench, result)
        assert end.how == How.FAILED
        assert end.error

    def test_a_server_that_keeps_none(self, bench):
        """Of an earlier version: a large one does not matter."""
        bench.calls.max_result_bytes = None
        assert self.end(bench, b"x" * 101).how == How.DONE


def run_quickly(bench, number):
    """Run a job in a millisecond."""
    held = bench.give(number)
    assert bench.loop.begin(held)
    bench.clock.now += 0.001
    bench.loop.end(held, None)


def test_a_handler_that_is_slow_for_once(bench):
    """The worker asks for fewer jobs, and gives back those that it has beyond, a handler free."""
    for number in range(200):
        run_quickly(bench, number)
        if number % 20 == 19:
            bench.pass_time(0.1)
    room = bench.calls.links[-1].asks[1]
    assert room > 2
    jobs = [bench.give(1000 + n) for n in range(room)]
    assert bench.loop.begin(jobs[0])
    bench.calls.ended.clear()
    bench.pass_time(5)
    fewer = bench.calls.links[-1].asks[1]
    assert fewer < room
    returned = [end.number for end, _ in bench.calls.ended if end.how == How.RETURNED]
    assert len(returned) == room - fewer
    assert jobs[0].leased.number not in returned


def test_quick_handlers_ask_for_more_jobs_as_they_end(bench):
    """At once, not at the loop's next look, which may be a second away."""
    for number in range(200):
        run_quickly(bench, number)
    assert bench.calls.links[-1].asks[1] > 2
