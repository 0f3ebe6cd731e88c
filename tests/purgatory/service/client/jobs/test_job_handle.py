"""Handles of jobs: each method is the client's, with the id; for asyncio, awaited."""

import asyncio
from datetime import UTC, datetime

from purgatory.service.client.jobs.job_handle import AsyncJobHandle, JobHandle, ScheduledFuture

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


class AsyncRecordingClient(RecordingClient):
    """Its calls are to be awaited."""

    def __getattr__(self, name):
        call = super().__getattr__(name)

        async def later(*arguments, **options):
            return call(*arguments, **options)

        return later


def test_each_method_of_a_handle_for_asyncio():
    """It is the client's, too, and awaited."""
    client = AsyncRecordingClient()
    handle = AsyncJobHandle(client, "a", is_new=False)

    async def main():
        return [
            await call
            for call in (
                *(handle.result(5), handle.status(), handle.cancel()),
                *(handle.reschedule("1m", at=None), handle.reschedule(at=NOON)),
                *(handle.run(), handle.retry(), handle.drop()),
            )
        ]

    assert asyncio.run(main()) == [name for name, *_ in client.calls]
    assert [call[:2] for call in client.calls] == [
        *(("result", "a"), ("job", "a"), ("cancel_job", "a")),
        *(("reschedule_job", "a"), ("reschedule_job", "a")),
        *(("run_job", "a"), ("retry_job", "a"), ("drop_job", "a")),
    ]
    assert client.calls[3][2:] == ("1m", {"at": None})
    assert client.calls[4][2:] == (None, {"at": NOON})
    assert repr(handle) == "<AsyncJobHandle 'a', known before>"
