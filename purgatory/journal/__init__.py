"""The journal of a purgatory: to a mailbox, or as Parquet files."""

from purgatory.core.outcome_recorder import Journal
from purgatory.journal.journals import Ended, MailboxJournal

__all__ = ["Ended", "Journal", "MailboxJournal"]
