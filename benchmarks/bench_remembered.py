"""Remembered ids: three ways to find one among millions, and what they cost a server.

    python benchmarks/bench_remembered.py [--remembered 10000000] [--submits 40000] [--repeats 3]

*Entries* is what the server has: sorted arrays of eight bytes an id in memory, and an append-only
table. *Index* keeps nothing in memory: a table of the database is keyed by the id's hash. *Bloom*
has a filter of 16 bits an id before that index. Ids come in commits of 256, as the server moves
them, to a file that is synced. *Absent* is the look of a submission of a new id; *present* that of
a known one.

Then a server process with so many remembered ids, and one without, take turns. The client submits
operations with ids of its own, pipelined. A start lasts until the first answer.
"""

import argparse
import hashlib
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness import machine, resident_bytes, table

from purgatory.service import Client
from purgatory.service.encoding import encode
from purgatory.service.protocol import OperationStatus
from purgatory.service.server.records.remembered_ids import SHARDS, RememberedIds
from purgatory.service.store.changes import Changes, RememberedChanges
from purgatory.service.store.contract import DATABASE_ID
from purgatory.service.store.rows import RememberedRow
from purgatory.service.store.sqlite.sqlite_store import SqliteStore

COMMIT = 256
LOOKS = 100_000
FILTER_BITS = 16
PROBES = 4
FOREVER_MS = 1 << 45


def name(number: int) -> str:
    """Return an id as a program would make it."""
    return f"invoice-{number}"


def connect(path: Path) -> sqlite3.Connection:
    """Open a database as the store does."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA cache_size=-65536")
    return connection


class Entries:
    """The server's way."""

    def __init__(self, path: Path) -> None:
        self.connection = connect(path)
        self.connection.execute("CREATE TABLE rows (place INTEGER PRIMARY KEY, hash, id)")
        self.ids = RememberedIds(b"key")

    def add(self, names: Sequence[str]) -> None:
        """Add ids in one commit."""
        ids = self.ids
        rows = [(ids.next_place(), ids.hash_of(one), one) for one in names]
        self.connection.execute("BEGIN")
        self.connection.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)
        self.connection.execute("COMMIT")
        for place, hashed, _ in rows:
            ids.add(hashed, place)
        ids.count += len(rows)

    def has(self, one: str) -> bool:
        """Whether an id is there."""
        sql = "SELECT id FROM rows WHERE place = ?"
        places = self.ids.places(one)
        return any(self.connection.execute(sql, (p,)).fetchone()[0] == one for p in places)


class Index:
    """A table that is keyed by the hash."""

    def __init__(self, path: Path) -> None:
        self.connection = connect(path)
        sql = "CREATE TABLE rows (hash INTEGER, id, PRIMARY KEY (hash, id)) WITHOUT ROWID"
        self.connection.execute(sql)

    def add(self, names: Sequence[str]) -> None:
        """Add ids in one commit."""
        self.connection.execute("BEGIN")
        rows = [(hash_of(one) >> 1, one) for one in names]
        self.connection.executemany("INSERT INTO rows VALUES (?, ?)", rows)
        self.connection.execute("COMMIT")

    def has(self, one: str) -> bool:
        """Whether an id is there."""
        sql = "SELECT 1 FROM rows WHERE hash = ? AND id = ?"
        return self.connection.execute(sql, (hash_of(one) >> 1, one)).fetchone() is not None


