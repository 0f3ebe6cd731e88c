"""What a waiting caller gets for an ended job. Pure; any thread."""

from typing import Any

from purgatory.service.errors import JobCancelled, JobFailed, JobUnknown, TooLarge
from purgatory.service.job_messages import JobStatus


def result_of(job_id: str, status: JobStatus | None) -> Any:
    """Return the value of a done job. Raises JobFailed, JobCancelled, JobUnknown, TooLarge."""
    if status is None or status.state == "unknown":
        raise JobUnknown(job_id)
    if status.state == "cancelled":
        raise JobCancelled(job_id, status.error)
    if status.state != "done":
        raise JobFailed(job_id, status.error, status.attempts)
    if status.left_out:
        text = (
            f"the values of job {job_id!r} are too large for a message, by {status.left_out} bytes"
        )
        raise TooLarge(text)
    return status.result


def still_pending(job_id: str, seconds: float | None) -> TimeoutError:
    """Return the error of a wait that ended before the job."""
    return TimeoutError(f"job {job_id!r} has not ended within {seconds} s")
