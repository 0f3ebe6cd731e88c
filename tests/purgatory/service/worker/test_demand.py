"""Which jobs a worker asks for."""

import threading

import pytest

from purgatory.service.client.futures import ReplyFuture
from purgatory.service.errors import Refused, RequestAbandoned
from purgatory.service.protocol import LeasedJob
from purgatory.service.worker.demand import PATIENCE_S, Demand, WorkerSettings
from purgatory.service.worker.handlers import HandlerLimits, Retry, make_handler
from purgatory.service.worker.held_jobs import HeldJob
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG


async def run_async(_):
    """Do nothing."""


class Bench:
    """A demand of four handlers at a time; kinds "slow" and "async" have limits of their own."""

    def __init__(self, *kinds):
        retry = Retry(3, 1.0, 10.0)
        handlers = {
            "quick": make_handler(print, retry),
            "slow": make_handler(print, retry, HandlerLimits(None, 1)),
            "async": make_handler(run_async, retry, HandlerLimits(None, 99)),
            "async too": make_handler(run_async, retry),
            "other": make_handler(print, retry),
        }
        handlers = {kind: handlers[kind] for kind in kinds or ("quick", "slow", "async")}
        self.now, self.asked, self.answers = 100.0, [], True
        settings = WorkerSettings("jobs", "tcp://server", 4, 60_000, 10.0)
        self.demand = Demand(settings, handlers, self.send, lambda: self.now)
        self.demand.ask()

    def send(self, asks):
        self.asked.append(asks)
        self.reply = ReplyFuture()
        if self.answers:
            self.reply.set_result(None)
        return self.reply

    def running(self, *kinds, seconds=0.0):
        found = [HeldJob(LeasedJob(n, 1, "", kind, 1, 0, 0), 0.0) for n, kind in enumerate(kinds)]
        for held in found:
            held.started_at = self.now - seconds
        return found


@pytest.fixture
def bench():
    return Bench()


def test_what_is_asked_first(bench):
    """All kinds; a room of its own for each that has a limit, no larger than the worker's."""
    kinds, room, lease_ms, detached, rooms, begins = bench.asked[-1]
    assert (set(kinds), room, lease_ms) == ({"quick", "slow", "async"}, 8, 60_000)
    assert (detached, rooms, begins) == (False, {"slow": 1, "async": 4}, True)


def test_the_room_of_a_kind_follows_its_own_handlers(bench):
    """Quick ones of another kind do not make the worker take slow ones ahead."""
    for _ in range(500):
        bench.demand.note("quick", 0.0001)
    bench.now += 1
    bench.demand.look([], bench.now)
    _, room, _, _, rooms, _ = bench.asked[-1]
    assert room > 100
    assert rooms["slow"] == 1


def test_what_is_asked_for_tells_whether_it_is_fewer(bench):
    """Then jobs that were given are too many. More, or no change, is not fewer."""
    for seconds, fewer in ((0.0001, False), (0.0001, False), (5.0, True), (5.0, False)):
        for _ in range(500):
            bench.demand.note("quick", seconds)
        bench.now += 1
        assert bench.demand.look([], bench.now) is fewer
    assert len(bench.asked) == 3


def test_busy_kinds(bench):
    """Those whose handlers all run, by their own limit or by that of the worker."""
    busy = bench.demand.busy_kinds
    assert busy(bench.running()) == set()
    assert busy(bench.running("slow")) == {"slow"}
    assert busy(bench.running("quick", "quick")) == set()
    assert busy(bench.running("quick", "slow")) == {"slow"}
    assert busy(bench.running("quick", "quick", "quick", "slow")) == {"quick", "slow"}
    assert busy(bench.running(*["async"] * 4)) == {"async"}


def test_kinds_of_which_jobs_were_given_back(bench):
    """They are not asked for until a handler is free, and the others are."""
    running = bench.running("slow", "quick")
    busy = bench.demand.busy_kinds(running)
    bench.demand.stall(busy, [])
    assert len(bench.asked) == 1
    bench.demand.stall(busy, bench.running("slow"))
    kinds, _, _, _, rooms, _ = bench.asked[-1]
    assert set(kinds) == {"quick", "async"}
    assert set(rooms) == {"async"}
    bench.demand.go_on(lambda: running)
    assert len(bench.asked) == 2
    bench.demand.go_on(lambda: running[1:])
    assert set(bench.asked[-1][0]) == {"quick", "slow", "async"}


