"""MassCancels: cancellations of all matching jobs, some in each transaction.

No client waits for a hundred thousand jobs. The request is answered at the end; a client that gets
no answer asks again. Store thread alone.
"""

from typing import Final

from purgatory.service.job_messages import CancelMatching
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.jobs.job_index import JobIndex, matches
from purgatory.service.server.records.job_record import DONE, JobRecord

#: Jobs that a transaction cancels; jobs that it examines.
PORTION: Final = 150
LOOKED_AT: Final = 5000
#: Unfinished cancellations, at most.
MOST: Final = 64


class MassCancel:
    """A cancellation of the jobs up to number `last` that match a request.

    `session`: see `RememberedReplies.key`. `commands`: the request, as often as sent.
    """

    def __init__(
        self, command: ClientRequest, request: CancelMatching, session: str, last: int
    ) -> None:
        self.request: CancelMatching = request
        self.session: str = session
        self.commands: list[ClientRequest] = [command]
        self.after: tuple[int, int] = (last + 1, last + 1)
        self.count: int = 0

    def next_jobs(self, jobs: JobIndex) -> tuple[list[JobRecord], tuple[int, int], bool]:
        """Return the next jobs to cancel, the cursor, and whether it is the end.

        By number, the newest first: no job moves in this order.
        """
        wanted = self.request.wanted
        return jobs.look(wanted, "newest", self.after, self._is_meant, PORTION, LOOKED_AT)

    def _is_meant(self, job: JobRecord) -> bool:
        return job.state < DONE and matches(self.request.wanted, self.commands[0].owner, job)


class MassCancels:
    """The unfinished cancellations of a server."""

    def __init__(self) -> None:
        #: In order of arrival.
        self.running: list[MassCancel] = []
        self.begun: list[MassCancel] = []  # by the open transaction; run in the next
        # Of the first, in the open transaction: cursor, count, whether finished.
        self._progress: tuple[tuple[int, int], int, bool] | None = None

    def find(self, session: str, seq: int) -> MassCancel | None:
        """Return the cancellation that a request has begun, if any."""
        for one in (*self.running, *self.begun):
            if session and one.session == session and one.request.seq == seq:
                return one
        return None

    def note(self, after: tuple[int, int], count: int, *, is_end: bool) -> None:
        """Note the progress of the first."""
        self._progress = (after, count, is_end)

    def publish(self) -> None:
        """Keep the open transaction's changes."""
        if self._progress is not None:
            first = self.running[0]
            first.after = self._progress[0]
            first.count += self._progress[1]
            if self._progress[2]:
                self.running.pop(0)
            else:
                self.running.append(self.running.pop(0))  # they take turns
        self.running += self.begun
        self.roll_back()

    def roll_back(self) -> None:
        """Forget the open transaction's changes."""
        self._progress = None
        self.begun = []
