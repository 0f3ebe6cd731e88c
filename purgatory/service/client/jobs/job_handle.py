"""JobHandle and AsyncJobHandle: a scheduled job.

A `JobHandle` is for any thread, an `AsyncJobHandle` for that of the event loop.
"""

from collections.abc import Coroutine
from datetime import datetime
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from purgatory.service.client.arguments import Duration
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.job_messages import JobStatus

# What the verbs return.
_Value_co = TypeVar("_Value_co", covariant=True)
_Status_co = TypeVar("_Status_co", covariant=True)
_Done_co = TypeVar("_Done_co", covariant=True)
_T = TypeVar("_T")
_Later: TypeAlias = Coroutine[Any, Any, _T]


class JobControl(Protocol[_Value_co, _Status_co, _Done_co]):
    """The part of a client that a handle uses; see the verbs of `Client`."""

    def result(self, job: str, timeout: Duration | None = None) -> _Value_co:
        """See `Client.result`."""

    def job(self, job: str) -> _Status_co:
        """See `Client.job`."""

    def cancel_job(self, job: str) -> _Done_co:
        """See `Client.cancel_job`."""

    def reschedule_job(
        self, job: str, delay: Duration | None = None, *, at: datetime | None = None
    ) -> _Done_co:
        """See `Client.reschedule_job`."""

    def run_job(self, job: str) -> _Done_co:
        """See `Client.run_job`."""

    def retry_job(self, job: str) -> _Done_co:
        """See `Client.retry_job`."""

    def drop_job(self, job: str) -> _Done_co:
        """See `Client.drop_job`."""


ClientJobs: TypeAlias = JobControl[Any, JobStatus | None, bool]


class JobVerbs(Generic[_Value_co, _Status_co, _Done_co]):
    """The base of both handles, but for the types."""

    __slots__ = ("_client", "id", "is_new")

    def __init__(
        self, client: JobControl[_Value_co, _Status_co, _Done_co], job_id: str, *, is_new: bool
    ) -> None:
        self._client = client
        self.id: str = job_id
        self.is_new: bool = is_new

    def result(self, timeout: Duration | None = None) -> _Value_co:
        """See `Client.result`."""
        return self._client.result(self.id, timeout)

    def status(self) -> _Status_co:
        """See `Client.job`."""
        return self._client.job(self.id)

    def cancel(self) -> _Done_co:
        """See `Client.cancel_job`."""
        return self._client.cancel_job(self.id)

    def reschedule(self, delay: Duration | None = None, *, at: datetime | None = None) -> _Done_co:
        """See `Client.reschedule_job`."""
        return self._client.reschedule_job(self.id, delay, at=at)

    def run(self) -> _Done_co:
        """See `Client.run_job`."""
        return self._client.run_job(self.id)

    def retry(self) -> _Done_co:
        """See `Client.retry_job`."""
        return self._client.retry_job(self.id)

    def drop(self) -> _Done_co:
        """See `Client.drop_job`."""
        return self._client.drop_job(self.id)

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it belongs to a client")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r}{'' if self.is_new else ', known before'}>"


class JobHandle(JobVerbs[Any, JobStatus | None, bool]):
    """A job at the server: what `Client.schedule` returns.

    `is_new`: False if the server had a job of that `id` already, which is unchanged. Methods raise
    the errors of the client's methods.
    """

    __slots__ = ()


class AsyncJobHandle(JobVerbs[_Later[Any], _Later[JobStatus | None], _Later[bool]]):
    """Like `JobHandle`, with awaitable methods."""

    __slots__ = ()


class ScheduledFuture(ReplyFuture[JobHandle]):
    """The reply to a `schedule_later`; resolved by the session.

    `is_made_up`: the client made the id, so the job is new, even if the call was sent again.
    """

    def __init__(self, client: ClientJobs, *, is_made_up: bool) -> None:
        super().__init__()
        self._client = client
        self._is_made_up = is_made_up

    def handle(self, job_id: str, *, is_new: bool) -> JobHandle:
        """Return the handle of the job."""
        return JobHandle(self._client, job_id, is_new=is_new or self._is_made_up)
