"""PurgatoryHarness: a purgatory without threads; operations that record their callbacks."""

import socket
import threading
from collections.abc import Callable
from typing import Any

from purgatory import DelayedOperation, Purgatory
from timingwheel import InlineExecutor, ManualClock, Timer

# Seconds; a wait so long is used up only by a hang.
HANG = 60.0


class Recorder(DelayedOperation):
    """Completes when `ready` is set; records its callbacks in order."""

    def __init__(self, timeout: Any = 30.0, *, ready: bool = False) -> None:
        super().__init__(timeout)
        self.ready = ready
        self.calls: list[str] = []
        self.tries = 0

    def try_complete(self) -> bool:
        self.tries += 1
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.calls.append("complete")

    def on_expiration(self) -> None:
        self.calls.append("expiration")

    def on_cancel(self) -> None:
        self.calls.append("cancel")


class Hooked(Recorder):
    """A Recorder that calls the test's functions from its callbacks."""

    def __init__(self, timeout: Any = 30.0, **hooks: Callable[[], object]) -> None:
        super().__init__(timeout)
        self.hooks = hooks

    def _hook(self, name: str) -> Any:
        return self.hooks[name]() if name in self.hooks else None

    def try_complete(self) -> bool:
        answer = self._hook("try_complete")
        return super().try_complete() if answer is None else answer

    def on_complete(self) -> None:
        super().on_complete()
        self._hook("on_complete")

    def on_expiration(self) -> None:
        super().on_expiration()
        self._hook("on_expiration")

    def on_cancel(self) -> None:
        super().on_cancel()
        self._hook("on_cancel")


class PurgatoryHarness:
    """A purgatory on a clock moved by hand; expired operations run in the calling thread."""

    def __init__(self, *, tick_ms: int = 1, wheel_size: int = 20, **options: Any) -> None:
        timer_options = {key: options.pop(key) for key in ("max_pending",) if key in options}
        self.clock = ManualClock()
        self.timer = Timer(
            "wheel",
            tick_ms=tick_ms,
            wheel_size=wheel_size,
            clock=self.clock,
            executor=InlineExecutor(),
            **timer_options,
        )
        self.errors: list[tuple[BaseException, DelayedOperation]] = []
        options.setdefault("on_error", lambda error, op: self.errors.append((error, op)))
        self.purgatory = Purgatory("bench", timer=self.timer, **options)

    def advance(self, seconds: float) -> None:
        """Advance the clock, expire what is due, and verify every invariant."""
        self.clock.advance(seconds)
        self.timer.advance_clock()
        self.purgatory._check()


def in_thread(function: Callable[[], object]) -> object:
    """Call a function in another thread and return its result; AssertionError if it hangs."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    thread.join(HANG)
    assert not thread.is_alive(), f"{function} hangs"
    assert results, f"{function} raised"
    return results[0]


def all_in_threads(*functions: Callable[[], object]) -> None:
    """Run functions in a thread each, started together; AssertionError if one hangs or raises."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(functions))

    def run(function: Callable[[], object]) -> None:
        try:
            barrier.wait(HANG)
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(f,), daemon=True) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(1.5 * HANG)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    assert not errors, errors


_reserved: list[socket.socket] = []


def free_port() -> int:
    """Return a port for a server that comes later, or restarts.

    It stays bound here, and does not listen: so the system gives it to no other program, and a
    server that sets SO_REUSEADDR, as ours do, can listen on it.
    """
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    _reserved.append(probe)
    port: int = probe.getsockname()[1]
    return port
