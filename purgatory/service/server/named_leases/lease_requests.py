"""NamedLeaseRequests: carries out requests about named leases. Store thread alone.

All are idempotent.
"""

from typing import Final

from purgatory.service.job_messages import EndLease, KeepLease, LeaseKept, LeaseTaken, TakeLease
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.named_leases.named_leases import NamedLeases
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.server.validation import RequestValidator

#: The shortest time for which a name is leased.
MIN_KEEP_MS: Final = 100


class NamedLeaseRequests:
    """Carries out requests, or raises `Refused`."""

    def __init__(self, leases: NamedLeases, validator: RequestValidator) -> None:
        self._leases = leases
        self._validator = validator

    def take(
        self, transaction: Transaction, command: ClientRequest, request: TakeLease
    ) -> LeaseTaken:
        """Give a name to a program, or have it wait."""
        self._check(request)
        self._check_keep(request.keep_ms)
        self._validator.check_period(request.wait_ms, "wait")
        token = self._leases.take(request, command.route, transaction.clock_ms)
        return LeaseTaken(request.seq, token)

    def keep(self, transaction: Transaction, _: ClientRequest, request: KeepLease) -> LeaseKept:
        """Extend a lease."""
        self._check(request)
        self._check_keep(request.keep_ms)
        now_ms = transaction.clock_ms
        kept = self._leases.keep(request.name, request.holder, request.keep_ms, now_ms)
        return LeaseKept(request.seq, kept)

    def end(self, transaction: Transaction, _: ClientRequest, request: EndLease) -> LeaseKept:
        """End a lease, or a wait."""
        self._check(request)
        ended = self._leases.end(request.name, request.holder, transaction.clock_ms)
        return LeaseKept(request.seq, ended)

    def _check(self, request: TakeLease | KeepLease | EndLease) -> None:
        self._validator.check_text(request.name)
        self._validator.check_text(request.holder)

    def _check_keep(self, keep_ms: int) -> None:
        self._validator.check_period(keep_ms, "keep", MIN_KEEP_MS)
