"""What another client notices of a client that asks for much: its submits, and the server's memory.

    python benchmarks/bench_neighbour.py [--scenes values,waiters,timeouts,names,cancels,lists]
                                         [--operations N] [--seconds 20] [--json FILE]

A server, a busy client and a calm client, each a process. The calm client submits one operation
every two milliseconds, alone at first, then while the busy client

- `values`: completes a key with a value of 64 kB for which 20,000 operations wait,
- `waiters`: completes a key with a small value for which 1,000,000 operations wait,
- `timeouts`: has 300,000 operations that expire at one moment,
- `names`: says a new name with each request, on one connection, as fast as it can,
- `cancels`: cancels 100,000 jobs, by their tag,
- `lists`: reads the first page of 1,000,000 jobs, by state, kind and tag, a hundred times each.

In the first three the busy client reads all outcomes and acknowledges them: each has the value if
completed, and none is missing or comes twice. Memory is the server's largest resident size, beside
`max_memory`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import NoReturn

import msgspec
import zmq
from bench_service import free_port
from harness import machine, table
from msgspec import Raw
from service_peers import Process

from purgatory import Client
from purgatory.service.encoding import decode_answer, encode
from purgatory.service.protocol import (
    NOTHING,
    VERSION,
    Acknowledge,
    Bye,
    Complete,
    Completed,
    Completion,
    Hello,
    Outcomes,
    Submission,
    Submit,
    Submitted,
)

# Scene -> operations that wait, bytes of the value, `max_memory` of the server in MiB.
SCENES = {
    "values": (20_000, 64_000, 1024),
    "waiters": (1_000_000, 10, 2048),
    "timeouts": (300_000, 0, 2048),
    "names": (0, 0, 384),
    "cancels": (100_000, 0, 1024),
    "lists": (1_000_000, 0, 4096),
}
BATCH = 500
WAIT_MS = 600_000
PAUSE_S = 0.002
KINDS = 20
PAGES = 100
EXPIRY_S = 30.0  # seconds until the operations of `timeouts` expire: it submits them before
CALM_S = 5.0  # seconds that the calm client is alone


class Peer:
    """A connection that has said hello."""

    def __init__(self, address: str, client: str) -> None:
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(address)
        self.send(Hello(0, VERSION, client))
        self.receive()

    def send(self, message: msgspec.Struct) -> None:
        """Send a message."""
        self.socket.send(encode(message))

    def receive(self) -> msgspec.Struct:
        """Return the next message; raises RuntimeError if none comes."""
        if not self.socket.poll(WAIT_MS):
            raise RuntimeError("the server sends nothing")
        return decode_answer(self.socket.recv())


def submission(op_id: str, key: str, timeout_ms: int = WAIT_MS) -> Submission:
    """Return an operation to submit."""
    return Submission(op_id, (key,), timeout_ms, 1, "", Raw(NOTHING))


class BusyClient:
    """The attack of a scene, run in a process of its own; speaks with its parent by lines."""

    def __init__(self, address: str, scene: str, operations: int) -> None:
        self.peer = Peer(address, "busy")
        self.operations, self.size = operations, SCENES[scene][1]
        runs = {"names": self.say_names, "timeouts": self.expire}
        self.run = runs.get(scene, self.complete)
        self.outcome = "expired" if scene == "timeouts" else "completed"
        self.due = time.monotonic() + (EXPIRY_S if scene == "timeouts" else WAIT_MS / 1000)
        self.seen = bytearray(operations)
        self.twice = self.wrong = 0

    def submit(self) -> None:
        """Submit all operations that are to wait, some messages ahead of the answers."""
        starts = range(0, self.operations, BATCH)
        for n, start in enumerate(starts):
            ids = range(start, min(start + BATCH, self.operations))
            left_ms = round(1000 * (self.due - time.monotonic()))
            self.peer.send(Submit(n, [submission(str(number), "key", left_ms) for number in ids]))
            if n >= 8:
                self._take_answer()
        for _ in range(min(8, len(starts))):
            self._take_answer()

    def _take_answer(self) -> None:
        answer = self.peer.receive()
        if not isinstance(answer, Submitted) or answer.refused:
            raise RuntimeError(f"not submitted: {answer}")

    def complete(self) -> dict[str, float]:
        """Complete the key and read all outcomes; returns what became of them."""
        begin = time.perf_counter()
        completed = self._complete()
        return {"completed": completed, **self._found(time.perf_counter() - begin)}

    def expire(self) -> dict[str, float]:
        """Read all outcomes; the seconds begin with the timeouts."""
        left = self.operations
        while left > 0:
            answer = self.peer.receive()
            if isinstance(answer, Outcomes):
                left -= len(answer.outcomes)
                self._note(answer, NOTHING)
        return self._found(time.monotonic() - self.due)

    def _found(self, seconds: float) -> dict[str, float]:
        missing = self.seen.count(0)
        return {"missing": missing, "twice": self.twice, "wrong": self.wrong, "seconds": seconds}

    def _complete(self) -> int:
        """Return how many the key is said to have completed."""
        value = encode("v" * self.size)
        self.peer.send(Complete(10**6, [Completion("key", Raw(value))]))
        completed, left = -1, self.operations
        while left > 0 or completed < 0:
            answer = self.peer.receive()
            if isinstance(answer, Completed):
                completed = answer.counts[0]
            elif isinstance(answer, Outcomes):
                left -= len(answer.outcomes)
                self._note(answer, value)
        return completed

    def _note(self, answer: Outcomes, value: bytes) -> None:
        for outcome in answer.outcomes:
            self.twice += self.seen[int(outcome.op_id)]
            self.seen[int(outcome.op_id)] = 1
            is_wrong = outcome.outcome != self.outcome or bytes(outcome.result) != value
            self.wrong += is_wrong
        self.peer.send(Acknowledge(0, [outcome.number for outcome in answer.outcomes]))

    def say_names(self) -> NoReturn:
        """Say a new name for each request, until the process is killed."""
        peer, numbers = self.peer, count()
        while True:
            n = next(numbers)
            peer.send(Bye(n))
            peer.send(Hello(n, VERSION, f"name {n}"))
            peer.send(Submit(n, [submission(f"name {n}", "never")]))
            while peer.socket.poll(0):
                peer.socket.recv()


class JobsClient:
    """A client with jobs by the thousand, all of a tag; `run` is what it does with them."""

    def __init__(self, address: str, scene: str, operations: int) -> None:
        self.client = Client(address, name="busy", timeout=WAIT_MS / 1000)
        self.operations = operations
        self.run = self.cancel if scene == "cancels" else self.read

    def submit(self) -> None:
        """Submit all jobs; they are due later."""
        for n in range(self.operations):
            self.client.schedule_later(WAIT_MS / 1000, kind=f"kind {n % KINDS}", tags=["tag"])
        self.client.flush()

    def cancel(self) -> dict[str, float]:
        """Cancel all jobs."""
        begin = time.perf_counter()
        cancelled = self.client.cancel_jobs(tag="tag")
        missing = self.operations - cancelled
        return {"missing": missing, "seconds": time.perf_counter() - begin}

    def read(self) -> dict[str, float]:
        """Read first pages; returns the milliseconds that one takes."""
        filters = {"state": "scheduled", "kind": "kind 0", "tag": "tag"}
        return {f"page by {name}": self._page_ms(name, filters[name]) for name in filters}

    def _page_ms(self, name: str, value: str) -> float:
        took = []
        for _ in range(PAGES):
            begin = time.perf_counter()
            page = list(self.client.jobs(limit=100, **{name: value}))
            took.append(1000 * (time.perf_counter() - begin))
            assert page
        return sorted(took)[PAGES // 2]


def run_busy(address: str, scene: str, operations: int) -> None:
    """Prepare, wait for a line, and do what the scene says; the result is a line of JSON."""
    busy: BusyClient | JobsClient
    if scene in ("cancels", "lists"):
        busy = JobsClient(address, scene, operations)
    else:
        busy = BusyClient(address, scene, operations)
    busy.submit()
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(busy.run()), flush=True)


class CalmClient:
    """Submits one operation after the other; notes how long each takes, and the server's memory."""

    def __init__(self, address: str, server: Process) -> None:
        self._peer = Peer(address, "calm")
        self._status = Path(f"/proc/{server.pid}/status")
        self._numbers = count()
        self.peak_mib = 0

    def work(self, seconds: float, busy: "subprocess.Popen[str] | None" = None) -> list[float]:
        """Return the milliseconds of each submit, sorted; ends with `busy`, too, if given."""
        took: list[float] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end and (busy is None or busy.poll() is None):
            number = next(self._numbers)
            begin = time.perf_counter()
            self._peer.send(Submit(number, [submission(f"calm {number}", f"calm {number}")]))
            while not isinstance(self._peer.receive(), Submitted):
                pass
            took.append(1000 * (time.perf_counter() - begin))
            if not number % 20:
                self.peak_mib = max(self.peak_mib, self._resident_mib())
            time.sleep(PAUSE_S)
        return sorted(took)

    def _resident_mib(self) -> int:
        lines = self._status.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) >> 10


