"""A disk that fails when it is told to, beneath a store."""

import sqlite3


class DiskFaults:
    """Counts statements since `fail_at`, and fails those of the given places."""

    def __init__(self):
        self.clear()

    def clear(self):
        """Fail no more."""
        self._places = frozenset()
        self._always = False
        self._count = 0

    def fail_at(self, *places, code=sqlite3.SQLITE_FULL, words="database or disk is full"):
        """Fail the statements of these places, counted from now."""
        self._places = frozenset(places)
        self._count = 0
        self._code = code
        self._words = words

    def fail(self, code=sqlite3.SQLITE_FULL, words="database or disk is full"):
        """Fail every commit until `clear`."""
        self._always = True
        self._code = code
        self._words = words

    def connect(self, *args, **kwargs):
        """Make a connection, as `sqlite3.connect` does."""
        return sqlite3.connect(*args, factory=self._factory(), **kwargs)

    def _factory(faults):
        class Faulty(sqlite3.Connection):
            def execute(self, sql, *args):
                faults._look(sql)
                return super().execute(sql, *args)

        return Faulty

    def _look(self, sql):
        place = self._count
        self._count += 1
        if place in self._places or (self._always and sql == "COMMIT"):
            error = sqlite3.OperationalError(self._words)
            error.sqlite_errorcode = self._code
            raise error
