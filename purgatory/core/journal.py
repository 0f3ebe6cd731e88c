"""Journal: where a purgatory writes down how operations ended."""

from typing import TYPE_CHECKING, Any, Protocol

from purgatory.bus.commands import Ended
from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import Outcome

if TYPE_CHECKING:
    from mq import Mailbox


class Journal(Protocol):
    """Something that is told of each end, once, by the thread that brought it about."""

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Write down one outcome. Called under no lock, before the operation's callbacks.

        Must be safe to call from several threads. An exception goes to ``on_error`` and does not
        keep the operation from ending.
        """


class MailboxJournal:
    """A journal that posts each outcome, as an `Ended` command, to a mailbox of somebody else."""

    def __init__(self, mailbox: "Mailbox[Any]") -> None:
        self._mailbox = mailbox

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """See `Journal`."""
        self._mailbox.send(Ended(operation, outcome))
