"""HeldLease for tests: what a store needs of the lease, and a way to take it."""

import itertools
import os
import time

from purgatory.service.store.lease import ClockReading
from purgatory.service.store.postgres.lease_row import PostgresLeaseRow
from purgatory.service.store.postgres.postgres_store import PostgresStore

_holders = itertools.count(1)


class HeldForTests:
    """A lease, as the store of its holder knows it; notes what the store tells."""

    def __init__(self, holder: str, epoch: int) -> None:
        self.holder = holder
        self.epoch = epoch
        self.clock_offset_ns = 0
        self.raises: list[int] = []
        self.renewals: list[int] = []
        self.lost: list[str] = []
        self.clock_ms = 1_000_000
        self.database_ms: int | None = None

    def boot_ns(self) -> int:
        """Return nanoseconds that grow."""
        return time.monotonic_ns()

    def read_clock(self) -> ClockReading:
        """Return the service time."""
        return ClockReading(self.clock_ms, self.database_ms)

    def raised(self, epoch: int) -> None:
        """Note the epoch."""
        self.epoch = epoch
        self.raises.append(epoch)

    def renewed(self, sent_ns: int) -> None:
        """Note when it was sent."""
        self.renewals.append(sent_ns)

    def lose(self, why: str) -> None:
        """Note the reason."""
        self.lost.append(why)


def take_over(url: str, partition: str = "") -> HeldForTests:
    """Make the tables if needed, and become the holder, whoever that is."""
    holder = f"holder-{os.getpid()}-{next(_holders)}"
    row = PostgresLeaseRow(url, partition, holder, "tcp://test:1", timeout_s=30)
    try:
        row.set_up()
        seen = row.raise_epoch(row.look())
        assert seen is not None
        return HeldForTests(holder, seen.epoch)
    finally:
        row.close()


def open_store(url: str, partition: str = "", **options: bool) -> PostgresStore:
    """Take the lease over, and open the store; its lease is `store.lease`."""
    lease = take_over(url, partition)
    store = PostgresStore(url, partition, lease, **options)
    store.lease = lease
    return store
