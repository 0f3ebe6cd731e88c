"""What the last run knew of jobs that are due, read at the start.

Called by the thread that starts the server.
"""

from typing import TYPE_CHECKING, Final

from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.store.jobs import JobState
from purgatory.service.store.store import Store

if TYPE_CHECKING:
    from purgatory.service.server.state import ServerState

#: Key of the metadata for the epoch of the last run's leases.
LEASE_EPOCH: Final = "lease_epoch"


def begin_epoch(store: Store, now_ms: int) -> int:
    """Return the epoch of this run's leases: above that of each run before. Raises StoreError.

    Also of those after the one of which a backup was made, as long as the clock is right.
    """
    epoch: int = max(store.metadata().get(LEASE_EPOCH, 0) + 1, now_ms // 1000)
    store.set_metadata({LEASE_EPOCH: epoch})
    return epoch


def load_jobs(state: "ServerState", store: Store, due: list[tuple[OutcomeRecord, str]]) -> None:
    """Add jobs that are due, outcomes with the jobs' kinds, as the store knows them."""
    stored = {job.seq: job for job in store.jobs()}
    done: list[tuple[int, OutcomeRecord]] = []
    for record, kind in sorted(due, key=lambda one: one[0].seq):
        state.retention.add_job(record)
        known = stored.get(record.seq)
        if record.outcome != "expired":
            done.append((record.ended_ms, record))
        elif known is None:
            state.leases.add(DueJob(record, kind))
        elif known.state == JobState.DONE:
            done.append((known.at_ms, record))
        elif known.state == JobState.DEAD:
            state.leases.add_dead(DueJob(record, kind, known.attempts))
        else:
            state.leases.add(DueJob(record, kind, known.attempts), known.at_ms)
    for at_ms, record in sorted(done, key=lambda one: one[0]):
        state.retention.end_job(record, at_ms)
