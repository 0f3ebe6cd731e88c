"""What a replay of a year of real flights costs: CPU time for one operation.

    python benchmarks/bench_replay.py [--repeats 3] [--rows 328521]

From the tables to the table of outcomes, reading and writing included, in virtual time. Each run in
a fresh process. Compiled or interpreted, as the package is that it finds.
"""

import argparse
import json
import os
import resource
import tempfile
from functools import partial
from itertools import islice
from pathlib import Path

from harness import machine, measure, median, table

from purgatory.replay import Replay
from purgatory.trace import read_events, read_operations, write_outcomes
from purgatory.trace.flights import write_flights
from purgatory.trace.reader import batches_in_order
from timingwheel import COMPILED

BATCH_ROWS = 8_192


def one(directory: str, rows: int) -> dict[str, float]:
    """Replay the first rows of each table, to a batch."""
    folder = Path(directory)
    batches = -(-rows // BATCH_ROWS)
    operations = batches_in_order(read_operations(folder / "operations.parquet"))
    events = batches_in_order(read_events(folder / "events.parquet"))
    before = cpu_s()
    with (
        write_outcomes(folder / f"outcomes-{os.getpid()}.parquet") as outcomes,
        Replay(on_outcomes=partial(outcomes.write_columns, checked=True)) as replay,
    ):
        total = replay.run_columns(islice(operations, batches), islice(events, batches))
    used_s = cpu_s() - before
    return {
        "operations": total.operations,
        "expired": total.expired,
        "us": used_s / total.operations * 1e6,
        "per_s": total.operations / used_s,
    }


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=10**9)
    parser.add_argument("--one", metavar="DIR")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.one, arguments.rows)))
        return
    with tempfile.TemporaryDirectory() as directory:
        write_flights(directory)
        given = [directory, "--rows", arguments.rows]
        figures = median(measure(__file__, given, arguments.repeats))
    mode = "compiled" if COMPILED else "interpreted"
    cells = [f"{figures['operations']:,.0f}", f"{figures['us']:.1f}", f"{figures['per_s']:,.0f}"]
    head = [mode, "operations", "CPU us an operation", "operations a CPU second"]
    print(table(f"A year of flights, replayed ({machine()})", head, [["Replay", *cells]]))


if __name__ == "__main__":
    main()
