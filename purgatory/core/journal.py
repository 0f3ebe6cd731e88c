"""Journal: what a purgatory tells how its operations ended."""

from typing import Protocol

from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.outcome import Outcome


class Journal(Protocol):
    """Something that is told each outcome once, by the thread that brought it about."""

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Write down one outcome. Called under no lock, before the operation's callbacks.

        Must be safe to call from several threads. An exception goes to `on_error` and does not
        keep the operation from ending.
        """
