"""MailboxJournal: a journal that posts each outcome to a mailbox of the program."""

from dataclasses import dataclass
from typing import Any

from mq import Mailbox
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import Outcome


@dataclass(frozen=True, slots=True)
class Ended:
    """A command: an operation has ended."""

    operation: DelayedOperation
    outcome: Outcome


class MailboxJournal:
    """Posts each outcome, as an `Ended` command, to a mailbox. Any thread."""

    def __init__(self, mailbox: Mailbox[Any]) -> None:
        self._mailbox = mailbox

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """See `purgatory.Journal`."""
        self._mailbox.send(Ended(operation, outcome))
