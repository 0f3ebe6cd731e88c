"""Calls: the futures of what a client's threads ask for, and what else they tell their link.

Made by any thread, and from then on resolved by the link's.
"""

import concurrent.futures
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from purgatory.core.future import PENDING, FastResultFuture
from purgatory.core.lazy_attribute import LazyAttribute
from purgatory.errors import OperationCancelled, OperationExpired
from purgatory.service.protocol import OutcomeMessage

if TYPE_CHECKING:
    from purgatory.service.client.client import Client


def _mark_observed(future: "ReplyFuture") -> None:
    future._observed = True


class ReplyFuture(FastResultFuture):
    """The answer to a call.

    Who waits for it, and who is to be told, is kept from when there is one. Until then its end is a
    step, where there are such (see ``purgatory.core.future``): `session.resolve` does that.
    """

    # Slots, for nothing is allocated when these change.
    __slots__ = ("_exception", "_result", "_state")
    _state: str

    _observed = False  # somebody has looked at what follows
    _condition = LazyAttribute(threading.Condition, _mark_observed)
    _waiters = LazyAttribute(list[Any], _mark_observed)
    _done_callbacks = LazyAttribute(list[Any], _mark_observed)

    def __init__(self) -> None:
        # Not the base's, which makes those parts: these are its other fields.
        self._state = PENDING
        self._result = None
        self._exception = None


class ServiceFuture(ReplyFuture):
    """The end of an operation that waits at a server; see `Client.defer`.

    ``op_id``: its id there. ``acknowledged``: whether the server has it, and on disk.
    """

    def __init__(self, client: "Client", op_id: str) -> None:
        # Not by a call of the base's, of which there would be one for each operation.
        self._state = PENDING
        self._result = None
        self._exception = None
        self.op_id = op_id
        self.acknowledged = False  # written by the link's thread
        self._client = client
        self._cancel_requested = False

    def cancel(self) -> bool:
        """Have the server cancel the operation; False if it has ended otherwise.

        Waits for the answer, as `Client.cancel` does, and raises what that raises.
        """
        if self.done():
            return self.cancelled()
        self._cancel_requested = True
        if self._client.cancel(self.op_id):
            concurrent.futures.wait([self], self._client.timeout)
        return self.cancelled()

    def end(self, outcome: OutcomeMessage) -> None:
        """Resolve otherwise than by a result, by the link's thread."""
        if outcome.outcome == "expired":
            waited_ms = outcome.deadline_ms - outcome.submitted_ms
            self.set_exception(
                OperationExpired(f"operation {self.op_id!r} not completed within {waited_ms} ms")
            )
        elif self._cancel_requested:
            super().cancel()
            self.set_running_or_notify_cancel()
        else:
            self.set_exception(OperationCancelled(f"operation {self.op_id!r} was cancelled"))


@dataclass(slots=True)
class FlushCommand:
    """Call back when all calls made before are answered."""

    done: Callable[[], object]


@dataclass(slots=True)
class CloseCommand:
    """End, when all calls made before are answered or so many seconds are over."""

    seconds: float
