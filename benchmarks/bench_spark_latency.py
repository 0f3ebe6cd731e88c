"""Measures the latency of the stream: from the arrival of an event to its outcome on disk.

    python benchmarks/bench_spark_latency.py [--rounds 60] [--trigger 0.2] [--warm 20]

A stream runs as `purgatory spark run` does. At random times, each after the outcomes of the last
ones, operations and the events that complete them are moved into its directories, with rows of a
later instant, which close theirs. Latency is from that move to the commit of the outcomes; the
first rounds, in which Java is slow, do not count.
"""

import argparse
import queue
import random
import tempfile
import threading
import time
from pathlib import Path

from bench_spark import MEMORY
from harness import machine, table

from purgatory.spark.session import open_session
from purgatory.spark.stream.query import Stream
from purgatory.spark.stream.sources import directory_source
from purgatory.trace import KeyEvent, Operation, write_events, write_operations

PAIRS = 100  # operations of a round, each with an event
TIMEOUT_MS = 60_000
LONGEST_PAUSE_S = 0.5
GIVE_UP_S = 120


class Feed:
    """The two input directories, and how many operations have been put there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.put_pairs = 0
        for name in ("operations", "events", "staging"):
            (path / name).mkdir()

    def put(self, number: int) -> None:
        """Add the operations of a round, their events, and a row of a later instant to both."""
        at_ms = 1000 * number
        names = [f"{number}-{pair}" for pair in range(PAIRS)]
        operations = [Operation(n, "", at_ms, TIMEOUT_MS, (n,), 1) for n in names]
        closing = Operation(f"{number}-closing", "", at_ms + 2, TIMEOUT_MS, ("none",), 1)
        events = [KeyEvent(n, at_ms) for n in names]
        staged = self.path / "staging"
        with write_operations(staged / "operations.parquet") as to_operations:
            for operation in (*operations, closing):
                to_operations.write(operation)
        with write_events(staged / "events.parquet") as to_events:
            for event in (*events, KeyEvent("nothing", at_ms + 2)):
                to_events.write(event)
        for name in ("operations", "events"):
            (staged / f"{name}.parquet").rename(self.path / name / f"{number:06}.parquet")
        self.put_pairs += PAIRS


def latencies(feed: Feed, stream: Stream, commits: "queue.Queue[int]", rounds: int) -> list[float]:
    """Return the latency of each round, in seconds; stop the stream after the last one."""
    rng = random.Random(1)
    found = []
    try:
        for number in range(rounds):
            time.sleep(rng.uniform(0, LONGEST_PAUSE_S))  # a phase at random within the trigger
            feed.put(number)
            begin = time.perf_counter()
            while commits.get(timeout=GIVE_UP_S) < feed.put_pairs:
                pass
            found.append(time.perf_counter() - begin)
    finally:
        stream.stop()
    return found


def run(path: Path, memory: str, rounds: int, trigger: float) -> list[float]:
    """Run the stream in this thread, and feed it from another one."""
    feed, commits, found = Feed(path), queue.Queue[int](), list[float]()
    with open_session(memory=memory) as spark:
        stream = Stream(
            spark,
            directory_source(spark, f"{path}/operations"),
            directory_source(spark, f"{path}/events"),
            out=f"{path}/out",
            checkpoint=f"{path}/checkpoint",
            watermark_ms=0,
            on_commit=lambda entry: commits.put(entry.counts["completed"]),
        )
        thread = threading.Thread(
            target=lambda: found.extend(latencies(feed, stream, commits, rounds))
        )
        thread.start()
        stream.run(trigger_seconds=trigger)
        thread.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--warm", type=int, default=20, help="rounds that do not count")
    parser.add_argument("--trigger", type=float, default=0.2, help="seconds")
    parser.add_argument("--memory", default=MEMORY, help="of Spark's Java process")
    arguments = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as name:
        total = arguments.warm + arguments.rounds
        found = run(Path(name), arguments.memory, total, arguments.trigger)
    later = sorted(found[arguments.warm :])
    row = [f"{later[int(share * (len(later) - 1))]:.2f}" for share in (0.5, 0.99, 1)]
    title = f"From an event to its outcome, --trigger {arguments.trigger}"
    print(table(title, ["p50, seconds", "p99", "longest"], [row]))


if __name__ == "__main__":
    main()
