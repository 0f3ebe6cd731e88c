"""Mutants of events that end many operations in portions, found in worlds of such events."""

from tests.mutants.mutants import SERVER, Mutant

CROWD_MUTANTS = [
    Mutant(
        "an event for a crowd reaches operations that were submitted later",
        SERVER + "records/spreads.py",
        "            operation.number <= self.last\n            and not operation.done()\n",
        "            not operation.done()\n",
    ),
    Mutant(
        "a cancellation comes before the event that an operation waits to be ended by",
        SERVER + "transactions/transaction.py",
        "if isinstance(operation, PendingOperation) and self._state.spreads.by_key:",
        "if isinstance(operation, PendingOperation) and not self._state.spreads.in_order:",
    ),
    Mutant(
        "an operation expires though an event was before",
        SERVER + "records/operation.py",
        "        if self.unfinished is not None and self.unfinished.by_key:\n",
        "        if self.unfinished is None:\n",
    ),
    Mutant(
        "a later event of another key changes the outcome of an earlier one",
        SERVER + "transactions/key_events.py",
        "                if operation.done():\n",
        "                if operation is None:\n",
    ),
    Mutant(
        "after a failed commit an event forgets the operations it had ended",
        SERVER + "transactions/key_events.py",
        "                spread.waiting.append(entry)\n",
        "                continue\n",
    ),
]
