"""JournalWriter: the thread of a journal, `purgatory-journal`, and its queue.

Any thread posts. The journal's thread writes rows when due, when many, at a flush and at the end.
Rows that the disk refuses stay in memory, up to a bound.
"""

import contextlib
import logging
import threading
import time
from collections import deque
from copy import copy
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from mq import Mailbox, MailboxClosed
from purgatory.journal.files import JournalError, WritePace
from timingwheel.lowlevel import InterruptibleEvent, InterruptibleThread, to_ns

log: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

#: So many rows are written before they are due.
BATCH: Final = 65_536
# After so many posted rows the thread wakes up.
_WAKE_THRESHOLD: Final = 8_192
#: So many rows are kept while the disk fails.
MAX_WAITING: Final = 1_000_000


class RowBuffer(Protocol[T_contra]):
    """The rows to write, and their files; for the journal's thread alone."""

    def add(self, item: T_contra) -> None:
        """Keep a posted item until the next write."""

    def __len__(self) -> int:
        """Return how many rows are kept."""

    def write(self) -> None:
        """Write all rows. Raises JournalError, and then keeps unwritten rows."""

    def close(self) -> None:
        """Close the files."""


@dataclass(frozen=True, slots=True)
class _CheckQueue:
    """Look at the queue."""


@dataclass(frozen=True, slots=True)
class _Flush:
    """Write all earlier rows, and set `done`."""

    done: threading.Event


@dataclass(frozen=True, slots=True)
class _StopWriter:
    """Write all earlier rows, and end the thread."""


class JournalWriter(Generic[T]):
    """Writes `rows` every `seconds`, in a thread that the constructor starts and `close` ends."""

    def __init__(self, rows: RowBuffer[T], seconds: float, pace: WritePace) -> None:
        self._rows = rows
        self._seconds = int(to_ns(seconds, "seconds")) / 1e9
        if not self._seconds:
            raise ValueError(f"seconds is {seconds!r}; expected more than 0")
        self._pace = pace
        pace.is_urgent = self._is_urgent
        self._closing = False  # set by the closing thread
        self._posted: deque[T] = deque()  # appended by any thread, emptied by the journal's
        # Approximate: threads that post at the same time may lose some.
        self._rows_since_wake = 0
        self._rows_since_write = 0
        self._mailbox: Mailbox[_CheckQueue | _Flush | _StopWriter] = Mailbox()
        # The last failure, until a write succeeds. Written by the journal's thread.
        self._error: JournalError | None = None
        self.failures: int = 0
        self._flushes: set[threading.Event] = set()  # unfinished
        self._ended = False  # written by the journal's thread
        self._thread = InterruptibleThread(target=self._run, name="purgatory-journal", daemon=True)
        self._thread.start()

    def post(self, item: T, rows: int = 1) -> None:
        """Queue an item of so many rows.

        Raises JournalError after `close`, and while too much waits for a failing disk. An item
        refused by a `close` at the same time may be written.
        """
        if self._error is not None and len(self._posted) + len(self._rows) >= MAX_WAITING:
            self._raise_failure()
        self._posted.append(item)
        # Not before: the journal's thread closes the mailbox, then looks at the queue once more.
        if self._mailbox.closed:
            if self._ended:
                self._posted.clear()  # for the memory
            raise _closed()
        self._rows_since_wake += rows
        self._rows_since_write += rows
        if self._rows_since_wake >= _WAKE_THRESHOLD:
            self._rows_since_wake = 0
            self._send(_CheckQueue())

    def flush(self) -> None:
        """Return when all earlier posts are on disk. Raises JournalError."""
        done = InterruptibleEvent()
        self._flushes.add(done)
        try:
            self._send(_Flush(done))
            # After adding: a thread that ends now is seen here, or sets the event.
            if not self._ended:
                done.wait()
        finally:
            # The journal's thread removes `done` after writing.
            written = done not in self._flushes
            self._flushes.discard(done)
        if not written:
            raise _closed()
        self._raise_failure()

    def close(self) -> None:
        """Write the rest and end the thread. Idempotent. Raises JournalError if rows are lost."""
        self._closing = True
        with contextlib.suppress(MailboxClosed):
            self._mailbox.send(_StopWriter())
        if threading.current_thread() is self._thread:  # in a finalizer
            return
        self._thread.join()
        self._raise_failure()

    def _raise_failure(self) -> None:
        error = self._error  # the thread may write meanwhile
        if error is not None:
            raise copy(error) from error  # each raise adds to an error's traceback

    def _send(self, command: _CheckQueue | _Flush | _StopWriter) -> None:
        try:
            self._mailbox.send(command)
        except MailboxClosed as error:
            raise _closed() from error

    def _run(self) -> None:
        try:
            while self._gather():
                self._write()
            self._write()
        finally:
            self._mailbox.close()
            self._ended = True
            for done in tuple(self._flushes):
                done.set()
            self._rows.close()

    def _gather(self) -> bool:
        write_at = time.monotonic() + self._seconds
        while True:
            command = self._mailbox.recv(max(0.0, write_at - time.monotonic()))
            if isinstance(command, _StopWriter):
                self._mailbox.close()  # now: a later post is refused, not lost
            # After receiving the command, to find all earlier posts.
            while self._posted:
                self._rows.add(self._posted.popleft())
            match command:
                case None:
                    return True
                case _StopWriter():
                    return False
                case _Flush(done):
                    self._write()
                    self._flushes.discard(done)
                    done.set()
            if len(self._rows) >= BATCH and self._error is None:
                return True

    def _is_urgent(self) -> bool:
        """Tell whether a thread waits, or a further batch was posted."""
        return self._closing or bool(self._flushes) or self._rows_since_write >= BATCH

    def _write(self) -> None:
        self._pace.begin()
        self._rows_since_write = 0
        try:
            self._rows.write()
            self._error = None
        except Exception as error:  # noqa: BLE001  # `post`, `flush` and `close` raise it
            self._note(error)

    def _note(self, error: Exception) -> None:
        self.failures += 1
        if isinstance(error, JournalError):
            failure, shown = error, None
        else:
            failure, shown = JournalError(f"cannot write: {error!r}"), error
        if self._error is None:
            log.warning("the journal waits for its disk: %s", failure, exc_info=shown)
        self._error = failure


def _closed() -> JournalError:
    return JournalError("the journal is closed")
