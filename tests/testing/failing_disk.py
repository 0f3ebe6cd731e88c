"""A disk, beneath a store, that fails or hangs when the test says so."""

import sqlite3
import threading

from tests.testing.commits import commits
from tests.testing.purgatory_harness import HANG


class DiskFaults:
    """Makes SQLite statements fail: some, by their position, or all commits; or commits hang."""

    def __init__(self):
        self._returns = threading.Event()
        self.hangs = threading.Event()  # set when a commit has begun to hang
        self.clear()

    def clear(self):
        """Let all statements succeed, and return."""
        self._returns.set()
        self.hangs.clear()
        self._positions = frozenset()
        self._always = False
        self._most = None
        self._count = 0

    def fail_above(self, size):
        """Fail the statements that write a value of more bytes, as a disk that is almost full."""
        self._most = size

    def fail_at(self, *positions, code=sqlite3.SQLITE_FULL, message="database or disk is full"):
        """Fail the statements at these positions, counted from 0 from now on."""
        self._positions = frozenset(positions)
        self._count = 0
        self._code = code
        self._message = message

    def fail(self, code=sqlite3.SQLITE_FULL, message="database or disk is full"):
        """Fail every commit until `clear`."""
        self._always = True
        self._code = code
        self._message = message

    def hang(self):
        """Let commits return only after `clear`."""
        self._returns.clear()

    def connect(self, *args, **kwargs):
        """Make a connection, as `sqlite3.connect` does."""
        return sqlite3.connect(*args, factory=self._factory(), **kwargs)

    def _factory(faults):
        class Faulty(sqlite3.Connection):
            def execute(self, sql, *args):
                faults._count_statement(commits(self, sql))
                faults._check_sizes(sql, *args)
                return super().execute(sql, *args)

        return Faulty

    def _check_sizes(self, sql, values=()):
        sizes = [len(value) for value in values if isinstance(value, bytes | bytearray)]
        if "zeroblob" in sql:
            sizes.append(values[-1])
        if (
            self._most is not None
            and sql.startswith("INSERT")
            and max(sizes, default=0) > self._most
        ):
            self._fail("database or disk is full", sqlite3.SQLITE_FULL)

    def _count_statement(self, is_commit):
        if is_commit and not self._returns.is_set():
            self.hangs.set()
            assert self._returns.wait(HANG)
        position = self._count
        self._count += 1
        if position in self._positions or (self._always and is_commit):
            self._fail(self._message, self._code)

    def _fail(self, message, code):
        error = sqlite3.OperationalError(message)
        error.sqlite_errorcode = code
        raise error
