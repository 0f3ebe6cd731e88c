"""Changes: what a commit of the store writes. One thread at a time."""

from typing import Any, Final

from purgatory.service.store.rows import OperationBatch, QueuedJob, RememberedRow, StoredOutcome

_OUTCOME_VALUES: Final = len(StoredOutcome._fields)


class RememberedChanges:
    """What a commit writes of remembered ids.

    `deleted`: hash and place. `count`, `last_place`: after the commit.
    """

    def __init__(self) -> None:
        self.rows: list[RememberedRow] = []
        self.deleted: list[tuple[int, int]] = []
        self.shards: list[tuple[int, int, bytes]] = []
        self.count: int = 0
        self.last_place: int = 0


class Changes:
    """What a commit writes; rows are flat lists of values.

    Blobs should be bytearrays, and NULL an empty text: for bytes and None, Python's sqlite3 looks
    for an adapter, which takes longer than the rest of the row.
    """

    def __init__(self) -> None:
        self.operations: list[OperationBatch] = []
        self.progress: list[Any] = []
        self.outcomes: list[Any] = []
        self.deadlines: list[Any] = []  # of extended operations
        self.held: list[Any] = []
        self.jobs: list[Any] = []
        self.attempts: list[Any] = []  # of jobs that have failed
        self.trim_attempts: list[int] = []  # seqs of jobs that keep only their last attempts
        self.repeats: list[Any] = []
        self.named_leases: list[Any] = []
        self.limits: list[Any] = []  # of kinds
        self.replies: list[Any] = []
        self.results: list[Any] = []  # of jobs
        self.spreads: list[Any] = []
        self.queued_events: list[Any] = []  # for the journal
        self.queued_extensions: list[Any] = []
        self.queued_jobs: list[QueuedJob] = []
        self.delete_operations: list[int] = []
        self.delete_outcomes: list[int] = []  # seqs of `delete_operations`
        self.delete_held: list[str] = []  # keys
        self.delete_repeats: list[tuple[str, str]] = []  # client and name
        self.delete_named_leases: list[str] = []  # names
        self.delete_limits: list[str] = []  # kinds
        self.delete_replies: list[tuple[str, int]] = []  # session and seq
        self.remembered: RememberedChanges | None = None
        #: The journal has the events, extensions and jobs up to these numbers.
        self.delete_queued: tuple[int, int, int] | None = None

    def __bool__(self) -> bool:
        return bool(self.operations or self.outcomes or self.progress or self.has_others)

    @property
    def has_others(self) -> bool:
        """Whether any rows are not of operations, counted keys, or outcomes."""
        return bool(
            self.delete_queued is not None
            or self.remembered is not None
            or self.deadlines
            or self.held
            or self.jobs
            or self.attempts
            or self.trim_attempts
            or self.repeats
            or self.named_leases
            or self.delete_named_leases
            or self.limits
            or self.delete_limits
            or self.replies
            or self.results
            or self.spreads
            or self.queued_events
            or self.queued_extensions
            or self.queued_jobs
            or self.delete_operations
            or self.delete_outcomes
            or self.delete_held
            or self.delete_repeats
            or self.delete_replies
        )

    @property
    def is_one_row(self) -> bool:
        """Whether all is a batch of operations, or an outcome."""
        if self.progress or self.has_others:
            return False
        if self.outcomes:
            return not self.operations and len(self.outcomes) == _OUTCOME_VALUES
        return len(self.operations) == 1
