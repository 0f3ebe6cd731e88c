"""The journals for `Purgatory(journal=...)`. Any thread calls `ended`."""

import os
import secrets
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mq import Mailbox
from purgatory.core.operations.deferred import DeferredOperation
from purgatory.core.operations.keyed import KeyedOperation
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import Outcome
from purgatory.journal.files import PORTION, JournalFiles, JournalLock, WritePace
from purgatory.journal.writer import JournalWriter
from purgatory.trace.tables import OUTCOMES, OutcomeRow
from timingwheel import monotonic_ms
from timingwheel.lowlevel import check_callback, was_added


@dataclass(frozen=True, slots=True)
class Ended:
    """A command: an operation has ended."""

    operation: DelayedOperation
    outcome: Outcome


class MailboxJournal:
    """Posts each outcome, as `Ended`, to a mailbox.

    Any thread. Raises TypeError for another object.
    """

    def __init__(self, mailbox: Mailbox[Any]) -> None:
        check_callback("mailbox.send", getattr(mailbox, "send", None))
        self._mailbox = mailbox

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """See `purgatory.Journal`."""
        self._mailbox.send(Ended(operation, outcome))


class ParquetJournal:
    """Writes outcomes to `directory`/outcomes; also a context manager. Any thread.

    `seconds`: how often the journal writes; a killed process loses the outcomes since. `clock`: of
    the purgatory's timer, if not the default.

    Columns are those of the table *outcomes* of a trace. `op_id` and `kind` are the operation's
    attributes, if any; else a name from the journal, and the class.

    Raises JournalError if the directory cannot be written or another journal has it, TraceError
    without pyarrow, ValueError for an empty path.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        seconds: float = 10.0,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        check_callback("clock", clock)
        if not os.fspath(directory):
            raise ValueError(f"directory is {directory!r}; expected the path of one")
        self._clock = clock
        pace = WritePace()
        rows = _OutcomeBuffer(Path(directory), pace)
        try:
            self._writer = JournalWriter(rows, seconds, pace)
        except BaseException:
            rows.close()
            raise
        # Closes the journal at the end of the process, if the program did not.
        self._finalizer = weakref.finalize(self, self._writer.close)

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Post one outcome; see `purgatory.Journal`.

        Raises JournalError after `close`, and if the disk fails for long.
        """
        self._writer.post(_outcome_row(operation, outcome, self._clock()))

    def flush(self) -> None:
        """Return when all outcomes so far are on disk. Raises JournalError."""
        self._writer.flush()

    def close(self) -> None:
        """Write the rest and end the thread. Idempotent. Raises JournalError if rows are lost."""
        self._finalizer.detach()
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it has files and a thread")


class _OutcomeBuffer:
    """See `RowBuffer`. Numbers rows from 1."""

    def __init__(self, directory: Path, pace: WritePace) -> None:
        self._lock = JournalLock(directory)
        self._source = secrets.token_hex(8)
        self._pace = pace
        self._rows: list[OutcomeRow] = []
        try:
            self._files = JournalFiles(directory / OUTCOMES.name, OUTCOMES, self._source, pace=pace)
        except BaseException:
            self.close()
            raise

    def add(self, item: OutcomeRow) -> None:
        self._rows.append(item)

    def __len__(self) -> int:
        return len(self._rows)

    def write(self) -> None:
        before = self._files.last
        try:
            self._files.append(map(self._numbered, range(before + 1, 2**63), self._rows))
        finally:
            self._drop(self._files.last - before)

    def _drop(self, count: int) -> None:
        for left in range(count, 0, -PORTION):
            del self._rows[: min(left, PORTION)]
            self._pace.pause()

    def _numbered(self, number: int, row: OutcomeRow) -> tuple[int, OutcomeRow]:
        named = row if row.op_id else row._replace(op_id=f"{self._source}-{number}")
        return number, named

    def close(self) -> None:
        self._lock.close()


def _outcome_row(operation: DelayedOperation, outcome: Outcome, now_ms: int) -> OutcomeRow:
    at_ms = time.time_ns() // 1_000_000
    # An operation that ended before it got to the timer has no deadline.
    deadline_ms = operation.deadline_ms if was_added(operation) else now_ms + operation.delay_ms
    late_ms = now_ms - deadline_ms
    if outcome is Outcome.EXPIRED:  # never early: both are rounded
        late_ms = max(0, late_ms)
    submitted_ms = min(at_ms, at_ms - operation.delay_ms - late_ms)
    key = operation.by_key if isinstance(operation, KeyedOperation) else None
    return OutcomeRow(
        op_id=_text(getattr(operation, "op_id", "")),
        kind=_kind(operation),
        outcome=str(outcome),
        at_ms=at_ms,
        by_key=_text(key) or None if outcome is Outcome.COMPLETED and key is not None else None,
        submitted_ms=submitted_ms,
        deadline_ms=submitted_ms + operation.delay_ms,
        waited_ms=at_ms - submitted_ms,
        lateness_ms=late_ms if outcome is Outcome.EXPIRED else 0,
    )


def _kind(operation: DelayedOperation) -> str:
    kind = getattr(operation, "kind", None)
    if kind is None:
        kind = "" if isinstance(operation, DeferredOperation) else type(operation).__name__
    return _text(kind)


def _text(value: object) -> str:
    try:
        text = str(value)
    except Exception:  # noqa: BLE001  # a key's, or an integer of more than 4,300 digits
        text = object.__repr__(value)
    # A lone surrogate would spoil the whole file.
    return text.encode("utf-8", "backslashreplace").decode()
