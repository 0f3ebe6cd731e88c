"""Commits: writes transactions to the disk, and finds out when a failed disk is well again.

A full disk may have room for small transactions. So the disk is well once it has taken the bytes of
the largest failed transaction: in a transaction, or as a test. Thread with the store.
"""

import logging
from typing import Final

from purgatory.errors import StoreError
from purgatory.service.server.clock import ServiceClock
from purgatory.service.server.state import ServerState
from purgatory.service.server.store_activity import StoreActivity
from purgatory.service.store.changes import Changes
from purgatory.service.store.contract import Store

log: logging.Logger = logging.getLogger(__name__)

# After a failed commit, nothing is expired or deleted for so long; requests are tried.
RETRY_MS: Final = 1000
# Of failures in a row, one in so many is logged: one a minute without requests.
LOGGED_FAILURES: Final = 60


class Commits:
    """Commits changes to `store`, and reports to `activity`."""

    def __init__(
        self, state: ServerState, store: Store, clock: ServiceClock, activity: StoreActivity
    ) -> None:
        self._state = state
        self._store = store
        self._clock = clock
        self._activity = activity
        #: Nothing is expired or deleted before; 0: the last commit succeeded.
        self.retry_ms: int = 0
        #: When to test the disk; 0: it is well.
        self.look_ms: int = 0
        self._refused_bytes = 0  # the largest failed transaction
        if state.unnoted:  # the disk was full at the start
            activity.commit_since_ns = activity.now_ns()
            activity.commit_failed("the disk is full")
            self.retry_ms = self.look_ms = clock.now_ms()

    def write(self, changes: Changes) -> None:
        """Commit changes, after the metadata of a start on a full disk. Raises StoreError."""
        self._note_start()
        self._store.commit(changes)

    def _note_start(self) -> None:
        if self._state.unnoted:
            self._store.set_metadata(self._state.unnoted)
            self._state.unnoted = {}

    def commit(self, changes: Changes, size: int, clock_ms: int) -> StoreError | None:
        """Write changes, if any; return the error. `size`: bytes of the requests."""
        if not changes:
            return None
        self._activity.commit_since_ns = self._activity.now_ns()
        try:
            self.write(changes)
        except StoreError as error:
            self._refused_bytes = max(self._refused_bytes, size)
            self._note_failure(error, clock_ms)
            self.retry_ms = self.look_ms
            return error
        self._note_success(size)
        return None

    def look(self, clock_ms: int) -> StoreError | None:
        """Test the disk without a request, if it is time (`look_ms`).

        Returns a fatal error.
        """
        if not 0 < self.look_ms <= clock_ms:
            return None
        self._activity.commit_since_ns = self._activity.now_ns()
        try:
            self._note_start()
            self._store.set_metadata(self._clock.metadata())
            self.retry_ms = 0
            if self._refused_bytes:
                self._store.check_room(self._refused_bytes)
        except StoreError as error:
            self._note_failure(error, clock_ms)
            if self.retry_ms:
                self.retry_ms = self.look_ms
            return error if error.fatal else None
        self._note_success(self._refused_bytes)
        return None

    def _note_failure(self, error: StoreError, clock_ms: int) -> None:
        activity = self._activity
        activity.commit_failed(str(error))
        self.look_ms = clock_ms + RETRY_MS
        if not error.fatal and activity.failures_in_a_row % LOGGED_FAILURES == 1:
            log.error("nothing was written: %s", error)

    def _note_success(self, size: int) -> None:
        activity = self._activity
        self.retry_ms = 0
        if size < self._refused_bytes:  # a larger transaction has failed
            activity.commit_succeeded(is_well=False)
            return
        if activity.failures_in_a_row:
            log.warning("a commit has succeeded, after %d that failed", activity.failures_in_a_row)
        activity.commit_succeeded()
        self.look_ms = self._refused_bytes = 0
