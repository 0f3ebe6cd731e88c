"""AsyncClient: a `Client` for asyncio. For the thread of an event loop."""

import asyncio
import concurrent.futures
import contextlib
import inspect
import math
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from purgatory.errors import OperationCancelled, OperationExpired
from purgatory.loop_callbacks import LoopCallbacks
from purgatory.service.client.arguments import Duration, JobName, checked_number, checked_seconds
from purgatory.service.client.client import CLOSE_TIMEOUT_S, Client
from purgatory.service.client.functions import check_function, refuse_unfinished
from purgatory.service.client.futures import ReplyFuture, ServiceFuture
from purgatory.service.client.jobs.job_handle import AsyncJobHandle
from purgatory.service.client.jobs.job_waits import JobEndFuture, ended_status, result_of
from purgatory.service.client.jobs.later_job_calls import check_filters, job_id_of
from purgatory.service.client.later_calls import LaterCalls, check_operation_filters, described_by
from purgatory.service.client.leases.async_lease_handle import AsyncLeaseHandle
from purgatory.service.client.leases.lease_owner import LeaseTerms
from purgatory.service.client.outcomes import OnOutcome
from purgatory.service.client.pages import async_items_of
from purgatory.service.client.repeats.repeat_handle import AsyncRepeatHandle
from purgatory.service.errors import OperationFailed, RequestTimeout, ServiceError, Unavailable
from purgatory.service.job_messages import JobStatus
from purgatory.service.portions import in_portions
from purgatory.service.protocol import OperationStatus, OutcomeMessage

#: Running calls of `on_outcome`.
MAX_RUNNING: Final = 64
_ENDS: Final = (OperationCancelled, OperationExpired, OperationFailed, Unavailable)

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _like(
    other: Callable[Concatenate[Client, _P], Any],
) -> "Callable[[Callable[..., _T]], Callable[Concatenate[AsyncClient, _P], _T]]":
    """Give a method the arguments of a `Client`'s."""

    def declare(method: Callable[..., _T]) -> "Callable[Concatenate[AsyncClient, _P], _T]":
        returns = inspect.signature(method).return_annotation
        signature = inspect.signature(other).replace(return_annotation=returns)
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method

    return declare


def awaited(
    call: Callable[Concatenate[LaterCalls, _P], ReplyFuture[_T]],
) -> "Callable[Concatenate[AsyncClient, _P], Coroutine[Any, Any, _T]]":
    """Make the verb that awaits the answer to a call."""

    async def wait(client: "AsyncClient", /, *arguments: _P.args, **options: _P.kwargs) -> _T:
        return await client._answer(call, *arguments, **options)

    return described_by(call, wait)