@pytest.mark.parametrize(
    ("other", "stalls"), [("slow", True), ("async too", True), ("other", False)]
)
def test_which_workers_leave_out_a_kind(other, stalls):
    """With a limit of a kind, or handlers of both sorts; else the room of all is enough."""
    bench = Bench("quick", other)
    running = bench.running(*["quick"] * 4)
    bench.demand.stall(bench.demand.busy_kinds(running), running)
    assert [set(asks[0]) for asks in bench.asked[1:]] == ([{other}] if stalls else [])


def test_the_end(bench):
    """No jobs any more, whatever changes."""
    bench.demand.end()
    assert bench.asked[-1][1] == 0
    for _ in range(500):
        bench.demand.note("quick", 0.0001)
    bench.now += 1
    bench.demand.look([], bench.now)
    bench.demand.stall({"slow"}, bench.running("slow"))
    assert len(bench.asked) == 2


def test_an_answer_that_does_not_come(bench, caplog):
    """It is missed once, after so many seconds, and then it comes."""
    bench.answers = False
    bench.demand.ask()
    for seconds, warnings in ((0, 0), (PATIENCE_S - 0.5, 0), (0.5, 1), (PATIENCE_S, 1)):
        bench.now += seconds
        bench.demand.check_answer()
        assert caplog.text.count("no answer from a server at tcp://server") == warnings
    bench.reply.set_result(None)
    for _ in range(2):
        bench.demand.check_answer()
        assert caplog.text.count("the server at tcp://server answers") == 1


def test_an_answer_that_is_an_error(bench):
    """What is abandoned with its connection is asked again; a refusal is raised."""
    bench.answers = False
    bench.demand.ask()
    bench.reply.set_exception(RequestAbandoned("the connection was lost"))
    bench.demand.check_answer()
    assert len(bench.asked) == 3
    assert bench.asked[1] == bench.asked[2]
    bench.reply.set_exception(Refused("no"))
    with pytest.raises(Refused, match="no"):
        bench.demand.check_answer()
    assert len(bench.asked) == 3


def test_handlers_of_one_sort_have_one_room():
    """As many places as handlers run at a time; twice as many with coroutines beside."""
    assert [Bench(*kinds).asked[-1][1] for kinds in (["quick"], ["async too"])] == [4, 4]
    assert Bench("quick", "async too").asked[-1][1] == 8


def test_a_look_is_due_at_its_time(bench):
    """Not before."""
    bench.demand.look([], bench.now)
    next_look = bench.demand._pace.next_look
    for bench.now, is_due in ((next_look - 0.001, False), (next_look, True)):
        assert bench.demand.is_due is is_due


def test_a_handler_that_hangs_counts_as_slow(bench):
    """The worker asks for fewer jobs while it runs."""
    for _ in range(200):
        bench.demand.note("quick", 0.0001)
    bench.now += 1
    assert not bench.demand.look([], bench.now)
    room = bench.demand.room
    bench.now += 1
    assert bench.demand.look(bench.running("quick", seconds=0.0), bench.now) is False
    bench.now += 1
    assert bench.demand.look(bench.running("quick", "quick", seconds=5.0), bench.now)
    assert bench.demand.room < room


class WatchedLock:
    """A lock that notes whether a thread has waited for it."""

    def __init__(self):
        self.lock, self.is_contended = threading.Lock(), False

    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            self.is_contended = True
            self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


def test_a_handler_that_ends_while_its_kind_is_stalled(bench):
    """The last request, whichever thread sends it, is for the kind."""
    demand, sent, lock = bench.demand, [], WatchedLock()
    ending = threading.Thread(target=demand.go_on, args=(list,))

    def send(asks):
        if not ending.ident:
            ending.start()
            eventually(lambda: lock.is_contended or not ending.is_alive())
        sent.append(set(asks[0]))
        return ReplyFuture()

    demand._asking, demand._send = lock, send
    demand.stall({"slow"}, bench.running("slow"))
    ending.join(HANG)
    assert sent == [{"quick", "async"}, {"quick", "slow", "async"}]
