"""AsyncCalls: an `AsyncClient` in a simulated process, with the calls that a `Program` makes.

Each call is a task of the process's event loop.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from purgatory.service.client.async_client import AsyncClient
from purgatory.service.protocol import OutcomeMessage
from purgatory.testing.world.process import Process
from purgatory.testing.world.server import ADDRESS
from tests.simulation.programs.event_loop import SimulatedEventLoop

# Seconds that a handler of outcomes awaits, if it does not return at once.
_HANDLE_S: Final = (0.0001, 0.02)


class AsyncCalls:
    """The calls of the client `name`; made in its event loop, by `post`."""

    def __init__(
        self, process: Process, name: str, on_outcome: Callable[[OutcomeMessage], None]
    ) -> None:
        self._world = process.world
        self._on_outcome = on_outcome
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop = SimulatedEventLoop(process)
        self._client: AsyncClient = self._loop.run_now(
            lambda: AsyncClient(ADDRESS, name=name, platform=process, on_outcome=self._handle)
        )

    def post(self, call: Callable[[int], None], number: int) -> None:
        """Have a call made in the loop."""
        self._loop.call_soon_threadsafe(call, number)

    async def _handle(self, outcome: OutcomeMessage) -> None:
        """Handle an outcome, often after a while."""
        if self._world.chance(0.5):
            await asyncio.sleep(self._world.spread(*_HANDLE_S))
        self._on_outcome(outcome)

    def _begin(self, call: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = self._loop.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def defer(self, *keys: str, **options: Any) -> "asyncio.Future[Any]":
        """See `AsyncClient`."""
        return self._client.defer(*keys, **options)

    def submit_later(self, *keys: str, **options: Any) -> "asyncio.Task[Any]":
        """Submit, in a task."""
        return self._begin(self._client.submit(*keys, **options))

    def complete_later(self, key: str, value: Any, **options: Any) -> "asyncio.Task[Any]":
        """Complete a key, in a task."""
        return self._begin(self._client.complete(key, value, **options))

    def fail_later(self, key: str, error: Exception) -> "asyncio.Task[Any]":
        """Fail a key, in a task."""
        return self._begin(self._client.fail(key, error))

    def extend_later(self, op_id: str, timeout: float) -> "asyncio.Task[Any]":
        """Extend an operation, in a task."""
        return self._begin(self._client.extend(op_id, timeout))

    def cancel_later(self, op_id: str) -> "asyncio.Task[Any]":
        """Cancel an operation, in a task."""
        return self._begin(self._client.cancel(op_id))
