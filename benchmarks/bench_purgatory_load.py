"""Kafka's TestPurgatoryPerformance on this purgatory: what rate it keeps up with.

    python benchmarks/bench_purgatory_load.py [--rates 25000,...,200000] [--seconds 5] [--repeats 3]

Requests come at random (exponential intervals), each with a timeout of 200 ms and a log-normal
latency: *low* has a median of 20 ms and a third quartile of 60 ms, *high* 200 and 400 ms, so that
half expire. All watch the same three keys. As in Kafka's, one thread submits and another completes
each request when its latency is over, by `force_complete`; the rest expires. (Kafka's Java version
leaves out the latency, so there everything expires; the older Scala version does not.) A request
reads the clock in `try_complete`, which a submission calls twice.

Arrivals and latencies are drawn beforehand. A thread sleeps until its next request is due, at least
1 ms, and then submits all that are. *Load alone* is the CPU of the same load without a purgatory: a
request that is no operation, checked twice and dropped. Rates rise until less than 90 % is reached.
A rate is kept if 98 % is. Each figure is from a fresh process, the median of the repeats; the load
alone is measured once.
"""

import argparse
import json
import math
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from harness import keep, machine, measure, median, table

from purgatory import DelayedOperation, Purgatory

TIMEOUT = 0.2
KEYS = ("first", "second", "third")
QUARTILE = 0.674490  # of the standard normal distribution
LATENCIES = {"low": (0.020, 0.060), "high": (0.200, 0.400)}  # median and third quartile
SHORTEST_SLEEP = 0.001
PATIENCE = 30.0  # for the requests left when the last one has been submitted
KEPT = 0.98
HOPELESS = 0.9

monotonic = time.monotonic


class Load(NamedTuple):
    """The times of all requests, in seconds from the start."""

    arrivals: list[float]
    completions: list[float]  # when the latency is over, after the timeout too
    order: list[int]  # the requests that complete in time, by completion
    in_time: list[bool]  # which these are


def draw(profile: str, rate: int, seconds: float) -> Load:
    """Return a load of `rate` requests a second, the same each time."""
    chance = np.random.default_rng(rate)
    middle, quartile = LATENCIES[profile]
    count = max(1, int(rate * seconds))
    arrivals = np.cumsum(chance.exponential(1 / rate, count))
    arrivals *= count / rate / arrivals[-1]  # chance must not change the rate
    sigma = math.log(quartile / middle) / QUARTILE
    latencies = chance.lognormal(math.log(middle), sigma, count)
    completions = arrivals + latencies
    order = np.argsort(completions, kind="stable")
    in_time = latencies < TIMEOUT
    order = order[in_time[order]]
    return Load(arrivals.tolist(), completions.tolist(), order.tolist(), in_time.tolist())


class Request(DelayedOperation):
    """Kafka's FakeOperation."""

    __slots__ = ("completes_at",)

    def __init__(self, completes_at: float) -> None:
        super().__init__(TIMEOUT)
        self.completes_at = completes_at

    def try_complete(self) -> bool:
        """Whether the latency is over."""
        return monotonic() >= self.completes_at and self.force_complete()


class Nothing:
    """A request that is no operation."""

    __slots__ = ("completes_at",)

    def __init__(self, completes_at: float) -> None:
        self.completes_at = completes_at

    def try_complete(self) -> bool:
        """Whether the latency is over."""
        return monotonic() >= self.completes_at and self.force_complete()

    def force_complete(self) -> bool:
        """Do nothing."""
        return True


class Completable(Protocol):
    """What the completing thread needs of a request."""

    def force_complete(self) -> bool:
        """Complete it."""


Submit = Callable[[float], Completable]


class Run:
    """One load: the calling thread submits, another thread completes.

    `_requests` passes them slot by slot: one thread writes a slot, the other reads and empties it.
    As in Kafka's, only the purgatory refers to a request that will expire.
    """

    def __init__(self, load: Load, submit: Submit) -> None:
        self._load = load
        self._submit = submit
        self._requests: list[Completable | None] = [None] * len(load.arrivals)
        self._start = 0.0
        self.behind = 0.0  # seconds, the most that a request was submitted after its time

    def do(self) -> float:
        """Run the load; return the seconds until the last request was submitted."""
        completer = threading.Thread(target=self._complete, name="load-completer")
        self._start = monotonic()
        completer.start()
        self._generate()
        elapsed = monotonic() - self._start
        completer.join()
        return elapsed

    def _generate(self) -> None:
        arrivals, completions, start = self._load.arrivals, self._load.completions, self._start
        submit, requests, in_time = self._submit, self._requests, self._load.in_time
        done = 0
        while done < len(arrivals):
            now = monotonic() - start
            due = bisect_right(arrivals, now, done)
            if due == done:
                time.sleep(max(arrivals[due] - now, SHORTEST_SLEEP))
                continue
            self.behind = max(self.behind, now - arrivals[done])
            for number in range(done, due):
                request = submit(start + completions[number])
                if in_time[number]:
                    requests[number] = request
            done = due

    def _complete(self) -> None:
        completions, start, requests = self._load.completions, self._start, self._requests
        for number in self._load.order:
            while (wait := completions[number] - (monotonic() - start)) > 0:
                time.sleep(max(wait, SHORTEST_SLEEP))
            while (request := requests[number]) is None:  # the submitting thread is late
                time.sleep(SHORTEST_SLEEP)
            requests[number] = None
            request.force_complete()


