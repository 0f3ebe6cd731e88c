"""ParquetJournal: the outcomes of a purgatory as Parquet files, for `Purgatory(journal=...)`.

`ended` may be called by any thread: it makes the row and posts it. A thread of the journal's own,
``purgatory-journal``, takes the rows from its mailbox and writes them every few seconds; `close`
writes the rest and ends it. See ``journal_files`` for the files.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from mq import Mailbox, MailboxClosed
from purgatory.future import DeferredOperation
from purgatory.journal_files import JournalError, JournalFiles, JournalLock, Numbered
from purgatory.keyed import KeyedOperation
from purgatory.operation import DelayedOperation, Outcome
from purgatory.trace.rows import Outcome as Row
from purgatory.trace.tables import OUTCOMES
from timingwheel import monotonic_ms

log = logging.getLogger(__name__)

#: Rows in memory after which they are written before their time.
BATCH: Final = 65_536
#: Rows in memory, while the disk takes none, after which further ones are refused.
MOST_WAITING: Final = 1_000_000
# How often who waits for the thread sees whether it is alive, in seconds.
LOOK: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Flush:
    """Write what came before this, and set ``done``."""

    done: threading.Event


@dataclass(frozen=True, slots=True)
class _Stop:
    """Write what came before this, and end."""


class ParquetJournal:
    """Writes outcomes to ``directory``/outcomes, a directory for each date; also a context manager.

    ``seconds``: how often; what came since is lost if the process is killed. ``clock``: that of the
    purgatory's timer, if it has one of its own.

    Columns are those of the table *outcomes* of a trace. ``op_id`` and ``kind`` are the operation's
    attributes of that name, if it has them; else a name of the journal's making, and the class.

    Raises JournalError when the directory cannot be written or another journal has it, TraceError
    without pyarrow.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        seconds: float = 10.0,
        clock: Callable[[], int] = monotonic_ms,
    ) -> None:
        if not seconds > 0:
            raise ValueError(f"seconds is {seconds!r}; expected more than 0")
        self._clock = clock
        self._writer = _Writer(Path(directory), seconds)
        # Also at the end of the process, for who forgets to close.
        self._end = weakref.finalize(self, self._writer.close)

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Post one outcome; see `purgatory.Journal`.

        Raises JournalError after `close`, and when the disk has taken none for too long.
        """
        self._writer.post(_row(operation, outcome, self._clock()))

    def flush(self) -> None:
        """Return when all that ended before is on disk. Raises JournalError if it cannot be."""
        self._writer.flush()

    def close(self) -> None:
        """Write the rest, and end the thread. Idempotent. Raises JournalError if rows are lost."""
        self._end.detach()
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Writer:
    """The thread, its mailbox and its files; knows nothing of the `ParquetJournal` it works for."""

    def __init__(self, directory: Path, seconds: float) -> None:
        self._lock = JournalLock(directory)
        try:
            self._source = secrets.token_hex(8)
            self._files = JournalFiles(directory / OUTCOMES.name, OUTCOMES, self._source)
        except BaseException:
            self._lock.close()
            raise
        self._seconds = seconds
        self._mailbox: Mailbox[Row | _Flush | _Stop] = Mailbox()
        # The thread's own, save _error, which others read; set while the disk takes nothing.
        self._rows: list[Row] = []
        self._error: JournalError | None = None
        self._thread = threading.Thread(target=self._run, name="purgatory-journal", daemon=True)
        self._thread.start()

    def post(self, row: Row) -> None:
        if self._error is not None and self._mailbox.depth + len(self._rows) >= MOST_WAITING:
            raise self._error
        self._send(row)

    def _send(self, command: Row | _Flush | _Stop) -> None:
        try:
            self._mailbox.send(command)
        except MailboxClosed as error:
            raise JournalError("the journal is closed") from error

    def flush(self) -> None:
        done = threading.Event()
        self._send(_Flush(done))
        while not done.wait(LOOK):
            if not self._thread.is_alive():
                raise JournalError("the journal is closed")
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        with contextlib.suppress(MailboxClosed):
            self._mailbox.send(_Stop())
        if threading.current_thread() is self._thread:  # a finalizer that the collector ran here
            return
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while self._take():
                self._write()
            self._write()
        finally:
            self._mailbox.close()
            self._lock.close()

    def _take(self) -> bool:
        """Gather rows until it is time to write them; False to end."""
        write_at = time.monotonic() + self._seconds
        while True:
            command = self._mailbox.recv(max(0.0, write_at - time.monotonic()))
            match command:
                case None:
                    return True
                case _Stop():
                    return False
                case _Flush(done):
                    self._write()
                    done.set()
                case _:
                    self._rows.append(command)
            if len(self._rows) >= BATCH and self._error is None:
                return True

    def _write(self) -> None:
        files = self._files
        before = files.last
        numbered = (
            Numbered(number, row if row.op_id else row._replace(op_id=f"{self._source}-{number}"))
            for number, row in enumerate(self._rows, before + 1)
        )
        try:
            files.append(numbered)
            self._error = None
        except JournalError as error:
            if self._error is None:
                log.warning("the journal waits for its disk: %s", error)
            self._error = error
        del self._rows[: files.last - before]


def _row(operation: DelayedOperation, outcome: Outcome, now_ms: int) -> Row:
    at_ms = time.time_ns() // 1_000_000
    # An operation that ended before it was added to the timer has no deadline yet.
    due_ms = operation.deadline_ms or now_ms + operation.delay_ms
    submitted_ms = min(at_ms, at_ms + due_ms - operation.delay_ms - now_ms)
    key = operation.by_key if isinstance(operation, KeyedOperation) else None
    return Row(
        op_id=_text(getattr(operation, "op_id", "")),
        kind=_kind(operation),
        outcome=str(outcome),
        at_ms=at_ms,
        by_key=_text(key) or None if outcome is Outcome.COMPLETED and key is not None else None,
        submitted_ms=submitted_ms,
        deadline_ms=submitted_ms + operation.delay_ms,
        waited_ms=at_ms - submitted_ms,
        lateness_ms=max(0, now_ms - due_ms) if outcome is Outcome.EXPIRED else 0,
    )


def _kind(operation: DelayedOperation) -> str:
    kind = getattr(operation, "kind", None)
    if kind is None:
        kind = "" if isinstance(operation, DeferredOperation) else type(operation).__name__
    return _text(kind)


def _text(value: object) -> str:
    # Half of a surrogate pair is no UTF-8, and would keep a whole file from being written.
    return str(value).encode("utf-8", "backslashreplace").decode()
