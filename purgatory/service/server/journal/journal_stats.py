"""JournalStats: how far a server's journal is behind its store."""

from typing import NamedTuple


class JournalStats(NamedTuple):
    """The figures of a journal at one moment.

    `waiting_rows`: committed, and not in a file yet. `lag_s`: for how long the oldest of them has
    waited, at most; 0 if there is none. `failures`: attempts to write that failed, since the start.
    `is_behind`: rows were refused, which the journal gets when the server is started again.
    """

    waiting_rows: int
    lag_s: float
    failures: int
    is_behind: bool
