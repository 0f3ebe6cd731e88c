"""A million heartbeats, re-armed at random: find the peers that fall silent.

    python examples/heartbeats.py [PEERS]

The time is moved by hand here, so a minute passes as quickly as the machine can. In production
it is `with Timer("heartbeats") as timer`.
"""

import random
import sys

from timingwheel import InlineExecutor, ManualClock, Timer

SILENCE_S = 30
PEERS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000


def main() -> None:
    """Hear from random peers for a while, from all of them once, and then from none."""
    clock = ManualClock()
    timer = Timer("heartbeats", clock=clock, executor=InlineExecutor())
    silent: list[int] = []
    watches = [timer.schedule(SILENCE_S, silent.append, peer) for peer in range(PEERS)]

    def pass_seconds(seconds: float) -> None:
        clock.advance(seconds)
        timer.advance_clock()

    beats = 0
    for _ in range(10):
        for peer in random.choices(range(PEERS), k=PEERS // 10):
            beats += timer.reschedule(watches[peer], SILENCE_S)
        pass_seconds(SILENCE_S / 11)
    for watch in watches:
        beats += timer.reschedule(watch, SILENCE_S)
    pass_seconds(SILENCE_S - 1)
    print(f"{beats:,} heartbeats, {len(silent)} silent, {len(timer):,} watched")

    alive = random.sample(range(PEERS), PEERS // 4)
    for peer in alive:
        timer.reschedule(watches[peer], SILENCE_S)
    pass_seconds(1.001)  # to the millisecond: deadlines are rounded up to a tick
    print(f"{len(silent):,} silent, {len(timer):,} watched")
    print("the right ones:", sorted(silent) == sorted(set(range(PEERS)) - set(alive)))


if __name__ == "__main__":
    main()
