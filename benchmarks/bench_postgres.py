"""The store on PostgreSQL beside the one on SQLite: commits, groups, outcomes, the fence, a start.

    python benchmarks/bench_postgres.py [--url postgresql://...] [--pending 1000000] [--repeats 5]
                                        [--fenced 3000]

Without a URL a PostgreSQL of this machine is started, in a directory of its own, which syncs each
commit. SQLite and PostgreSQL take turns. *Alone* is one commit of one operation, the median.
*Groups* are commits of 1,000 operations, and of 1,000 outcomes; *as rows* is what outcomes cost a
database that has one a row. *Fence* is what the last statement of a group costs. A start reads all
that is pending.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
from durable_postgres import durable_postgres, open_store, remove_template
from harness import machine, table
from msgspec import Raw

from purgatory.service.store.changes import Changes
from purgatory.service.store.contract import Store
from purgatory.service.store.rows import MAX_BATCH, OperationBatch
from purgatory.service.store.sqlite.sqlite_store import SqliteStore

GROUP = 1000
ALONE = 300


@contextmanager
def database(url: str) -> Iterator[str]:
    """Yield the URL of a database, which is started if none is given."""
    if url:
        yield url
        return
    with durable_postgres() as started:
        yield started
    remove_template()


def operations(first: int, count: int) -> Changes:
    """Return a commit of so many operations."""
    items = [[f"op-{n}", ["k"], 999, 1, "kind", Raw(b"\x01")] for n in range(first, first + count)]
    changes = Changes()
    changes.operations = [
        OperationBatch(first + start, "c", 1, items[start : start + MAX_BATCH])
        for start in range(0, count, MAX_BATCH)
    ]
    return changes


def outcomes(first: int, count: int) -> Changes:
    """Return a commit of the outcomes of so many operations."""
    changes = Changes()
    for n in range(first, first + count):
        changes.outcomes += (n, n, "completed", 5, 0, f"key-{n}", bytearray(b"\x02"))
    return changes


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def alone(store: Store, first: int) -> float:
    """Return the median milliseconds of commits of one operation."""
    commits = [operations(first + n, 1) for n in range(ALONE)]
    return 1000 * statistics.median(seconds(partial(store.commit, one)) for one in commits)


def grouped(store: Store, made: Callable[[int, int], Changes], first: int) -> float:
    """Return how many records a second are committed in groups."""
    commits = [made(first + n * GROUP, GROUP) for n in range(10)]
    return GROUP / statistics.median(seconds(partial(store.commit, one)) for one in commits)


def as_rows(url: str) -> float:
    """Return how many outcomes a second are committed, one a row."""
    columns = [list(range(GROUP)), ["completed"] * GROUP, ["key"] * GROUP, [b"\x02"] * GROUP]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS bench_rows")
        connection.execute("CREATE TABLE bench_rows (n int8, o text, k text, r bytea)")
        sql = (
            "INSERT INTO bench_rows SELECT * FROM "
            "unnest(%s::int8[], %s::text[], %s::text[], %s::bytea[])"
        )
        taken = [seconds(lambda: connection.execute(sql, columns)) for _ in range(10)]
        connection.execute("DROP TABLE bench_rows")
    return GROUP / statistics.median(taken)


def fence(url: str, commits: int) -> float:
    """Return the milliseconds that counting a group in the row of the lease takes."""
    row = "UPDATE bench_rows SET n = n + 1 WHERE o = 'x' RETURNING 1"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE bench_rows (n int8, o text) WITH (fillfactor = 20)")
        connection.execute("CREATE TABLE bench_other (n int8)")
        connection.execute("INSERT INTO bench_rows VALUES (0, 'x')")
        times: dict[str, list[float]] = {"SELECT 1": [], row: []}
        for _ in range(commits):
            for last, taken in times.items():  # in turns: other load is the same for both
                begin = time.perf_counter()
                with connection.pipeline(), connection.transaction():
                    connection.execute("INSERT INTO bench_other VALUES (1)")
                    connection.execute(last)
                taken.append(time.perf_counter() - begin)
        connection.execute("DROP TABLE bench_rows, bench_other")
    without, fenced = map(statistics.median, times.values())
    return 1000 * (fenced - without)


def start(store: Store, pending: int, first: int) -> float:
    """Return the seconds that reading so many pending operations takes."""
    for begin in range(first, first + pending, 100 * MAX_BATCH):
        store.commit(operations(begin, min(100 * MAX_BATCH, first + pending - begin)))
    return seconds(lambda: sum(1 for _ in store.operations()))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--url", default="")
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--fenced", type=int, default=3000, help="commits: the fence costs little")
    arguments = parser.parse_args()
    print(machine())
    found: dict[str, dict[str, list[float]]] = {}
    with database(arguments.url) as url, tempfile.TemporaryDirectory() as directory:
        stores = {
            "SQLite": SqliteStore(Path(directory) / "a.db"),
            "PostgreSQL": open_store(url),
        }
        first = 1
        for _ in range(arguments.repeats):
            for name, store in stores.items():
                rows = found.setdefault(name, {})
                rows.setdefault("alone, ms", []).append(alone(store, first))
                rate = grouped(store, operations, first + ALONE)
                rows.setdefault("operations/s in groups", []).append(rate)
                rate = grouped(store, outcomes, first)
                rows.setdefault("outcomes/s in groups", []).append(rate)
            first += ALONE + 10 * GROUP
        for name, store in stores.items():
            taken = start(store, arguments.pending, first)
            found[name][f"a start with {arguments.pending:,}, s"] = [taken]
            store.close()
        rates = statistics.median(as_rows(url) for _ in range(arguments.repeats))
        fenced = fence(url, arguments.fenced)
    lines = []
    for what, values in found["SQLite"].items():
        one, two = (statistics.median(v) for v in (values, found["PostgreSQL"][what]))
        lines.append([what, f"{one:,.2f}", f"{two:,.2f}", f"{two / one:.2f}"])
    print(table("PostgreSQL beside SQLite", ["", "SQLite", "PostgreSQL", "ratio"], lines))
    print(f"\nPostgreSQL, outcomes as rows: {rates:,.0f}/s; the fence: {fenced:.3f} ms")


if __name__ == "__main__":
    main()
