"""LoopCallbacks: the done callbacks of futures on an event loop. Loop's thread alone."""

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, Self

from timingwheel.lowlevel import check_callback


class LoopCallbacks(asyncio.Future[Any]):
    """An asyncio future that refuses coroutine functions as done callbacks."""

    def add_done_callback(
        self, fn: Callable[[Self], object], /, *, context: Context | None = None
    ) -> None:
        """See `asyncio.Future`. Raises TypeError for a coroutine function."""
        check_callback("fn", fn)
        # Not None, with which asyncio takes the context of the thread's step at the end.
        super().add_done_callback(fn, context=copy_context() if context is None else context)
