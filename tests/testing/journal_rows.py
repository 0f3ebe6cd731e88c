"""The rows that a server's journal gets, by name: a number, and a row of a trace."""

from collections import namedtuple
from typing import Any

from purgatory.trace.tables import Extension, JobRow, KeyEvent, Operation, OutcomeRow


def _numbered(name: str, number: str, row: Any) -> Any:
    return namedtuple(name, (number, *row._fields))  # noqa: PYI024  # of the fields of another


JournalOperation = _numbered("JournalOperation", "number", Operation)
JournalOutcome = _numbered("JournalOutcome", "seq", OutcomeRow)
JournalEvent = _numbered("JournalEvent", "number", KeyEvent)
JournalExtension = _numbered("JournalExtension", "number", Extension)
JournalJob = _numbered("JournalJob", "number", JobRow)
