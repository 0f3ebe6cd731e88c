"""ThreadOracle: what timers and purgatories promise, checked against what threads of a world saw.

It knows nothing of how they work. A broken promise ends the world at once. Each rule is one about
calls of which the order is known: those that overlap may have happened in either.
"""

from collections.abc import Callable, Iterable

from tests.simulation.inprocess.records import (
    NEVER,
    Call,
    KeyEventRecord,
    TaskRecord,
    WaitRecord,
)
from tests.simulation.inprocess.scheduler import Scheduler

#: Nanoseconds by which a task may be late where nothing is slow.
PROMPT_NS = 10**9
# Nanoseconds that a callback may take where nothing is slow.
_QUICK_NS = 10**7


class ThreadOracle:
    """The promises of one world."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.tasks: list[TaskRecord] = []
        self.waits: list[WaitRecord] = []
        self.events: list[KeyEventRecord] = []
        #: When a `close` that waits for all had returned.
        self.closed_ns: int = NEVER
        #: Whether a thread has begun to close.
        self.is_closing: bool = False
        #: Whether nothing but the interleaving makes tasks late.
        self.is_prompt: bool = not scheduler.policy.slowness

    def _fail(self, what: str) -> None:
        self._scheduler.fail(what)

    def note_slowness(self, act: Callable[[], None]) -> None:
        """Let a callback act. If that takes long, other tasks of its thread may be late."""
        start_ns = self._scheduler.now_ns
        try:
            act()
        finally:
            if self._scheduler.now_ns > start_ns + _QUICK_NS:
                self.is_prompt = False

    # Timers

    def task_runs(self, record: TaskRecord) -> None:
        """Check that a task runs neither early, nor too often, nor after the end."""
        now_ns = self._scheduler.now_ns
        record.runs.append(now_ns)
        if self.closed_ns != NEVER:
            self._fail(f"ran after the timer was closed: {record}")
        armings = [*record.adds, *record.moves]
        # Else a run that had begun before it was added again may just come.
        if len(record.runs) + record.times_cancelled == len(record.adds):
            armings = _not_superseded(armings, record.moves)
        if now_ns < min(call.called_ns + call.delay_ns for call in armings):
            self._fail(f"ran early, at {now_ns}: {record}")
        self._check_once(record)
        latest_ns = max(call.called_ns + call.delay_ns for call in armings)
        # Threads that add a task again may exchange its delays.
        if self.is_prompt and len(record.adds) == 1 and now_ns > latest_ns + PROMPT_NS:
            self._fail(f"ran late, at {now_ns}: {record}")

    def cancelled(self, record: TaskRecord) -> None:
        """Check a cancellation that has returned."""
        self._check_once(record)
        if record.cancels[-1].answer is False and self._waits_for_sure(record):
            self._fail(f"waited, and could not be cancelled: {record}")

    def _waits_for_sure(self, record: TaskRecord) -> bool:
        """Whether a task waits: nothing has ended it, and its time has not come."""
        if len(record.adds) > 1 or record.moves or record.runs or len(record.cancels) > 1:
            return False
        [added] = record.adds
        deadline_ns = added.called_ns + added.delay_ns
        return not self.is_closing and self._scheduler.now_ns < deadline_ns

    def _check_once(self, record: TaskRecord) -> None:
        # Each add of a task that is not pending begins one life, and each life has one end.
        if len(record.runs) + record.times_cancelled > len(record.adds):
            self._fail(f"ended more often than it was added: {record}")

    def tasks_rest(self, *, cancelled_by_close: bool) -> None:
        """Check that each task has ended, where all are due or the timer is closed."""
        for record in self.tasks:
            ends = len(record.runs) + record.times_cancelled
            if not ends and not (cancelled_by_close and record.task.cancelled()):
                self._fail(f"was lost: {record}")
            if not record.task.done():
                self._fail(f"neither ran nor was cancelled at last: {record}")

    # Purgatories

    def ended(self, record: WaitRecord, outcome: str, values: tuple[int, ...] = ()) -> None:
        """Check the end of an operation, as a callback tells it."""
        now_ns = self._scheduler.now_ns
        self._scheduler.note(f"{record.name} is told: {outcome} {values or ''}")
        record.told.append((outcome, now_ns))
        if len(record.told) > 1:
            self._fail(f"has ended twice: {record}")
        record.values = values
        if outcome == "expired":
            self._check_expiry(record, now_ns)
        for number in values:
            self._check_event(record, self.events[number - 1])

    def _check_expiry(self, record: WaitRecord, now_ns: int) -> None:
        true = [call for call in record.extensions if call.answer is not False]
        timeouts = _not_superseded([record, *true], true)
        if now_ns < min(call.called_ns + call.delay_ns for call in timeouts):
            self._fail(f"expired early, at {now_ns}: {record}")

    def _check_event(self, record: WaitRecord, event: KeyEventRecord) -> None:
        if event.key not in record.keys:
            self._fail(f"was ended by {event}: {record}")
        known_ns = event.returned_ns + event.hold_ns
        if event.has_returned and not event.is_posted and known_ns < record.called_ns:
            self._fail(f"was ended by an event from before, {event}: {record}")

    def event_returned(self, event: KeyEventRecord) -> None:
        """Check that a completion or failure that has returned has ended what waited for it."""
        if event.limit is not None or event.is_posted or self.closed_ns != NEVER:
            return
        for record in self._waited_for(event):
            if not record.handle.done():
                self._fail(f"outlived {event}: {record}")

    def _waited_for(self, event: KeyEventRecord) -> Iterable[WaitRecord]:
        """Yield the operations that one event ends, and that waited for it by then."""
        for record in self.waits:
            if (
                event.key in record.keys
                and record.need == 1
                and record.has_returned
                and record.returned_ns < event.called_ns
            ):
                yield record

    def ender_returned(self, record: WaitRecord) -> None:
        """Check that no two calls say that they have ended an operation."""
        winners = [call for call in record.enders if call.answer is True]
        if len(winners) > 1:
            self._fail(f"was ended by two calls: {record}")

    def waits_rest(self) -> None:
        """Check that each operation has ended, and each event has done what it was to do."""
        for record in self.waits:
            if not record.has_returned:
                continue
            if not (record.future or record.handle).done():
                self._fail(f"was lost: {record}")
            if len(record.told) != 1:
                self._fail(f"has ended, and no callback was called: {record}")
            self._check_satisfied(record)
        for event in self.events:
            if event.has_returned:
                self._check_effect(event)

    def _check_satisfied(self, record: WaitRecord) -> None:
        """Check that the last look at a condition saw that it was satisfied."""
        outcome, told_ns = record.told[0]
        known_ns = max(record.satisfied_ns, record.returned_ns) + PROMPT_NS
        if record.satisfied_ns and outcome == "expired" and told_ns > known_ns and self.is_prompt:
            self._fail(f"expired although it was satisfied, at {record.satisfied_ns}: {record}")

    def _check_effect(self, event: KeyEventRecord) -> None:
        touched = [record for record in self.waits if event.number in record.values]
        if event.limit is not None and len(touched) > event.limit:
            self._fail(f"counted for more than its limit, {event}: {touched}")
        if not (event.is_posted or event.hold_ns or event.failed):
            least = sum(record.need == 1 for record in touched)
            conditional = sum(record.need == 0 for record in self.waits)
            if event.limit is not None and conditional:
                least = 0  # a thread that was checking a condition may have handed the event on
            if not least <= event.answer <= len(touched) + conditional:
                self._fail(f"said it has ended {event.answer}, {event}: {touched}")
        if event.is_posted and event.limit is None and not event.failed:
            self._check_posted(event)

    def _check_posted(self, event: KeyEventRecord) -> None:
        """Check that what was posted was done: what waited for it did not expire long after."""
        for record in self._waited_for(event):
            outcome, told_ns = record.told[0]
            if record.is_read_late or not self.is_prompt:
                continue
            if outcome == "expired" and told_ns > event.returned_ns + PROMPT_NS:
                self._fail(f"did not see what was posted, {event}: {record}")


def _not_superseded(calls: Iterable[Call], moves: list[Call]) -> list[Call]:
    """Leave out the calls that had returned before a later one moved the deadline for sure."""
    latest_ns = max((move.called_ns for move in moves if move.answer is True), default=NEVER)
    return [
        call for call in calls if not (call.has_returned and call.returned_ns < latest_ns)
    ] or list(calls)
