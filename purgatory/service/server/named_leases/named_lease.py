"""NamedLease: a name, its holder, and waiting programs. Store thread alone."""

from typing import Final, NamedTuple

from purgatory.service.server.memory import text_bytes

#: So long a waiter without a connection keeps its place.
ABSENCE_MS: Final = 30_000
_LEASE_BYTES: Final = 900
_WAITER_BYTES: Final = 700


class Waiter(NamedTuple):
    """A program that waits until `until_ms` on the connection `route`; no route: absent."""

    route: bytes
    until_ms: int

    def absent(self, now_ms: int) -> "Waiter":
        """Return the waiter without its connection."""
        return Waiter(b"", min(self.until_ms, now_ms + ABSENCE_MS))


class LeaseHolder(NamedTuple):
    """The program with a lease, and the lease's token and end."""

    holder: str
    token: int
    until_ms: int


class NamedLease:
    """A name; `held` is None while it is free. `waiters`: by holder, in order."""

    __slots__ = ("bytes", "held", "name", "next_ms", "waiters")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.held: LeaseHolder | None = None
        self.waiters: dict[str, Waiter] = {}
        #: When to examine the lease; 0: never.
        self.next_ms: int = 0
        self.bytes: int = _LEASE_BYTES + text_bytes(name)

    @property
    def is_empty(self) -> bool:
        """Whether no program holds or awaits the name."""
        return self.held is None and not self.waiters

    def first_present(self) -> str | None:
        """Return the first waiter with a connection."""
        for holder, waiter in self.waiters.items():
            if waiter.route:
                return holder
        return None

    def earliest_ms(self) -> int:
        """Return when the lease or a wait ends first; 0: never."""
        times = [waiter.until_ms for waiter in self.waiters.values()]
        if self.held is not None:
            times.append(self.held.until_ms)
        return min(times, default=0)


def waiter_bytes(holder: str) -> int:
    """Estimate a waiter."""
    return _WAITER_BYTES + text_bytes(holder)
