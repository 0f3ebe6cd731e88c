"""What a durable submit that comes alone is made of, beside Redis with AOF always.

    python benchmarks/bench_round_trip.py [--trips 500] [--repeats 3]

Floors for a service over ZeroMQ: an *echo* of 80 bytes between a DEALER and a ROUTER in another
process, without anything else; the same with one write of a page and one `fdatasync` before the
answer, or with one row inserted by SQLite (a preallocated write-ahead log, each commit synced); and
these two alone. Redis over a bare socket and through redis-py, ours through `Client` and over a
bare socket, see `bench_service`. All in turn, one trip after the other; medians of the rounds.
"""

import argparse
import multiprocessing
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import zmq
from bench_service import OURS, REDIS, contestants, free_port
from harness import machine, table

PAGE = bytes(4096)
PAGES = 1024
MESSAGE = bytes(80)


class Log:
    """A preallocated file, to which pages are written and synced."""

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / "log", os.O_RDWR | os.O_CREAT)
        os.pwrite(self._file, PAGE * PAGES, 0)
        os.fsync(self._file)

    def submit_one(self, number: int) -> None:
        """Write a page, and sync it."""
        os.pwrite(self._file, PAGE, number % PAGES * len(PAGE))
        os.fdatasync(self._file)

    def end(self) -> None:
        """Close it."""
        os.close(self._file)


class Database:
    """A table, to which rows are added, each with a commit of its own."""

    def __init__(self, directory: Path) -> None:
        self._connection = sqlite3.connect(directory / "db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=OFF")
        self._connection.execute("CREATE TABLE waiting(number INTEGER PRIMARY KEY, what BLOB)")
        self._preallocate()
        self._connection.execute("PRAGMA synchronous=FULL")

    def _preallocate(self) -> None:
        """Let the log grow now, as ours does: a sync is slower while the file grows."""
        self._connection.execute("PRAGMA wal_autocheckpoint=0")
        for _ in range(PAGES):
            self._connection.execute("INSERT INTO waiting(what) VALUES (?)", (MESSAGE,))
        self._connection.execute("PRAGMA wal_checkpoint(RESTART)")

    def submit_one(self, _: int) -> None:
        """Add a row."""
        self._connection.execute("INSERT INTO waiting(what) VALUES (?)", (MESSAGE,))

    def end(self) -> None:
        """Close it."""
        self._connection.close()


class Nothing:
    """Keeps nothing."""

    def __init__(self, directory: Path) -> None:
        pass

    def submit_one(self, number: int) -> None:
        """Do nothing."""


def echo(address: str, directory: Path, make_disk: Callable[[Path], Any]) -> None:
    """Answer each message with itself, once it is on disk; the target of a process."""
    router: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
    router.bind(address)
    disk = make_disk(directory)
    for number in count():
        route, message = router.recv_multipart()
        disk.submit_one(number)
        router.send_multipart([route, message])


class Echo:
    """A server that does nothing but answer."""

    def __init__(self, directory: Path, port: int, make_disk: Callable[[Path], Any]) -> None:
        address = f"tcp://127.0.0.1:{port}"
        spawn = multiprocessing.get_context("spawn")
        self._process = spawn.Process(
            target=echo, args=(address, directory, make_disk), daemon=True
        )
        self._process.start()
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.connect(address)
        self.submit_one(0)

    def submit_one(self, _: int) -> None:
        """Send a message, and wait for the answer."""
        self._socket.send(MESSAGE)
        self._socket.recv()

    def end(self) -> None:
        """End the server."""
        self._socket.close(0)
        self._process.kill()
        self._process.join()


def makers() -> dict[str, Callable[[Path, int], Any]]:
    """Return what is compared: name -> how to start it in a directory, at a port."""
    found: dict[str, Callable[[Path, int], Any]] = {
        "write and sync": lambda directory, _: Log(directory),
        "SQLite insert": lambda directory, _: Database(directory),
        "ZeroMQ echo": lambda directory, port: Echo(directory, port, Nothing),
        "ZeroMQ echo, write and sync": lambda directory, port: Echo(directory, port, Log),
        "ZeroMQ echo, SQLite insert": lambda directory, port: Echo(directory, port, Database),
    }
    others = contestants().items()
    return found | {name: make for name, make in others if name.startswith((OURS, REDIS))}


def trips(contestant: Any, number_of_trips: int) -> list[float]:
    """Return the milliseconds that trips took, in order of size."""
    took = []
    for number in range(number_of_trips + 50):
        start = time.perf_counter()
        contestant.submit_one(number)
        took.append(1000 * (time.perf_counter() - start))
    return sorted(took[50:])


def measure(number_of_trips: int, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Return p50 and p99 of each round of each contestant; they take turns."""
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in makers()}
    for _ in range(repeats):
        for name, make in makers().items():
            with tempfile.TemporaryDirectory() as directory:
                contestant = make(Path(directory), free_port())
                took = trips(contestant, number_of_trips)
                contestant.end()
            rounds[name].append((took[len(took) // 2], took[len(took) * 99 // 100]))
    return rounds


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trips", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for name, rounds in measure(options.trips, options.repeats).items():
        p50, p99 = (statistics.median(values) for values in zip(*rounds, strict=True))
        rows.append([name, f"{p50:.3f}", f"{p99:.3f}"])
    print(f"## One durable submit ({machine()}; median of {options.repeats} rounds)")
    print(table("One after the other", ["", "p50, ms", "p99, ms"], rows))


if __name__ == "__main__":
    main()