def one_purgatory(profile: str, rate: int, seconds: float) -> dict[str, float]:
    """Return the rate that a purgatory reaches, and its CPU time."""
    load = draw(profile, rate, seconds)
    with Purgatory() as purgatory:

        def submit(completes_at: float) -> Request:
            request = Request(completes_at)
            purgatory.try_complete_else_watch(request, KEYS)
            return request

        run = Run(load, submit)
        before = time.process_time()
        elapsed = run.do()
        give_up_at = monotonic() + PATIENCE
        while purgatory.delayed and monotonic() < give_up_at:
            time.sleep(SHORTEST_SLEEP)
        used = time.process_time() - before
        stats = purgatory.stats()
    count = len(load.arrivals)
    if stats.completed + stats.expired != count:
        raise RuntimeError(f"{count} requests, but {stats}")
    return {
        "actual": count / elapsed,
        "cpu": used,
        "expired": stats.expired / count,
        "behind_ms": run.behind * 1000,
    }


def one_load(profile: str, rate: int, seconds: float) -> dict[str, float]:
    """Return the CPU time of the load alone."""

    def submit(completes_at: float) -> Nothing:
        request = Nothing(completes_at)
        watch_nothing(request)
        return request

    run = Run(draw(profile, rate, seconds), submit)
    before = time.process_time()
    run.do()
    return {"cpu": time.process_time() - before}


def watch_nothing(request: Nothing) -> bool:
    """Call `try_complete` twice, as a submission does, and nothing else."""
    return request.try_complete() or request.try_complete()


def main() -> None:
    """Run everything and print it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--rates", default="25000,50000,100000,150000,200000")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", help="also write the figures there")
    options = parser.parse_args()
    if options.one:
        kind, profile, rate, seconds = options.one
        run = one_load if kind == "load" else one_purgatory
        print(json.dumps(run(profile, int(rate), float(seconds))))
        return
    rates = [int(rate) for rate in options.rates.split(",")]
    print(f"## Kafka's load on a purgatory ({machine()}; median of {options.repeats})")
    rising = {
        profile: climb(profile, rates, options.seconds, options.repeats) for profile in LATENCIES
    }
    for profile, steps in rising.items():
        print(show(profile, steps, options.seconds))
    figures = {"repeats": options.repeats, "seconds": options.seconds, "steps": rising}
    keep(options.json, "load", figures)


def climb(profile: str, rates: list[int], seconds: float, repeats: int) -> list[dict[str, float]]:
    """Return the figures of each rate, until one is far out of reach."""
    steps = []
    for rate in rates:
        step = median(measure(__file__, ["purgatory", profile, rate, seconds], repeats))
        alone = median(measure(__file__, ["load", profile, rate, seconds], 1))
        steps.append({"target": rate, **step, "load_cpu": alone["cpu"]})
        if step["actual"] < HOPELESS * rate:
            break
    return steps


def show(profile: str, steps: list[dict[str, float]], seconds: float) -> str:
    """Return a table with a row for each rate."""
    head = ["target/s", "actual/s", "kept", "CPU, s", "load alone", "us a request"]
    head += ["expired", "behind, ms"]
    rows = [
        [
            f"{step['target']:,.0f}",
            f"{step['actual']:,.0f}",
            "yes" if step["actual"] >= KEPT * step["target"] else "no",
            f"{step['cpu']:.2f}",
            f"{step['load_cpu']:.2f}",
            f"{step['cpu'] / (step['target'] * seconds) * 1e6:.1f}",
            f"{step['expired']:.1%}",
            f"{step['behind_ms']:.0f}",
        ]
        for step in steps
    ]
    middle, quartile = (f"{seconds * 1000:.0f}" for seconds in LATENCIES[profile])
    title = f"Latency {profile}: half within {middle} ms, three quarters within {quartile} ms"
    return table(f"{title}; {seconds:g} s a rate", head, rows)


if __name__ == "__main__":
    main()
