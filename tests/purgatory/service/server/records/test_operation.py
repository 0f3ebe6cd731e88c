"""Operations that wait at a server, apart from it."""

import pytest

from purgatory.service.encoding import encode, unpack
from purgatory.service.protocol import NOTHING
from purgatory.service.server.clock import NS_PER_MS, TICK_NS
from purgatory.service.server.memory import value_bytes
from purgatory.service.server.records.clients import ClientRecord
from purgatory.service.server.records.operation import (
    EventContext,
    PendingOperation,
    expiry_delay,
)
from purgatory.service.store.rows import UNLIMITED

DEADLINE_MS = 1000


def pending(need=1):
    deadline_ns = DEADLINE_MS * NS_PER_MS
    return PendingOperation(1, ClientRecord("c"), "a", "", 0, deadline_ns, need, False, 0)


def event(value=NOTHING, at_ms=0, failed=False, units=UNLIMITED):
    return EventContext(value, at_ms, [], units, failed)


@pytest.mark.parametrize(
    ("deadline_ns", "ticks"), [(0, 1), (TICK_NS - 1, 1), (TICK_NS, 2), (-5 * TICK_NS, 1)]
)
def test_the_tick_after_a_deadline(deadline_ns, ticks):
    """The deadline's own instant is before it; an old deadline is due at the next tick."""
    assert expiry_delay(deadline_ns, 0) == ticks * TICK_NS / 1e9


def test_units():
    """Each use takes one; of unlimited ones there are always more."""
    for units, left in [(2, 1), (UNLIMITED, UNLIMITED)]:
        context = event(units=units)
        assert not context.reached
        context.use()
        assert (context.reached, context.units) == (True, left)


def test_one_key():
    """Its value is the result; none is told apart."""
    for value, result in [(encode(7), encode(7)), (NOTHING, None)]:
        operation, context = pending(), event(value)
        assert operation._op_complete_key("k", context)
        assert context.progressed == []  # nothing is written of it but its end
        assert (operation.by_key, operation.result()) == ("k", result)


def test_several_keys():
    """A key counts once; the last one needed completes, with the values of all."""
    operation = pending(need=2)
    first = event(encode(1))
    assert not operation._op_complete_key("k", first)
    assert first.progressed == [(operation, "k")]
    assert not operation.is_waiting_for("k", 0)
    assert operation.is_waiting_for("l", 0)
    again = event(encode(9))
    assert not operation._op_complete_key("k", again)
    assert not again.reached
    assert operation.all_bytes() - operation.bytes == value_bytes(len(encode(1)))
    assert operation._op_complete_key("l", event(encode(2)))
    assert unpack(operation.result()) == {"k": 1, "l": 2}


@pytest.mark.parametrize("failed", [False, True])
def test_after_the_deadline(failed):
    """A key counts in the millisecond of the deadline, not later."""
    late = event(at_ms=DEADLINE_MS + 1, failed=failed)
    operation = pending()
    assert not operation._op_complete_key("k", late)
    assert not late.reached
    assert operation._op_complete_key("k", event(at_ms=DEADLINE_MS, failed=failed))


def test_a_failure():
    """The error is the result; a key that has counted cannot fail."""
    operation = pending(need=2)
    operation._op_complete_key("k", event())
    assert not operation._op_complete_key("k", event(failed=True))
    assert operation._op_complete_key("l", event(b"error", failed=True))
    assert (operation.by_key, operation.result()) == (None, b"error")


def test_a_copy():
    """It has the progress, and waits on."""
    operation = pending(need=2)
    operation._op_complete_key("k", event(encode(1)))
    copy = operation.copy_pending(0)
    operation._op_complete_key("l", event(encode(2)))
    assert copy._op_complete_key("m", event(encode(3)))
    assert copy.op_deadline_ns == operation.op_deadline_ns
