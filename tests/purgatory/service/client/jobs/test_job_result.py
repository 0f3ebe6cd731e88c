"""What a waiting caller gets of a job that has ended."""

import pickle

import pytest

from purgatory.service import JobCancelled, JobFailed, JobStatus, JobUnknown, TooLarge
from purgatory.service.client.jobs.job_result import result_of, still_pending


def test_a_value():
    """Of a done job it is the result, whatever that is."""
    assert result_of("a", JobStatus("a", "done", result=[1])) == [1]
    assert result_of("a", JobStatus("a", "done", result=None)) is None


@pytest.mark.parametrize(
    ("status", "error", "fields"),
    [
        (None, JobUnknown("a"), {"job_id": "a"}),
        (JobStatus("a", "unknown"), JobUnknown("a"), {"job_id": "a"}),
        (
            JobStatus("a", "dead", attempts=2, error="E"),
            JobFailed("a", "E", 2),
            {"job_id": "a", "error": "E", "attempts": 2},
        ),
        (
            JobStatus("a", "cancelled", error="key k"),
            JobCancelled("a", "key k"),
            {"job_id": "a", "reason": "key k"},
        ),
        (JobStatus("a", "done", left_out=5), TooLarge("the values of job 'a'"), {}),
    ],
)
def test_an_error(status, error, fields):
    """It says how the job has ended, has that as fields, and can be sent to another process."""
    with pytest.raises(type(error)) as caught:
        result_of("a", status)
    assert str(error) in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert {name: getattr(copy, name) for name in fields} == fields


def test_the_end_of_a_wait():
    """The error names the job and the time."""
    assert str(still_pending("a", 0.5)) == "job 'a' has not ended within 0.5 s"
