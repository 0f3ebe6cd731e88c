"""LeaseCalls: the calls about named leases. Any thread."""

from collections.abc import Callable
from typing import Any, Final

from purgatory.service.client.calls import RequestType
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.leases.lease_keeper import LeaseKeeper
from purgatory.service.job_messages import EndLease, KeepLease, LeaseReady, TakeLease
from purgatory.service.platform import Platform

#: Seconds after which a waiting program asks again.
ASK_AGAIN_S: Final = 2.0
#: The server removes a program that has not asked for so long.
WAIT_MS: Final = 60_000


class LeaseCalls:
    """The calls of the client `name`, each made by `call`."""

    def __init__(
        self, call: Callable[[RequestType, Any], ReplyFuture[Any]], platform: Platform, name: str
    ) -> None:
        self._call = call
        self._boot_ns = platform.boot_ns
        self.new_holder: Callable[[], str] = platform.new_id
        self._ready: dict[tuple[str, str], Callable[[], None]] = {}
        self.pass_time: Callable[[Callable[[], bool], float], float | None] = platform.wait
        self.keeper: LeaseKeeper = LeaseKeeper(
            self.keep, self.now, f"{name}-leases", platform.thread
        )

    def now(self) -> float:
        """Return seconds; the clock goes on while the machine is suspended."""
        return self._boot_ns() / 1e9

    def take(self, name: str, holder: str, keep_ms: int, wait_ms: int) -> ReplyFuture[int | None]:
        """Take a lease, or wait for it; answers the token, or None."""
        return self._call(TakeLease, (name, holder, keep_ms, wait_ms))

    def keep(self, name: str, holder: str, keep_ms: int) -> ReplyFuture[bool]:
        """Have a lease last longer; False: another program has it."""
        return self._call(KeepLease, (name, holder, keep_ms))

    def end(self, name: str, holder: str) -> ReplyFuture[bool]:
        """End a lease, or leave its queue."""
        return self._call(EndLease, (name, holder))

    def expect(self, name: str, holder: str, ready: Callable[[], None]) -> None:
        """Have `ready` called at the waiter's turn."""
        self._ready[name, holder] = ready

    def forget(self, name: str, holder: str) -> None:
        """End `expect`."""
        self._ready.pop((name, holder), None)

    def on_ready(self, message: LeaseReady) -> None:
        """Call a waiter's `ready`, in the I/O thread."""
        ready = self._ready.get((message.name, message.holder))
        if ready is not None:
            ready()
