"""PurgatoryPrograms: threads that submit, complete, extend and cancel in one purgatory, at random.

It has its own timer, or shares one; what is posted goes through its loop.
"""

from collections.abc import Callable
from concurrent.futures import CancelledError, InvalidStateError
from typing import Any, Final

from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.purgatory import Purgatory
from purgatory.errors import HeldFull, OperationCancelled, OperationExpired, PurgatoryClosed
from tests.simulation.inprocess.draws import Draws
from tests.simulation.inprocess.operations import (
    CallbackError,
    EventError,
    RecordedCondition,
    RecordedKeyed,
    Recorder,
)
from tests.simulation.inprocess.oracle import ThreadOracle
from tests.simulation.inprocess.records import Call, KeyEventRecord, WaitRecord
from tests.simulation.inprocess.scheduler import Scheduler
from tests.simulation.inprocess.substitutes import WorldClock
from timingwheel import Timer, TimerClosed

_ACTIONS: Final = {
    "defer": 5.0,
    "submit_keyed": 3.0,
    "submit_condition": 3.0,
    "complete": 5.0,
    "complete_limited": 1.0,
    "hold": 1.0,
    "complete_later": 3.0,
    "satisfy": 3.0,
    "fail": 1.0,
    "fail_later": 0.5,
    "cancel": 2.0,
    "cancel_for_key": 0.5,
    "end_by_hand": 1.0,
    "extend": 2.0,
    "wait": 1.0,
    "sleep": 3.0,
    "meet_expiry": 2.0,
    "close": 0.1,
    "step": 3.0,
}
_NEEDED: Final = ("defer", "submit_keyed", "submit_condition")
# Of steps and posted events, where threads of the program's own take the commands.
_STEPS_WEIGHT: Final = 5.0
# Seconds after which all timeouts have passed.
_ALL_IS_DUE_S: Final = 60.0
_TICK_NS: Final = 200_000  # of a timer, by default
# So long, about, a timer's threads are at work on what is due.
_EXPIRING_NS: Final = 100_000
# Calls that callbacks make: each might bring about more than one further callback.
_MAX_REACTIONS: Final = 20
# What a call may raise where another thread closes.
_CLOSED: Final = (PurgatoryClosed, TimerClosed)


