"""OutcomeRetention: decides when a committed outcome is deleted.

    committed ── unacknowledged ──> acknowledged ──> deleted

An outcome is *unacknowledged* until its client acknowledges it, or its retention is over. Then the
last `RETAINED_OUTCOMES` are kept for `RETAINED_OUTCOMES_MS`: their operations can be queried or
submitted again. Rows are deleted in groups, never before the journal has them.

Store thread alone; any thread may read `unacknowledged`.
"""

import sys
from collections import deque
from collections.abc import Iterable
from itertools import islice, takewhile
from typing import Final

from purgatory.service.server.jobs.job_index import JobIndex
from purgatory.service.server.memory import outcome_bytes
from purgatory.service.server.records.clients import ClientRecord, ClientRegistry, OutcomeRecord
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.server.records.operation_counts import OperationCounts
from purgatory.service.store.rows import JournalPosition

# Rows of a table deleted in a transaction: requests wait; or this share of the waiting deletions,
# lest they pile up. Milliseconds between such transactions.
DELETED_PER_TRANSACTION: Final = 256
DELETED_SHARE: Final = 64
DELETION_PAUSE_MS: Final = 20


def most_deleted(left: int) -> int:
    """Return how many of the waiting rows a transaction deletes."""
    return max(DELETED_PER_TRANSACTION, left // DELETED_SHARE)


#: So many acknowledged outcomes are kept for so many milliseconds.
RETAINED_OUTCOMES = 10_000
RETAINED_OUTCOMES_MS = 600_000
# Deletions gather to so many, or for so many milliseconds: a transaction each would load the disk
# more than all requests.
DELETED_TOGETHER = 256
DELETION_DELAY_MS = 60_000
#: Ended operations stay readable for so long after their period: a program may await the result.
READABLE_MS: Final = 20_000
#: Milliseconds between looks for ended periods.
PERIODS_LOOK_MS: Final = 1000


class OutcomeRetention:
    """Keeps the outcomes of a server, whose state shares the arguments."""

    def __init__(
        self,
        known: dict[str, PendingOperation | OutcomeRecord],
        clients: ClientRegistry,
        jobs: JobIndex,
        operation_counts: OperationCounts,
    ) -> None:
        self._known = known
        self._clients = clients
        self._jobs = jobs
        self._operation_counts = operation_counts
        self.unacknowledged: int = 0
        self.bytes: int = 0  # of undeleted outcomes
        # With times of acknowledgement, oldest first.
        self.acknowledged: deque[tuple[int, OutcomeRecord]] = deque()
        # Without a journal all rows count as confirmed.
        self._journal_position = JournalPosition(sys.maxsize, sys.maxsize)
        self._blocked = False  # the oldest is not in the journal
        self._paused_until_ms = 0
        self._next_look_ms = 0
        #: When an ended job can be read no longer, at the earliest.
        self.next_over_ms: int = sys.maxsize

    @property
    def overdue(self) -> int:
        """Acknowledged outcomes beyond `RETAINED_OUTCOMES`."""
        beyond = len(self.acknowledged) - RETAINED_OUTCOMES
        return max(0, beyond)

    def add(self, record: OutcomeRecord) -> None:
        """Keep an outcome until acknowledged."""
        record.end_period(record.unique_ms, record.ended_ms)
        record.client.unacknowledged[record.seq] = record
        self.unacknowledged += 1
        self.bytes += outcome_bytes(record.op_id)

    def add_job(self, record: OutcomeRecord) -> None:
        """Keep a due job's outcome until the job's end."""
        self.unacknowledged += 1
        self.bytes += outcome_bytes(record.op_id)

    def end_job(self, record: OutcomeRecord, now_ms: int) -> None:
        """Note the end of a job."""
        record.end_period(record.unique_ms, now_ms)
        self._mark_deletable(record, now_ms)
        if record.until_ms:
            self.next_over_ms = min(self.next_over_ms, record.until_ms + READABLE_MS)

    def forget_over(self, now_ms: int) -> None:
        """Forget ended jobs that can be read no longer: lists and counts are without them.

        Their rows are deleted later. Looks once a second, at kept outcomes.
        """
        self.next_over_ms = sys.maxsize
        for _, record in islice(reversed(self.acknowledged), 2 * RETAINED_OUTCOMES):
            if record.job is None or not record.until_ms:
                continue
            over_ms = record.until_ms + READABLE_MS
            if over_ms <= now_ms:
                self._forget(record)
            else:
                self.next_over_ms = min(self.next_over_ms, max(over_ms, now_ms + PERIODS_LOOK_MS))

    def drop_job(self, record: OutcomeRecord, now_ms: int) -> None:
        """Forget an ended job; its id may be reused."""
        self._forget(record)
        self._mark_deletable(record, now_ms)

    def _forget(self, record: OutcomeRecord) -> None:
        """Forget an id, unless it was forgotten, and perhaps reused."""
        if self._known.get(record.op_id) is record:
            del self._known[record.op_id]
            if record.job is not None:
                self._jobs.remove(record.job)
            else:
                self._operation_counts.forget(record.client.name, record.outcome)

    def acknowledge(self, client: ClientRecord, seqs: Iterable[int], now_ms: int) -> None:
        """Mark known outcomes as acknowledged; after a crash, they are sent again."""
        for seq in seqs:
            record = client.unacknowledged.pop(seq, None)
            if record is not None:
                self._mark_deletable(record, now_ms)

    def expire_unacknowledged(self, before_ms: int, now_ms: int) -> None:
        """Give up unacknowledged outcomes that ended before `before_ms`."""
        for client in list(self._clients.by_name.values()):
            records = client.unacknowledged.values()
            for record in list(takewhile(lambda record: record.ended_ms < before_ms, records)):
                del client.unacknowledged[record.seq]
                self._mark_deletable(record, now_ms)
            self._clients.drop_if_idle(client)

    def _mark_deletable(self, record: OutcomeRecord, now_ms: int) -> None:
        record.client.count -= 1
        self.unacknowledged -= 1
        self.acknowledged.append((now_ms, record))
        self._clients.drop_if_idle(record.client)

    def end_periods(self, now_ms: int) -> int:
        """Return how many kept ids' periods have ended; counts each once.

        Looks once a second: it examines all kept outcomes.
        """
        if now_ms < self._next_look_ms:
            return 0
        self._next_look_ms = now_ms + PERIODS_LOOK_MS
        over = [one for _, one in self.acknowledged if one.unique_ms > 0 and one.is_over(now_ms)]
        for record in over:
            record.unique_ms = 0
        return len(over)

    def confirm_journaled(self, position: JournalPosition) -> None:
        """Allow deleting rows up to `position`."""
        self._journal_position = position
        self._blocked = False

    def next_deletion_ms(self) -> int | None:
        """Return when to delete outcomes, perhaps in the past, if any."""
        if not self.acknowledged or self._blocked:
            return None
        if self.overdue >= DELETED_TOGETHER:
            return self._paused_until_ms
        deletion_ms = self.acknowledged[0][0] + RETAINED_OUTCOMES_MS + DELETION_DELAY_MS
        return max(deletion_ms, self._paused_until_ms)

    def select_deletable(self, now_ms: int) -> list[OutcomeRecord]:
        """Return the outcomes to delete now, oldest first."""
        selected: list[OutcomeRecord] = []
        left = len(self.acknowledged)
        most = most_deleted(self.overdue)
        self._paused_until_ms = now_ms + DELETION_PAUSE_MS
        for acknowledged_ms, record in self.acknowledged:
            if len(selected) >= most:
                break
            young = acknowledged_ms + RETAINED_OUTCOMES_MS > now_ms and left <= RETAINED_OUTCOMES
            self._blocked = not self._is_journaled(record)
            if self._blocked or young:
                break
            selected.append(record)
            left -= 1
        return selected

    def _is_journaled(self, record: OutcomeRecord) -> bool:
        if record.job is not None:
            return True  # the journal has another row of it
        position = self._journal_position
        return record.number <= position.operations and record.seq <= position.outcomes

    def delete(self, selected: list[OutcomeRecord]) -> None:
        """Remove selected outcomes: their rows are gone."""
        for record in selected:
            self.acknowledged.popleft()
            self._forget(record)
            self.bytes -= outcome_bytes(record.op_id)
