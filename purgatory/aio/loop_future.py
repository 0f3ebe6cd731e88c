"""LoopFuture: the future that `AsyncPurgatory.defer` returns.

As every asyncio future it belongs to one loop, and only that loop's thread may call its methods.
"""

import asyncio
from datetime import timedelta
from typing import Any

from purgatory.aio.loop_operation import LoopOperation, cancel_in_loop
from timingwheel import Timer


class LoopFuture(asyncio.Future[Any]):
    """An `asyncio.Future` that ends when its operation does.

    Awaited, it returns the value of the completed key, or, with need > 1, a dict key -> value.
    Raises OperationExpired (a TimeoutError) after the timeout, OperationCancelled when the
    purgatory ended it. One that is dropped logs nothing.
    """

    _operation: LoopOperation  # set once, before the program gets the future
    _timer: Timer

    def extend(self, timeout: float | timedelta) -> bool:
        """Let the timeout count anew from now; False if the operation has ended."""
        return self._timer.reschedule(self._operation, timeout)

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the operation; False if it has ended.

        An operation that another thread has just completed stays completed: the future gets its
        value in the loop's next step.
        """
        operation = self._operation
        if self.done() or operation.done():
            return False
        operation.cancel_message = msg
        operation.cancel_requested = True
        cancel_in_loop(operation)
        return operation.cancelled()

    def set_result(self, result: Any) -> None:
        """End the operation: the program has resolved the future itself."""
        super().set_result(result)
        self._operation.abandon()

    def set_exception(self, exception: type | BaseException) -> None:
        """End the operation: the program has resolved the future itself."""
        super().set_exception(exception)
        self._operation.abandon()
