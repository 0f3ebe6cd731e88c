"""MailboxJournal: each outcome as a command in a mailbox."""

import pytest

from mq import Mailbox
from purgatory import (
    Ended,
    KeyedOperation,
    MailboxJournal,
    Outcome,
    Purgatory,
)
from timingwheel import InlineExecutor, ManualClock, Timer


@pytest.fixture
def manual():
    """A purgatory without threads, with a clock moved by hand."""
    purgatory = Purgatory(timer=Timer(clock=ManualClock(), executor=InlineExecutor()))
    yield purgatory
    purgatory.close()


class TestMailboxJournal:
    def test_outcomes_as_commands(self, manual):
        """Each outcome is posted once to the mailbox."""
        mailbox = Mailbox()
        p = Purgatory(timer=manual.timer, journal=MailboxJournal(mailbox))
        completed, cancelled = KeyedOperation(5), KeyedOperation(5)
        p.try_complete_else_watch(completed, ["a"])
        p.try_complete_else_watch(cancelled, ["b"])
        p.complete("a")
        p.close()
        received = [mailbox.recv(0), mailbox.recv(0), mailbox.recv(0)]
        assert received == [
            Ended(completed, Outcome.COMPLETED),
            Ended(cancelled, Outcome.CANCELLED),
            None,
        ]
