"""Operations that tell the oracle what is called of them."""

from collections.abc import Callable

from purgatory.core.operations.keyed import KeyedOperation
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import COMPLETED, outcome_of
from tests.simulation.inprocess.oracle import ThreadOracle
from tests.simulation.inprocess.records import Call, WaitRecord
from tests.simulation.inprocess.scheduler import Scheduler


class CallbackError(Exception):
    """What callbacks raise now and then."""


class EventError(Exception):
    """With what a key fails: the number of the event."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Recorder:
    """Takes note of what is called of one operation, and does what the program wants done then."""

    def __init__(
        self,
        scheduler: Scheduler,
        oracle: ThreadOracle,
        record: WaitRecord,
        react: Callable[[], None],
    ) -> None:
        self._scheduler = scheduler
        self._oracle = oracle
        self.record = record
        self._react = react
        self._completions = 0

    def check(self, force: Callable[[], bool]) -> bool:
        """Check the condition: never twice at a time."""
        record = self.record
        if record.is_checking:
            self._scheduler.fail(f"is checked twice at a time: {record}")
        record.is_checking = True
        self._scheduler.step()
        try:
            if not record.is_satisfied:
                self._react()
                return False
            call = Call(self._scheduler.now_ns)
            record.enders.append(call)
            call.answer = force()
            self._oracle.ender_returned(record)
            return bool(call.answer)
        finally:
            record.is_checking = False

    def complete(self, outcome: object, values: tuple[int, ...]) -> None:
        """Note `on_complete`."""
        self._completions += 1
        if self._completions > 1:
            self._scheduler.fail(f"has completed twice: {self.record}")
        if outcome is COMPLETED:
            self._oracle.ended(self.record, "completed", values)
        self._react()

    def expire(self) -> None:
        """Note `on_expiration`."""
        if not self._completions:
            self._scheduler.fail(f"on_expiration came before on_complete: {self.record}")
        self._oracle.ended(self.record, "expired")
        self._react()

    def end(self, outcome: str, values: tuple[int, ...] = ()) -> None:
        """Note `on_cancel` or `on_failure`."""
        if self._completions:
            self._scheduler.fail(f"has completed, and is {outcome}: {self.record}")
        self._oracle.ended(self.record, outcome, values)
        self._react()


class RecordedCondition(DelayedOperation):
    """An operation with a condition."""

    def __init__(self, recorder: Recorder, timeout: float) -> None:
        super().__init__(timeout)
        self._recorder = recorder

    def try_complete(self) -> object:
        """See `DelayedOperation`."""
        return self._recorder.check(self.force_complete)

    def on_complete(self) -> None:
        """See `DelayedOperation`."""
        self._recorder.complete(outcome_of(self), ())

    def on_expiration(self) -> None:
        """See `DelayedOperation`."""
        self._recorder.expire()

    def on_cancel(self) -> None:
        """See `DelayedOperation`."""
        self._recorder.end("cancelled")


class RecordedKeyed(KeyedOperation):
    """An operation that keys complete."""

    def __init__(self, recorder: Recorder, timeout: float, need: int) -> None:
        super().__init__(timeout, need)
        self._recorder = recorder
        self._op_has_condition = False  # only keys complete it

    def on_complete(self) -> None:
        """See `DelayedOperation`."""
        values = [value for value in self.values.values() if isinstance(value, int)]
        self._recorder.complete(outcome_of(self), tuple(values))

    def on_expiration(self) -> None:
        """See `DelayedOperation`."""
        self._recorder.expire()

    def on_cancel(self) -> None:
        """See `DelayedOperation`."""
        self._recorder.end("cancelled")

    def on_failure(self) -> None:
        """See `KeyedOperation`."""
        error = self.failure
        assert isinstance(error, EventError)
        self._recorder.end("failed", (error.number,))
