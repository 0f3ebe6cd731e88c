"""The lease of a store that several servers share: its row, and its holder's view.

The row says which server is active. A server makes a `holder` id for one takeover: while the row
has the id, no other server has taken over. The epoch grows with each takeover, and each commit
checks it. One thread at a time uses a `LeaseRow`; the records are immutable.
"""

from typing import NamedTuple, Protocol

from purgatory.errors import StoreError

#: Of `last_commit_s`.
NEVER_COMMITTED = -1.0


class LeaseLocked(StoreError):
    """Raised when another session has locked the lease's row."""


class SeenLease(NamedTuple):
    """The row of a lease at a look.

    `clock_ms`: the service time then: the written time, plus what has passed since by the
    database's clock. `drift_ms`: `clock_ms` minus that clock. `last_commit_s`: seconds since the
    last commit, or NEVER_COMMITTED. `handover`: an operator has asked the holder to hand over.
    `replicated`: commits wait for a synchronous standby of the database.
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
        """Whether the holder has written nothing between two looks."""
        return self[:4] == other[:4]


class ClockReading(NamedTuple):
    """A reading of the service time, and the database's clock then at the latest.

    So the row has the right time however late it is written. `database_ms` None: the time of the
    write counts.
    """

    clock_ms: int
    database_ms: int | None = None


class SeenStandby(NamedTuple):
    """A standby; `seen_s`: seconds since its last look."""

    holder: str
    address: str
    seen_s: float


class LeaseRow(Protocol):
    """The row of a lease, by a separate connection, for a server that may become the holder.

    The first call connects, and so does a call after a failure. Each call ends within a bounded
    time, also if the database hangs, and may raise a StoreError that is not fatal.
    """

    def set_up(self) -> None:
        """Make what is missing in the database. Raises StoreError."""

    def look(self, register: bool = False) -> SeenLease:
        """Read the row; `register`: also note this server as a standby."""

    def raise_epoch(self, seen: SeenLease) -> SeenLease | None:
        """Raise the epoch and become the holder; None: the row is not as seen.

        Raises LeaseLocked.
        """

    def end_sessions_of(self, seen: SeenLease) -> int:
        """End the sessions of a holder and of epochs up to its own; return how many."""

    def beat(self, reading: ClockReading) -> SeenLease | None:
        """Note that the holder lives, and the service time; None: another is the holder."""

    def release(self, reading: ClockReading) -> bool:
        """Leave the row without a holder; False: another is the holder."""

    def request_handover(self, seen: SeenLease) -> bool:
        """Ask the known holder to hand over; False: another holds the lease."""

    def standbys(self) -> list[SeenStandby]:
        """Return the registered standbys."""

    def server_keys(self) -> str:
        """Return the keys that the last active server noted; empty: none."""

    def close(self) -> None:
        """Close the connection. Idempotent."""


class HeldLease(Protocol):
    """A lease from its holder's view. Any thread."""

    @property
    def holder(self) -> str:
        """The id of the holder."""

    @property
    def epoch(self) -> int:
        """The epoch that commits have."""

    @property
    def clock_offset_ns(self) -> int:
        """Service time minus the time since boot."""

    def boot_ns(self) -> int:
        """Return nanoseconds since boot."""

    def read_clock(self) -> ClockReading:
        """Read the service time, before sending a write of it."""

    def raised(self, epoch: int) -> None:
        """Note that the holder raised its epoch, since a commit was in doubt."""

    def renewed(self, sent_ns: int) -> None:
        """Note that the database has what the holder sent at `sent_ns`."""

    def lose(self, why: str) -> None:
        """Note that another server has taken over."""
