"""The journal: how operations ended, written down.

`mailbox`: as commands for another thread. `parquet`: as Parquet files; `writer` has its thread,
`files` its files.
"""

from purgatory.core.outcome_recorder import Journal
from purgatory.journal.journals import Ended, MailboxJournal

__all__ = ["Ended", "Journal", "MailboxJournal"]
