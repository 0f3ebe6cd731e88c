"""Oracle: each promise that it checks, kept and broken."""

import pytest

from purgatory.service.protocol import OutcomeMessage
from purgatory.testing.world.world import NS_PER_S
from tests.simulation.oracle import Oracle
from tests.simulation.records import CallRecord, EventRecord, ExtensionRecord, OperationRecord
from tests.simulation.troubles import Troubles


@pytest.fixture
def oracle(world):
    """An oracle; its world begins a while before all calls."""
    world.run(100)
    return Oracle(world, Troubles(world))


def submit(oracle, *keys, need=1, timeout=10, acknowledged=True):
    """Submit an operation now."""
    op_id = f"op-{len(oracle.operations)}"
    now_ns = oracle._world.now_ns
    made = OperationRecord(
        now_ns, op_id=op_id, keys=keys or ("k",), need=need, timeout_ns=timeout * NS_PER_S
    )
    oracle.submit(made)
    oracle._world.run(1)
    if acknowledged:
        oracle.submitted(made, "pending")
    return made


def complete(oracle, key="k", answer=None, **others):
    """Complete a key a second from now; without an answer it stays unknown."""
    oracle._world.run(1)
    event = EventRecord(oracle._world.now_ns, key=key, value=len(oracle.events) + 1, **others)
    oracle.add_event(event)
    oracle._world.run(1)
    if answer is not None:
        oracle.answer(event, answer)
    return event


def broken(oracle):
    """Return what was broken, also at the end; empty if nothing was."""
    oracle.check_all()
    return "" if oracle.violation is None else str(oracle.violation)


def test_nothing_is_broken(world, oracle):
    """An operation is completed, one expires, one is cancelled, one fails."""
    one, two = submit(oracle, "a"), submit(oracle, "a", "b", need=2)
    event = complete(oracle, "a", answer=1)
    oracle.told(one.op_id, "completed", event.value)
    other = complete(oracle, "b", answer=1)
    oracle.told(two.op_id, "completed", {"a": event.value, "b": other.value})
    three, four = submit(oracle), submit(oracle)
    three.cancels.append(CallRecord(world.now_ns))
    oracle.answer(three.cancels[0], answer=True)
    oracle.told(three.op_id, "cancelled", None)
    world.run(12)
    oracle.told(four.op_id, "expired", None)
    five = submit(oracle)
    failure = complete(oracle, answer=1, failed=True)
    oracle.told(five.op_id, "failed", failure.value)
    assert broken(oracle) == ""


def test_two_outcomes(oracle):
    """The same one may be told again, another one may not."""
    operation = submit(oracle)
    event = complete(oracle, answer=1)
    oracle.told(operation.op_id, "completed", event.value)
    oracle.told(operation.op_id, "completed", event.value)
    assert broken(oracle) == ""
    oracle.told(operation.op_id, "expired", None)
    assert "and then ('expired', None)" in broken(oracle)


def test_an_outcome_that_is_never_told(oracle):
    """Only what was acknowledged has to be."""
    submit(oracle, acknowledged=False)
    assert broken(oracle) == ""
    submit(oracle)
    assert "never told" in broken(oracle)


def test_an_unknown_operation(oracle):
    """No program has submitted it."""
    oracle.told("x", "expired", None)
    assert "no program has submitted" in broken(oracle)


def test_expired_early(world, oracle):
    """By the first call, or by the extension if that was acknowledged."""
    early = submit(oracle, timeout=10)
    world.run(8)
    oracle.told(early.op_id, "expired", None)
    assert "expired at least 1000 ms early" in broken(oracle)


def test_expired_late(world, oracle):
    """By the last extension; faults since then are an excuse, until they are mended."""
    for is_disturbed in (False, True):
        oracle.violation = None
        operation = submit(oracle, timeout=1000)
        world.run(1)
        extension = ExtensionRecord(world.now_ns, timeout_ns=10 * NS_PER_S)
        operation.extensions.append(extension)
        oracle.answer(extension, answer=True)
        world.run(11)
        if is_disturbed:
            oracle._troubles.add(7 * NS_PER_S)
        world.run(10)
        oracle.told(operation.op_id, "expired", None)
        assert ("too late" in broken(oracle)) != is_disturbed


