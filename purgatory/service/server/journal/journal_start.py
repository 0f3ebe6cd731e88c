"""Gives the journal, at the start of a server, what it has missed.

The journal may have less than the database, after a crash or a full disk; or more, if the database
is an older copy or lost the end of its log. Starting thread alone.
"""

import logging
from collections.abc import Callable
from typing import Final

from purgatory.errors import StoreError
from purgatory.service.portions import in_portions
from purgatory.service.server.journal.job_rows import JobRows
from purgatory.service.server.journal.journal_rows import (
    event_row,
    job_row,
    stored_operation_row,
    stored_outcome_row,
)
from purgatory.service.server.journal.journal_sink import Confirm, JournalSink
from purgatory.service.server.state import ServerState
from purgatory.service.store.changes import Changes
from purgatory.service.store.contract import DATABASE_ID, Store
from purgatory.service.store.rows import JobState, JournalPosition

log: logging.Logger = logging.getLogger(__name__)

_CHUNK: Final = 500


def start_journal(
    sink: JournalSink,
    store: Store,
    state: ServerState,
    confirm: Confirm,
    commit: Callable[[Changes], None],
) -> JournalPosition:
    """Start a journal, give it the missing rows, return its position.

    `commit` writes changes. Raises StoreError, and errors of the journal.
    """
    position = sink.start(str(store.metadata()[DATABASE_ID]), confirm)
    _go_on_above(store.last_numbers(), position, state)
    _end_cancelled(store, state, commit)
    replay_to_journal(store, sink, position)
    return position


def _end_cancelled(store: Store, state: ServerState, commit: Callable[[Changes], None]) -> None:
    """Queue the jobs cancelled while running: their attempts have ended.

    If the disk is full, the next start does it.
    """
    seqs = [job.seq for job in store.jobs() if job.state == JobState.CANCELLING]
    for start in range(0, len(seqs), _CHUNK):
        chunk = seqs[start : start + _CHUNK]
        known, changes = store.job_rows(chunk), Changes()
        rows = JobRows(state.journal_numbers, changes)
        for outcome, operation in store.outcomes_by_seqs(chunk):
            _, attempts, at_ms, error = known[outcome.seq]
            changes.jobs += (outcome.seq, int(JobState.CANCELLED), attempts, at_ms, error)
            rows.add_stored(operation, attempts, at_ms, error)
        try:
            commit(changes)
        except StoreError as error:
            if error.fatal:
                raise
            log.warning("the ends of jobs are journaled at the next start: %s", error)


def _go_on_above(stored: JournalPosition, position: JournalPosition, state: ServerState) -> None:
    """Reuse no number of the journal: it would drop the row as known."""
    for name, last, journaled in zip(stored._fields, stored, position, strict=True):
        if journaled > last:
            log.error(
                "the database has lost %s %d to %d, which the journal has: it lost the end of its "
                "log, or is an older copy. Clients do not know of it; new numbers go on above",
                name,
                last + 1,
                journaled,
            )
    state.last_number = max(state.last_number, position.operations)
    state.last_seq = max(state.last_seq, position.outcomes)
    state.journal_numbers.follow(position)


def replay_to_journal(store: Store, sink: JournalSink, position: JournalPosition) -> None:
    """Write what the store has beyond `position` to the journal. Raises StoreError."""
    for rows in in_portions(store.submissions(position.operations), _CHUNK):
        sink.write([stored_operation_row(row) for row in rows if row.need], [])
    for outcomes in in_portions(store.outcomes_without_results(position.outcomes), _CHUNK):
        found = store.outcomes_by_seqs([outcome.seq for outcome in outcomes])
        sink.write([], [stored_outcome_row(outcome, row) for outcome, row in found if row.need])
    for events in in_portions(store.queued_events(position.events), _CHUNK):
        sink.write([], [], [event_row(row) for row in events], [])
    for extensions in in_portions(store.queued_extensions(position.extensions), _CHUNK):
        sink.write([], [], [], extensions)
    for jobs in in_portions(store.queued_jobs(position.jobs), _CHUNK):
        sink.write([], [], [], [], [job_row(job) for job in jobs])
