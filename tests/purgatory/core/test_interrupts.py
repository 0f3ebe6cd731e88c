"""An interrupt at every place where one can come: no effect is lost or repeated."""

import gc

import pytest

from purgatory import KeyedOperation, Outcome
from purgatory.core.operations import outcome_race
from tests.testing.interrupts import (
    GROUND_FLOOR,
    PURGATORY,
    TIMINGWHEEL,
    TimeLimit,
    interrupted_at,
)
from tests.testing.keys import Key
from tests.testing.purgatory_harness import Hooked, PurgatoryHarness, Recorder
from timingwheel import COMPILED

# The places are found by tracing, which compiled code does not support; nor does it have them.
pytestmark = pytest.mark.skipif(COMPILED, reason="compiled code cannot be traced")

ENDS = {
    "pending": [],
    "completed": ["complete"],
    "expired": ["complete", "expiration"],
    "cancelled": ["cancel"],
}


@pytest.fixture(autouse=True)
def _no_collection():
    """Interrupts hit this package, not callbacks of the collector (hypothesis has some)."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Keyed(KeyedOperation):
    """Records its callbacks."""

    def __init__(self, timeout, need):
        super().__init__(timeout, need)
        self.calls = []

    def on_complete(self):
        self.calls.append("complete")

    def on_expiration(self):
        self.calls.append("expiration")

    def on_cancel(self):
        self.calls.append("cancel")


class Scene:
    """A purgatory with two operations and two futures, and something to do with them."""

    def __init__(self):
        self.journal = []
        self.harness = PurgatoryHarness(journal=self)
        self.p = self.harness.purgatory
        self.ops = [Recorder(5), Recorder(9)]
        self.extra = []
        for op in self.ops:
            self.p.try_complete_else_watch(op, ["a", "b", "c"])
        self.futures = [self.p.defer("a", timeout=5), self.p.defer("a", "b", timeout=9, need=2)]

    def ended(self, operation, outcome):
        self.journal.append((id(operation), outcome))

    def submit(self):
        self.extra.append(Recorder(5))
        self.p.try_complete_else_watch(self.extra[0], ["a", "x", "y"])

    def submit_ready(self):
        self.extra.append(Recorder(5, ready=True))
        self.p.try_complete_else_watch(self.extra[0], ["a", "x", "y"])

    def submit_due(self):
        self.extra.append(Recorder(0))
        self.p.try_complete_else_watch(self.extra[0], ["a", "x", "y"])

    def defer(self):
        self.p.defer("a", "x", timeout=5)

    def check(self):
        self.ops[0].ready = self.ops[1].ready = True
        self.p.check_and_complete("b")

    def complete(self):
        self.ops[0].ready = True
        self.p.complete("a", 1)
        self.p.complete("b", 2)

    def extend(self):
        for op in self.ops:
            self.p.extend(op, 3)
        for future in self.futures:
            future.extend(99)

    def fail(self):
        self.ops[0].ready = True
        self.p.fail("a", OSError())

    def resolve_by_hand(self):
        self.futures[0].set_result(1)
        self.futures[1].set_exception(OSError())

    def limit(self):
        self.ops[1].ready = True
        self.p.complete("a", 1, limit=2)

    def hold(self):
        self.ops[1].ready = True
        self.p.complete("a", 1, limit=9, hold=7)
        self.p.complete("b", 1, hold=7)

    def prepare_replace(self):
        self.p.complete("a", 1, hold=7)
        self.p.complete("b", 1, hold=7)

    def replace(self):
        self.p.complete("a", 2, hold=3)
        self.p.complete("b", 2)

    def prepare_submit_held(self):
        self.p.complete("x", 1, limit=2, hold=7)
        self.p.complete("y", 2, hold=7)

    def submit_held(self):
        for need in (1, 2, 1):
            op = Keyed(5, need)
            self.extra.append(op)
            self.p.try_complete_else_watch(op, ["x", "y"])

    def prepare_hold_ends(self):
        for number in range(5):
            self.p.complete(number, hold=1)

    def hold_ends(self):
        self.harness.clock.advance(2)
        self.harness.timer.advance_clock()

    def prepare_submit_nested(self):
        self.extra.append(Recorder(5))
        self.p.try_complete_else_watch(self.extra[0], [Key(1)])

    def submit_nested(self):
        """Submit for a key whose comparison submits one more, and cancels another."""
        self.extra.append(Recorder(5))
        self.p.try_complete_else_watch(self.extra[1], [Key(2, self.in_comparison)])

    def in_comparison(self):
        if len(self.extra) == 2:
            self.extra.append(Recorder(5))
            self.p.try_complete_else_watch(self.extra[2], ["late"])
            self.ops[0].cancel()

    def force_complete(self):
        self.ops[0].force_complete()

    def cancel(self):
        self.ops[0].cancel()

    def cancel_future(self):
        self.futures[0].cancel()

    def cancel_for_key(self):
        self.p.cancel_for_key("a")

    def expire(self):
        self.harness.clock.advance(5)
        self.harness.timer.advance_clock()

    def prepare_chain(self):
        """Complete a chain of callbacks that is deeper than they may nest."""
        for i in range(5):
            op = Hooked(9, on_complete=lambda i=i: self.complete_extra(i + 1))
            self.p.try_complete_else_watch(op, [i])
            self.extra.append(op)

    def complete_extra(self, index):
        for op in self.extra[index : index + 1]:
            op.force_complete()

    def chain(self):
        self.complete_extra(0)

    def close(self):
        self.p.close()

    def close_timer(self):
        self.harness.timer.close()

    def verify(self):
        """All invariants hold, and further operations work."""
        p = self.p
        self.harness.timer.advance_clock()  # an interrupted drain goes on
        for op in self.ops + self.extra:
            state = repr(op).split()[1].rstrip(",")
            assert op.calls == ENDS[state], (op, op.calls)
        p._check()
        for operation in [future._operation for future in self.futures]:
            assert operation.by_key is None or operation._op_outcome is Outcome.COMPLETED
        stats = p.stats()
        assert p.delayed + stats.held == len(self.harness.timer), "on the lists is in the wheel"
        for event in p._parts.held.by_key.values():
            assert event.units == -1 or (event.claimed == 0 < event.units), event
        ended = stats.completed + stats.failed + stats.expired + stats.cancelled
        assert len(self.journal) == len(set(self.journal)) == ended
        p.close()
        p._check()
        assert (p.watched, p.delayed, len(self.harness.timer)) == (0, 0, 0)
        assert all(op.calls == ENDS[repr(op).split()[1].rstrip(",")] for op in self.ops)
        assert all(op.done() for op in self.ops)
        assert all(future.done() for future in self.futures)
        ended = [future for future in self.futures if not future.cancelled()]
        assert not any(isinstance(future.exception(), TimeLimit) for future in ended)


ACTIONS = [
    "submit", "submit_ready", "submit_due", "defer", "check", "complete", "force_complete",
    "cancel", "cancel_future", "cancel_for_key", "expire", "chain", "close", "extend", "fail",
    "resolve_by_hand", "limit", "hold", "replace", "submit_held", "hold_ends", "close_timer",
    "submit_nested",
]  # fmt: skip


# Between the stages of its drain, the timer itself repairs what an interrupt leaves. Between those
# of its `close`, what it has taken out is left on the lists, until the purgatory is closed.
OF_TIMER = ("expire", "hold_ends", "close_timer")
PLACES = [
    (action, (PURGATORY,) if action in OF_TIMER else (PURGATORY, TIMINGWHEEL, GROUND_FLOOR))
    for action in ACTIONS
]


# Within `__eq__` of a key a TimeLimit counts as the key's error, whose entry stays behind.
CASES = [(*place, KeyboardInterrupt) for place in PLACES] + [
    (*place, TimeLimit) for place in PLACES if place[0] != "submit_nested"
]


@pytest.mark.parametrize(("action", "folders", "error"), CASES)
def test_an_interrupt_at_every_place(action, folders, error, monkeypatch):
    """After an interrupt at any place, counts, callbacks, lists and wheel agree."""
    monkeypatch.setattr(outcome_race, "MAX_NESTED", 2)
    at, fired, broken = 0, True, []
    while fired:
        at += 1
        scene = Scene()
        getattr(scene, f"prepare_{action}", list)()
        interrupter = interrupted_at(at, getattr(scene, action), folders, error)
        fired = interrupter.fired
        try:
            scene.verify()
        except AssertionError as failure:
            broken.append(f"{interrupter.where}: {failure}")
    assert not broken, f"{len(broken)} of {at}: " + "\n".join(broken)
    assert at > 15, "places where an interrupt can come"