def ended(operation, outcome="completed", *, at_ms, deadline_ms):
    """Return what a server tells of an operation."""
    return OutcomeMessage(1, operation.op_id, outcome, at_ms, deadline_ms=deadline_ms)


def test_an_end_that_is_yet_to_come(oracle):
    """An outcome has the moment of its end."""
    oracle.latest_now_ms = lambda: 10_000
    operation = submit(oracle)
    # A server's stamps are ahead of its clock now and then.
    oracle.arrived(ended(operation, at_ms=12_500, deadline_ms=20_000))
    assert oracle.violation is None
    other = submit(oracle)
    oracle.arrived(ended(other, at_ms=14_000, deadline_ms=20_000))
    assert "which is yet to come" in str(oracle.violation)


@pytest.mark.parametrize(
    ("outcome", "at_ms", "wrong"),
    [
        ("completed", 10_000, ""),  # the deadline's own millisecond is included
        ("completed", 10_001, "completed 1 ms after its deadline"),
        ("failed", 10_002, "failed 2 ms after its deadline"),
        ("cancelled", 10_001, ""),  # it waits until it expires, however late
        ("expired", 10_000, ""),
        ("expired", 9_999, "expired 1 ms early by the server's clock"),
    ],
)
def test_ends_and_deadlines_of_the_servers_clock(oracle, outcome, at_ms, wrong):
    """After its deadline nothing completes an operation, however late it expires."""
    oracle.arrived(ended(submit(oracle), outcome, at_ms=at_ms, deadline_ms=10_000))
    assert wrong in str(oracle.violation)
    assert bool(oracle.violation) == bool(wrong)


def test_expired_before_its_extension(world, oracle):
    """An extension that was refused does not count; one without an answer may."""
    for answer, is_broken in ((None, False), (False, False), (True, True)):
        oracle.violation = None
        operation = submit(oracle, timeout=2)
        extension = ExtensionRecord(world.now_ns, timeout_ns=10 * NS_PER_S)
        operation.extensions.append(extension)
        world.run(2)
        if answer is not None:
            oracle.answer(extension, answer)
        oracle.told(operation.op_id, "expired", None)
        assert bool(broken(oracle)) == is_broken


def test_a_wrong_cause(world, oracle):
    """A value that was never sent, of another key, or from before the operation."""
    before = complete(oracle, answer=0)
    held = complete(oracle, answer=0, hold_ns=100 * NS_PER_S)
    world.run(1)
    other = complete(oracle, "other", answer=0)
    for value, what in (
        (99, "no program has sent"),
        (other.value, "of key 'other'"),
        (before.value, "came before"),
        (held.value, ""),
    ):
        oracle.violation = None
        oracle.told(submit(oracle).op_id, "completed", value)
        assert what in str(oracle.violation or "")
        assert bool(oracle.violation) == bool(what)


def test_a_refused_event(oracle):
    """The server said that it did nothing."""
    operation, event = submit(oracle), complete(oracle)
    oracle.refuse(event)
    oracle.told(operation.op_id, "completed", event.value)
    assert "which was refused" in broken(oracle)


def test_a_refused_operation(oracle):
    """It has no outcome, unless it was submitted again."""
    operation = submit(oracle, acknowledged=False)
    oracle.refuse_submission(operation)
    operation.submissions = 2
    event = complete(oracle, answer=1)
    oracle.told(operation.op_id, "completed", event.value)
    assert broken(oracle) == ""
    again = submit(oracle, acknowledged=False)
    oracle.refuse_submission(again)
    oracle.told(again.op_id, "completed", complete(oracle, answer=1).value)
    assert "was refused, and has an outcome" in broken(oracle)


@pytest.mark.parametrize("late", ["completed", "expired"])
def test_a_missed_event(world, oracle, late):
    """It was acknowledged while the operation waited, and another end came."""
    operation = submit(oracle, timeout=20)
    complete(oracle, answer=1)
    event = complete(oracle, answer=1)
    world.run(18)
    oracle.told(operation.op_id, late, event.value if late == "completed" else None)
    assert ("outlived" if late == "completed" else "though it was complete") in broken(oracle)


