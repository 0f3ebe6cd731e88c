"""Maintenance: deletes, forgets and notes the clock, in transactions.

Thread with the store.
"""

import logging
from typing import Final

from purgatory.errors import StoreError
from purgatory.service.server.clock import ServiceClock
from purgatory.service.server.state import ServerState
from purgatory.service.server.store_activity import StoreActivity
from purgatory.service.server.transactions.remembering import Remembering
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.store.contract import Store

log: logging.Logger = logging.getLogger(__name__)

#: Milliseconds between runs of less urgent work.
MAINTENANCE_MS: Final = 60_000
#: Milliseconds between transactions that forget replies.
FORGETTING_MS: Final = 10
# The clock's drift is written after such a change.
_DRIFT_MS: Final = 1000


class Maintenance:
    """Keeps `state` and `store` small; `retention_ms`: see `StoreLoop`."""

    def __init__(
        self,
        state: ServerState,
        store: Store,
        clock: ServiceClock,
        activity: StoreActivity,
        retention_ms: int,
    ) -> None:
        self._state = state
        self._store = store
        self._clock = clock
        self._activity = activity
        self._retention_ms = retention_ms
        self._drift_ms: int = clock.metadata()["drift_ms"]  # as the store has it
        #: When less urgent work is due.
        self.next_ms: int = clock.now_ms()
        self._next_forgetting_ms = self.next_ms
        self.remembering: Remembering = Remembering(state, store)

    def run(self, transaction: Transaction, retry_ms: int) -> None:
        """Do due work; after a failed commit, delete nothing before `retry_ms`.

        Raises StoreError, if fatal.
        """
        now_ms = transaction.clock_ms
        state = self._state
        retention, numbers = state.retention, state.journal_numbers
        if retention.acknowledged:
            deletion_ms = retention.next_deletion_ms()
            if deletion_ms is not None and now_ms >= max(deletion_ms, retry_ms):
                transaction.delete_outcomes()
                self.remembering.move(transaction)
        if numbers.has_deletable:
            deletion_ms = numbers.next_deletion_ms()
            if deletion_ms is not None and now_ms >= max(deletion_ms, retry_ms):
                transaction.delete_journaled()
        if now_ms >= retention.next_over_ms:
            retention.forget_over(now_ms)
        if now_ms >= self.next_ms:
            self.next_ms = now_ms + MAINTENANCE_MS
            state.retention.expire_unacknowledged(now_ms - self._retention_ms, now_ms)
            self._record_clock_drift()
        if now_ms >= self._next_forgetting_ms:
            self._forget_replies(transaction, retry_ms)
        if now_ms >= self.remembering.next_ms:
            self.remembering.run(transaction, retry_ms)

    def stop(self, transaction: Transaction) -> None:
        """Delete what may be deleted, at the end."""
        transaction.delete_outcomes()
        self.remembering.move(transaction)
        if self._state.journal_numbers.has_deletable:
            transaction.delete_journaled()

    @property
    def wake_ms(self) -> int:
        """When work is due."""
        over_ms = self._state.retention.next_over_ms
        return min(self.next_ms, self._next_forgetting_ms, self.remembering.next_ms, over_ms)

    def _forget_replies(self, transaction: Transaction, retry_ms: int) -> None:
        now_ms = transaction.clock_ms
        if retry_ms:  # this commit may fail, too
            self._next_forgetting_ms = max(now_ms, retry_ms) + FORGETTING_MS
            return
        more = self._state.replies.forget_old(now_ms, transaction.changes)
        self._next_forgetting_ms = now_ms + (FORGETTING_MS if more else MAINTENANCE_MS)

    def _record_clock_drift(self) -> None:
        metadata = self._clock.metadata()
        drift_ms = metadata["drift_ms"]
        if abs(drift_ms - self._drift_ms) < _DRIFT_MS:
            return
        log.warning("the wall clock is %d ms off the service's", drift_ms)
        self._activity.commit_since_ns = self._activity.now_ns()
        try:
            self._store.set_metadata(metadata)
            self._drift_ms = drift_ms
        except StoreError as error:
            if error.fatal:
                raise
            log.warning("%s", error)  # the next run tries again
        self._activity.commit_since_ns = 0
