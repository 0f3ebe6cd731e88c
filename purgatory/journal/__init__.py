"""The journal: how operations ended, written down."""

from purgatory.core.journal import Journal, MailboxJournal

__all__ = ["Journal", "MailboxJournal"]
