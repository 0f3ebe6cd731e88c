"""LoopFuture: the future that `AsyncPurgatory.defer` returns.

Belongs to one loop: only the loop's thread may call its methods, but for `extend`.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from datetime import timedelta
from typing import Any, Self

from purgatory.aio.loop_operation import LoopOperation, call_in_loop
from purgatory.core.operations.operation_state import exception_of
from timingwheel.lowlevel import check_callback


class LoopFuture(asyncio.Future[Any]):
    """An `asyncio.Future` that ends with its operation.

    Awaited, it returns the value of the completed key, or, with need > 1, a dict key -> value.
    Raises OperationExpired (a TimeoutError) after the timeout, the error of `fail`, and
    OperationCancelled when the purgatory ended it. A dropped future logs nothing.
    """

    _operation: LoopOperation  # set once, before the program gets the future

    def extend(self, timeout: float | timedelta) -> bool:
        """Restart the timeout from now; False if the operation has ended. Any thread.

        Raises TypeError and ValueError for a bad timeout.
        """
        return self._operation.extend(timeout)

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the operation; False if it has ended.

        If it has just completed, the future gets its value in the loop's next step.
        """
        operation = self._operation
        if self.done() or operation.done():
            return False
        operation.cancel_message = msg
        operation.cancel_requested = True
        call_in_loop(operation.delivery, operation.cancel)
        return operation.cancelled()

    def add_done_callback(
        self, fn: Callable[[Self], object], /, *, context: Context | None = None
    ) -> None:
        """See `asyncio.Future`. Raises TypeError for a coroutine function."""
        check_callback("fn", fn)
        # A None that is given means the context of the thread that completes.
        super().add_done_callback(fn, context=copy_context() if context is None else context)

    def set_result(self, result: Any) -> None:
        """End the operation with a result of your own: outcome completed.

        Raises asyncio.InvalidStateError if it has ended.
        """
        self._resolve_by_hand(result, None)

    def set_exception(self, exception: type | BaseException) -> None:
        """End the operation with an error of your own: outcome failed.

        Raises asyncio.InvalidStateError if it has ended, TypeError for anything but an exception.
        """
        self._resolve_by_hand(None, exception_of(exception))

    def _resolve_by_hand(self, result: object, error: BaseException | None) -> None:
        operation = self._operation
        if not call_in_loop(operation.delivery, operation.resolve_by_hand, result, error):
            raise asyncio.InvalidStateError(f"the operation has ended: {self!r}")
