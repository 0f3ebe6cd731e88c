"""ReadWriteLock: adding and cancelling read, draining writes.

One reader at a time is inside. With Kafka's shared readers and a monitor for each bucket, an `add`
would take three lock operations, which cost more than the work under them. So the read side *is*
one lock, which guards the buckets too (benchmarks/bench_timer.py).

A plain lock would be unfair. While a writer waits or writes, new readers queue at the turnstile, so
a stream of readers cannot starve the writer. A writer that leaves lets the queued readers through
before the next writer, so batch after batch cannot starve the readers.

Where sections are atomic (see `_purgatory_cpython.atomicity`), most readers take no lock: a section
without calls runs while no other thread is inside. Worth it: see docs/mechanisms.md.

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

# Bound once: see `timingwheel.bucket`.
_enter_section: Final = enter_section
_leave_section: Final = leave_section


class ReadWriteLock:
    """`with lock.reading():` takes the read side, `with lock:` the write side. Any thread.

    RuntimeError in a thread that has either side and wants the write side.
    """

    __slots__ = (
        "_lock",
        "_poison",
        "_queued",
        "_queued_threads",
        "_reader",
        "_readers_inside",
        "_turnstile",
        "_writer",
    )

    def __init__(self) -> None:
        self._lock: Final[Any] = new_section_lock()
        # Counted under _lock; only where sections are atomic.
        self._readers_inside: i64 = 0
        self._reader: AbstractContextManager[object] = (
            _Reader(self) if ATOMIC_SECTIONS else self._lock
        )
        # Guards the fields below; notified when one changes. Lock order: a thread never holds
        # the turnstile while it waits for _lock, save in a finalizer inside the turnstile; a thread
        # that has _lock never waits for the turnstile.
        self._turnstile = new_hot_condition()
        self._queued: i64 = 0  # readers at the turnstile
        self._queued_threads: list[int] = []  # their thread ids; a signal handler may queue again
        # The writer's thread id, waiting or inside; 0: none; -1: poisoned. Readers read it without
        # the turnstile: at worst one gets in ahead of the writer.
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
        """Undo `enter_section`."""
        if LOCKED_SECTIONS:
            _leave_section(self._lock)

    def reading(self) -> AbstractContextManager[object]:
        """Return the read side, for `with`. Blocks while a writer waits or writes."""
        if self._writer != 0:
            self._queue_behind_writer()
        return self._reader

    def call_reading(self, function: Callable[[], object]) -> None:
        """Call a function inside the read side; for interpreted code: see `locks`."""
        with self.reading():
            function()

    def poison(self, error: Exception) -> None:
        """Make every later use raise `error`."""
        self._poison = error
        self._writer = -1

    def after_freeze(self) -> None:
        """Forget a writer and readers that the interpreter's exit has frozen."""
        self._queued = 0
        self._queued_threads = []
        if self._poison is None:
            self._writer = 0

    def enter_reading(self) -> None:
        """Take the read side without `with`: see `LaneLock`."""
        self.reading()
        self._lock.acquire()

    def leave_reading(self) -> None:
        """Undo `enter_reading`."""
        self._lock.release()

    def check_usable(self) -> None:
        """Raise the error of `poison`, if any."""
        if self._poison is not None:
            raise self._poison

    def check_outside(self) -> None:
        """Raise RuntimeError if this thread has a side, or waits for one."""
        if self.is_inside():
            raise RuntimeError("this thread holds the lock already and cannot become its writer")

    def is_inside(self) -> bool:
        """Return whether this thread has a side, or waits for one; see `Timer.holds_lock`."""
        return self._is_owned() or threading.get_ident() in self._queued_threads

    def _is_owned(self) -> bool:
        return (
            is_owned(self._lock)
            or is_owned(self._turnstile)
            # The writer itself, while it waits for the last reader to leave.
            or self._writer == threading.get_ident()
        )

    def _queue_behind_writer(self) -> None:
        self.check_usable()
        # A thread that is inside must not wait.
        if self._is_owned():
            return
        me = threading.get_ident()
        with self._turnstile:
            self._queued += 1
            try:
                self._queued_threads.append(me)
                while True:  # without a condition: see `_purgatory_cpython.locks`
                    if self._writer <= 0:
                        break
                    self._turnstile.wait()
            finally:
                self._queued -= 1
                try:
                    self._note_left(me)
                except BaseException:  # an interrupt: the writer may be waiting for this reader
                    self._note_left(me)
                    raise

    def _note_left(self, thread: int) -> None:
        """Tell the writer that a reader has left the queue. Idempotent."""
        if self._queued_threads.count(thread) > 0:
            self._queued_threads.remove(thread)
        self._turnstile.notify_all()

    def __enter__(self) -> None:
        self.check_usable()
        self.check_outside()
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
        """Leave the write side, if held, also after an interrupt of `__exit__`. Idempotent."""
        while not self._try_release_write():
            pass  # other threads will free the few bytes

    def _try_release_write(self) -> bool:
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
