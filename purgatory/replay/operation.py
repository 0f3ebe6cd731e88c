"""TraceOperation: an operation of a trace; OutcomeCollector: its purgatory's journal.

Only the replay's thread makes and ends operations, which have no callbacks: no protection against
other threads is needed.
"""

from collections.abc import Hashable
from operator import attrgetter, sub
from typing import Any, Final

from purgatory.core.operations.keyed import KeyedOperation, prepare_keyed
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import (
    CANCELLED,
    COMPLETED,
    EXPIRED,
    UNAFFECTED,
    Claim,
    OperationOwner,
    Outcome,
    outcome_of,
)
from purgatory.core.operations.outcome_race import end_alone
from purgatory.replay.clock import ReplayClock
from purgatory.trace import validation
from purgatory.trace.tables import Columns, OutcomeRow
from timingwheel.lowlevel import new_lock

# Of all operations, as only the replay's thread ends them.
_LOCK: Final[Any] = new_lock()

# The longest delay of a timer.
LONGEST_DELAY_MS: Final = 2**62


class KeyFailed(Exception):
    """The error of a failed event of a trace."""

    def __init__(self, at_ms: int) -> None:
        super().__init__(at_ms)
        self.at_ms: int = at_ms


class TraceOperation(KeyedOperation):
    """An operation of a trace, with the deadline in force.

    An event's value is its instant. The wheel is drained rarely: an overdue operation expires when
    an event finds it.
    """

    __slots__ = ("due_ms", "ended_ms", "kind", "lateness_ms", "op_id", "submitted_ms")

    def __init__(
        self,
        op_id: str,
        kind: str,
        submitted_ms: int,
        due_ms: int,
        need: int,
        owner: OperationOwner,
    ) -> None:
        prepare_keyed(self, need, owner, _LOCK)
        self.op_id: str = op_id
        self.kind: str = kind
        self.submitted_ms: int = submitted_ms
        self.due_ms: int = due_ms
        self.ended_ms: int = 0
        self.lateness_ms: int = 0

    def start_delay(self, now_ms: int) -> None:
        """Set the delay from a clock's reading to the deadline."""
        self.delay_ns = min(self.due_ms - now_ms, LONGEST_DELAY_MS)

    def run(self) -> object:
        """Expire, unless it has ended."""
        end_alone(self, EXPIRED)
        return None

    def expire_before(self, at_ms: int) -> bool:
        """Expire if the deadline is before an instant; True if so."""
        if at_ms <= self.due_ms:
            return False
        self.run()
        return True

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        assert isinstance(value, int)
        if value > self.due_ms:
            self.run()
            return False
        if self.need != 1:
            return super()._op_complete_key(key, value)
        if self.done():
            return False
        self.by_key = key
        return end_alone(self, COMPLETED)

    def _op_count_key(self, key: Hashable, value: object, claim: Claim) -> int:
        assert isinstance(value, int)
        return UNAFFECTED if self.expire_before(value) else super()._op_count_key(key, value, claim)

    def _op_fail_key(self, key: Hashable, error: BaseException) -> bool:
        assert isinstance(error, KeyFailed)
        return not self.expire_before(error.at_ms) and super()._op_fail_key(key, error)


_ended_ms: Final = attrgetter("ended_ms")


class OutcomeCollector:
    """Outcomes since the last `take`. `instant_ms`: of the present events."""

    def __init__(self, clock: ReplayClock) -> None:
        self.instant_ms: int = 0
        self._clock = clock
        self._in_real_time: bool = clock.in_real_time
        self._ended: list[TraceOperation] = []

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Note an outcome; called by the purgatory."""
        assert isinstance(operation, TraceOperation)
        if outcome is CANCELLED:  # by `close` after a stop: it still waits in the trace
            return
        ended_ms = operation.due_ms if outcome is EXPIRED else self.instant_ms
        operation.ended_ms = ended_ms
        if self._in_real_time:
            operation.lateness_ms = self._clock.lateness_ms(ended_ms)
        self._ended.append(operation)

    def take(self) -> list[TraceOperation]:
        """Return the operations ended since, in order of time."""
        ended, self._ended = self._ended, []
        ended.sort(key=_ended_ms)
        return ended


def outcome_columns(ended: list[TraceOperation]) -> Columns:
    """Return ended operations as columns of a table of outcomes."""
    submitted_ms = [operation.submitted_ms for operation in ended]
    ended_ms = [operation.ended_ms for operation in ended]
    columns: dict[str, list[Any]] = {
        "op_id": [operation.op_id for operation in ended],
        "kind": [operation.kind for operation in ended],
        "outcome": [_name(outcome_of(operation)) for operation in ended],
        "at_ms": ended_ms,
        "by_key": [operation.by_key for operation in ended],
        "submitted_ms": submitted_ms,
        "deadline_ms": [operation.due_ms for operation in ended],
        "waited_ms": list(map(sub, ended_ms, submitted_ms)),
        "lateness_ms": [operation.lateness_ms for operation in ended],
    }
    return tuple(columns[name] for name in OutcomeRow._fields)


def _name(outcome: Outcome | None) -> str:
    if outcome is COMPLETED:
        return validation.COMPLETED
    return validation.EXPIRED if outcome is EXPIRED else validation.FAILED