class PurgatoryPrograms:
    """One purgatory, and what threads do to it; the scheduler's random numbers decide."""

    def __init__(self, scheduler: Scheduler, oracle: ThreadOracle) -> None:
        self._scheduler = scheduler
        self._oracle = oracle
        self._chance = scheduler.random
        self._is_over = False
        self._reactions = 0
        self._errors = self._chance.choice((0.0, 0.1))  # how often callbacks raise
        self._draws = Draws(scheduler, oracle)
        self._timer: Timer | None = None
        self._is_driven = self._chance.random() < 0.2  # by a thread of the program's
        self.purgatory: Purgatory
        share = self._chance.choice((0.25, 0.6))
        drawn = [name for name in _ACTIONS if name in _NEEDED or self._chance.random() < share]
        self._actions: list[Callable[[], None]] = [getattr(self, f"_{name}") for name in drawn]
        self._weights = [_ACTIONS[name] * self._chance.random() for name in drawn]
        if self._is_driven:
            self._weights += [_STEPS_WEIGHT] * 2
            self._actions += [self._step, self._complete_later]

    # The life of the purgatory

    def start(self) -> list[Callable[[], None]]:
        """Make it; returns what further threads are to do."""
        if not self._is_driven and self._chance.random() < 0.3:
            self._timer = Timer(clock=WorldClock(self._scheduler), on_error=_forgive)
            self._timer.start()
        workers = self._chance.choice((None, 1, 2)) if self._timer is None else None
        self.purgatory = Purgatory(
            timer=self._timer, executor_workers=workers, on_error=_forgive, max_held=20
        )
        if self._is_driven:
            return [self._drive] * self._chance.choice((1, 2))
        self.purgatory.start()
        return []

    def _drive(self) -> None:
        while not self._is_over:
            self.purgatory.step(min(1.0, self._draws.timeout()))
            self._scheduler.sleep(0.01)

    def act(self) -> None:
        """Do one thing."""
        [action] = self._chance.choices(self._actions, self._weights)
        try:
            action()
        except _CLOSED:
            if not self._oracle.is_closing:
                raise

    def finish(self) -> None:
        """See `Programs`."""
        self._scheduler.policy.slowness = 0.0
        if not self._oracle.is_closing and self._chance.random() < 0.7:
            self._scheduler.sleep(_ALL_IS_DUE_S)
            self._check_rest()
        if not self._oracle.is_closing and self._chance.random() < 0.3:
            self._close_it(cancel_pending=False)
        if self._timer is not None and self._chance.random() < 0.3:
            self._oracle.is_closing = True
            self._timer.close()
        self._close_it(cancel_pending=True)
        self._oracle.closed_ns = self._scheduler.now_ns
        if self._timer is not None:
            self._timer.close()
        self._is_over = True

    def check(self) -> None:
        """See `Programs`."""
        self._scheduler.sleep(1.0)
        self._check_rest()

    def _close_it(self, *, cancel_pending: bool) -> None:
        self._oracle.is_closing = True
        self._scheduler.note(f"closes, cancel_pending={cancel_pending}")
        self.purgatory.close(cancel_pending=cancel_pending)

    def _check_rest(self) -> None:
        self._read_futures()
        self._oracle.waits_rest()
        self.purgatory._check()
        stats = self.purgatory.stats()
        # Behind the end of the loop a wake-up may be left.
        depth = 0 if self._oracle.is_closing else stats.mailbox_depth
        if stats.pending or stats.watch_entries or depth:
            self._scheduler.fail(f"says that something is left: {stats}")
        ended = stats.completed + stats.failed + stats.expired + stats.cancelled
        told = sum(len(record.told) for record in self._oracle.waits)
        foreign = sum(record.may_belong_to_none for record in self._oracle.waits)
        if not told - foreign <= ended <= told:
            self._scheduler.fail(f"counts {ended} ends, of {told}: {stats}")

    def _read_futures(self) -> None:
        """Note how futures have ended that have no callback."""
        for record in self._oracle.waits:
            if record.future is not None and not record.told and record.future.done():
                record.is_read_late = True
                self._note_future(record)

    # Submissions

    def _defer(self) -> None:
        record = self._draws.wait()
        future = self.purgatory.defer(*record.keys, timeout=record.delay_ns / 1e9, need=record.need)
        record.future, record.handle = future, future._operation
        record.returned_ns = self._scheduler.now_ns
        self._oracle.waits.append(record)
        if self._chance.random() < 0.7:
            future.add_done_callback(lambda _: self._on_future(record))

    def _on_future(self, record: WaitRecord) -> None:
        self._note_future(record)
        self._react()

    def _note_future(self, record: WaitRecord) -> None:
        future = record.future
        if future.cancelled():
            self._oracle.ended(record, "cancelled")
            return
        error = future.exception()
        if isinstance(error, OperationExpired):
            self._oracle.ended(record, "expired")
        elif isinstance(error, OperationCancelled):
            self._oracle.ended(record, "cancelled")
        elif isinstance(error, EventError):
            self._oracle.ended(record, "failed", (error.number,) if error.number else ())
        else:
            self._oracle.ended(record, "completed", _values(future.result()))

    def _submit_keyed(self) -> None:
        record = self._draws.wait()
        operation = RecordedKeyed(self._recorder(record), record.delay_ns / 1e9, record.need)
        self._submit(record, operation)

    def _submit_condition(self) -> None:
        record = self._draws.wait()
        record.need = 0  # keys do not complete it
        operation = RecordedCondition(self._recorder(record), record.delay_ns / 1e9)
        self._submit(record, operation)

    def _submit(self, record: WaitRecord, operation: DelayedOperation) -> None:
        record.handle = operation
        self._oracle.waits.append(record)  # other threads find it while it is submitted
        try:
            self.purgatory.try_complete_else_watch(operation, record.keys)
        except _CLOSED:
            record.is_refused = True
            raise
        record.returned_ns = self._scheduler.now_ns

    def _recorder(self, record: WaitRecord) -> Recorder:
        return Recorder(self._scheduler, self._oracle, record, self._react)

    def _react(self) -> None:
        """Do in a callback what callbacks do: mostly nothing."""
        draw = self._chance.random()
        if draw < self._errors:
            raise CallbackError
        if draw < self._errors + 0.05 and not self._is_over:
            self._oracle.is_prompt = False
            self._scheduler.sleep(0.01)
        elif draw < self._errors + 0.15 and not self._is_over and self._reactions < _MAX_REACTIONS:
            self._reactions += 1
            self._oracle.note_slowness(self.act)

    # Events

    def _complete(self) -> None:
        self._send(self._draws.event())

    def _complete_limited(self) -> None:
        self._send(self._draws.event(limit=self._chance.randint(1, 2)))

    def _hold(self) -> None:
        limit = self._chance.choice((None, 1))
        event = self._draws.event(limit=limit)
        event.hold_ns = int(self._draws.timeout() * 1e9)
        self._send(event)

    def _send(self, event: KeyEventRecord) -> None:
        try:
            count = self.purgatory.complete(
                event.key, event.number, limit=event.limit, hold=event.hold_ns / 1e9
            )
        except HeldFull:
            return
        self._returned(event, count)

    def _complete_later(self) -> None:
        event = self._draws.event()
        event.is_posted = True
        self.purgatory.complete_later(event.key, event.number)
        self._returned(event, None)

    def _fail(self) -> None:
        event = self._draws.event()
        event.failed = True
        self._returned(event, self.purgatory.fail(event.key, EventError(event.number)))

    def _fail_later(self) -> None:
        event = self._draws.event()
        event.failed = event.is_posted = True
        self.purgatory.fail_later(event.key, EventError(event.number))
        self._returned(event, None)

    def _returned(self, event: KeyEventRecord, count: int | None) -> None:
        self._end(event, count)
        self._scheduler.note(f"event {event.number} of {event.key}: {count}")
        self._oracle.event_returned(event)

    def _satisfy(self) -> None:
        """Let a condition be satisfied, and have it checked."""
        record = self._draws.some_wait()
        if record is not None and isinstance(record.handle, RecordedCondition):
            record.is_satisfied = True
            self.purgatory.check_and_complete(self._chance.choice(record.keys))
            if not record.satisfied_ns:
                record.satisfied_ns = self._scheduler.now_ns
            self._scheduler.note(f"{record.name} is satisfied")

    def _end(self, call: Call, answer: Any) -> None:
        call.returned_ns, call.answer = self._scheduler.now_ns, answer

    # What is done to one operation

    def _cancel(self) -> None:
        record = self._draws.some_wait()
        if record is not None:
            self._cancel_one(record)

    def _cancel_one(self, record: WaitRecord) -> None:
        self._scheduler.note(f"cancels {record.name}")
        if record.future is not None:
            record.future.cancel()
        else:
            self._note_ender(record, record.handle.cancel)

    def _cancel_for_key(self) -> None:
        self.purgatory.cancel_for_key(self._draws.key())

    def _end_by_hand(self) -> None:
        record = self._draws.some_wait()
        if record is None:
            return
        self._scheduler.note(f"ends {record.name} by hand")
        if record.future is None:
            self._note_ender(record, record.handle.force_complete)
        else:
            self._note_ender(record, lambda: self._set(record))

    def _set(self, record: WaitRecord) -> bool:
        try:
            if self._chance.random() < 0.5:
                record.future.set_result(None)
            else:
                record.future.set_exception(EventError(0))
        except InvalidStateError:
            return False
        return True

    def _note_ender(self, record: WaitRecord, end: Callable[[], bool]) -> None:
        call = Call(self._scheduler.now_ns)
        record.enders.append(call)
        self._end(call, end())
        self._oracle.ender_returned(record)

    def _extend(self) -> None:
        record = self._draws.some_wait()
        if record is None:
            return
        timeout = self._draws.timeout()
        call = Call(self._scheduler.now_ns, delay_ns=int(timeout * 1e9))
        record.extensions.append(call)
        if record.future is not None:
            answer = record.future.extend(timeout)
        elif record.has_returned:
            answer = self.purgatory.extend(record.handle, timeout)
        else:
            answer = False  # it is just being submitted
        self._end(call, answer)
        self._scheduler.note(f"extends {record.name} by {timeout} s: {answer}")

    def _wait(self) -> None:
        """Wait for a future, for a while."""
        record = self._draws.some_wait()
        if record is not None and record.future is not None:
            try:
                record.future.exception(timeout=self._draws.timeout() / 10)
            except (TimeoutError, CancelledError):
                pass

    def _sleep(self) -> None:
        self._scheduler.sleep(self._draws.timeout() / 10)

    def _meet_expiry(self) -> None:
        """Try to end an operation while it expires."""
        pending = [each for each in self._oracle.waits if each.has_returned and not each.told]
        if not pending:
            return
        record = min(pending, key=lambda each: each.called_ns + each.delay_ns)
        expiry_ns = _next_tick_ns(record.called_ns + record.delay_ns)
        meeting_ns = expiry_ns + self._chance.randint(0, _EXPIRING_NS)
        if 0 < meeting_ns - self._scheduler.now_ns < _ALL_IS_DUE_S * 1e9:
            self._scheduler.sleep((meeting_ns - self._scheduler.now_ns) / 1e9)
            if self._chance.random() < 0.5:
                self._send(self._draws.event(record.keys[0]))
            else:
                self._cancel_one(record)

    def _step(self) -> None:
        """Do what was posted, beside the thread that drives."""
        if self._is_driven:
            self.purgatory.step()

    def _close(self) -> None:
        self._oracle.is_closing = True
        self._scheduler.note("closes")
        wait, cancel_pending = self._chance.random() < 0.5, self._chance.random() < 0.5
        timeout = self._chance.choice((None, 0.0, 0.1))
        if any(record.is_checking for record in self._oracle.waits):
            timeout = timeout or 0.1  # this may be a check, within the submission that it waits for
        self.purgatory.close(wait=wait, cancel_pending=cancel_pending, timeout=timeout)


def _next_tick_ns(at_ns: int) -> int:
    """Return when a timer's bucket is due in which `at_ns` lies."""
    return -(-at_ns // _TICK_NS) * _TICK_NS


def _values(result: Any) -> tuple[int, ...]:
    """Return the numbers of the events that completed a future; it may have been set by hand."""
    if isinstance(result, dict):
        return tuple(result.values())
    return () if result is None else (result,)


def _forgive(error: BaseException, task: Any) -> None:
    """Raise what no callback has raised."""
    del task
    if not isinstance(error, (CallbackError, *_CLOSED)):
        raise error
