"""The service beside Redis and beanstalkd: durable submits, completes, round trips, restart.

    python benchmarks/bench_service.py [--operations 40000] [--pending 1000000] [--repeats 3]

Each contestant is a server process on this machine, reached over loopback, that syncs to disk
before it answers: ours with its defaults, and over a PostgreSQL of this machine; Redis with a
sorted set and `appendfsync always`; beanstalkd with a binlog that is always synced. What is not
installed is left out (Debian: postgresql, redis-server, beanstalkd). The client is this process. It
uses a library, as programs do: ours `Client` with a future for each operation, for Redis redis-py
with hiredis and pipelines of 100. Or it uses a *bare socket*, to measure the server alone: 100
commands a message, eight messages in flight. The contestants take turns; figures are medians. *CPU*
is processor time for one operation, of the server and of the client, on which other load of the
machine has less influence than on the rate. *Context switches* are those of the server for one
submit that comes alone.
"""

import argparse
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import zmq
from durable_postgres import durable_postgres, is_installed, remove_template
from harness import machine, table
from service_peers import (
    BATCH,
    IN_FLIGHT,
    READY,
    REDIS_PY,
    Beanstalkd,
    Peer,
    Process,
    Redis,
    RedisPy,
)

from purgatory.service import Client
from purgatory.service.auth.key_store import KeyStore
from purgatory.service.encoding import decode_answer, encode
from purgatory.service.protocol import (
    VERSION,
    Hello,
    Outcomes,
    Ping,
    Submission,
    Submit,
    Submitted,
    Welcome,
)

TIMEOUT = 3600.0  # nothing expires here
OURS = "timer-purgatory"
CURVE = "timer-purgatory, CURVE"
REDIS = "Redis, AOF always"


class Service:
    """Our server, used through `Client`; `options` are further ones of `purgatory serve`."""

    def __init__(self, directory: Path, port: int, *options: str, curve: bool = False) -> None:
        address = f"tcp://127.0.0.1:{port}"
        keys = make_keys(directory / "keys") if curve else {}
        where = ["--data-dir", str(directory), "--bind", address, "--http-bind", ""]
        command = [sys.executable, "-m", "purgatory", "serve", *where, *options]
        self.process = Process(command, directory)
        self.client = Client(address, timeout=READY, name="bench", **keys)
        self.client.stats()  # returns when the server answers

    def submit(self, first: int, count: int) -> None:
        """Submit operations; returns when all are on disk."""
        for number in range(first, first + count):
            self.client.defer(f"key-{number}", timeout=TIMEOUT)
        self.client.flush(READY)

    def submit_one(self, number: int) -> None:
        """Submit one operation; returns when it is on disk."""
        self.client.defer(f"key-{number}", timeout=TIMEOUT)
        self.client.flush()

    def complete(self, first: int, count: int) -> None:
        """Complete operations, and check that each was."""
        answers = [
            self.client.complete_later(f"key-{number}") for number in range(first, first + count)
        ]
        assert all(answer.result(READY) == 1 for answer in answers)

    def end(self) -> None:
        """Close the client and the server."""
        self.client.close(0)
        self.process.end()


class ServiceOverPostgres(Service):
    """Our server over a PostgreSQL on this machine, which syncs each commit."""

    def __init__(self, directory: Path, port: int) -> None:
        self._database = ExitStack()
        url = self._database.enter_context(durable_postgres())
        where = ("--store", url, "--advertise", f"tcp://127.0.0.1:{port}")
        super().__init__(directory, port, *where, "--no-journal")

    def end(self) -> None:
        """See `Service`."""
        super().end()
        self._database.close()


def make_keys(directory: Path) -> dict[str, Any]:
    """Make keys of a server and an allowed client; returns the client's arguments."""
    keys = KeyStore(directory)
    server, client = keys.new("server"), keys.new("bench")
    keys.allow("bench", client.public)
    return {
        "server_key": server.public,
        "public_key": client.public,
        "secret_key": client.secret,
    }


class BareService(Service):
    """Our server, used over a bare socket."""

    def __init__(self, directory: Path, port: int) -> None:
        super().__init__(directory, port)
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.connect(self.client.address)
        self._ask([Hello(0, VERSION, "bare")])

    def _ask(self, messages: Iterable[Any]) -> None:
        sent = 0
        for message in messages:
            self._socket.send(encode(message))
            sent += 1
            if sent >= IN_FLIGHT:
                self._receive()
                sent -= 1
        for _ in range(sent):
            self._receive()

    def _receive(self) -> None:
        answer = decode_answer(self._socket.recv())
        while isinstance(answer, Ping | Outcomes):
            answer = decode_answer(self._socket.recv())
        if isinstance(answer, Submitted):
            assert answer == Submitted(answer.seq), answer
        else:
            assert isinstance(answer, Welcome), answer

    def submit(self, first: int, count: int) -> None:
        """See `Service`."""
        last = first + count
        self._ask(
            Submit(start, [operation(n) for n in range(start, min(start + BATCH, last))])
            for start in range(first, last, BATCH)
        )

    def submit_one(self, number: int) -> None:
        """See `Service`."""
        self._ask([Submit(number, [operation(number)])])

    def end(self) -> None:
        """See `Service`."""
        self._socket.close(0)
        super().end()


