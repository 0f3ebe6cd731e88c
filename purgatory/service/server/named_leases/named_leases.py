"""NamedLeases: the holders of names, and the waiting programs.

    take ──> waiting ──> told to ask again ──> held ──> ended, or its time is over
      └──────────── if free ─────────────^

The open transaction changes the leases at once, and `roll_back` restores them. Holder, token and
end of a lease are on disk; waiters are in memory alone, and ask again after a restart.

When a lease ends, the first waiter gets it, and is told to ask again: a program counts the time of
a lease from its own request, so it never believes in the lease for longer than the server. If the
waiter does not ask, the lease ends.

Tokens grow, over all names and restarts. Store thread alone.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from purgatory.service.errors import TooManyLeases
from purgatory.service.job_messages import LeaseReady, TakeLease
from purgatory.service.server.leases.job_leases import COUNT_BITS
from purgatory.service.server.named_leases.named_lease import (
    LeaseHolder,
    NamedLease,
    Waiter,
    waiter_bytes,
)
from purgatory.service.store.changes import Changes

#: Names and waiting programs, at most.
MAX_LEASES: Final = 10_000
MAX_WAITERS: Final = 10_000
#: How long a waiter has to ask for its lease.
TAKE_UP_MS: Final = 10_000
# Names that a transaction examines, at most.
_LOOKED_AT: Final = 256
# Stale entries of the heap, beside as many as leases.
_STALE_TIMES: Final = 1024

_Before = tuple[LeaseHolder | None, dict[str, Waiter]]


class NamedLeases:
    """All named leases. `epoch` is above earlier runs'."""

    def __init__(self, epoch: int) -> None:
        self.by_name: dict[str, NamedLease] = {}
        self.bytes: int = 0
        self._waiting = 0
        self._last_token = epoch << COUNT_BITS
        #: A heap of times and names; stale unless the lease's `next_ms`.
        self.times: list[tuple[int, str]] = []
        self._routes: dict[bytes, dict[tuple[str, str], None]] = {}  # names and holders of waiters
        #: The leases that the open transaction touched, as before.
        self.before: dict[str, _Before] = {}
        # Messages to waiters, with routes.
        self._notices: list[tuple[bytes, LeaseReady]] = []

    def load(self, rows: list[tuple[str, str, int, int]]) -> None:
        """Add rows of name, holder, token and end."""
        for name, holder, token, until_ms in rows:
            lease = self._open(name)
            lease.held = LeaseHolder(holder, token, until_ms)
            self._plan(lease)

    def take(self, request: TakeLease, route: bytes, now_ms: int) -> int | None:
        """Give a name to a program; return the token, if free.

        A holder's time restarts. Else the program waits; with `wait_ms` 0 it leaves the queue.
        Raises TooManyLeases.
        """
        name, holder, until_ms = request.name, request.holder, now_ms + request.keep_ms
        lease = self.by_name.get(name)
        if lease is None:
            if len(self.by_name) >= MAX_LEASES:
                raise TooManyLeases(
                    f"{len(self.by_name)} names are leased; expected at most {MAX_LEASES}"
                )
            lease = self._open(name)
        held = lease.held
        self._touch(lease)
        if held is not None and held.holder == holder:
            lease.held = held._replace(until_ms=until_ms)
        elif held is None and lease.first_present() in (None, holder):
            self._remove_waiter(lease, holder)
            self._grant(lease, holder, until_ms)
        else:
            self._wait(lease, request, route, now_ms)
        self._plan(lease)
        held = lease.held
        return held.token if held is not None and held.holder == holder else None

    def _wait(self, lease: NamedLease, request: TakeLease, route: bytes, now_ms: int) -> None:
        holder = request.holder
        before = lease.waiters.get(holder)
        if not request.wait_ms:
            self._remove_waiter(lease, holder)
            return
        if before is None:
            if self._waiting >= MAX_WAITERS:
                raise TooManyLeases(
                    f"{self._waiting} programs wait for leases; expected at most {MAX_WAITERS}"
                )
            self._waiting += 1
            self.bytes += waiter_bytes(holder)
        else:  # it keeps its place
            self._leave_route(before.route, lease.name, holder)
        lease.waiters[holder] = Waiter(route, now_ms + request.wait_ms)
        self._routes.setdefault(route, {})[lease.name, holder] = None

    def keep(self, name: str, holder: str, keep_ms: int, now_ms: int) -> bool:
        """Let a lease last for `keep_ms` from now; False: not held."""
        lease = self.by_name.get(name)
        if lease is None or lease.held is None or lease.held.holder != holder:
            return False
        self._touch(lease)
        lease.held = lease.held._replace(until_ms=now_ms + keep_ms)
        self._plan(lease)
        return True

    def end(self, name: str, holder: str, now_ms: int) -> bool:
        """End a lease or a wait; False if the lease was not held."""
        lease = self.by_name.get(name)
        if lease is None:
            return False
        self._touch(lease)
        self._remove_waiter(lease, holder)
        is_held = lease.held is not None and lease.held.holder == holder
        if is_held:
            self._pass_on(lease, now_ms)
        self._drop_if_empty(lease)
        return is_held

    def disconnect(self, route: bytes, now_ms: int) -> None:
        """Note a connection's end: its waiters are absent."""
        for name, holder in self._routes.pop(route, ()):
            lease = self.by_name[name]
            lease.waiters[holder] = lease.waiters[holder].absent(now_ms)
            self._plan(lease)
        for _, waiters in self.before.values():  # for a roll-back
            for holder, waiter in waiters.items():
                if waiter.route == route:
                    waiters[holder] = waiter.absent(now_ms)

    def expire(self, now_ms: int, grace_ms: int = 0) -> None:
        """End overdue leases and waits; leases last `grace_ms` longer."""
        for _ in range(_LOOKED_AT):
            if not self.times or self.times[0][0] > now_ms:
                return
            at_ms, name = heappop(self.times)
            lease = self.by_name.get(name)
            if lease is not None and lease.next_ms == at_ms:
                lease.next_ms = 0
                self._expire(lease, now_ms, grace_ms)

    def _expire(self, lease: NamedLease, now_ms: int, grace_ms: int) -> None:
        self._touch(lease)
        for holder, waiter in list(lease.waiters.items()):
            if waiter.until_ms <= now_ms:
                self._remove_waiter(lease, holder)
        if lease.held is not None and lease.held.until_ms + grace_ms <= now_ms:
            self._pass_on(lease, now_ms)
        self._drop_if_empty(lease)
        self._plan(lease, now_ms + grace_ms)

    def _pass_on(self, lease: NamedLease, now_ms: int) -> None:
        lease.held = None
        holder = lease.first_present()
        if holder is not None:
            route = lease.waiters[holder].route
            self._remove_waiter(lease, holder)
            self._grant(lease, holder, now_ms + TAKE_UP_MS)
            self._notices.append((route, LeaseReady(lease.name, holder)))
        self._plan(lease)

    def _grant(self, lease: NamedLease, holder: str, until_ms: int) -> None:
        self._last_token += 1
        lease.held = LeaseHolder(holder, self._last_token, until_ms)

    def _remove_waiter(self, lease: NamedLease, holder: str) -> None:
        waiter = lease.waiters.pop(holder, None)
        if waiter is not None:
            self._waiting -= 1
            self.bytes -= waiter_bytes(holder)
            self._leave_route(waiter.route, lease.name, holder)

    def _leave_route(self, route: bytes, name: str, holder: str) -> None:
        waiting = self._routes.get(route)
        if waiting is not None:
            waiting.pop((name, holder), None)
            if not waiting:
                del self._routes[route]

    def _open(self, name: str) -> NamedLease:
        lease = self.by_name[name] = NamedLease(name)
        self.bytes += lease.bytes
        return lease

    def _drop_if_empty(self, lease: NamedLease) -> None:
        if lease.is_empty and self.by_name.pop(lease.name, None) is not None:
            self.bytes -= lease.bytes

    def _plan(self, lease: NamedLease, not_before_ms: int = 0) -> None:
        at_ms = lease.earliest_ms()
        if at_ms:
            at_ms = max(at_ms, not_before_ms)
            if not lease.next_ms or at_ms < lease.next_ms:
                lease.next_ms = at_ms
                heappush(self.times, (at_ms, lease.name))
                if len(self.times) > 2 * len(self.by_name) + _STALE_TIMES:
                    self.times = [(one.next_ms, one.name) for one in self.by_name.values()]
                    heapify(self.times)

    def next_wake_ms(self) -> int | None:
        """Return when to call `expire`, if ever."""
        return self.times[0][0] if self.times else None

    def _touch(self, lease: NamedLease) -> None:
        if lease.name not in self.before:
            self.before[lease.name] = lease.held, dict(lease.waiters)

    def prepare(self, changes: Changes) -> list[tuple[bytes, LeaseReady]]:
        """Write the changes; return the messages to waiters."""
        for name, (held, _) in self.before.items():
            lease = self.by_name.get(name)
            now = None if lease is None else lease.held
            if now == held:
                continue
            if now is None:
                changes.delete_named_leases.append(name)
            else:
                changes.named_leases += (name, *now)
        return self._notices

    def publish(self) -> None:
        """End the open transaction."""
        for name in self.before:
            lease = self.by_name.get(name)
            if lease is not None:
                self._drop_if_empty(lease)
        self.before = {}
        self._notices = []

    def roll_back(self) -> None:
        """Undo the open transaction; new waiters go."""
        for name, (held, waiters) in self.before.items():
            lease = self.by_name.get(name) or self._open(name)
            lease.held = held
            present = dict(lease.waiters)
            for holder in present:
                self._remove_waiter(lease, holder)
            for holder, waiter in waiters.items():
                self._restore(lease, holder, present.get(holder, waiter))
            self._drop_if_empty(lease)
            self._plan(lease)
        self.before = {}
        self._notices = []

    def _restore(self, lease: NamedLease, holder: str, waiter: Waiter) -> None:
        lease.waiters[holder] = waiter
        self._waiting += 1
        self.bytes += waiter_bytes(holder)
        if waiter.route:
            self._routes.setdefault(waiter.route, {})[lease.name, holder] = None

    def _check(self) -> None:
        waiting = [(lease, one) for lease in self.by_name.values() for one in lease.waiters.items()]
        assert self._waiting == len(waiting), self._waiting
        size = sum(lease.bytes for lease in self.by_name.values())
        assert self.bytes == size + sum(waiter_bytes(one[0]) for _, one in waiting), self.bytes
        routes: dict[bytes, set[tuple[str, str]]] = {}
        for lease, (holder, waiter) in waiting:
            assert lease.held is None or lease.held.holder != holder, (lease.name, holder)
            if waiter.route:
                routes.setdefault(waiter.route, set()).add((lease.name, holder))
        assert {route: set(found) for route, found in self._routes.items()} == routes
        for name, lease in self.by_name.items():
            assert name in self.before or not lease.is_empty, name
            assert not lease.earliest_ms() or (lease.next_ms, name) in self.times, name
