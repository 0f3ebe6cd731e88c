"""Primitives: locks, thread-local storage and signals that wait in a scheduler.

In the place of those of `threading` and of `mq`. Outside of the world's threads, as when its
objects are freed, they let everything through.
"""

import itertools
from typing import Any

from tests.simulation.inprocess.scheduler import Scheduler

# A primitive is worth so many steps: much depends on the order in which locks are taken.
_WEIGHT = 3


def _to_ns(timeout: float | None) -> int | None:
    return None if timeout is None or timeout < 0 else int(timeout * 1e9)


class SimulatedLock:
    """A `threading.Lock`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._taken = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it."""
        scheduler = self._scheduler
        if not scheduler.is_here():
            self._taken = True
            return True
        scheduler.step(_WEIGHT)
        if self._taken and not (blocking and scheduler.wait_until(self._is_free, _to_ns(timeout))):
            return False
        self._taken = True
        return True

    def _is_free(self) -> bool:
        return not self._taken

    def release(self) -> None:
        """Leave it."""
        if not self._taken:
            raise RuntimeError("release unlocked lock")
        self._taken = False
        if self._scheduler.is_here():
            self._scheduler.step(_WEIGHT)

    def locked(self) -> bool:
        """Whether it is taken."""
        return self._taken

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class SimulatedRLock:
    """A `threading.RLock`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner = -1  # the number of a thread
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it, once more if this thread has it."""
        scheduler = self._scheduler
        if not scheduler.is_here():
            return True
        scheduler.step(_WEIGHT)
        me = scheduler.current.number
        if self._owner != me:
            if self._owner >= 0 and not (
                blocking and scheduler.wait_until(self._is_free, _to_ns(timeout))
            ):
                return False
            self._owner = me
        self._count += 1
        return True

    def _is_free(self) -> bool:
        return self._owner < 0

    def release(self) -> None:
        """Leave it, once."""
        scheduler = self._scheduler
        if not scheduler.is_here():
            return
        if self._owner != scheduler.current.number:
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = -1
            scheduler.step(_WEIGHT)

    def locked(self) -> bool:
        """Whether it is taken."""
        return not self._is_free()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    # What `threading.Condition` asks of it.

    def _is_owned(self) -> bool:
        return self._scheduler.is_here() and self._owner == self._scheduler.current.number

    def _release_save(self) -> int:
        count, self._count, self._owner = self._count, 0, -1
        return count

    def _acquire_restore(self, count: int) -> None:
        self.acquire()
        self._count = count


class SimulatedLocal:
    """A `threading.local`; what is in it is dropped as its thread ends."""

    _numbers = itertools.count()

    def __init__(self, scheduler: Scheduler) -> None:
        object.__setattr__(self, "_scheduler", scheduler)
        object.__setattr__(self, "_number", next(self._numbers))

    def __getattr__(self, name: str) -> Any:
        try:
            return self._fields()[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._fields()[name] = value

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = self._scheduler.current.locals.setdefault(self._number, {})
        return fields


class SimulatedSignaler:
    """An `mq` signaler: what the reader of a mailbox sleeps on."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_signalled = False

    def send(self) -> None:
        """Wake the reader, now or at its next wait."""
        self._is_signalled = True
        if self._scheduler.is_here():
            self._scheduler.step(_WEIGHT)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a signal, and leave it; whether there is one."""
        self._scheduler.step(_WEIGHT)
        return self._scheduler.wait_until(self._has_signal, _to_ns(timeout))

    def wait_and_clear(self) -> None:
        """Wait for a signal, and consume it."""
        self.wait()
        self._is_signalled = False

    def recv(self) -> bool:
        """Consume the signal; whether there was one."""
        found, self._is_signalled = self._is_signalled, False
        self._scheduler.step(_WEIGHT)
        return found

    def _has_signal(self) -> bool:
        return self._is_signalled

    def fileno(self) -> int:
        """Return no descriptor."""
        return -1

    def close(self) -> None:
        """Do nothing: it has no descriptor."""

    def after_fork(self) -> None:
        """Do nothing: it has no descriptor."""
