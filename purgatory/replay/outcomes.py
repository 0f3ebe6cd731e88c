"""OutcomeCollector: notes how operations end, and makes columns of it.

The journal of the replay's purgatory, in the replay's thread. An outcome is noted in a fraction of
a microsecond, when it occurs; sorted by time, counted and made columns later, for many at once.
"""

from operator import attrgetter, sub
from typing import Final

from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.outcome import CANCELLED, COMPLETED, EXPIRED, Outcome
from purgatory.replay.clock import ReplayClock
from purgatory.replay.operation import TraceOperation
from purgatory.trace import rows
from purgatory.trace.batches import Columns

_ended_ms: Final = attrgetter("ended_ms")


class OutcomeCollector:
    """Outcomes since `take` was called last. `instant_ms`: the time of the events that come now."""

    def __init__(self, clock: ReplayClock) -> None:
        self.instant_ms: int = 0
        self._clock = clock
        self._in_real_time: bool = clock.in_real_time
        self._ended: list[TraceOperation] = []

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Note an outcome. Called by the purgatory."""
        assert isinstance(operation, TraceOperation)
        if outcome is CANCELLED:  # by `close`, after a stop: in the trace it still waits
            return
        ended_ms = operation.due_ms if outcome is EXPIRED else self.instant_ms
        operation.ended_ms = ended_ms
        if self._in_real_time:
            operation.lateness_ms = self._clock.lateness_ms(ended_ms)
        self._ended.append(operation)

    def take(self) -> list[TraceOperation]:
        """Return what ended since the last call, in order of time."""
        ended, self._ended = self._ended, []
        ended.sort(key=_ended_ms)
        return ended


def outcome_columns(ended: list[TraceOperation]) -> Columns:
    """Return operations that ended as the columns of a table of outcomes."""
    submitted_ms = [operation.submitted_ms for operation in ended]
    ended_ms = [operation.ended_ms for operation in ended]
    return (
        [operation.op_id for operation in ended],
        [operation.kind for operation in ended],
        [_name(operation._op_outcome) for operation in ended],
        ended_ms,
        [operation.by_key for operation in ended],
        submitted_ms,
        [operation.due_ms for operation in ended],
        list(map(sub, ended_ms, submitted_ms)),
        [operation.lateness_ms for operation in ended],
    )


def _name(outcome: Outcome | None) -> str:
    if outcome is COMPLETED:
        return rows.COMPLETED
    return rows.EXPIRED if outcome is EXPIRED else rows.FAILED
