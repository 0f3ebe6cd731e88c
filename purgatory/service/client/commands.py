"""The commands to the I/O thread of a client, from any thread."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from purgatory.service.client.batcher import CallBatch
from purgatory.service.client.outcomes.outcome_handler import OutcomeHandled


@dataclass(slots=True)
class FlushCommand:
    """Call `done` when all calls made before are answered."""

    done: Callable[[], object]


@dataclass(slots=True)
class CloseCommand:
    """End the thread when all calls made before are answered, or after `seconds`.

    `patience`: or as soon as the server has answered nothing for so many seconds.
    """

    seconds: float
    patience: float = math.inf


@dataclass(slots=True)
class WakeCommand:
    """Look what a caller has left to do that used the socket itself."""


IOCommand = CallBatch | FlushCommand | CloseCommand | WakeCommand | OutcomeHandled
