"""The tables of `purgatory top`, by key: kinds, and jobs in a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from purgatory.cli.output import age, short
from purgatory.service.troubles import by_trouble

if TYPE_CHECKING:
    from purgatory.service.client.client import Client
    from purgatory.service.job_messages import JobStatus, KindOverview

ROWS: Final = 12
#: The columns of a kind's row.
STATES: Final = ("ready", "running", "retrying", "dead", "scheduled", "done", "cancelled")
SORTS: Final = ("trouble", *STATES[:5], "kind")
HEAD: Final = ("job", "kind", "due, or ended", "tries", "error, or why")


class JobTable(NamedTuple):
    """A table of jobs in a `state`, in an `order`."""

    title: str
    state: str
    order: str

    def rows(self, client: Client) -> list[tuple[str, ...]]:
        """Ask the server for the rows."""
        found = client.jobs(state=self.state, order=self.order, limit=ROWS)
        return [_row(job) for job in found]


#: Tables in place of the kinds, by key.
TABLES: Final[dict[str, JobTable]] = {
    "d": JobTable("dead jobs, the newest first", "dead", "newest"),
    "r": JobTable("ready jobs, the longest waiting first", "ready", "due"),
    "t": JobTable("retrying jobs, the next first", "retrying", "due"),
    "w": JobTable("running jobs", "running", "due"),
    "n": JobTable("jobs due next", "scheduled", "due"),
}
#: The keys of the kinds, and of their order.
KINDS: Final = "k"
SORT: Final = "s"
QUIT: Final = "q"
HELP: Final = "k kinds, d dead, r ready, t retrying, w running, n next; s sorts kinds; q leaves"


def _row(job: JobStatus) -> tuple[str, ...]:
    at_ms = job.due_ms if job.ended_ms is None else job.ended_ms
    return short(job.job_id), short(job.kind), age(at_ms), str(job.attempts), job.why or job.error


def sorted_kinds(kinds: Sequence[KindOverview], by: str) -> list[KindOverview]:
    """Return kinds in an order of SORTS, the most first."""
    if by == "kind":
        return sorted(kinds, key=lambda each: each.kind)
    if by == "trouble":
        return by_trouble(kinds)
    return sorted(kinds, key=lambda each: each.count(by), reverse=True)