@pytest.mark.parametrize(("lost_s", "found"), [(1, "outlived"), (18, "")])
def test_an_event_missed_by_a_clock_that_is_set_back(world, oracle, lost_s, found):
    """The deadline had passed by its stamps: a later event counts, once the clock is right."""
    oracle.lost_time_ns = lambda: lost_s * NS_PER_S
    operation = submit(oracle, timeout=20)
    complete(oracle, answer=0)
    event = complete(oracle, answer=1)
    oracle.told(operation.op_id, "completed", event.value)
    assert found in broken(oracle)
    assert bool(found) == bool(broken(oracle))


def test_an_event_just_before_the_deadline(world, oracle):
    """Its stamp may be ahead of the clock, and so too late."""
    operation = submit(oracle, timeout=4)
    world.run(1)
    complete(oracle, answer=0)
    oracle.told(operation.op_id, "expired", None)
    assert broken(oracle) == ""


@pytest.mark.parametrize("replaced", [False, True])
def test_what_is_held(world, oracle, replaced):
    """It counts for what is submitted meanwhile, unless another event came between."""
    complete(oracle, answer=0, hold_ns=60 * NS_PER_S)
    if replaced:
        complete(oracle, answer=0)
    world.run(1)
    operation = submit(oracle, timeout=20)
    world.run(20)
    oracle.told(operation.op_id, "expired", None)
    assert broken(oracle) == "" if replaced else "though it was complete" in broken(oracle)


def test_held_until_the_submission_only(world, oracle):
    """What may have ended while an operation was submitted need not count for it."""
    complete(oracle, answer=0, hold_ns=2 * NS_PER_S)
    world.run(0.5)
    operation = submit(oracle, timeout=20)
    world.run(20)
    oracle.told(operation.op_id, "expired", None)
    assert broken(oracle) == ""


def test_after_the_deadline(world, oracle):
    """No event counts any more."""
    operation = submit(oracle, timeout=5)
    world.run(10)
    event = complete(oracle)
    oracle.told(operation.op_id, "completed", event.value)
    assert "which came after its deadline" in broken(oracle)


def test_a_refusal_for_no_reason(oracle):
    """While the disk is well, nothing is refused that is within the limits."""
    oracle.refuse(complete(oracle))
    assert broken(oracle) == ""
    oracle.disk_may_fail = False
    oracle.refuse(complete(oracle))
    assert "nothing was wrong with the disk" in broken(oracle)


def test_wrong_counts(oracle):
    """An event says that it completed more, or fewer, than it did."""
    operation = submit(oracle)
    event = complete(oracle, answer=0)
    oracle.told(operation.op_id, "completed", event.value)
    assert "of 1 to 1" in broken(oracle)


def test_more_than_the_limit(oracle):
    """An event with a limit counted for too many."""
    operations = [submit(oracle), submit(oracle)]
    event = complete(oracle, answer=2, limit=1)
    for operation in operations:
        oracle.told(operation.op_id, "completed", event.value)
    assert "counted for 2 operations" in broken(oracle)


def test_cancels(world, oracle):
    """An acknowledged one is kept; without one nothing is cancelled."""
    operation = submit(oracle)
    operation.cancels.append(CallRecord(world.now_ns))
    oracle.answer(operation.cancels[0], answer=True)
    oracle.told(operation.op_id, "completed", complete(oracle, answer=1).value)
    assert "was cancelled, and has completed" in broken(oracle)
    oracle.violation = None
    oracle.told(submit(oracle).op_id, "cancelled", None)
    assert "was never cancelled" in str(oracle.violation)


def test_a_call_that_is_never_answered(world, oracle):
    """Its process lives, and waits."""
    oracle.check_answered([])
    assert broken(oracle) == ""
    oracle.check_answered([CallRecord(world.now_ns)])
    assert "never answered" in broken(oracle)


def test_a_call_that_times_out(world, oracle):
    """Its client may give up while something is wrong, and not after seconds of calm."""
    call = CallRecord(world.now_ns)
    world.run(20)
    called_ns = world.now_ns
    oracle._troubles.add()
    world.run(30)
    oracle.time_out(call, called_ns)
    assert oracle.violation is None
    called_ns = world.now_ns
    world.run(30)
    oracle.time_out(call, called_ns)
    assert "had no answer, though nothing was wrong" in broken(oracle)
