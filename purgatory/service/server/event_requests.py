"""EventRequests: completes, fails, extends and cancels operations. Store thread alone."""

from purgatory.service.errors import TooManyHeld
from purgatory.service.protocol import (
    Cancel,
    Cancelled,
    Complete,
    Completed,
    Completion,
    Extend,
    Extended,
    Fail,
    Failed,
)
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.memory import held_bytes, spread_bytes, value_bytes
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.server.state import ServerState
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.server.validation import RequestValidator, shown


class EventRequests:
    """Carries out requests, or raises `Refused` before any change."""

    def __init__(self, state: ServerState, validator: RequestValidator) -> None:
        self._state = state
        self._validator = validator

    def complete(self, transaction: Transaction, _: ClientRequest, request: Complete) -> Completed:
        """Complete keys."""
        for completion in request.completions:
            self._validator.check_completion(completion)
        self._check_held(request)
        self._check_memory(request)
        events = transaction.events
        counts = [events.complete(each, place) for place, each in enumerate(request.completions)]
        return Completed(request.seq, counts)

    def extend(self, transaction: Transaction, command: ClientRequest, request: Extend) -> Extended:
        """Restart timeouts; of the client's operations alone if its key says so."""
        for extension in request.extensions:
            self._validator.check_timeout(extension.timeout_ms)
        owner = command.owner
        done = [transaction.extend(extension, owner) for extension in request.extensions]
        return Extended(request.seq, done)

    def fail(self, transaction: Transaction, _: ClientRequest, request: Fail) -> Failed:
        """Fail keys."""
        left = self._state.memory_left
        for failure in request.failures:
            self._validator.check_failure(failure)
            left = self._check_spread(failure.key, len(failure.message), left)
        events = transaction.events
        counts = [events.fail(each, place) for place, each in enumerate(request.failures)]
        return Failed(request.seq, counts)

    def cancel(
        self, transaction: Transaction, command: ClientRequest, request: Cancel
    ) -> Cancelled:
        """Cancel operations, as in `extend`."""
        owner = command.owner
        return Cancelled(request.seq, [transaction.cancel(each, owner) for each in request.op_ids])

    def _check_held(self, request: Complete) -> None:
        held = self._state.held
        new = {c.key for c in request.completions if c.hold_ms and c.key not in held.by_key}
        most = self._validator.limits.held
        if new and len(held) + len(new) > most:
            raise TooManyHeld(f"the server holds {len(held)} events; expected at most {most}")

    def _check_spread(self, key: str, size: int, left: int) -> int:
        """Return the bytes left if an event has to wait for its operations and jobs."""
        state = self._state
        lists, jobs = state.parts.lists, state.jobs.by_key.get(key, ())
        if len(state.known) > state.portion and (jobs or lists.sole_watcher(key) is None):
            count = len(lists.watchers_of(key)) + len(jobs)
            if state.is_for_many(count, b""):
                left -= spread_bytes(count, size)
                if left < 0:
                    raise self._state.no_room(f"the operations that wait for {shown(key)}")
        return left

    def _check_memory(self, request: Complete) -> None:
        """Raise TooMuchMemory without room for what completions leave behind.

        A completion that leaves nothing frees memory: it is never refused.
        """
        left = self._state.memory_left
        for completion in request.completions:
            left = self._check_spread(completion.key, len(completion.value), left)
            taken = self._bytes_left_behind(completion, left)
            left -= taken
            if taken and left < 0:
                raise self._state.no_room("what is held or counts for operations of several keys")

    def _bytes_left_behind(self, completion: Completion, left: int) -> int:
        """Return the bytes that a completion may take until its operations end."""
        size = held_bytes(completion.key, len(completion.value)) if completion.hold_ms else 0
        value = value_bytes(len(completion.value))
        # Count the operations only if room may be short.
        if value * len(self._state.known) > left:
            size += value * self._count_with_several(completion.key)
        return size

    def _count_with_several(self, key: str) -> int:
        count = 0
        for operation in self._state.parts.lists.watchers_of(key):  # perhaps a million
            assert isinstance(operation, PendingOperation)
            if operation.need > 1:
                count += 1
        return count
