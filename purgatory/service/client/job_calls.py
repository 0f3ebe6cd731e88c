"""JobCalls: what a worker says to a server, through its client. Any thread."""

from collections.abc import Callable
from typing import Any

from purgatory.service.client.batcher import RequestType
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.session import Session
from purgatory.service.client.worker_link import WorkerLink
from purgatory.service.job_messages import Finish, Keep, Lease, LeaseEnd, Work


class JobCalls:
    """Calls of a worker; `call` makes one, `session` is its client's."""

    def __init__(self, call: Callable[[RequestType, Any], ReplyFuture[Any]], session: Session):
        self._call = call
        self._session = session

    def ask(self, link: WorkerLink) -> ReplyFuture[None]:
        """Ask for jobs, on this connection and on those to come."""
        self._session.worker = link
        return self._call(Work, link.asks)

    def keep(self, lease: Lease) -> ReplyFuture[bool]:
        """Have a lease last longer; False: it has ended."""
        return self._call(Keep, lease)

    def finish(self, end: LeaseEnd) -> ReplyFuture[bool]:
        """End a lease; False: it had ended."""
        return self._call(Finish, end)