class AsyncClient:
    """A `Client` for asyncio, with the same arguments. Use `async with`, or `close` it.

    `on_outcome` is called in the running event loop, and may be a coroutine function: its return
    acknowledges the outcome. Up to 64 run at a time. With `on_outcome`, raises RuntimeError without
    a running loop.
    """

    @_like(Client.__init__)
    def __init__(self, *address: str, on_outcome: OnOutcome | None = None, **options: Any) -> None:
        self._handler = None if on_outcome is None else LoopHandler(on_outcome)
        self._client = Client(*address, on_outcome=self._handler, **options)
        self._batcher = self._client._batcher
        self._batcher.may_wait = lambda: False  # in the loop
        #: For `result_of`.
        self.calls: LaterCalls = self._client
        self.name: str = self._client.name
        self.address: str = self._client.address

    @property
    def refusal(self) -> ServiceError | None:
        """Why the server refused the connection, if so; all calls raise this."""
        return self._client._session.failure

    @_like(Client.defer)
    def defer(self, *keys: str, **options: Any) -> "AsyncServiceFuture":
        """Like `Client.defer`; returns an asyncio future. Never blocks: raises ClientBusy."""
        if not self._batcher.has_room():
            raise self._batcher.busy()
        return AsyncServiceFuture(self, self._client.defer(*keys, **options))

    submit = awaited(LaterCalls.submit_later)
    complete = awaited(LaterCalls.complete_later)
    fail = awaited(LaterCalls.fail_later)
    extend = awaited(LaterCalls.extend_later)
    cancel = awaited(LaterCalls.cancel_later)
    query = awaited(LaterCalls.query_later)
    unread = awaited(LaterCalls.unread_later)
    list_page = awaited(LaterCalls.list_page_later)
    stats = awaited(LaterCalls.stats_later)

    job = awaited(LaterCalls.job_later)
    jobs_page = awaited(LaterCalls.jobs_page_later)
    job_counts = awaited(LaterCalls.job_counts_later)
    overview = awaited(LaterCalls.overview_later)
    cancel_job = awaited(LaterCalls.cancel_job_later)
    cancel_jobs = awaited(LaterCalls.cancel_jobs_later)
    reschedule_job = awaited(LaterCalls.reschedule_job_later)
    run_job = awaited(LaterCalls.run_job_later)
    retry_job = awaited(LaterCalls.retry_job_later)
    drop_job = awaited(LaterCalls.drop_job_later)
    pause = awaited(LaterCalls.pause_later)
    resume = awaited(LaterCalls.resume_later)
    limit = awaited(LaterCalls.limit_later)
    limits = awaited(LaterCalls.limits_later)
    change_repeat = awaited(LaterCalls.change_repeat_later)
    repeats_page = awaited(LaterCalls.repeats_page_later)

    async def acknowledge(self, numbers: Iterable[int]) -> int:
        """Like `Client.acknowledge`; awaits each answer before the next message."""
        portions = in_portions(numbers, self._client._session.max_items)
        return sum([await self._answer(LaterCalls.acknowledge_later, some) for some in portions])

    @_like(Client.repeat)
    async def repeat(self, *name: Any, **options: Any) -> AsyncRepeatHandle:
        """Like `Client.repeat`."""
        state = await self._answer(LaterCalls.repeat_later, *name, **options)
        return AsyncRepeatHandle(self, state)

    async def repeats(self) -> Sequence[AsyncRepeatHandle]:
        """Like `Client.repeats`."""
        filters = {"client": self.name}
        found = async_items_of(self.repeats_page, lambda page: page.repeats, sys.maxsize, filters)
        return [AsyncRepeatHandle(self, state) async for state in found]

    @_like(Client.schedule)
    async def schedule(self, *delay: Any, **options: Any) -> AsyncJobHandle:
        """Like `Client.schedule`."""
        handle = await self._answer(LaterCalls.schedule_later, *delay, **options)
        return AsyncJobHandle(self, handle.id, is_new=handle.is_new)

    async def result(self, job: JobName, timeout: Duration | None = None) -> Any:
        """Like `Client.result`."""
        job_id = job_id_of(job)
        seconds = None if timeout is None else checked_seconds(timeout, "timeout")
        with self._client._end_of(job_id) as future:
            try:
                async with asyncio.timeout(seconds):
                    status = await _wrapped(future)
            except TimeoutError as error:
                if not future.done():
                    last = await self._last_status(future, seconds or 0.0, error)
                    return result_of(job_id, last)
                status = future.result()  # it came just now, or is a TimeoutError
        return result_of(job_id, await self.job(job_id) if status.left_out else status)

    async def _last_status(
        self, future: JobEndFuture, seconds: float, error: TimeoutError
    ) -> JobStatus | None:
        left = self._client._seconds_left(future, seconds, error)
        status = await self.result_of(self.calls.job_later(future.job_id), left)
        return ended_status(future.job_id, status, seconds)

    @_like(Client.jobs)
    def jobs(self, *, limit: int | None = None, **filters: Any) -> AsyncIterator[JobStatus]:
        """Like `Client.jobs`: `async for job in client.jobs()`."""
        left = sys.maxsize if limit is None else checked_number(limit, "limit", 1)
        check_filters(**filters)
        return async_items_of(self.jobs_page, lambda page: page.jobs, left, filters)

    @_like(Client.list)
    def list(self, *, limit: int | None = None, **filters: Any) -> AsyncIterator[OperationStatus]:
        """Like `Client.list`: `async for operation in client.list()`."""
        left = sys.maxsize if limit is None else checked_number(limit, "limit", 1)
        check_operation_filters(**filters)
        return async_items_of(self.list_page, lambda page: page.states, left, filters)

    def lease(
        self, name: str, *, keep: Duration = 30.0, timeout: Duration | None = None
    ) -> AsyncLeaseHandle:
        """Like `Client.lease`, for `async with`; `lost` is an `asyncio.Event`."""
        return AsyncLeaseHandle(
            self._client.lease_calls, self.result_of, LeaseTerms(name, keep, timeout)
        )

    async def flush(self, timeout: Duration | None = None) -> None:
        """Like `Client.flush`."""
        await asyncio.to_thread(self._client.flush, timeout)

    async def result_of(self, future: ReplyFuture[_T], most: float = math.inf) -> _T:
        """Return the result of one of `calls`. Raises RequestTimeout and the reply's error.

        Waits at most `most` seconds and the client's timeout.
        """
        seconds = min(self._client.timeout, most)
        try:
            # Before Python 3.12 `wait_for` swallows a cancellation with the answer.
            async with asyncio.timeout(seconds):
                return await _wrapped(future)
        except TimeoutError as error:
            if future.done():  # meanwhile; or the answer is a TimeoutError
                return future.result(0)
            raise RequestTimeout(f"no answer from {self.address} within {seconds:g} s") from error

    async def _answer(
        self,
        call: Callable[Concatenate[LaterCalls, _P], ReplyFuture[_T]],
        *arguments: _P.args,
        **options: _P.kwargs,
    ) -> _T:
        while not self._batcher.has_room():
            room = self._batcher.room()
            try:
                await self.result_of(room)
            except RequestTimeout as error:
                raise self._batcher.busy() from error
            finally:
                self._batcher.leave(room)
        return await self.result_of(call(self._client, *arguments, **options))

    async def close(self, timeout: Duration | None = None) -> None:
        """Like `Client.close`; first waits up to `timeout` for calls of `on_outcome`."""
        seconds = CLOSE_TIMEOUT_S if timeout is None else checked_seconds(timeout, "timeout")
        if self._handler is not None:
            await self._handler.close(seconds)
        await asyncio.to_thread(self._client.close, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it has a connection and a thread")


class LoopHandler:
    """Calls `call`, perhaps a coroutine function, in the running event loop."""

    def __init__(self, call: OnOutcome) -> None:
        check_function("on_outcome", call)
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(MAX_RUNNING)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def __call__(self, outcome: OutcomeMessage) -> "concurrent.futures.Future[None]":
        """Handle an outcome in the loop. Raises RuntimeError if the loop is closed."""
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._loop.call_soon_threadsafe(self._start, outcome, done)
        return done

    def _start(self, outcome: OutcomeMessage, done: "concurrent.futures.Future[None]") -> None:
        if self._closing:
            return  # the outcome stays at the server
        task = self._loop.create_task(self._run(outcome, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, outcome: OutcomeMessage, done: "concurrent.futures.Future[None]") -> None:
        try:
            async with self._room:
                result: Any = self._call(outcome)
                if isinstance(result, concurrent.futures.Future):
                    result = asyncio.wrap_future(result)
                if inspect.isawaitable(result):
                    result = await result
                refuse_unfinished("on_outcome", result)
        except BaseException as error:
            done.set_exception(error)
            if not isinstance(error, Exception):  # the task is cancelled, or the program exits
                raise
        else:
            done.set_result(None)

    async def close(self, seconds: float) -> None:
        """Start no more calls; wait up to `seconds` for running calls."""
        self._closing = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)


class AsyncServiceFuture(LoopCallbacks):
    """The end of an operation, as an asyncio future; see `AsyncClient.defer`.

    If the program drops the future, asyncio logs no end of the operation, but a refusal.
    """

    def __init__(self, owner: AsyncClient, source: ServiceFuture) -> None:
        super().__init__()
        self.op_id: str = source.op_id
        self._owner = owner
        _chain(source, self)

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it belongs to a client")

    async def extend(self, timeout: Duration) -> bool:
        """Like `ServiceFuture.extend`."""
        return await self._owner.extend(self.op_id, timeout)

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel this future at once, and have the server cancel the operation."""
        cancelled = super().cancel(msg)
        if cancelled:
            with contextlib.suppress(Unavailable):  # the client is closed
                self._owner._client.cancel_later(self.op_id)
        return cancelled


def _wrapped(source: ReplyFuture[_T]) -> "asyncio.Future[_T]":
    target: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
    _chain(source, target)
    return target


def _chain(source: ReplyFuture[Any], target: "asyncio.Future[Any]") -> None:
    """Resolve `target`, in its loop, with `source`."""
    loop = target.get_loop()

    def schedule_copy(_: "concurrent.futures.Future[Any]") -> None:
        # A closed loop raises RuntimeError.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_copy_result, source, target)

    source.add_done_callback(schedule_copy)


def _copy_result(source: ReplyFuture[Any], target: "asyncio.Future[Any]") -> None:
    if target.done():
        return
    error = (
        OperationCancelled("the call was cancelled") if source.cancelled() else source.exception()
    )
    if error is None:
        target.set_result(source.result())
    else:
        target.set_exception(error)
        if isinstance(target, AsyncServiceFuture) and isinstance(error, _ENDS):
            target.exception()  # else asyncio would log it
