"""Handles of jobs for asyncio: each method is the client's, with the id, awaited."""

import asyncio
import inspect

from purgatory.service.client.jobs.async_job_handle import AsyncJobHandle
from purgatory.service.client.jobs.job_handle import JobHandle
from tests.purgatory.service.client.jobs.test_job_handle import NOON, RecordingClient


class AsyncRecordingClient(RecordingClient):
    """Its calls are to be awaited."""

    def __getattr__(self, name):
        call = super().__getattr__(name)

        async def later(*arguments, **options):
            return call(*arguments, **options)

        return later


def test_each_method_is_the_clients():
    """With the job's id, and the arguments as they are."""
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


def test_both_handles_have_the_same_methods():
    """With the same arguments."""
    for name, method in inspect.getmembers(JobHandle, inspect.isfunction):
        mine, other = (
            [(p.name, p.default, p.kind) for p in inspect.signature(call).parameters.values()]
            for call in (method, getattr(AsyncJobHandle, name))
        )
        assert mine == other, name
