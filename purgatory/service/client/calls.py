"""The calls of a client: their way to its I/O thread, in batches, and their results.

A call joins the open batch, or opens a new batch, which wakes the I/O thread: once for many calls.
A batch holds calls of one kind, so calls of a thread stay in order.

Any thread may use `add`, `has_room`, `room`, `leave`, `wait_for_room` and `busy` of `CallBatcher`;
the rest is for the thread with the `Turn`.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, Final

from _purgatory_cpython import at_exit
from purgatory.core.operations.future import CANCELLED_AND_NOTIFIED, FINISHED, PENDING, UNRESOLVED
from purgatory.service.client.futures import ReplyFuture, ServiceFuture
from purgatory.service.client.trace_context import unwrap
from purgatory.service.encoding import encode, unpack, unpack_or_raw, unpack_values
from purgatory.service.errors import ClientBusy, ServiceError
from purgatory.service.job_messages import (
    CountJobs,
    JobPage,
    JobStates,
    JobStatus,
    ReadJobs,
    RepeatChanged,
    Repeats,
    RepeatSet,
    RepeatState,
    RetryJobs,
    SetLimit,
)
from purgatory.service.protocol import (
    Answer,
    Keep,
    Kept,
    Operations,
    OperationStatus,
    OutcomeMessage,
    Request,
    States,
    UnreadOutcomes,
)
from purgatory.service.verbs import VERBS
from timingwheel.lowlevel import ATOMIC_SECTIONS

#: Most calls in a message or batch.
CALLS_PER_MESSAGE: Final = 512
#: High-water mark: with more unsent calls no batch is opened.
BACKLOG: Final = 50_000

# Decode programs' values in an answer, in place.
_DECODERS: "Final[dict[type[Answer], Callable[[Any], object]]]" = {
    States: lambda answer: decode_values(answer.states),
    Operations: lambda answer: decode_values(answer.states),
    UnreadOutcomes: lambda answer: decode_values(answer.outcomes),
    JobStates: lambda answer: decode_values(answer.jobs),
    JobPage: lambda answer: decode_values(answer.jobs),
    RepeatSet: lambda answer: _decode_repeats([answer.state]),
    RepeatChanged: lambda answer: _decode_repeats([answer.state] if answer.state else []),
    Repeats: lambda answer: _decode_repeats(answer.repeats),
}
RequestType = type[Request]


class Keeping(IntEnum):
    """The answer to a worker that keeps a lease."""

    LOST = 0
    KEPT = 1
    CANCELLED = 2  # the lease lasts, and no other attempt follows


def _keepings(answer: Kept) -> list[Keeping]:
    found = [Keeping.KEPT if kept else Keeping.LOST for kept in answer.done]
    for index in answer.cancelled:
        found[index] = Keeping.CANCELLED
    return found


# Convert the answer, or its only field, by request.
_CONVERSIONS: "Final[dict[RequestType, Callable[[Any], object]]]" = {
    Keep: _keepings,
    RetryJobs: any,
    ReadJobs: lambda jobs: [None if job.state == "unknown" else job for job in jobs],
    CountJobs: lambda counts: {(kind, state): count for kind, state, count in counts},
    SetLimit: lambda _: None,
}
#: An item of a batch, or the fields of a single call; and its reply.
Call = tuple[Any, ReplyFuture[Any]]


class CallBatcher:
    """The unsent calls, and the backpressure on callers.

    `post` hands a batch to the I/O thread, or raises. `is_closed` tells whether `post` raises.
    `send_now` sends a call at once, or returns False. `may_wait`: whether the caller may wait for
    room.
    """

    def __init__(
        self,
        post: "Callable[[CallBatch], None]",
        is_closed: Callable[[], bool],
        send_now: Callable[[RequestType, Any, ReplyFuture[Any]], bool],
        may_wait: Callable[[], bool],
        backlog: int = BACKLOG,
    ) -> None:
        self._post = post
        self._is_closed = is_closed
        self._send_now = send_now
        self.may_wait: Callable[[], bool] = may_wait
        self._backlog = backlog
        # Guards `open_batch`, `calls_added` and posted batches. Re-entrant: a finalizer may make
        # a call meanwhile.
        self.lock: threading.RLock = threading.RLock()
        self.open_batch: CallBatch | None = None  # posted, and still takes calls
        self.calls_added: int = 0
        # A leaf lock, re-entrant likewise. Guards the fields below.
        self._room_lock: threading.RLock = threading.RLock()
        # Sent or failed. Written by the thread with the `Turn`.
        self._finished_calls = 0
        self._waiting: dict[ReplyFuture[None], None] = {}  # for room

    def renew_locks(self) -> None:
        """See `LockOwner`."""
        self.lock = threading.RLock()
        self._room_lock = threading.RLock()

    def add(self, request: RequestType, item: Any, future: ReplyFuture[Any]) -> None:
        """Send a call at once or in a batch. Raises what `post` raises."""
        with self.lock:
            batch = self.open_batch
            if batch is None and self._send_now(request, item, future):
                self.calls_added += 1
                return
            # A forked child must not add to a batch of its parent.
            if batch is None or batch.request is not request or self._is_closed():
                self.open_batch = None
                batch = CallBatch(request, [])
                self._post(batch)
                # An interrupt here leaves an empty batch.
                self.open_batch = batch
            batch.calls.append((item, future))
            self.calls_added += 1
            if len(batch.calls) >= CALLS_PER_MESSAGE:
                self.open_batch = None

    def take(self, batch: "CallBatch") -> list[Call]:
        """Close a posted batch and return its calls."""
        with self.lock:
            if self.open_batch is batch:
                self.open_batch = None
        return batch.calls

    def has_room(self) -> bool:
        """Tell whether a batch may be opened, or the client is closed."""
        return self.calls_added - self._finished_calls <= self._backlog or self._is_closed()

    def room(self) -> ReplyFuture[None]:
        """Return a future that is resolved once `has_room`; see `leave`."""
        future: ReplyFuture[None] = ReplyFuture()
        with self._room_lock:
            self._waiting[future] = None
        self._wake_waiting()
        return future

    def wait_for_room(self, seconds: float) -> None:
        """Block the caller until `has_room`. Raises ClientBusy after `seconds`."""
        if self.has_room() or not self.may_wait():
            return
        room = self.room()
        try:
            room.result(seconds)
        except TimeoutError as error:
            raise self.busy() from error
        finally:
            self.leave(room)

    def leave(self, room: ReplyFuture[None]) -> None:
        """Forget a future of `room`: its caller waits no longer."""
        with self._room_lock:
            self._waiting.pop(room, None)

    def busy(self) -> ClientBusy:
        """Return the error of a call without room."""
        return ClientBusy(f"{self.calls_added - self._finished_calls:,} calls are unsent")

    def set_finished_calls(self, count: int) -> None:
        """Set how many calls were sent or failed; wake blocked callers."""
        with self._room_lock:
            self._finished_calls = count
            if not self._waiting:
                return
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        while self.has_room():
            with self._room_lock:
                if not self._waiting:
                    return
                future, _ = self._waiting.popitem()
            resolve(future, None)


class CallBatch:
    """Calls of a single kind."""

    __slots__ = ("calls", "request")

    def __init__(self, request: RequestType, calls: list[Call]) -> None:
        self.request: RequestType = request
        self.calls: list[Call] = calls

    def encode(self, seq: int) -> bytes:
        """Return the message."""
        request: Any = self.request
        if VERBS[request].is_batch:
            return encode(request(seq, [item for item, _ in self.calls]))
        return encode(request(seq, *self.calls[0][0]))

    def resolve(self, answer: Answer) -> None:
        """Give each call its part of the answer; not for submissions."""
        result = _result(answer)
        convert = _CONVERSIONS.get(self.request)
        if convert is not None:
            result = convert(result)
        if not VERBS[self.request].is_batch:
            result = [result]
        for (_, future), one in zip(self.calls, result, strict=True):
            resolve(future, one)


at_exit.register_many(CallBatch)


def _result(answer: Answer) -> Any:
    """Return the answer, decoded, or its only field besides `seq`."""
    decode = _DECODERS.get(type(answer))
    if decode is not None:
        decode(answer)
    fields = answer.__struct_fields__
    return getattr(answer, fields[1]) if len(fields) == 2 else answer


def decode_values(
    messages: "Iterable[OperationStatus | OutcomeMessage | JobStatus]",
) -> None:
    """Decode programs' values in place, without the trace context."""
    for message in messages:
        if len(message.payload) > 1:
            message.payload = unwrap(message.payload)[1]
        unpack_values(message)