class Bloom(Index):
    """A filter before such a table."""

    def __init__(self, path: Path, expected: int) -> None:
        super().__init__(path)
        self.bits = expected * FILTER_BITS
        self.filter = bytearray(self.bits // 8 + 1)

    def probes(self, one: str) -> list[int]:
        """Return the bits of an id."""
        hashed = hash_of(one)
        low, high = hashed & 0xFFFFFFFF, hashed >> 32 | 1
        return [(low + step * high) % self.bits for step in range(PROBES)]

    def add(self, names: Sequence[str]) -> None:
        """Add ids in one commit."""
        super().add(names)
        for one in names:
            for bit in self.probes(one):
                self.filter[bit >> 3] |= 1 << (bit & 7)

    def has(self, one: str) -> bool:
        """Whether an id is there."""
        found = all(self.filter[bit >> 3] >> (bit & 7) & 1 for bit in self.probes(one))
        return found and super().has(one)


def hash_of(one: str) -> int:
    """Return 64 bits of a hash."""
    return int.from_bytes(hashlib.blake2b(one.encode(), digest_size=8).digest())


def candidate(way: str, count: int, path: Path) -> dict[str, float]:
    """Fill a way to find ids; returns its figures."""
    before = resident_bytes()
    found: Entries | Index
    if way == "bloom":
        found = Bloom(path, count)
    else:
        found = Entries(path) if way == "entries" else Index(path)
    start = time.perf_counter()
    for first in range(0, count, COMMIT):
        found.add([name(number) for number in range(first, min(first + COMMIT, count))])
    added = time.perf_counter() - start
    figures = {"add": added / count * 1e6, "memory": (resident_bytes() - before) / count}
    chosen = random.Random(1)
    for kind, names in {
        "absent": [f"order-{number}" for number in range(LOOKS)],
        "present": [name(chosen.randrange(count)) for _ in range(LOOKS)],
    }.items():
        start = time.perf_counter()
        hits = sum(found.has(one) for one in names)
        figures[kind] = (time.perf_counter() - start) / LOOKS * 1e6
        assert hits == (0 if kind == "absent" else LOOKS)
    found.connection.close()
    figures["disk"] = path.stat().st_size / count
    return figures


def fill(directory: Path, count: int) -> None:
    """Make a data directory with so many remembered ids, as a server that was stopped leaves it."""
    directory.mkdir(mode=0o700)
    store = SqliteStore(directory / "purgatory.db")
    ids = RememberedIds(str(store.metadata()[DATABASE_ID]).encode())
    for first in range(0, count, 20_000):
        rows = []
        for number in range(first, min(first + 20_000, count)):
            status = OperationStatus(name(number), "completed", "mail", "shop", [f"k-{number}"])
            hashed = ids.hash_of(status.op_id)
            row = (ids.next_place(), FOREVER_MS + number, hashed, number + 1, encode(status))
            rows.append(RememberedRow(*row))
        commit(store, ids, rows, [])
    for first in range(0, SHARDS, 256):
        shards = [(one, ids.last_place, ids.dump(one)) for one in range(first, first + 256)]
        commit(store, ids, [], shards)
    store.close()


def commit(
    store: SqliteStore,
    ids: RememberedIds,
    rows: list[RememberedRow],
    shards: list[tuple[int, int, bytes]],
) -> None:
    """Write rows and shards."""
    changes = Changes()
    changes.remembered = RememberedChanges()
    changes.remembered.rows, changes.remembered.shards = rows, shards
    ids.prepare(changes.remembered)
    store.commit(changes)
    ids.publish(changes.remembered)


@contextmanager
def server(directory: Path) -> Iterator[tuple[str, float]]:
    """Run a server; yields its address and the seconds of its start."""
    options = ["--data-dir", str(directory), "--bind", "tcp://127.0.0.1:0", "--http-bind", ""]
    options += ["--no-journal", "--max-remembered", "20000000", "--max-memory", "0"]
    start = time.perf_counter()
    command = [sys.executable, "-m", "purgatory", "serve", *options]
    # Not from here: a checkout would be imported instead of what is installed.
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True) as process:
        address = ""
        while not address:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, "the server has ended"
            address = next((w.strip(",;") for w in line.split() if w.startswith("tcp://")), "")
        with Client(address) as client:
            client.stats()
        yield address, time.perf_counter() - start
        process.terminate()
        process.wait(60)


def measure(directory: Path, submits: int, first: int) -> dict[str, float]:
    """Start a server and submit; returns seconds of the start, and submits a second."""
    with server(directory) as (address, seconds), Client(address, name="bench") as client:
        names = [f"order-{number}" for number in range(first, first + submits)]
        for one in names[:1000]:
            client.submit_later(one, timeout=3600, op_id=one)
        client.flush()
        start = time.perf_counter()
        for one in names[1000:]:
            client.submit_later(one, timeout=3600, op_id=one)
        client.flush()
        rate = (submits - 1000) / (time.perf_counter() - start)
        remembered = client.stats()["remembered_ids"]
    return {"start": seconds, "rate": rate, "remembered": remembered}


def main() -> None:
    """Take the figures and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--remembered", type=int, default=1_000_000)
    parser.add_argument("--submits", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--candidates", type=int, default=1_000_000, help="ids of each way")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        rows = []
        for way in ("entries", "index", "bloom") if options.candidates else ():
            found = candidate(way, options.candidates, directory / f"{way}.db")
            cells = [found[key] for key in ("add", "absent", "present", "memory", "disk")]
            rows.append([way, *(f"{cell:.1f}" for cell in cells)])
        head = ["way", "add, µs", "absent, µs", "present, µs", "memory, B an id", "disk, B an id"]
        print(table(f"{options.candidates:,} ids", head, rows))
        start = time.perf_counter()
        fill(directory / "many", options.remembered)
        print(f"\nfilled in {time.perf_counter() - start:.0f} s")
        none = directory / "none"
        none.mkdir(mode=0o700)
        runs: dict[str, list[dict[str, float]]] = {"none": [], "many": []}
        for repeat in range(options.repeats):
            for which, taken in runs.items():
                first = repeat * options.submits
                taken.append(measure(directory / which, options.submits, first))
        lines: list[list[str]] = []
        for key, text in {"start": "start, s", "rate": "submits a second"}.items():
            values = [statistics.median(run[key] for run in runs[which]) for which in runs]
            shown = [f"{value:.2f}" if value < 100 else f"{value:,.0f}" for value in values]
            lines.append([text, *shown, f"{values[1] / values[0]:.2f}"])
        print(table("A server", ["", "0", f"{options.remembered:,}", "ratio"], lines))
        shutil.rmtree(directory / "many")


if __name__ == "__main__":
    main()
