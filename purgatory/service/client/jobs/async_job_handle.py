"""AsyncJobHandle: a scheduled job, for asyncio. Used in the thread of the client's event loop."""

from collections.abc import Awaitable
from datetime import datetime
from typing import Any, Protocol

from purgatory.service.client.arguments import Duration
from purgatory.service.job_messages import JobStatus


class AsyncJobControl(Protocol):
    """The part of a client that a handle uses; see the verbs of `AsyncClient`."""

    def result(self, job: str, timeout: float | None = None) -> Awaitable[Any]:
        """Wait for the end of a job."""

    def job(self, job: str) -> Awaitable[JobStatus | None]:
        """Read the status of a job."""

    def cancel_job(self, job: str) -> Awaitable[bool]:
        """Cancel a job."""

    def reschedule_job(
        self, job: str, delay: Duration | None = None, *, at: datetime | None = None
    ) -> Awaitable[bool]:
        """Move a job to another time."""

    def run_job(self, job: str) -> Awaitable[bool]:
        """Have a job run now."""

    def retry_job(self, job: str) -> Awaitable[bool]:
        """Have a dead job tried again."""

    def drop_job(self, job: str) -> Awaitable[bool]:
        """Forget a dead job."""


class AsyncJobHandle:
    """A job at the server: what `AsyncClient.schedule` returns; as `JobHandle`, to be awaited."""

    __slots__ = ("_client", "id", "is_new")

    def __init__(self, client: AsyncJobControl, job_id: str, *, is_new: bool) -> None:
        self._client = client
        self.id: str = job_id
        self.is_new: bool = is_new

    async def result(self, timeout: float | None = None) -> Any:
        """Wait for the end; return the handler's value. See `Client.result`."""
        return await self._client.result(self.id, timeout)

    async def status(self) -> JobStatus | None:
        """Read the job's status; None: the server does not know the job."""
        return await self._client.job(self.id)

    async def cancel(self) -> bool:
        """Cancel the job. See `Client.cancel_job`."""
        return await self._client.cancel_job(self.id)

    async def reschedule(
        self, delay: Duration | None = None, *, at: datetime | None = None
    ) -> bool:
        """Move the job to another time. See `Client.reschedule_job`."""
        return await self._client.reschedule_job(self.id, delay, at=at)

    async def run(self) -> bool:
        """Have the job run now. See `Client.run_job`."""
        return await self._client.run_job(self.id)

    async def retry(self) -> bool:
        """Have the dead job tried again. See `Client.retry_job`."""
        return await self._client.retry_job(self.id)

    async def drop(self) -> bool:
        """Forget the dead job. See `Client.drop_job`."""
        return await self._client.drop_job(self.id)

    def __repr__(self) -> str:
        return f"<AsyncJobHandle {self.id!r}{'' if self.is_new else ', known before'}>"
