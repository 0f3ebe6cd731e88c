"""The measurements of a timer; each function is called once, in a process of its own.

A peer is one of `peers.PEERS`, a size is a number of timers. Times are CPU times of the process,
unless stated otherwise.
"""

import gc
import random
import resource
import statistics
import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import Any

from harness import resident_bytes
from peers import PEERS, Asyncio, Peer

from timingwheel import Timer

FULL_SPAN = 10_000  # timers: that many come due over a second, fewer over as much less
SLOW_CANCELS = 20  # sched looks through its whole queue for each
# Milliseconds; the bounds of the histogram of stalls.
STALL_EDGES = tuple(digit * 10.0**power for power in range(-3, 4) for digit in (1, 2, 5))


def noop() -> None:
    """Do nothing; the callback of the timers."""


def fill(peer_name: str, size: int) -> dict[str, float]:
    """Schedule far timers, weigh them, cancel them in random order; ns and bytes a timer."""
    chance = random.Random(size)
    delays = [chance.uniform(60, 120) for _ in range(size)]
    peer = PEERS[peer_name]()
    gc.collect()
    before = resident_bytes()
    start = time.process_time_ns()
    handles = peer.schedule(delays, noop)
    scheduled = time.process_time_ns() - start
    weight = (resident_bytes() - before) / size - 8  # our list of handles
    chance.shuffle(handles)
    doomed = handles[:SLOW_CANCELS] if peer_name == "sched" else handles
    start = time.process_time_ns()
    for handle in doomed:
        peer.cancel(handle)
    cancelled = time.process_time_ns() - start
    return {
        "schedule": scheduled / size,
        "cancel": cancelled / len(doomed),
        "bytes": weight,
    }


def collect(peer_name: str, size: int) -> dict[str, float]:
    """Collect garbage in full while timers are pending; CPU milliseconds."""
    chance = random.Random(size)
    peer = PEERS[peer_name]()
    peer.schedule([chance.uniform(60, 120) for _ in range(size)], noop)
    gc.collect()  # the garbage of the scheduling itself
    start = time.process_time_ns()
    gc.collect()
    return {"collection": (time.process_time_ns() - start) / 1e6}


def drain(peer_name: str, size: int) -> dict[str, float]:
    """Run timers that are all due; ns a timer."""
    peer = PEERS[peer_name]()
    peer.schedule(soon(size), noop)
    wait_until_due(size)
    start = time.process_time_ns()
    peer.drain()
    return {"drain": (time.process_time_ns() - start) / size}


def soon(size: int) -> list[float]:
    """Return delays of 1 ms to a second."""
    chance = random.Random(size)
    return [chance.uniform(0.001, span(size)) for _ in range(size)]


def span(size: int) -> float:
    """Return the longest delay of `soon`."""
    return 0.001 + min(1.0, size / FULL_SPAN)


def wait_until_due(size: int) -> None:
    """Sleep until all timers of `soon` are due."""
    threading.Event().wait(span(size) + 0.1)


def lateness(peer_name: str, size: int, peer: Peer | None = None) -> dict[str, list[float]]:
    """Fire a timer each millisecond; how late each was, in ms of wall time."""
    peer = PEERS[peer_name]() if peer is None else peer
    late: list[float] = []
    for number in range(size):
        delay = (500 + number) / 1000  # whole milliseconds: a sum of floats may be a bit more
        due = time.monotonic() + delay
        peer.schedule([delay], partial(note_lateness, late, due))
    wait_for_all(peer, size)
    if len(late) != size:
        raise RuntimeError(f"{peer_name} called {len(late)} of {size}")
    return {"late": late}


def wait_for_all(peer: Peer, size: int) -> None:
    """Run all that `lateness` scheduled."""
    if isinstance(peer, Asyncio):
        peer.drain(1.0 + size / 1000)
    else:
        peer.drain()


def beside_a_sleep(peer_name: str, size: int) -> dict[str, float]:
    """Fire timers as `lateness` does, beside a callback that sleeps for a second; ms of wall time.

    `switches`: voluntary context switches a timer, where the system tells them.
    """
    peer = PEERS[peer_name]()
    peer.schedule([0.5 + size / 3000], partial(time.sleep, 1.0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    late = lateness(peer_name, size, peer)["late"]
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before
    _, *inner, longest = quantiles(late, 100)
    return {"p50": inner[49], "p99": inner[98], "max": longest, "switches": switches / size}


def note_lateness(late: list[float], due: float) -> None:
    """Record the lateness; the callback of `lateness`."""
    late.append((time.monotonic() - due) * 1000)


def stall(peer_name: str, size: int) -> dict[str, Any]:
    """Drain timers, and time each `schedule` of another thread meanwhile, in ms of wall time.

    Only for ours: no peer in Python accepts timers from other threads while it drains.
    """
    del peer_name
    timer = Timer()
    timer.schedule_many(soon(size), noop)
    wait_until_due(size)
    calls = [0] * (len(STALL_EDGES) + 1)
    longest = 0.0
    timer.start()
    while timer.stats().fired < size:
        start = time.perf_counter()
        timer.schedule(60, noop)
        took = (time.perf_counter() - start) * 1000
        calls[bisect_left(STALL_EDGES, took)] += 1
        longest = max(longest, took)
    timer.close()
    return {"longest": longest, "calls": calls}


WORK: dict[str, Callable[[str, int], dict[str, Any]]] = {
    "fill": fill,
    "collect": collect,
    "drain": drain,
    "lateness": lateness,
    "beside": beside_a_sleep,
    "stall": stall,
}


def quantiles(values: list[float], parts: int) -> list[float]:
    """Return the least value, the quantiles between `parts` equal parts, and the greatest."""
    ordered = sorted(values)
    if len(ordered) == 1:
        return ordered * (parts + 1)
    inner = statistics.quantiles(ordered, n=parts, method="inclusive")
    return [ordered[0], *inner, ordered[-1]]
