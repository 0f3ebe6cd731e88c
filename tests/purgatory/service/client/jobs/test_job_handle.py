"""Handles of jobs: each method is the client's, with the id."""

from datetime import UTC, datetime

from purgatory.service.client.jobs.job_handle import JobHandle, ScheduledFuture

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)


class RecordingClient:
    """Notes its calls, and returns their names."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments, **options):
            self.calls.append((name, *arguments, options))
            return name

        return call


def test_each_method_is_the_clients():
    """With the job's id, and the arguments as they are."""
    client = RecordingClient()
    handle = JobHandle(client, "a", is_new=True)
    assert handle.result(5) == "result"
    assert handle.status() == "job"
    assert handle.cancel() == "cancel_job"
    assert handle.reschedule("1m") == "reschedule_job"
    assert handle.reschedule(at=NOON) == "reschedule_job"
    assert handle.run() == "run_job"
    assert handle.retry() == "retry_job"
    assert handle.drop() == "drop_job"
    assert client.calls == [
        ("result", "a", 5, {}),
        ("job", "a", {}),
        ("cancel_job", "a", {}),
        ("reschedule_job", "a", "1m", {"at": None}),
        ("reschedule_job", "a", None, {"at": NOON}),
        ("run_job", "a", {}),
        ("retry_job", "a", {}),
        ("drop_job", "a", {}),
    ]


def test_what_it_shows():
    """Its id, and whether the job was known before."""
    client = RecordingClient()
    assert repr(JobHandle(client, "a", is_new=True)) == "<JobHandle 'a'>"
    known = ScheduledFuture(client, is_made_up=False).handle("a", is_new=False)
    assert (known.id, known.is_new) == ("a", False)
    assert repr(known) == "<JobHandle 'a', known before>"
