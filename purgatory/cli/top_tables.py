"""The tables of `purgatory top`, each with its key: kinds, and jobs in some states.

Called from the main thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from purgatory.cli.output import age, short
from purgatory.service.troubles import by_trouble

if TYPE_CHECKING:
    from purgatory.service.client.client import Client
    from purgatory.service.job_messages import JobStatus, KindOverview

#: Rows of a table, at most.
ROWS: Final = 12
#: The states of a kind's row, in the order of its columns.
STATES: Final = ("ready", "running", "retrying", "dead", "scheduled", "done", "cancelled")
#: What kinds are sorted by, in turn: trouble, then states.
SORTS: Final = ("trouble", *STATES[:5], "kind")
HEAD: Final = ("job", "kind", "due, or ended", "tries", "error, or why")


class JobTable(NamedTuple):
    """A table of jobs in a `state`, in an `order`; `title` says which."""

    title: str
    state: str
    order: str

    def rows(self, client: Client) -> list[tuple[str, ...]]:
        """Ask the server for the rows."""
        found = client.jobs(state=self.state, order=self.order, limit=ROWS)
        return [_row(job) for job in found]


#: By key: what is shown instead of the kinds.
TABLES: Final[dict[str, JobTable]] = {
    "d": JobTable("dead jobs, the newest first", "dead", "newest"),
    "r": JobTable("ready jobs, the longest waiting first", "ready", "due"),
    "t": JobTable("retrying jobs, the next first", "retrying", "due"),
    "w": JobTable("running jobs", "running", "due"),
    "n": JobTable("jobs due next", "scheduled", "due"),
}
#: The key of the kinds, and that of their order.
KINDS: Final = "k"
SORT: Final = "s"
QUIT: Final = "q"
HELP: Final = "k kinds, d dead, r ready, t retrying, w running, n next; s sorts kinds; q leaves"


def _row(job: JobStatus) -> tuple[str, ...]:
    at_ms = job.due_ms if job.ended_ms is None else job.ended_ms
    return short(job.job_id), short(job.kind), age(at_ms), str(job.attempts), job.why or job.error


def sorted_kinds(kinds: Sequence[KindOverview], by: str) -> list[KindOverview]:
    """Return kinds in an order of SORTS, the most first; kinds in trouble by default."""
    if by == "kind":
        return sorted(kinds, key=lambda each: each.kind)
    if by == "trouble":
        return by_trouble(kinds)
    return sorted(kinds, key=lambda each: each.count(by), reverse=True)
