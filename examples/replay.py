"""Send a recorded trace through a real purgatory, in virtual time.

A day of parcels, each to be delivered within two hours; it takes milliseconds.
"""

import random
from collections.abc import Iterator

from purgatory.replay import Replay
from purgatory.trace import KeyEvent, Operation, Outcome

HOUR_MS = 3_600_000


def parcels(count: int, randomness: random.Random) -> Iterator[tuple[Operation, KeyEvent]]:
    """Yield parcels, and when each arrives."""
    for number in range(count):
        sent_ms = randomness.randrange(24 * HOUR_MS)
        key = f"parcel:{number}"
        yield (
            Operation(f"o{number}", "parcel", sent_ms, 2 * HOUR_MS, (key,), 1),
            KeyEvent(key, sent_ms + round(randomness.lognormvariate(0, 0.5) * HOUR_MS)),
        )


def main() -> None:
    """Replay a thousand parcels and print how many were in time."""
    operations, events = zip(*parcels(1000, random.Random(17)), strict=True)
    outcomes: list[Outcome] = []
    with Replay(on_outcome=outcomes.append) as replay:
        total = replay.run(
            sorted(operations, key=lambda row: row.submitted_ms),
            sorted(events, key=lambda row: row.at_ms),
        )
    print(f"{total.operations} parcels: {total.completed} in time, {total.expired} late")
    longest = max(outcomes, key=lambda outcome: outcome.waited_ms)
    print(f"longest wait: {longest.waited_ms / HOUR_MS:.0f} hours")
    assert all(outcome.lateness_ms == 0 for outcome in outcomes)


if __name__ == "__main__":
    main()
