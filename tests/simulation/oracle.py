"""Oracle: what the service has promised, checked against what the programs of a world were told.

Each rule looks at records only, and knows nothing of how the service works. Time is the world's.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from purgatory.service.protocol import OutcomeMessage
from purgatory.testing.world.world import NS_PER_MS, NS_PER_S, World
from tests.simulation.errors import Violation
from tests.simulation.key_effects import KeyEffects
from tests.simulation.records import NEVER, CallRecord, EventRecord, OperationRecord
from tests.simulation.troubles import Troubles

# Fields of calls that the history tells, if they say anything.
_TOLD: Final = ("key", "value", "failed", "limit", "hold_ns", "timeout_ns")
# The service counts in whole milliseconds, and cuts off the rest of one.
_ROUNDING_NS: Final = NS_PER_MS
# So far may a server's stamps be ahead of its clock: each event of a key gets one of its own, and
# after a fault more than a thousand may come at once.
_STAMPS_AHEAD_MS: Final = 3000
_AHEAD_NS: Final = _STAMPS_AHEAD_MS * NS_PER_MS
#: What is asked for or due is done after so much time in which nothing is wrong.
PROMPT_NS: Final = 5 * NS_PER_S


class Oracle:
    """Takes note of all calls and outcomes of a world; the first wrong one is its `violation`."""

    def __init__(self, world: World, troubles: Troubles) -> None:
        self._world = world
        self._troubles = troubles
        #: Returns by how much deadlines may be wrong, in nanoseconds, through no fault of ours.
        self.lost_time_ns: Callable[[], int] = int
        #: Returns the highest reading that the server's clock may have, Unix milliseconds.
        self.latest_now_ms: Callable[[], int] = lambda: sys.maxsize
        #: Whether the disk fails now and then, or is full.
        self.disk_may_fail: bool = True
        self.operations: dict[str, OperationRecord] = {}
        self.events: dict[int, EventRecord] = {}  # by value
        self._by_key: defaultdict[str, list[EventRecord]] = defaultdict(list)
        self.untold: dict[str, OperationRecord] = {}  # acknowledged, and not told
        #: The first that was found: raised where programs are called back, it might be caught.
        self.violation: Violation | None = None

    # What programs do

    def submit(self, operation: OperationRecord) -> None:
        """Note that an operation is submitted."""
        self.operations[operation.op_id] = operation
        if self._world.history is not None:
            self._world.note(
                f"{operation.client}: submits {operation.op_id} {operation.keys} "
                f"need={operation.need} timeout={operation.timeout_ns // NS_PER_MS} ms"
            )

    def submitted(self, operation: OperationRecord, state: str) -> None:
        """Note that its submission was acknowledged."""
        if self._world.history is not None:
            self._world.note(f"{operation.client}: {operation.op_id} is {state}")
        if not operation.is_answered:
            operation.replied_ns, operation.answer = self._world.now_ns, state
            if operation.outcome is None:
                self.untold[operation.op_id] = operation

    def add_event(self, event: EventRecord) -> None:
        """Note that a key is completed or failed."""
        self.events[event.value] = event
        if self._world.history is not None:
            self._world.note(f"event {event.value} of {event.key}: {_describe(event)}")
        self._by_key[event.key].append(event)

    def answer(self, call: CallRecord, answer: Any) -> None:
        """Note the answer to a call."""
        if self._world.history is not None:
            self._world.note(f"answer: {answer} to {_describe(call)}")
        call.replied_ns, call.answer = self._world.now_ns, answer

    def refuse_submission(self, operation: OperationRecord) -> None:
        """Note that one of its submissions was refused."""
        self._check_refusal(operation)
        operation.refusals += 1

    def refuse(self, call: CallRecord) -> None:
        """Note that the server did not do what it was asked."""
        self._check_refusal(call)
        call.replied_ns, call.refused = self._world.now_ns, True

    def time_out(self, call: CallRecord, called_ns: int) -> None:
        """Check that a client that has given up had a reason; what it asked for may be done.

        `called_ns`: when it did, which may be for another time.
        """
        if self._troubles.end_of_calm(called_ns, PROMPT_NS) <= self._world.now_ns:
            self.report(f"had no answer, though nothing was wrong: {call}")

    def _check_refusal(self, call: CallRecord) -> None:
        """Check that there can be a reason for a refusal: all requests are within the limits."""
        if not self.disk_may_fail:
            self.report(f"refused, though nothing was wrong with the disk: {call}")

    def arrived(self, outcome: OutcomeMessage) -> None:
        """Note that an outcome comes to a handler, which may raise, and check its times."""
        operation = self.operations.get(outcome.op_id)
        if operation is None or operation.arrived_ns != NEVER:
            return
        operation.arrived_ns = self._world.now_ns
        self._check_times(operation, outcome)

    def _check_times(self, operation: OperationRecord, outcome: OutcomeMessage) -> None:
        """Check an end and a deadline, both by the server's clock."""
        if outcome.at_ms > self.latest_now_ms() + _STAMPS_AHEAD_MS:
            self._fail(operation, f"told of an end at {outcome.at_ms} ms, which is yet to come")
        late_ms = outcome.at_ms - outcome.deadline_ms
        if outcome.outcome == "expired":
            if late_ms < 0:
                self._fail(operation, f"expired {-late_ms} ms early by the server's clock")
        elif late_ms > 0 and outcome.outcome != "cancelled":
            self._fail(operation, f"{outcome.outcome} {late_ms} ms after its deadline")

    def told(self, op_id: str, outcome: str, result: Any) -> None:
        """Check an outcome that a program was told."""
        if self._world.history is not None:
            self._world.note(f"told: {op_id} {outcome} {result}")
        operation = self.operations.get(op_id)
        if operation is None:
            self.report(f"told of operation {op_id!r}, which no program has submitted")
            return
        operation.times_told += 1
        found = (outcome, result)
        if operation.outcome is not None:
            if operation.outcome != found:
                self._fail(operation, f"told {operation.outcome}, and then {found}")
            return
        operation.outcome, operation.told_ns = found, self._world.now_ns
        if operation.arrived_ns == NEVER:
            operation.arrived_ns = operation.told_ns
        self.untold.pop(op_id, None)
        if operation.refusals == operation.submissions:
            self._fail(operation, "was refused, and has an outcome")
        self._check_outcome(operation, outcome, result)

    def _check_outcome(self, operation: OperationRecord, outcome: str, result: Any) -> None:
        if outcome == "expired":
            self._check_expiry(operation)
        elif outcome == "completed":
            values = {operation.keys[0]: result} if operation.need == 1 else result
            if operation.need > 1 and len(values) != operation.need:
                self._fail(operation, f"completed by {values}, and needs {operation.need}")
            for key, value in values.items():
                self._check_cause(operation, key, value, failed=False)
        elif outcome == "failed":
            self._check_cause(operation, None, int(result), failed=True)
        elif not operation.cancels:
            self._fail(operation, f"{outcome}, and was never cancelled")

    def _check_expiry(self, operation: OperationRecord) -> None:
        possible = [each for each in operation.extensions if each.answer is not False]
        deadlines = [each.called_ns + each.timeout_ns for each in possible]
        if not any(each.answer is True for each in possible):
            deadlines.append(operation.called_ns + operation.timeout_ns)
        early_ns = min(deadlines) - self._world.now_ns - self.lost_time_ns()
        if early_ns > 0:
            self._fail(operation, f"expired at least {early_ns / 1e6:g} ms early")
        self._check_not_late(operation)

    def _check_not_late(self, operation: OperationRecord) -> None:
        """Check that an expiry was told as soon as faults allowed that."""
        due_ns = self._latest_deadline_ns(operation) + self.lost_time_ns()
        late_ns = operation.arrived_ns - self._troubles.end_of_calm(due_ns, PROMPT_NS)
        if late_ns > 0:
            self._fail(operation, f"expired {late_ns / 1e9:g} s too late")

    def _latest_deadline_ns(self, operation: OperationRecord) -> int:
        """Return when it was to expire at the latest.

        An extension that was called after the answer to another one replaces that one.
        """
        calls: list[tuple[CallRecord, int]] = [(operation, operation.timeout_ns)]
        calls += [(one, one.timeout_ns) for one in operation.extensions if one.answer is not False]
        last_ns = max(one.called_ns for one, _ in calls if one is operation or one.answer is True)
        done = [(self._done_ns(one), timeout_ns) for one, timeout_ns in calls]
        return max(at_ns + timeout_ns for at_ns, timeout_ns in done if at_ns >= last_ns)

    def _done_ns(self, call: CallRecord) -> int:
        """Return when a call was done at the latest, if it was."""
        prompt_ns = self._troubles.end_of_calm(call.called_ns, PROMPT_NS)
        return min(call.replied_ns, prompt_ns) if call.is_answered else prompt_ns

    def _check_cause(
        self, operation: OperationRecord, key: str | None, value: Any, *, failed: bool
    ) -> None:
        """Check that an event can have ended the operation; with need=1, any of its keys."""
        event = self.events.get(value)
        if event is None or event.failed != failed:
            self._fail(operation, f"ended by {value!r}, which no program has sent")
        elif event.refused:
            self._fail(operation, f"ended by event {value}, which was refused")
        elif event.key not in operation.keys or (
            operation.need > 1 and key not in (None, event.key)
        ):
            self._fail(operation, f"ended by an event of key {event.key!r}")
        elif (
            event.is_answered and _held_until_ns(event) < operation.called_ns - self.lost_time_ns()
        ):
            self._fail(operation, f"ended by event {value}, which came before, and was not held")
        elif event.called_ns > (
            self._latest_deadline_ns(operation) + _AHEAD_NS + self.lost_time_ns()
        ):
            self._fail(operation, f"ended by event {value}, which came after its deadline")

    # What must be true at the end

    def check_answered(self, unanswered: Iterable[CallRecord]) -> None:
        """Check that no call of a process that lives is without an answer."""
        for call in unanswered:
            self.report(f"was never answered: {call}")

    def check_all(self) -> None:
        """Check what can only be judged when all is quiet."""
        for operation in self.untold.values():
            self._fail(operation, "was acknowledged, and its outcome was never told")
        effects = {key: KeyEffects(events) for key, events in self._by_key.items()}
        for operation in self.operations.values():
            if operation.outcome is not None:
                self._check_calls(operation, operation.outcome[0])
                if operation.is_answered and operation.outcome[0] != "failed":
                    self._check_not_missed(operation, effects)
        self._check_counts()

    def _check_calls(self, operation: OperationRecord, outcome: str) -> None:
        cancelled = [each for each in operation.cancels if each.answer is True]
        if cancelled and outcome != "cancelled":
            self._fail(operation, f"was cancelled, and has {outcome}")
        if outcome != "cancelled" or not operation.cancels:
            return
        if all(each.is_answered for each in operation.cancels) and not cancelled:
            self._fail(
                operation, "was cancelled, though every call to do so said that it had ended"
            )

    def _check_not_missed(self, operation: OperationRecord, effects: dict[str, KeyEffects]) -> None:
        """Check that it did not outlive events that were to end it."""
        lost_ns = self.lost_time_ns() + _ROUNDING_NS
        by_key = [
            effects[key].first_ns(operation, lost_ns) for key in operation.keys if key in effects
        ]
        known = sorted(each for each in by_key if each != NEVER)
        if len(known) < operation.need:
            return
        latest_ns = known[operation.need - 1]  # by then it had ended
        assert operation.outcome is not None
        outcome, result = operation.outcome
        may_be_over = self._earliest_deadline_ns(operation) <= latest_ns + _AHEAD_NS
        if outcome == "completed":
            # Before its clock was set back, the server's stamps may have been beyond the deadline.
            if may_be_over and self.lost_time_ns():
                return
            values = [result] if operation.need == 1 else list(result.values())
            if any(self.events[value].called_ns > latest_ns for value in values):
                self._fail(operation, f"outlived the events that were to complete it: {result}")
        elif outcome == "expired" and not may_be_over:
            self._fail(operation, "expired, though it was complete")

    def _earliest_deadline_ns(self, operation: OperationRecord) -> int:
        starts = [(operation.called_ns, operation.timeout_ns)]
        starts += [(each.called_ns, each.timeout_ns) for each in operation.extensions]
        return min(called + timeout for called, timeout in starts) - self.lost_time_ns()

    def _check_counts(self) -> None:
        """Check the numbers of operations that completions said they had completed."""
        ended = dict.fromkeys(self.events, 0)
        touched = dict(ended)
        unheard = self._unheard()
        for operation, value in self._completions():
            touched[value] += 1
            ended[value] += operation.need == 1
        for value, event in self.events.items():
            if event.limit is not None and touched[value] > event.limit:
                self.report(f"event {event} counted for {touched[value]} operations")
            if event.is_answered and not event.hold_ns and not event.refused:
                most = touched[value] + unheard[event.key]
                if not ended[value] <= event.answer <= most:
                    self.report(f"event {event}, of {ended[value]} to {touched[value]}")

    def _completions(self) -> Iterator[tuple[OperationRecord, int]]:
        for operation in self.operations.values():
            if operation.outcome is None or operation.outcome[0] == "expired":
                continue
            outcome, result = operation.outcome
            if outcome == "failed":
                yield operation, int(result)
            elif outcome == "completed":
                values = [result] if operation.need == 1 else result.values()
                for value in values:
                    yield operation, value

    def _unheard(self) -> Counter[str]:
        """Return for how many operations of each key no end is known.

        An event may have ended them: their submission was not answered, and their program is gone.
        """
        unheard: Counter[str] = Counter()
        for operation in self.operations.values():
            if operation.outcome is None:
                unheard.update(operation.keys)
        return unheard

    def _fail(self, operation: OperationRecord, what: str) -> None:
        self.report(f"{what}: {operation}")

    def has_violation(self) -> bool:
        """Tell whether a promise was broken."""
        return self.violation is not None

    def report(self, what: str) -> None:
        """Note that a promise was broken, unless another one was before."""
        if self.violation is None:
            self.violation = Violation(f"at {self._world.now_ns / 1e9:.6f} s: {what}")


def _held_until_ns(event: EventRecord) -> int:
    """Return until when an event that was answered may count for new operations."""
    ahead_ns = _AHEAD_NS if event.hold_ns else _ROUNDING_NS
    return event.replied_ns + event.hold_ns + ahead_ns


def _describe(call: CallRecord) -> str:
    """Return a call as the history tells it."""
    fields = [f"{name}={getattr(call, name)}" for name in _TOLD if getattr(call, name, None)]
    return f"{type(call).__name__.removesuffix('Record').lower()} {' '.join(fields)}".rstrip()
