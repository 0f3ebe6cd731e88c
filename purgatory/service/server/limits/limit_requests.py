"""LimitRequests: carries out requests about limits of kinds. Store thread alone."""

from collections.abc import Iterator
from typing import Final

from purgatory.service.encoding import encode
from purgatory.service.errors import Malformed, ServerBusy
from purgatory.service.job_messages import Limited, LimitSet, ReadLimits, SetLimit
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.memory import limit_bytes
from purgatory.service.server.state import ServerState
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.server.validation import RequestValidator
from purgatory.service.store.rows import StoredLimit

#: Kinds with a limit, at most; the slowest rate, once in eleven days; the highest.
MOST = 1000
MIN_PER_SECOND: Final = 1e-6
MAX_PER_SECOND: Final = 1e6


class LimitRequests:
    """Carries out requests."""

    def __init__(self, state: ServerState, validator: RequestValidator) -> None:
        self._state = state
        self._validator = validator

    def change(self, transaction: Transaction, _: ClientRequest, request: SetLimit) -> LimitSet:
        """Set the given limits of a kind. Raises Refused."""
        self._validator.check_text(request.kind, empty=True)
        rate = request.per_second
        if rate and not MIN_PER_SECOND <= rate <= MAX_PER_SECOND:  # NaN is neither
            raise Malformed(
                f"per_second is {rate}; expected 0, or {MIN_PER_SECOND} to {MAX_PER_SECOND:.0f}"
            )
        limits = transaction.limits
        limit = _changed(limits.find(request.kind), request)
        if limit != limits.find(request.kind):
            self._check_room(limits.count, request.kind)
            limits.put(limit)
        return LimitSet(request.seq)

    def _check_room(self, count: int, kind: str) -> None:
        if self._state.leases.limits.has(kind):
            return  # a change takes no more memory
        if count >= MOST:
            raise ServerBusy(f"{count} kinds have a limit; expected at most {MOST}")
        if limit_bytes(kind) > self._state.memory_left:
            raise self._state.no_room("a limit")

    def answer_list(self, _: ClientRequest, request: ReadLimits) -> Iterator[bytes | None]:
        """List the limits."""
        yield encode(Limited(request.seq, self._state.leases.limits.listed()))


def _changed(before: StoredLimit, request: SetLimit) -> StoredLimit:
    return StoredLimit(
        before.kind,
        before.paused if request.paused is None else int(request.paused),
        before.running if request.running is None else request.running,
        before.per_second if request.per_second is None else request.per_second,
    )
