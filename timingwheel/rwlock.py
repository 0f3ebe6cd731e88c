"""ReadWriteLock: the read side for those who add and cancel, the write side for the reaper.

One reader is in at a time. Kafka lets readers share and then takes the monitor of a bucket inside;
in Python those are three lock operations an ``add``, which cost more than all that is done under
them, and the interpreter runs one thread at a time anyway. So the read side *is* one lock, which
guards the buckets too, and an uncontended reader pays for one acquire (benchmarks/bench_timer.py).

What a plain lock would not give is fairness, in both directions. While a writer waits or writes,
newcomers queue at the gate, so a stream of readers cannot starve it. When a writer leaves, the
next one waits until those who queued are through, so a writer that comes back for portion after
portion cannot starve them either.

Compiled, most readers do without even that. A section that makes no calls is one step then (see
``steps``), so a reader that finds the lock *idle* may do its few statements right away: entering
and leaving would fall together. Whoever is inside for longer says so in ``_readers_inside``.

The lock may be taken again by the thread that has it, as a reader: a finalizer that the collector
runs in here may cancel a task. Also one that it runs in a thread on its way through the gate: that
one does not queue, or it would wait for itself. A reader must not become a writer.
"""

import threading
from contextlib import AbstractContextManager
from types import TracebackType

from timingwheel._cpython.atomicity import ATOMIC_SECTIONS
from timingwheel._cpython.mypyc_types import i64


class ReadWriteLock:
    """``with lock.reading():`` for the read side, ``with lock:`` for the write side.

    Any thread. The write side raises RuntimeError in a thread that already has either side.
    """

    __slots__ = (
        "_lock",
        "_poison",
        "_queued",
        "_reader",
        "_readers_inside",
        "_state_changed",
        "_turnstile",
        "_writer",
    )

    def __init__(self) -> None:
        self._lock = threading.RLock()
        # How often readers hold _lock now, which guards it; kept only for `can_skip_read_lock`.
        self._readers_inside: i64 = 0
        self._reader: AbstractContextManager[object] = (
            _Reader(self) if ATOMIC_SECTIONS else self._lock
        )
        # Guards the two fields below. Order: the gate is never held while waiting for _lock, save
        # by a finalizer inside the gate; who has _lock never waits for the gate. The condition is
        # not entered itself: an interrupt at the door of its Python methods would leave it locked.
        self._turnstile = threading.RLock()
        self._state_changed = threading.Condition(self._turnstile)
        self._queued: i64 = 0  # readers at the gate
        # Thread id of the writer, waiting or at work; 0: none. Readers peek at it without the
        # gate: one who looks too early merely gets in ahead of the writer.
        self._writer: i64 = 0
        self._poison: Exception | None = None

    def can_skip_read_lock(self) -> bool:
        """Whether a section of the read side may be done right now without entering it.

        Only one that is free of calls: it is one step then. Always False where there are no steps.
        """
        return ATOMIC_SECTIONS and self._writer == 0 and self._readers_inside == 0

    def reading(self) -> AbstractContextManager[object]:
        """The read side, to be held with ``with``. Lets a waiting writer go first."""
        if self._writer != 0:
            self._queue_behind_writer()
        return self._reader

    def poison(self, error: Exception) -> None:
        """Make every later use raise ``error``: in a forked child its holders do not exist."""
        self._poison = error
        self._writer = -1

    def check_usable(self) -> None:
        """Raise the error of `poison`, if it was called."""
        if self._poison is not None:
            raise self._poison

    def _queue_behind_writer(self) -> None:
        self.check_usable()
        # Who is inside already must not wait: the writer would wait for him.
        if _owned(self._lock) or _owned(self._turnstile):
            return
        with self._turnstile:
            self._queued += 1
            try:
                while self._writer > 0:
                    self._state_changed.wait()
            finally:
                self._queued -= 1
                try:
                    self._state_changed.notify_all()
                except BaseException:  # an interrupt: the writer may be waiting for us
                    self._state_changed.notify_all()
                    raise

    def __enter__(self) -> None:
        self.check_usable()
        if _owned(self._lock) or _owned(self._turnstile):
            raise RuntimeError("this thread has the lock already and cannot become its writer")
        me = threading.get_ident()
        try:
            with self._turnstile:
                while self._writer or self._queued:
                    self._state_changed.wait()
                self._writer = me
            self._lock.acquire()
        except BaseException:
            self.release_write()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release_write()

    def release_write(self) -> None:
        """Leave the write side, if this thread has it; nothing happens if it was left already.

        An interrupt may come at the door of ``__exit__``, or half way through. Who may be
        interrupted catches it and calls this: leaving the lock taken is no option.
        """
        if self._writer != threading.get_ident():
            return
        if _owned(self._lock):
            self._lock.release()
        with self._turnstile:
            # In this order: who comes back here after an interrupt tells them again.
            self._state_changed.notify_all()
            self._writer = 0

    def __repr__(self) -> str:
        state = f"writer {self._writer}" if self._writer else "no writer"
        return f"<ReadWriteLock {state}, {self._queued} readers queued>"


class _Reader:
    """The read side in compiled code: the lock, and the note that somebody is inside."""

    def __init__(self, owner: ReadWriteLock) -> None:
        self._owner = owner

    def __enter__(self) -> None:
        self._owner._lock.acquire()
        self._owner._readers_inside += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._owner._readers_inside -= 1
        self._owner._lock.release()


def _owned(lock: "threading.RLock") -> bool:
    # threading.Condition relies on the same method.
    return bool(lock._is_owned())  # type: ignore[attr-defined]
