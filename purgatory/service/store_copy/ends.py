"""The two ends of a copy: a data directory or a URL, which no server uses meanwhile.

A data directory is locked, and a database's lease is held, so no server begins with either. The
service's clock moves to the new place. One thread.
"""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from purgatory.errors import StoreError
from purgatory.service.backup import new_directory
from purgatory.service.config import STORE_URLS, Config
from purgatory.service.platform import boot_ns
from purgatory.service.server.clock import NS_PER_MS, ServiceClock
from purgatory.service.server.recovery import start_clock
from purgatory.service.store.contract import UNFINISHED_COPY, Store
from purgatory.service.store.data_directory import data_directory_lock
from purgatory.service.store.lease import ClockReading, LeaseRow, SeenLease
from purgatory.service.store.opening import open_file, open_lease_row, open_postgres
from purgatory.service.store_copy.copier import Copied, StoreCopier, check_empty

_BEAT_S: Final = 1.0  # seconds between two beats of a lease


def is_url(place: str) -> bool:
    """Tell whether a place is a database."""
    return place.startswith(STORE_URLS)


def copy_store(
    source: str, target: str, partition: str = "", note: Callable[[int], None] = lambda _: None
) -> Copied:
    """Copy the store at `source` to `target`, each a data directory or a URL.

    `partition`: of URLs. `note` gets the count of copied records. Raises StoreError, ServerError:
    nothing is at `source`, the target is not empty, or a server uses one of them.
    """
    with contextlib.ExitStack() as stack:
        if is_url(source):
            begin = stack.enter_context(_database(source, partition))
        else:
            begin = stack.enter_context(_source_directory(Path(source)))
        if is_url(target):
            end = stack.enter_context(_database(target, partition, begin.now_ms))
        else:
            end = stack.enter_context(_target_directory(Path(target), begin.now_ms))

        def beat(done: int) -> None:
            begin.beat()
            end.beat()
            note(done)

        end.begin()
        copied = StoreCopier(begin.store, end.store, beat).run()
        end.finish()
        return copied


class _End:
    """An open store, and the service time of its data."""

    def __init__(self, store: Store, now_ms: Callable[[], int]) -> None:
        self.store = store
        self.now_ms = now_ms

    def beat(self) -> None:
        """Keep the lease, if any. Raises StoreError if a server has it."""

    def begin(self) -> None:
        """Mark the store as incomplete. Raises StoreError if not empty."""

    def finish(self) -> None:
        """Note that the copy is whole."""


@contextlib.contextmanager
def _source_directory(directory: Path) -> Iterator[_End]:
    database = Config(data_dir=directory).database
    assert database is not None
    if not database.is_file():
        raise StoreError(f"{database}: there is no such database")
    with data_directory_lock(directory), contextlib.closing(open_file(database)) as store:
        yield _End(store, start_clock(store).now_ms)


@contextlib.contextmanager
def _target_directory(target: Path, now_ms: Callable[[], int]) -> Iterator[_End]:
    with (
        new_directory(target) as directory,
        contextlib.closing(open_file(Config(data_dir=directory).database)) as store,
    ):
        yield _NewDirectory(store, now_ms)


class _NewDirectory(_End):
    """A new directory."""

    def finish(self) -> None:
        """Write the clock, as a server does at its end."""
        offset_ns = self.now_ms() * NS_PER_MS - boot_ns()
        self.store.set_metadata(ServiceClock({}, offset_ns=offset_ns).metadata())


@contextlib.contextmanager
def _database(url: str, partition: str, clock: Callable[[], int] | None = None) -> Iterator[_End]:
    """Hold the lease of a database, as an active server would. `clock`: see `CopyLease`."""
    holder = f"copy-{secrets.token_hex(8)}"
    with contextlib.closing(
        open_lease_row(url, partition, holder, "a copy", timeout_s=10.0)
    ) as row:
        if clock is None:
            row.look()  # a source without tables is a wrong name: make none
        taken = _take(row)
        lease = CopyLease(holder, taken, clock)
        try:
            with contextlib.closing(open_postgres(url, partition, lease)) as store:
                yield _HeldDatabase(store, lease, row)
        finally:
            with contextlib.suppress(StoreError):
                row.release(lease.read_clock())


def _take(row: LeaseRow) -> SeenLease:
    row.set_up()
    seen = row.look()
    if seen.holder:
        raise StoreError(
            f"a server has the store: {seen.address}; stop it first. After a kill, start a "
            "server and stop it"
        )
    taken = row.raise_epoch(seen)
    if taken is None:
        raise StoreError("a server has begun to use the store; stop it first")
    return taken


class CopyLease:
    """The lease that a copy holds; see `HeldLease`.

    `clock` returns the service time of the source; by default the lease's goes on.
    """

    def __init__(
        self, holder: str, taken: SeenLease, clock: Callable[[], int] | None = None
    ) -> None:
        self.holder: str = holder
        self.epoch: int = taken.epoch
        self.clock_offset_ns: int = taken.clock_ms * NS_PER_MS - boot_ns()
        self._clock = clock

    def boot_ns(self) -> int:
        """See `HeldLease`."""
        return boot_ns()

    def now_ms(self) -> int:
        """Return the service time."""
        if self._clock is not None:
            return self._clock()
        return (boot_ns() + self.clock_offset_ns) // NS_PER_MS

    def read_clock(self) -> ClockReading:
        """Read the service time; the database's clock is another."""
        return ClockReading(self.now_ms())

    def raised(self, epoch: int) -> None:
        """See `HeldLease`."""
        self.epoch = epoch

    def renewed(self, sent_ns: int) -> None:
        """Do nothing: no client waits for an answer."""

    def lose(self, why: str) -> None:
        """Do nothing: the commit raises."""


class _HeldDatabase(_End):
    def __init__(self, store: Store, lease: CopyLease, row: LeaseRow) -> None:
        super().__init__(store, lease.now_ms)
        self._row = row
        self._beaten_s = time.monotonic()

    def beat(self) -> None:
        """Renew the lease now and then."""
        now_s = time.monotonic()
        if now_s - self._beaten_s < _BEAT_S:
            return
        self._beaten_s = now_s
        if self._row.beat(ClockReading(self.now_ms())) is None:
            raise StoreError("a server has taken the store over while it was copied")

    def begin(self) -> None:
        """Mark the store, so that no server starts with half a copy."""
        check_empty(self.store)
        self.store.set_metadata({UNFINISHED_COPY: 1})

    def finish(self) -> None:
        self.store.set_metadata({UNFINISHED_COPY: 0})
