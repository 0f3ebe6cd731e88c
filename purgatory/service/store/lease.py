"""The lease of a store that several servers share: its row, and its holder's view.

The row says which server is active. `holder` is an id that a server makes for one takeover and uses
never again: while the row has that id, no other server has taken over since. The epoch grows with
each takeover, and each commit asks whether it is still the same. A `LeaseRow` is used by one thread
at a time; the records are immutable.
"""

from typing import NamedTuple, Protocol

from purgatory.errors import StoreError

#: In the place of seconds: there was no commit yet.
NEVER_COMMITTED = -1.0


class LeaseLocked(StoreError):
    """Raised when the lease could not be raised: another session has locked its row."""


class SeenLease(NamedTuple):
    """The row of a lease at a look.

    `clock_ms`: the service time at that moment. The database adds to the written time what has
    passed since by its clock. `drift_ms`: `clock_ms` minus the clock of the database.
    `last_commit_s`: seconds since the last commit, or NEVER_COMMITTED. `handover`: an operator has
    asked the holder to hand over. `replicated`: whether commits wait for a synchronous standby of
    the database.
    """

    epoch: int
    beat: int
    commits: int
    holder: str
    address: str
    clock_ms: int
    last_commit_s: float = NEVER_COMMITTED
    handover: bool = False
    replicated: bool = False
    drift_ms: int = 0

    def is_same(self, other: "SeenLease") -> bool:
        """Tell whether the holder has written nothing between two looks."""
        return self[:4] == other[:4]


class ClockReading(NamedTuple):
    """The service time when it was read, and what the database's clock showed then at the latest.

    Both go to the row: so it has the right time, however late it is written. `database_ms` is None
    if the clock of the database is not known: then the time of the write counts.
    """

    clock_ms: int
    database_ms: int | None = None


class SeenStandby(NamedTuple):
    """A standby that has registered. `seen_s`: seconds since, by the database's clock."""

    holder: str
    address: str
    seen_s: float


class LeaseRow(Protocol):
    """The row of a lease, by a separate connection, for a server that may become the holder.

    The first call connects, and so does a call after one that failed. Each call returns, or raises
    a StoreError that is not fatal, within a bounded time, also if the database hangs.
    """

    def set_up(self) -> None:
        """Make what is missing in the database. Raises StoreError if it cannot be used."""

    def look(self, register: bool = False) -> SeenLease:
        """Read the row; `register`: also note this server among the standbys."""

    def raise_epoch(self, seen: SeenLease) -> SeenLease | None:
        """Take over: a higher epoch and this holder, if the row is still as it was seen.

        None: it is not. Raises LeaseLocked if another session has locked the row.
        """

    def end_sessions_of(self, seen: SeenLease) -> int:
        """End the sessions of the holder and of all epochs up to the given one; return how many."""

    def beat(self, reading: ClockReading) -> SeenLease | None:
        """Note that the holder lives, and the service time; None: another is the holder."""

    def release(self, reading: ClockReading) -> bool:
        """Leave the row without a holder; False: another is the holder."""

    def request_handover(self, seen: SeenLease) -> bool:
        """Ask the known holder to hand over; False: another holds the lease."""

    def standbys(self) -> list[SeenStandby]:
        """Return the standbys that have registered."""

    def server_keys(self) -> str:
        """Return what the last active server has noted of its keys; empty: nothing."""

    def close(self) -> None:
        """Close the connection. Idempotent."""


class HeldLease(Protocol):
    """A lease from its holder's view. Any thread."""

    @property
    def holder(self) -> str:
        """The id of the holder."""

    @property
    def epoch(self) -> int:
        """The epoch that each commit asks for."""

    @property
    def clock_offset_ns(self) -> int:
        """Service time minus the time since boot."""

    def boot_ns(self) -> int:
        """Return nanoseconds since boot."""

    def read_clock(self) -> ClockReading:
        """Read the service time. To be read before what is to write it is sent."""

    def raised(self, epoch: int) -> None:
        """Note that the holder raised its own epoch, since a commit was in doubt."""

    def renewed(self, sent_ns: int) -> None:
        """Note that the database has written for the holder what was sent at `sent_ns`."""

    def lose(self, why: str) -> None:
        """Note that another server has taken over."""
