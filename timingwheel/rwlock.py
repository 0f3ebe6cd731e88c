"""ReadWriteLock: adding and cancelling read, draining writes.

One reader at a time is inside. Kafka's readers share the lock and then take the monitor of a
bucket: in Python, three lock operations an `add` would cost more than all the work under them. So
the read side *is* one lock, which guards the buckets too (benchmarks/bench_timer.py).

A plain lock would be unfair. While a writer waits or writes, new readers queue at the turnstile, so
a stream of readers cannot starve the writer. A writer that leaves lets the queued readers through
before the next writer, so batch after batch cannot starve the readers.

Where sections are atomic (see `_purgatory_cpython.atomicity`), most readers take no lock: a section
without calls runs while no other thread is inside. See `enter_section`. Worth it: `schedule` takes
3980 instructions instead of 5619, `cancel` 1001 instead of 2626 (callgrind). Compiled without the
interpreter lock, the same sections take a cheap lock (`_purgatory_cpython.sections`).

Readers are re-entrant: a finalizer in the thread holding the lock may cancel a task. A finalizer in
a thread at the turnstile does not queue: it would wait for its own thread. A reader must not become
a writer.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from _purgatory_cpython.atomicity import ATOMIC_SECTIONS, LOCKED_SECTIONS
from _purgatory_cpython.locks import new_hot_condition
from _purgatory_cpython.mypyc_types import i64
from _purgatory_cpython.sections import enter_section, leave_section, new_section_lock
from _purgatory_cpython.threads import yield_gil

# Bound once: compiled, that saves a look-up in the module's dict for each section.
_enter_section: Final = enter_section
_leave_section: Final = leave_section


class ReadWriteLock:
    """`with lock.reading():` takes the read side, `with lock:` the write side. Any thread.

    The write side raises RuntimeError in a thread that already has either side.
    """

    __slots__ = (
        "_lock",
        "_poison",
        "_queued",
        "_reader",
        "_readers_inside",
        "_turnstile",
        "_writer",
    )

    def __init__(self) -> None:
        self._lock: Final[Any] = new_section_lock()
        # Readers inside, counted under _lock; only where sections are atomic.
        self._readers_inside: i64 = 0
        self._reader: AbstractContextManager[object] = (
            _Reader(self) if ATOMIC_SECTIONS else self._lock
        )
        # Guards the two fields below; notified when one changes. Lock order: a thread never holds
        # the turnstile while it waits for _lock, save in a finalizer inside the turnstile; a thread
        # that has _lock never waits for the turnstile.
        self._turnstile = new_hot_condition()
        self._queued: i64 = 0  # readers at the turnstile
        # Thread id of the writer, waiting or inside; 0: none; -1: poisoned. Readers read it without
        # the turnstile: at worst a reader gets in ahead of the writer.
        self._writer: i64 = 0
        self._poison: Exception | None = None

    def enter_section(self) -> bool:
        """Begin a section without `with`. False if that is impossible: use `reading`.

        Only for compiled code, and sections that raise nothing; where sections are atomic, only for
        sections without calls. The caller calls `leave_section`.
        """
        if self._writer != 0:
            return False
        if LOCKED_SECTIONS:
            _enter_section(self._lock)
            return True
        return ATOMIC_SECTIONS and self._readers_inside == 0

    def leave_section(self) -> None:
        """End a section that `enter_section` began."""
        if LOCKED_SECTIONS:
            _leave_section(self._lock)

    def reading(self) -> AbstractContextManager[object]:
        """Return the read side, for `with`. Blocks while a writer waits or writes."""
        if self._writer != 0:
            self._queue_behind_writer()
        return self._reader

    def call_reading(self, function: Callable[[], object]) -> None:
        """Call a function inside the read side.

        For interpreted code: see `_purgatory_cpython/locks.py` about interrupts before the body of
        a `with`.
        """
        with self.reading():
            function()

    def poison(self, error: Exception) -> None:
        """Make every later use raise `error`: in a forked child, other holders do not exist."""
        self._poison = error
        self._writer = -1

    def after_freeze(self) -> None:
        """Forget a writer and readers that the interpreter's exit has frozen."""
        self._queued = 0
        if self._poison is None:
            self._writer = 0

    def enter_reading(self) -> None:
        """Take the read side without `with`, where sections are locked: see `LaneLock`."""
        self.reading()
        self._lock.acquire()

    def leave_reading(self) -> None:
        """Leave the read side that `enter_reading` took."""
        self._lock.release()

    def check_usable(self) -> None:
        """Raise the error of `poison`, if it was called."""
        if self._poison is not None:
            raise self._poison

    def _queue_behind_writer(self) -> None:
        self.check_usable()
        # The writer would wait for this thread, if it is inside already.
        if is_owned(self._lock) or is_owned(self._turnstile):
            return
        with self._turnstile:
            self._queued += 1
            try:
                # CPython 3.13 catches no interrupt at the end of a loop that has a condition.
                while True:
                    if self._writer <= 0:
                        break
                    self._turnstile.wait()
            finally:
                self._queued -= 1
                try:
                    self._turnstile.notify_all()
                except BaseException:  # an interrupt: the writer may be waiting for this reader
                    self._turnstile.notify_all()
                    raise

    def __enter__(self) -> None:
        self.check_usable()
        if is_owned(self._lock) or is_owned(self._turnstile):
            raise RuntimeError("this thread holds the lock already and cannot become its writer")
        me = threading.get_ident()
        try:
            with self._turnstile:
                while True:  # as above
                    if not (self._writer or self._queued):
                        break
                    self._turnstile.wait()
                self._writer = me
            self._lock.acquire()
        except BaseException:
            self.release_write()
            raise

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.release_write()

    def release_write(self) -> None:
        """Leave the write side if this thread holds it. Idempotent.

        A caller that may be interrupted catches the interrupt and calls this: the interrupt may
        come before or during `__exit__`.
        """
        while not self._try_release_write():
            pass  # other threads will free the few bytes

    def _try_release_write(self) -> bool:
        """Return False if memory is short."""
        try:
            if self._writer != threading.get_ident():
                return True
            if is_owned(self._lock):
                self._lock.release()
            with self._turnstile:
                # In this order: a call after an interrupt notifies again.
                self._turnstile.notify_all()
                self._writer = 0
        except MemoryError:
            yield_gil()
            return False
        return True

    def __repr__(self) -> str:
        state = f"writer {self._writer}" if self._writer else "no writer"
        return f"<ReadWriteLock {state}, {self._queued} readers queued>"


class _Reader:
    """The read side where sections are atomic: counts the readers inside."""

    def __init__(self, owner: ReadWriteLock) -> None:
        self._owner = owner

    def __enter__(self) -> None:
        self._owner._lock.acquire()
        self._owner._readers_inside += 1

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self._owner._readers_inside -= 1
        self._owner._lock.release()


def is_owned(lock: Any) -> bool:
    """Return whether this thread has a re-entrant lock, or a condition."""
    return bool(lock._is_owned())
