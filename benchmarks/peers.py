"""The timers that are measured, behind one small interface: ours and its peers in Python.

Each does the same work in a process of its own. `schedule` takes delays in seconds and returns
handles, `cancel` takes a handle, `drain` returns when all that was scheduled has run.
"""

import asyncio
import heapq
import importlib
import importlib.util
import sched
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from timingwheel import InlineExecutor, Timer, TimerTask

Callback = Callable[[], object]


class Peer(Protocol):
    """What a benchmark needs of a timer."""

    def schedule(self, delays: Sequence[float], callback: Callback) -> list[Any]:
        """Schedule `callback` once for each delay."""

    def cancel(self, handle: Any) -> None:
        """Cancel one timer."""

    def drain(self) -> None:
        """Run all that was scheduled, which may be due already, and return when it has run."""


class Wheel:
    """This project's Timer: reaper thread, own worker thread."""

    def __init__(self) -> None:
        self.timer = Timer()

    def schedule(self, delays: Sequence[float], callback: Callback) -> list[TimerTask]:
        """See `Peer`."""
        schedule = self.timer.schedule
        return [schedule(delay, callback) for delay in delays]

    def cancel(self, handle: TimerTask) -> None:
        """See `Peer`."""
        handle.cancel()

    def drain(self) -> None:
        """See `Peer`."""
        self.timer.start()
        self.timer.close(cancel_pending=False)


class Inline(Wheel):
    """The same without a worker: the reaper's thread runs callbacks, as an event loop does."""

    def __init__(self) -> None:
        self.timer = Timer(executor=InlineExecutor())


class Asyncio:
    """`loop.call_later` of the standard library's event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def schedule(self, delays: Sequence[float], callback: Callback) -> list[asyncio.TimerHandle]:
        """See `Peer`."""
        call_later = self.loop.call_later
        return [call_later(delay, callback) for delay in delays]

    def cancel(self, handle: asyncio.TimerHandle) -> None:
        """See `Peer`."""
        handle.cancel()

    def drain(self, within: float = 0.0) -> None:
        """See `Peer`; stops the loop, which does not end by itself, after `within` seconds."""
        self.loop.call_later(within, self.loop.stop)
        self.loop.run_forever()


class Heap:
    """The floor: a heap of tuples, cancelled lazily, one thread and no lock."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, list[Callback]]] = []

    def schedule(self, delays: Sequence[float], callback: Callback) -> list[list[Callback]]:
        """See `Peer`."""
        handles = []
        for number, delay in enumerate(delays):
            handle = [callback]
            heapq.heappush(self.heap, (time.monotonic() + delay, number, handle))
            handles.append(handle)
        return handles

    def cancel(self, handle: list[Callback]) -> None:
        """See `Peer`."""
        handle.clear()

    def drain(self) -> None:
        """See `Peer`."""
        while self.heap:
            due, _, handle = heapq.heappop(self.heap)
            left = due - time.monotonic()
            if left > 0:
                threading.Event().wait(left)
            if handle:
                handle[0]()


class Sched:
    """The standard library's `sched`."""

    def __init__(self) -> None:
        self.scheduler = sched.scheduler(time.monotonic, time.sleep)

    def schedule(self, delays: Sequence[float], callback: Callback) -> list[sched.Event]:
        """See `Peer`."""
        enter = self.scheduler.enter
        return [enter(delay, 0, callback) for delay in delays]

    def cancel(self, handle: sched.Event) -> None:
        """See `Peer`."""
        self.scheduler.cancel(handle)

    def drain(self) -> None:
        """See `Peer`."""
        self.scheduler.run()


class Gevent:
    """gevent's `loop.timer`: libev, in C."""

    def __init__(self) -> None:
        self.hub = importlib.import_module("gevent").get_hub()
        self.handles: list[Any] = []

    def schedule(self, delays: Sequence[float], callback: Callback) -> list[Any]:
        """See `Peer`."""
        timer = self.hub.loop.timer
        self.hub.loop.update_now()  # or delays would count from the last run of the loop
        handles = []
        for delay in delays:
            handle = timer(delay)
            handle.start(callback)
            handles.append(handle)
        self.handles += handles  # a handle that is dropped might not fire
        return handles

    def cancel(self, handle: Any) -> None:
        """See `Peer`."""
        handle.stop()
        handle.close()

    def drain(self) -> None:
        """See `Peer`."""
        self.hub.loop.update_now()
        self.hub.loop.run()
        self.handles = []


class Uvloop(Asyncio):
    """`call_later` of uvloop: libuv, in C."""

    def __init__(self) -> None:
        self.loop = importlib.import_module("uvloop").new_event_loop()


INLINE = "inline"  # differs from "timingwheel" in lateness alone

PEERS: dict[str, Callable[[], Peer]] = {
    "timingwheel": Wheel,
    INLINE: Inline,
    "asyncio": Asyncio,
    "gevent": Gevent,
    "uvloop": Uvloop,
    "heap": Heap,
    "sched": Sched,
}


def installed() -> list[str]:
    """Return the names of the peers that can be measured here, ours once."""
    return [
        name
        for name in PEERS
        if name != INLINE
        and (name not in {"gevent", "uvloop"} or importlib.util.find_spec(name) is not None)
    ]
