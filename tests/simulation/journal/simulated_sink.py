"""SimulatedSink: what writes the journal of a server's process, after a while, and confirms it.

As `ParquetSink`, whose thread is events of the world here. Chance is the journal's own, or a world
would be another one if it had a journal.
"""

import random
from collections.abc import Sequence
from typing import Any, Final

from purgatory.service.server.journal.journal_sink import Confirm
from purgatory.service.server.records.retention import DELETION_DELAY_MS, RETAINED_OUTCOMES_MS
from purgatory.service.store.rows import JournalPosition
from purgatory.testing.world.process import Process
from purgatory.testing.world.world import NS_PER_S, spread
from tests.simulation.journal.journal_directory import JournalDirectory

# Seconds: the longest time until rows are written, and then until that is confirmed.
_WRITE_S: Final = 20.0
_CONFIRM_S: Final = 1.0
#: Seconds within which a new process has started, and its journal has what the last one missed.
JOURNAL_SETTLE_S: Final = 60.0
#: Seconds, a little longer than a server keeps outcomes that have no other reason to be kept.
TROUBLE_S: Final = (RETAINED_OUTCOMES_MS + DELETION_DELAY_MS) / 1000 + 40.0

_Rows = Sequence[tuple[Any, ...]]


class SimulatedSink:
    """A `JournalSink`. `fails`: from some row on it refuses all, as after long trouble."""

    def __init__(
        self, process: Process, directory: JournalDirectory, chance: random.Random, *, fails: bool
    ) -> None:
        self._process = process
        self._directory = directory
        self._chance = chance
        self._writes_left = chance.randrange(1000) if fails else -1  # until it fails
        self._batches: list[tuple[_Rows, ...]] = []
        self._confirm: Confirm
        self._is_closed = False

    def start(self, source: str, confirm: Confirm) -> JournalPosition:
        """See `JournalSink`."""
        self._confirm = confirm
        return self._directory.open(source)

    def write(
        self,
        operations: _Rows,
        outcomes: _Rows,
        events: _Rows = (),
        extensions: _Rows = (),
        jobs: _Rows = (),
    ) -> None:
        """See `JournalSink`."""
        if self._writes_left == 0:
            return
        self._writes_left -= 1
        if not self._batches:
            self._later(_WRITE_S, self._write_all)
        self._batches.append((operations, outcomes, events, extensions, jobs))

    def _later(self, seconds: float, call: Any) -> None:
        """Make a call in a while, unless the process has ended by then; not while it is asleep."""
        machine, world = self._process.machine, self._process.world

        def happen() -> None:
            if self._is_closed or not self._process.alive:
                return
            if machine.awake_at_ns > world.now_ns:
                world.after(machine.awake_at_ns - world.now_ns, happen)
            else:
                call()

        world.after(int(spread(self._chance, 0.001, seconds) * NS_PER_S), happen)

    def _write_all(self) -> None:
        batches, self._batches = self._batches, []
        for batch in batches:
            self._directory.append(batch)
        position = self._directory.position
        self._process.world.note(f"journal: up to {tuple(position)}")
        self._later(_CONFIRM_S, lambda: self._confirm(position))

    def close(self) -> None:
        """See `JournalSink`."""
        if not self._is_closed:
            self._is_closed = True
            if self._process.alive:
                self._write_all()