def _decode_repeats(states: "Iterable[RepeatState]") -> None:
    for state in states:
        state.repeat.payload = unpack_or_raw(unwrap(state.repeat.payload)[1])


def resolve(future: ReplyFuture[Any], result: object) -> None:
    """Set the result of a future, unless it was cancelled."""
    if future._state in (FINISHED, CANCELLED_AND_NOTIFIED):
        future.notify_waiters()  # the resolving thread may have been interrupted
        return
    if ATOMIC_SECTIONS and not future.is_observed and future._state == PENDING:
        # Atomic: a later waiter finds the future resolved; an earlier one has set `is_observed`.
        future._result = result
        future._state = FINISHED
    # Running: a thread was interrupted here before.
    elif future.running() or future.set_running_or_notify_cancel():
        future.set_result(result)


def resolve_outcome(future: ServiceFuture, outcome: OutcomeMessage) -> None:
    """Resolve a future with its outcome, unless resolved."""
    if future._state not in UNRESOLVED:
        return
    if outcome.outcome != "completed":
        future.resolve_without_result(outcome)
        return
    try:
        result = unpack(outcome.result)
    except ServiceError as error:
        future.set_exception(error)
    else:
        resolve(future, result)


def reject(future: ReplyFuture[Any], error: Exception) -> None:
    """Set the error of a future, unless resolved or cancelled, perhaps now by another thread."""
    is_open = future._state != FINISHED
    if is_open and (future.running() or future.set_running_or_notify_cancel()):
        future.set_exception(error)


def fail_calls(calls: Sequence[Call], error: Exception) -> None:
    """Set the error of calls."""
    for _, future in calls:
        reject(future, error)
