"""PendingOperation: waits at a server for keys, until a deadline. Store thread alone."""

from collections.abc import Callable, Hashable

from msgspec import Raw

from _purgatory_cpython.mypyc_types import i64
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import COMPLETED, FAILED
from purgatory.core.operations.outcome_race import finish
from purgatory.service.encoding import encode
from purgatory.service.protocol import NOTHING
from purgatory.service.server.clock import NS_PER_MS, TICK_NS
from purgatory.service.server.memory import value_bytes
from purgatory.service.server.records.clients import ClientRecord, OutcomeRecord
from purgatory.service.server.records.job_record import JobRecord
from purgatory.service.store.rows import Options


def expiry_delay(deadline_ns: i64, now_ns: i64) -> float:
    """Return the seconds from `now_ns`, a tick, to the first tick after a deadline."""
    wait_ns = (deadline_ns // TICK_NS + 1) * TICK_NS - now_ns
    return float(max(TICK_NS, wait_ns)) / 1e9


class EventContext:
    """A completion or failure on its way to the operations that watch a key.

    `value`: the key's, or the error if it `failed`. `units`: for how many more operations it
    counts, or UNLIMITED.
    """

    __slots__ = ("at_ms", "failed", "number", "progressed", "reached", "units", "value")

    def __init__(
        self,
        value: bytes,
        at_ms: i64,
        progressed: list[tuple["PendingOperation", str]],
        units: i64,
        failed: bool = False,
    ) -> None:
        self.value: bytes = value
        self.at_ms: i64 = at_ms
        # Operations of several keys that the event brought nearer.
        self.progressed: list[tuple[PendingOperation, str]] = progressed
        self.units: i64 = units
        self.failed: bool = failed
        self.reached: bool = False  # has counted for an operation
        self.number: i64 = 0  # of a `Spread`

    def use(self) -> None:
        """Count the event for an operation."""
        self.reached = True
        if self.units > 0:
            self.units -= 1


class UnfinishedEvents:
    """Events that have not ended all their operations, by key, in order.

    `settle` counts the events for an operation, before its other changes.
    """

    def __init__(self) -> None:
        self.by_key: dict[str, list[EventContext]] = {}
        self.settle: Callable[[PendingOperation], None] | None = None


class PendingOperation(DelayedOperation):
    """An operation that waits for `need` of its keys, until `op_deadline_ms`.

    It expires at the timer's first tick after `op_deadline_ns`, Unix nanoseconds; until then,
    events of the deadline's millisecond complete it. Other times are Unix milliseconds.
    """

    __slots__ = (
        "by_key",
        "bytes",
        "client",
        "ended_ms",
        "has_payload",
        "job",
        "keys",
        "kind",
        "need",
        "number",
        "op_deadline_ms",
        "op_deadline_ns",
        "op_id",
        "options",
        "shared",
        "submitted_ms",
        "timeout_ms",
        "unfinished",
        "value",
        "values",
    )

    def __init__(
        self,
        number: i64,
        client: ClientRecord,
        op_id: str,
        kind: str,
        submitted_ms: i64,
        deadline_ns: i64,
        need: i64,
        has_payload: bool,
        now_ns: i64,
    ) -> None:
        super().__init__(expiry_delay(deadline_ns, now_ns))
        #: Memory without `values`.
        self.bytes: i64 = 0
        self.number: i64 = number
        self.client: ClientRecord = client
        self.op_id: str = op_id
        self.kind: str = kind
        self.submitted_ms: i64 = submitted_ms
        # Both change by an extension; the timer's task has its own `deadline_ns`, a tick.
        self.op_deadline_ns: i64 = deadline_ns
        self.op_deadline_ms: i64 = deadline_ns // NS_PER_MS
        # As submitted, also in an earlier run.
        self.timeout_ms: i64 = self.op_deadline_ms - submitted_ms
        self.need: i64 = need
        self.has_payload: bool = has_payload
        self.keys: tuple[str, ...] = ()  # set by `watch`; stay after the end
        self.by_key: str | None = None
        self.value: bytes | None = None  # of `by_key`; the error if it failed
        self.values: dict[str, bytes] | None = None  # by key, if several are needed
        self.unfinished: UnfinishedEvents | None = None
        self.ended_ms: i64 = 0  # when the deciding event came
        self.shared: i64 = 0  # the spread that has the result
        self.job: JobRecord | None = None
        self.options: Options | None = None

    def copy_pending(self, now_ns: int) -> "PendingOperation":
        """Return an unended copy."""
        copy = PendingOperation(
            self.number,
            self.client,
            self.op_id,
            self.kind,
            self.submitted_ms,
            self.op_deadline_ns,
            self.need,
            self.has_payload,
            now_ns,
        )
        copy.values = self.values
        copy.bytes = self.bytes
        copy.job = self.job
        copy.options = self.options
        return copy

    def run(self) -> object:
        """Expire, unless an unfinished event ends the operation."""
        if self.unfinished is not None and self.unfinished.by_key:
            assert self.unfinished.settle is not None
            self.unfinished.settle(self)
        return super().run()

    def all_bytes(self) -> int:
        """Return the memory with `values`."""
        if self.values is None:
            return self.bytes
        return self.bytes + sum(value_bytes(len(value)) for value in self.values.values())

    def is_waiting_for(self, key: str, now_ms: i64) -> bool:
        """Whether completing a watched key counts."""
        return now_ms <= self.op_deadline_ms and (self.values is None or key not in self.values)

    def result(self) -> bytes | None:
        """Return the value, the error, or a map of key -> value for several keys."""
        if self.by_key is None:
            return self.value
        if self.need > 1:
            values = self.values or {}
            return encode({key: Raw(value) for key, value in values.items()})
        return None if self.value == NOTHING else self.value

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        """Count a key, and complete if enough have counted; or fail.

        After the deadline no key counts, however late the expiry.
        """
        assert isinstance(value, EventContext)
        assert isinstance(key, str)
        if value.at_ms > self.op_deadline_ms:
            return False
        if value.failed:
            return self._fail(key, value)
        if self.need > 1:
            if not self._count(key, value):
                return False
        else:
            value.use()
        self.by_key = key
        self.value = value.value
        self.ended_ms = value.at_ms
        self.shared = 0 if self.need > 1 else value.number
        return finish(self, COMPLETED)

    def _fail(self, key: str, context: EventContext) -> bool:
        if not self.is_waiting_for(key, context.at_ms):
            return False
        context.use()
        self.by_key = key if self.job is not None else None  # shown in the status of a job
        self.value = context.value
        self.ended_ms = context.at_ms
        self.shared = context.number
        return finish(self, FAILED)

    def _count(self, key: str, context: EventContext) -> bool:
        if self.values is None:
            self.values = {}
        if key in self.values:
            return False
        self.values[key] = context.value
        context.use()
        context.progressed.append((self, key))
        return len(self.values) >= self.need


def new_job(operation: PendingOperation) -> JobRecord:
    """Return an operation's job, scheduled."""
    job = JobRecord(
        operation.number,
        operation.op_id,
        operation.client.name,
        operation.kind,
        operation.op_deadline_ms,
        operation.options,
    )
    job.keys = operation.keys
    job.submitted_ms = operation.submitted_ms
    return job


#: An ended operation: its outcome, when, and the result or error.
Ended = tuple[PendingOperation, OutcomeRecord, int, bytes | None]
