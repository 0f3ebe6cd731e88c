"""Signaler: a wake-up of one bit, for a thread to sleep on and a poller to watch.

Any thread may call `send`; only the woken thread the other methods. An eventfd, else a pipe;
neither blocks its writer.
"""

import errno
import os
import select
import sys
from itertools import chain, starmap
from typing import Any

from _purgatory_cpython import fork
from _purgatory_cpython.green_threads import refuse_green_threads
from mq.timeouts import check_timeout

#: The longest timeout poll(2) takes.
LONGEST_MS = 2**31 - 1
_ONE = (1).to_bytes(8, sys.byteorder)
_HAS_EVENTFD = hasattr(os, "eventfd")


def _supports_nowait_read() -> bool:
    """Whether a blocking eventfd can be read without blocking (Linux 5.8)."""
    if not (_HAS_EVENTFD and hasattr(os, "RWF_NOWAIT")):
        return False
    fd = os.eventfd(0, os.EFD_CLOEXEC)
    try:
        os.preadv(fd, [bytearray(8)], -1, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    except OSError:
        pass
    finally:
        os.close(fd)
    return False


#: Whether eventfds block: waiting and consuming are one system call.
_BLOCKING_EVENTFD = _supports_nowait_read()


class _Closer:
    """Closes descriptors once dropped."""

    __slots__ = ("_close", "_fds")

    def __init__(self, fds: list[int]) -> None:
        self._fds = fds
        self._close = os.close  # at the interpreter's exit, modules may be empty

    def __del__(self) -> None:
        while self._fds:
            self._close(self._fds.pop())


class Signaler:
    """A pollable wake-up. Signals merge.

    Raises OSError (EMFILE) when no descriptor is left. The owner calls `close` once no thread can
    call `send` any more. A forked child closes its copy. Once closed, `send`, `wait`,
    `wait_and_clear` and `recv` raise OSError (EBADF).
    """

    __slots__ = "__weakref__", "_closer", "_fds", "_is_blocking", "_poll", "_read_fd", "_write_fd"

    def __init__(self, *, use_pipe: bool = False) -> None:
        refuse_green_threads(RuntimeError)  # eventlet removes poll
        self._fds: list[int] = []  # what __del__ closes
        self._read_fd = self._write_fd = -1
        self._is_blocking = _BLOCKING_EVENTFD and not use_pipe
        # No interrupt comes inside `extend`: each descriptor that was made is in the list.
        if use_pipe or not _HAS_EVENTFD:
            self._fds.extend(chain.from_iterable(starmap(os.pipe, [()])))
            os.set_blocking(self._fds[-1], False)
        else:
            self._fds.extend(starmap(os.eventfd, [(0, os.EFD_CLOEXEC)]))
        self._read_fd, self._write_fd = self._fds[0], self._fds[-1]
        if not self._is_blocking:
            os.set_blocking(self._read_fd, False)
        self._poll = select.poll()
        self._poll.register(self._read_fd, select.POLLIN)
        fork.register(self)

    def send(self) -> None:
        """Wake the reader, now or at its next `wait`. Never blocks."""
        try:
            os.write(self._write_fd, _ONE)
        except BlockingIOError:
            pass  # the pipe is full of signals

    def wait(self, timeout: float | None = None) -> bool:
        """Whether a signal is there, after at most `timeout` seconds (None: for ever).

        A wait of more than 24 days, poll(2)'s most, may end early. ValueError for NaN.
        """
        check_timeout(timeout)
        if self._read_fd < 0:  # the number may be another file's by now
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if timeout is None:
            return bool(self._poll.poll())
        return bool(self._poll.poll(max(0.0, min(timeout * 1000, LONGEST_MS))))

    def wait_and_clear(self) -> None:
        """Wait without limit for a signal, and consume all."""
        if self._is_blocking:
            os.read(self._read_fd, 8)
        else:
            self.wait()
            self.recv()

    def recv(self) -> bool:
        """Consume all signals; return whether there was one. Never blocks."""
        found = False
        try:
            # A poll first may cost more than the exception.
            while True:
                self._read()
                found = True
                if self._read_fd == self._write_fd:
                    break  # one read empties an eventfd; a pipe may hold more
        except BlockingIOError:
            pass
        return found

    def _read(self) -> None:
        if self._is_blocking:
            os.preadv(self._read_fd, [bytearray(8)], -1, os.RWF_NOWAIT)
        else:
            os.read(self._read_fd, 4096)

    def fileno(self) -> int:
        """Return the descriptor to poll for reading; -1 once closed."""
        return self._read_fd

    def close(self) -> None:
        """Close the descriptors. Idempotent."""
        self._read_fd = self._write_fd = -1
        while self._fds:
            fd = self._fds[-1]
            del self._fds[-1]  # first: closed twice, the number could be another file's
            os.close(fd)

    def after_fork(self) -> None:
        """Close the descriptors: the signals are the parent's."""
        self.close()

    def __del__(self, new_closer: type[_Closer] = _Closer) -> None:
        # Not closed here: finalizers of the same garbage may still send.
        if hasattr(self, "_fds"):  # else interrupted before there was anything
            self._closer = new_closer(self._fds)

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it has descriptors")

    def __repr__(self) -> str:
        return f"<Signaler fd={self._read_fd}>"
