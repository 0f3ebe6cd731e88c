"""A lease in memory: the row that several servers share, and a clock that the test sets."""

import sqlite3
import threading

from purgatory.errors import StoreError, StoreFenced
from purgatory.service.store.contract import SERVER_KEYS
from purgatory.service.store.lease import LeaseLocked, SeenLease, SeenStandby
from purgatory.service.store.sqlite.sqlite_store import SqliteStore

NS_PER_MS = 1_000_000


class ManualBoot:
    """Nanoseconds since boot of a machine; `pass_seconds` lets time pass, and nothing else does."""

    def __init__(self, start_s=1000.0):
        self.ns = int(start_s * 1e9)

    def __call__(self):
        return self.ns

    def pass_seconds(self, seconds):
        """Let time pass."""
        self.ns += int(seconds * 1e9)


class FakeLeaseTable:
    """The database: its row, its standbys, and what goes wrong. Any thread.

    `locked_by`: the epoch of a session that holds the row, None without one. `away`: it does not
    answer. `lose_answer`: the next write happens, and its answer is lost.
    """

    def __init__(self, boot=None, clock_ms=1_000_000):
        self.boot = ManualBoot() if boot is None else boot  # of the database's machine
        self.lock = threading.RLock()
        self.row = SeenLease(0, 0, 0, "", "", clock_ms)
        self.clock_at = self.boot()
        self.standbys = {}
        self.locked_by = None
        self.away = False
        self.lose_answer = False
        self.ended = []  # what `end_sessions_of` was asked for
        self.registered = threading.Event()
        self.server_keys = str  # returns what the last active server has noted

    def open_row(self, holder, address):
        """Return the row as a server sees it."""
        return FakeLeaseRow(self, holder, address)

    def seen(self):
        """Return the row of this moment."""
        passed_ms = (self.boot() - self.clock_at) // NS_PER_MS
        return self.row._replace(clock_ms=self.row.clock_ms + passed_ms)

    def write(self, **changes):
        """Change the row, as a server does that has the connection."""
        with self.lock:
            if "clock_ms" in changes:
                self.clock_at = self.boot()
            self.row = self.row._replace(**changes)
            if self.lose_answer:
                self.lose_answer = False
                raise StoreError("the connection was lost")
            return self.seen()

    def commit(self, epoch):
        """Do what the fence of a commit does; False: the epoch is over."""
        with self.lock:
            if self.row.epoch != epoch:
                return False
            self.write(beat=self.row.beat + 1, commits=self.row.commits + 1)
            return True


class FakeLeaseRow:
    """One server's connection; see `LeaseRow`."""

    def __init__(self, table, holder, address):
        self.table = table
        self.holder = holder
        self.address = address
        self.closed = False

    def _connect(self):
        assert not self.closed
        if self.table.away:
            raise StoreError("the database does not answer")

    def set_up(self):
        """See `LeaseRow`, as all of these."""
        self._connect()

    def look(self, register=False):
        with self.table.lock:
            self._connect()
            if register:
                self.table.standbys[self.holder] = (self.address, self.table.boot())
                self.table.registered.set()
            return self.table.seen()

    def raise_epoch(self, seen):
        with self.table.lock:
            self._connect()
            if self.table.locked_by is not None:
                raise LeaseLocked("the row is locked")
            if not self.table.row.is_same(seen):
                return None
            self.table.standbys.pop(self.holder, None)
            return self.table.write(
                epoch=seen.epoch + 1,
                beat=seen.beat + 1,
                holder=self.holder,
                address=self.address,
                handover=False,
            )

    def end_sessions_of(self, seen):
        with self.table.lock:
            self._connect()
            self.table.ended.append(seen.epoch)
            locked = self.table.locked_by
            if locked is None or locked > seen.epoch:
                return 0
            self.table.locked_by = None
            return 1

    def beat(self, reading):
        with self.table.lock:
            self._connect()
            if self.table.row.holder != self.holder:
                return None
            return self.table.write(beat=self.table.row.beat + 1, clock_ms=reading.clock_ms)

    def release(self, reading):
        with self.table.lock:
            self._connect()
            if self.table.row.holder != self.holder:
                return False
            self.table.write(holder="", handover=False, clock_ms=reading.clock_ms)
            return True

    def request_handover(self, seen):
        with self.table.lock:
            self._connect()
            if self.table.row.holder != seen.holder:
                return False
            self.table.write(handover=True)
            return True

    def standbys(self):
        with self.table.lock:
            self._connect()
            now_ns = self.table.boot()
            return [
                SeenStandby(holder, address, (now_ns - at_ns) / 1e9)
                for holder, (address, at_ns) in self.table.standbys.items()
            ]

    def server_keys(self):
        return self.table.server_keys()

    def close(self):
        self.closed = True


class FencedStore(SqliteStore):
    """A store in a file whose commits go on only while the lease has their epoch."""

    def __init__(self, path, table, lease, connect=sqlite3.connect):
        super().__init__(path, connect=connect)
        self._table = table
        self._lease = lease
        self.clock_offset_ns = lease.clock_offset_ns

    def commit(self, changes):
        """Commit, unless another server has taken over."""
        if not self._table.commit(self._lease.epoch):
            self._lease.lose("a commit has found another epoch")
            raise StoreFenced("another epoch")
        super().commit(changes)


class FakeDatabase:
    """What servers in this process share, see `SharedDatabase`: a lease in memory, and a file.

    `connect` opens the file, as `sqlite3.connect` does.
    """

    def __init__(self, path, table, connect=sqlite3.connect):
        self.path = path
        self._connect = connect
        self.open_row = table.open_row
        self._table = table
        table.server_keys = self._server_keys

    def _server_keys(self):
        store = SqliteStore(self.path)
        try:
            return store.metadata().get(SERVER_KEYS, "")
        finally:
            store.close()

    def open_store(self, lease):
        """Open the file; the server before has closed it, or writes to it no more."""
        return FencedStore(self.path, self._table, lease, self._connect)