def run_scene(scene: str, operations: int, seconds: float) -> dict[str, object]:
    """Run a scene with a server of its own; returns its row."""
    _, _, most_mib = SCENES[scene]
    address = f"tcp://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as directory:
        flags = ["--data-dir", directory, "--bind", address, "--http-bind", ""]
        flags += ["--max-memory", str(most_mib << 20), "--max-pending", "2000000"]
        flags += ["--max-pending-per-client", "2000000"]
        command = [sys.executable, "-m", "purgatory", "serve", *flags]
        server = Process(command, Path(directory))
        try:
            return measure(scene, operations, seconds, address, server)
        finally:
            server.end()


def measure(
    scene: str, operations: int, seconds: float, address: str, server: Process
) -> dict[str, object]:
    """Measure the calm client alone, then beside the busy one."""
    command = [sys.executable, __file__, "--busy", address, "--scenes", scene]
    command += ["--operations", str(operations)]
    calm = CalmClient(address, server)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as busy:
        assert busy.stdin is not None
        assert busy.stdout is not None
        busy.stdout.readline()
        alone = calm.work(min(CALM_S, seconds))
        busy.stdin.write("go\n")
        busy.stdin.flush()
        beside = calm.work(seconds if scene == "names" else WAIT_MS, busy)
        busy.kill()
        found = json.loads(busy.stdout.read() or "{}")
    return {
        "scene": scene,
        "p50 alone": at(alone, 50),
        "p50": at(beside, 50),
        "p99 alone": at(alone, 99),
        "p99": at(beside, 99),
        "longest": round(beside[-1], 1),
        "MiB": calm.peak_mib,
        "of": SCENES[scene][2],
        **{name: round(value, 1) for name, value in found.items()},
    }


def at(took: list[float], percent: int) -> float:
    """Return a percentile of sorted milliseconds."""
    return round(took[len(took) * percent // 100], 1)


def main() -> None:
    """Run the scenes and print a table."""
    parser = argparse.ArgumentParser(description="What another client notices")
    parser.add_argument("--scenes", default=",".join(SCENES))
    parser.add_argument("--operations", type=int, help="that wait, instead of the scene's number")
    parser.add_argument("--seconds", type=float, default=20.0, help="of `names`")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--busy", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    scenes = arguments.scenes.split(",")
    numbers = {name: SCENES[name][0] for name in scenes}
    if arguments.operations is not None:
        numbers = {name: arguments.operations if count else 0 for name, count in numbers.items()}
    if arguments.busy:
        run_busy(arguments.busy, scenes[0], numbers[scenes[0]])
        return
    rows = [run_scene(name, numbers[name], arguments.seconds) for name in scenes]
    print(machine())
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[str(row.get(name, "")) for name in columns] for row in rows]
    print(table("A calm client beside a busy one, milliseconds of a submit", columns, cells))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
