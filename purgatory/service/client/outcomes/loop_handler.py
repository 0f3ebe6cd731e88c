"""LoopHandler: calls the `on_outcome` of an `AsyncClient` in the event loop, and awaits it.

Made, and closed, in the thread of the loop; called by the client's I/O thread.
"""

import asyncio
import concurrent.futures
import inspect
from typing import Any, Final

from purgatory.service.client.outcomes.outcome_handler import OnOutcome
from purgatory.service.protocol import OutcomeMessage

#: Calls that run at a time; further outcomes wait for their turn.
MAX_RUNNING: Final = 64


class LoopHandler:
    """Calls `call`, which may be a coroutine function, in the running event loop."""

    def __init__(self, call: OnOutcome) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(MAX_RUNNING)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def __call__(self, outcome: OutcomeMessage) -> "concurrent.futures.Future[None]":
        """Have an outcome handled; the future tells how that ended. Raises RuntimeError."""
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
                if inspect.isawaitable(result):
                    await result
        except asyncio.CancelledError:
            done.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # told by the future
            done.set_exception(error)
        else:
            done.set_result(None)

    async def close(self, seconds: float) -> None:
        """Start no more calls, and wait for those that run, for so many seconds at most."""
        self._closing = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
