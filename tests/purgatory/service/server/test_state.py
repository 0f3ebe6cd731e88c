"""The state of a server, apart from its transactions."""

from _purgatory_cpython import at_exit
from purgatory.service.protocol import Submit, Submitted
from purgatory.service.server.clock import NS_PER_MS, TICK_NS
from purgatory.service.server.memory import PROCESS_BYTES
from purgatory.service.server.state import (
    ADVANCE_BATCHES,
    COPIED_BYTES,
    DeferredExecutor,
    ServerState,
)
from tests.testing.step_server import START_MS, StepServer, job, operation
from timingwheel import ManualClock, Timer
from timingwheel.wheel_state import DRAIN_BATCH


def test_an_operation_belongs_to_its_client(step_server):
    """Another client does not find it; one that sees all does."""
    step_server.submit(operation("a"))
    state = step_server.state
    assert state.find("a", "c") is state.find("a", None) is state.known["a"]
    assert state.find("a", "other") is None
    assert state.find("b", None) is None


def test_the_next_wake(step_server):
    """At the latest when an operation has expired, or sooner when a held event ends."""
    state = step_server.state
    assert state.next_wake_ns() is None
    step_server.submit(operation("a"))
    latest = (START_MS + 1000) * NS_PER_MS + TICK_NS
    assert (START_MS + 11) * NS_PER_MS < state.next_wake_ns() <= latest
    step_server.complete("k", hold_ms=10)
    assert state.next_wake_ns() == (START_MS + 11) * NS_PER_MS


def test_which_events_are_for_many(step_server):
    """Those that end more than a portion, or would copy a large value more than once."""
    state = step_server.state
    state.portion = 10
    found = [
        state.is_for_many(count, bytes(size))
        for count, size in [(10, 0), (11, 0), (1, COPIED_BYTES + 1)]
    ]
    assert found == [False, True, False]
    half = COPIED_BYTES // 2
    assert [state.is_for_many(2, bytes(size)) for size in (half, half + 1)] == [False, True]


def test_at_the_exit_no_operation_is_visited(step_server):
    """A server that ends with a million of them ends at once."""
    step_server.submit(*[operation(f"op {n}") for n in range(500)])
    step_server.submit(*[job(f"job {n}") for n in range(500)])
    step_server.complete("op 7's key")
    (bus,) = [one for one in at_exit._with_locks if one is step_server.state.purgatory._bus]
    assert sum(1 for _ in at_exit._parts_of(bus)) < 300


def test_memory_left():
    """What the process takes is gone already; without a limit there is always enough."""
    assert ServerState(0, max_memory=PROCESS_BYTES + 5).memory_left == 5
    assert ServerState(0).memory_left > 1 << 60


def test_an_interrupted_run_goes_on_later():
    """A task that has made enough ends the run; the rest of its bucket is there for the next."""
    executor, clock, ran = DeferredExecutor(), ManualClock(), []
    timer = Timer(clock=clock, executor=executor)

    def interrupt():
        ran.append("first")
        executor.interrupt()

    timer.schedule(1, interrupt)
    for name in ("second", "third"):
        timer.schedule(1, ran.append, name)
    clock.advance(1)
    timer.advance_clock()
    assert (ran, bool(executor)) == ([], True)
    executor.run(lambda: bool(ran))
    assert (ran, bool(executor)) == (["first"], True)
    executor.run(lambda: False)
    assert (ran, bool(executor)) == (["first", "second", "third"], False)
    executor.interrupt()
    timer.close()


def test_many_operations_of_one_moment(tmp_path):
    """They come due in some transactions, and others' requests between; each one ends once."""
    count = (ADVANCE_BATCHES + 2) * DRAIN_BATCH
    server = StepServer(tmp_path / "db", pending=2 * count, pending_per_client=2 * count)
    server.hello()
    for start in range(0, count, DRAIN_BATCH):
        numbers = range(start, start + DRAIN_BATCH)
        server.submit(*[operation(str(number), "key", timeout_ms=60_000) for number in numbers])
    server.time.ms += 60_001
    server.post(Submit, [operation("other")])
    [reply], _ = server.step(once=True)
    assert isinstance(reply, Submitted)
    ended = server.store_loop.ended
    assert ended["expired"] == 0  # all are still moved
    while server.store_loop.max_sleep() == 0:
        server.step(once=True)
    assert ended["expired"] == count
    assert server.state.parts.lists.pending == 1
    server.store.close()