def operation(number: int) -> Submission:
    """Return an operation to submit over a bare socket."""
    return Submission(f"bench-{number:020}", (f"key-{number}",), 3_600_000)


def contestants() -> dict[str, Callable[[Path, int], Service | Peer]]:
    """Return the servers that are installed: name -> how to start one."""
    found: dict[str, Callable[[Path, int], Service | Peer]] = {
        OURS: Service,
        CURVE: lambda directory, port: Service(directory, port, curve=True),
        f"{OURS}, bare socket": BareService,
    }
    if is_installed():
        found[f"{OURS}, PostgreSQL"] = ServiceOverPostgres
    if shutil.which("redis-server"):
        if REDIS_PY:
            found[f"{REDIS}, redis-py"] = RedisPy
        found[f"{REDIS}, bare socket"] = Redis
    if shutil.which("beanstalkd"):
        found["beanstalkd -f0, bare socket"] = Beanstalkd
    return found


_C = TypeVar("_C", bound=Service | Peer)


@contextmanager
def running(make: Callable[[Path, int], _C]) -> Iterator[_C]:
    """Run a contestant in an empty directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        contestant = make(Path(directory), free_port())
        try:
            yield contestant
        finally:
            contestant.end()


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def one_round(contestant: Service | Peer, count: int) -> dict[str, float]:
    """Measure all figures of a contestant once."""
    contestant.submit(0, min(count, 2000))  # warm
    first = 1_000_000
    server, client = contestant.process.cpu_seconds(), time.process_time()
    start = time.perf_counter()
    contestant.submit(first, count)
    figures = {"pipelined": count / (time.perf_counter() - start)}
    figures["server"] = 1e6 * (contestant.process.cpu_seconds() - server) / count
    figures["client"] = 1e6 * (time.process_time() - client) / count
    trips = []
    switches = contestant.process.switches()
    for number in range(max(20, count // 100)):
        start = time.perf_counter()
        contestant.submit_one(2_000_000 + number)
        trips.append(time.perf_counter() - start)
    figures["switches"] = (contestant.process.switches() - switches) / len(trips)
    figures["one by one"] = len(trips) / sum(trips)
    trips.sort()
    figures["p50"] = 1000 * trips[len(trips) // 2]
    figures["p99"] = 1000 * trips[len(trips) * 99 // 100]
    if isinstance(contestant, Service) and not isinstance(contestant, BareService):
        start = time.perf_counter()
        contestant.complete(first, count)
        figures["completes"] = count / (time.perf_counter() - start)
    return figures


def measure_rounds(count: int, repeats: int) -> dict[str, dict[str, float]]:
    """Return the median of each figure of each contestant; they take turns."""
    makers = contestants()
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in makers}
    for _ in range(repeats):
        for name, make in makers.items():
            with running(make) as contestant:
                rounds[name].append(one_round(contestant, count))
    return {
        name: {key: statistics.median(one[key] for one in taken) for key in taken[0]}
        for name, taken in rounds.items()
    }


def restart(pending: int) -> dict[str, float]:
    """Measure a restart with `pending` operations waiting."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        first = Service(directory, free_port())
        for start in range(0, pending, 50_000):
            first.submit(start, min(50_000, pending - start))
        first.end()
        size = sum(path.stat().st_size for path in directory.glob("purgatory.db*"))
        start_at = time.perf_counter()
        second = Service(directory, free_port())
        seconds = time.perf_counter() - start_at
        assert second.client.stats()["pending"] == pending
        cpu = second.process.cpu_seconds()
        second.end()
    return {"seconds": seconds, "cpu": cpu, "bytes": size / pending}


def report(figures: dict[str, dict[str, float]]) -> None:
    """Print the table of the rounds, with ratios to ours in brackets."""
    columns = {
        "pipelined": "submits/s, pipelined",
        "one by one": "submits/s, one by one",
        "completes": "completes/s",
        "p50": "submit p50, ms",
        "p99": "p99, ms",
        "switches": "switches",
        "server": "server CPU, µs",
        "client": "client CPU, µs",
    }
    ours = figures[OURS]
    rows = [
        [name, *(cell(of.get(key), ours[key]) for key in columns)] for name, of in figures.items()
    ]
    print(table("Durable operations", ["", *columns.values()], rows))


def cell(figure: float | None, ours: float) -> str:
    """Format a figure, and its ratio to ours; processor time comes in ticks, and may be 0."""
    if figure is None:
        return "-"
    shown = f"{figure:,.0f}" if figure >= 100 else f"{figure:.2f}"
    return f"{shown} ({figure / ours:.2f})" if ours else shown


def main() -> None:
    """Measure everything and print it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", type=int, default=40_000)
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"## Service ({machine()}; median of {options.repeats}, times ours in brackets)")
    report(measure_rounds(options.operations, options.repeats))
    remove_template()
    again = restart(options.pending)
    row = [f"{options.pending:,}", *(f"{again[key]:,.1f}" for key in ("seconds", "cpu", "bytes"))]
    head = ["pending", "seconds until served", "CPU seconds", "bytes on disk for one"]
    print(table("Restart", head, [row]))


if __name__ == "__main__":
    main()
