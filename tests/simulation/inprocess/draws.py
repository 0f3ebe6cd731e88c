"""Draws: operations and events of one purgatory, as programs draw them."""

from typing import Final

from purgatory.testing.world.world import spread
from tests.simulation.inprocess.oracle import ThreadOracle
from tests.simulation.inprocess.records import KeyEventRecord, WaitRecord
from tests.simulation.inprocess.scheduler import Scheduler

# Seconds, of timeouts.
_SHORTEST_S: Final = 0.0005
_LONGEST_S: Final = 20.0


class Draws:
    """What a world's programs draw by its scheduler's random numbers. Its few keys are drawn first.

    The oracle's records are those that have been made so far.
    """

    def __init__(self, scheduler: Scheduler, oracle: ThreadOracle) -> None:
        self._scheduler = scheduler
        self._oracle = oracle
        self._chance = scheduler.random
        self._keys = [f"key-{n}" for n in range(self._chance.choice((1, 1, 2, 4)))]
        self._count = 0

    def wait(self) -> WaitRecord:
        """Draw an operation that is about to be submitted; the oracle does not have it yet."""
        self._count += 1
        count = self._chance.randint(1, len(self._keys))
        keys = tuple(self._chance.sample(self._keys, count))
        timeout = self.timeout()
        need = self._chance.choice((1, 1, count))
        record = WaitRecord(
            self._scheduler.now_ns,
            delay_ns=int(timeout * 1e9),
            name=f"wait-{self._count}",
            keys=keys,
            need=need,
        )
        self._scheduler.note(f"submits {record.name} {keys} need={need} timeout={timeout}")
        return record

    def event(self, key: str | None = None, limit: int | None = None) -> KeyEventRecord:
        """Draw an event, and give it to the oracle; of any key if `key` is None."""
        number = len(self._oracle.events) + 1
        key = key or self.key()
        event = KeyEventRecord(self._scheduler.now_ns, number=number, key=key, limit=limit)
        self._oracle.events.append(event)
        return event

    def some_wait(self) -> WaitRecord | None:
        """Draw one of the last operations; None if there are none."""
        waits = self._oracle.waits[-self._chance.choice((1, 4)) :]
        return self._chance.choice(waits) if waits else None

    def key(self) -> str:
        """Draw a key."""
        return self._chance.choice(self._keys)

    def timeout(self) -> float:
        """Draw seconds, to a tenth of a millisecond."""
        return round(spread(self._chance, _SHORTEST_S, _LONGEST_S), 4)
