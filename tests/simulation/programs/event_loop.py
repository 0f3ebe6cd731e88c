"""SimulatedEventLoop: asyncio in a simulated process: a thread of it, in the world's time.

As much of an event loop as futures, tasks and timeouts need. What other threads post is taken one
at a time, when all that follows from the one before is done: so it does not matter after how many
turns of the loop a task goes on, which differs between versions of Python.
"""

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from purgatory.testing.world.process import Process

_T = TypeVar("_T")


class SimulatedEventLoop:
    """The event loop of a process, run by a thread of that. When it is killed, nothing runs."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._self: Any = self  # as asyncio takes it, which asks for no more than there is here
        self._ready: deque[asyncio.Handle] = deque()
        self._posted: deque[asyncio.Handle] = deque()  # by other threads
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []  # a heap
        self._count = 0
        #: What a callback has raised.
        self._failure: BaseException | None = None
        self._thread = process.thread(self, "event-loop")
        self._thread.start()

    # As a `Loop`

    def sleep_seconds(self) -> float | None:
        """See `Loop`."""
        if self._ready or self._posted:
            return 0.0
        return max(0.0, self._timers[0][0] - self.time()) if self._timers else None

    def step(self) -> None:
        """See `Loop`. Raises what a callback raises."""
        self.run_now(self._run_all)

    def finished(self) -> bool:
        """See `Loop`."""
        return False

    def shut_down(self) -> None:
        """See `Loop`."""

    def run_now(self, call: Callable[[], _T]) -> _T:
        """Make a call in the loop, and return its result."""
        before = events._get_running_loop()
        events._set_running_loop(self._self)
        try:
            return call()
        finally:
            events._set_running_loop(before)

    def _run_all(self) -> None:
        while self._process.alive and self._take_next():
            while self._ready and self._process.alive:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
            if self._failure is not None:
                raise self._failure

    def _take_next(self) -> bool:
        """Make what comes next ready: a timer that is due, or what was posted; False: nothing."""
        if self._timers and self._timers[0][0] <= self.time():
            self._ready.append(heapq.heappop(self._timers)[2])
        elif self._posted:
            self._ready.append(self._posted.popleft())
        return bool(self._ready)

    # As an event loop

    def time(self) -> float:
        """Return the machine's monotonic clock."""
        return self._process.monotonic()

    def is_running(self) -> bool:
        """Tell whether it runs now."""
        return events._get_running_loop() is self._self

    def is_closed(self) -> bool:
        """Tell whether its process was killed."""
        return not self._process.alive

    def get_debug(self) -> bool:
        """Return that nothing is looked at more closely."""
        return False

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """See `asyncio`."""
        handle = asyncio.Handle(callback, args, self._self, context)
        if self._process.alive:
            self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """See `asyncio`."""
        handle = asyncio.Handle(callback, args, self._self, context)
        if self._process.alive:
            self._posted.append(handle)
            self._thread.wake()
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """See `asyncio`."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """See `asyncio`."""
        handle = asyncio.TimerHandle(when, callback, args, self._self, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: it is dropped when it would be due."""

    def create_future(self) -> "asyncio.Future[Any]":
        """See `asyncio`."""
        return asyncio.Future(loop=self._self)

    def create_task(self, coro: "Coroutine[Any, Any, _T]", **options: Any) -> "asyncio.Task[_T]":
        """See `asyncio`."""
        return asyncio.Task(coro, loop=self._self, **options)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what a callback has raised; a task that is dropped with its process is none."""
        if "handle" in context:
            self._failure = context.get("exception")
