"""`python -m tests.testing.faulty_server SEED serve ...`: a server whose disk fails now and then.

For a moment at a time all commits fail as on a full disk, some of them fail, all are slow, or the
disk is well.
"""

import random
import sqlite3
import sys
import threading
import time

from purgatory.cli import main
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from tests.testing.commits import commits

#: Seconds that a moment lasts, and a slow commit takes.
MOMENT_S = (0.02, 0.2)
SLOW_S = 0.03


class RandomFaults:
    """Decides for each commit; `connect` makes connections whose commits obey."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._until = 0.0
        self._mode = "well"

    def before_commit(self) -> None:
        """Return after a while, or raise what a full disk raises."""
        now = time.monotonic()
        if now >= self._until:
            self._until = now + self._random.uniform(*MOMENT_S)
            self._mode = self._random.choice(("well", "full", "failing", "slow"))
        if self._mode == "slow":
            time.sleep(SLOW_S)
        if self._mode == "full" or (self._mode == "failing" and self._random.random() < 0.3):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

    def connect(self, *args, **kwargs):
        """Make a connection, as `sqlite3.connect` does."""
        faults = self

        class Faulty(sqlite3.Connection):
            def execute(self, sql, *args):
                if faults.is_serving and commits(self, sql):
                    faults.before_commit()
                return super().execute(sql, *args)

        return sqlite3.connect(*args, factory=Faulty, **kwargs)

    @property
    def is_serving(self) -> bool:
        """Whether the start is over, which needs a disk that is well: the main thread does that."""
        return threading.current_thread() is not threading.main_thread()


if __name__ == "__main__":
    SqliteStore.__init__.__kwdefaults__["connect"] = RandomFaults(int(sys.argv[1])).connect
    sys.exit(main(sys.argv[2:]))
