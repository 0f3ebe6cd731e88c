"""LeaseNotices: news of their leases for workers. Store thread alone."""

from purgatory.service.job_messages import CancelLeases
from purgatory.service.protocol import Lease
from purgatory.service.server.leases.due_job import DueJob


class LeaseNotices:
    """Leases whose jobs were cancelled or moved, by connection."""

    def __init__(self) -> None:
        #: By route, and whether the server wants the jobs back.
        self.leases: dict[tuple[bytes, bool], list[Lease]] = {}

    def add(self, job: DueJob, *, recall: bool) -> None:
        """Tell the worker that holds a job, if any; see `CancelLeases`."""
        worker = job.holder
        if worker is not None and worker.begins and not worker.detached:
            lease = Lease(job.record.seq, job.token)
            self.leases.setdefault((worker.route, recall), []).append(lease)

    def take(self) -> list[tuple[bytes, CancelLeases]]:
        """Return the messages for workers, with their routes."""
        taken, self.leases = self.leases, {}
        return [(key[0], CancelLeases(leases, key[1])) for key, leases in taken.items()]
